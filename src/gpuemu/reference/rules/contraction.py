"""Rule 5: matrix products and what decomposes into them."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.contraction import contract
from gpuemu.reference.registry import Call, rule


@rule("mm", "bmm", "mv", "dot", "vdot")
def matrix_product(call: Call) -> Any:
    """a b: the first operand's last dim is summed over."""
    a, b = call.args[0], call.args[1]
    return contract(call.evaluation, call.func, a, b, a.shape[-1], by_rows=True)


@rule("addmm", "baddbmm", "addmv", "addbmm")
def add_product(call: Call) -> Any:
    """beta c + alpha (a b)."""
    c, a, b = call.args[:3]
    name = call.name
    product: Any = {"addmm": torch.mm, "baddbmm": torch.bmm, "addmv": torch.mv, "addbmm": torch.bmm}[name]
    terms, function = a.shape[-1], product
    if name == "addbmm":
        terms, function = a.shape[0] * a.shape[-1], lambda x, y: torch.bmm(x, y).sum(0)
    result: Any = contract(call.evaluation, function, a, b, terms, by_rows=name != "addbmm")
    alpha, beta = call.kwargs.get("alpha", 1), call.kwargs.get("beta", 1)
    result = result if alpha == 1 else result * alpha
    if beta == 0:
        return result
    return result + (c if beta == 1 else c * beta)


@rule("convolution")
def convolution(call: Call) -> Any:
    """A convolution is bilinear in input and weight; the bias is added."""
    x, weight, bias, *rest = call.args
    # A transposed one sums at most over all input channels of a group and the whole kernel.
    transposed, groups = rest[3], rest[5]
    terms = math.prod(weight.shape[1:])
    if transposed:
        terms = math.prod(weight.shape[2:]) * weight.shape[0] // groups
    result: Any = contract(call.evaluation, lambda a, b: call.func(a, b, None, *rest), x, weight, terms)
    if bias is None:
        return result
    bias = bias if isinstance(bias, Bounded) else call.make(bias.double())
    return result + bias.reshape(1, -1, *(1,) * (result.dim() - 2))
