"""The elements of one input, before a layout places them: floats, integers or booleans as the op declares.

The streams of input x are x/values and, where needed, x/exponents, x/columns, x/specials, x/fallback and
x/sentinel. No two inputs share one, so adding an input leaves the others' bytes alone.
"""

from __future__ import annotations

import torch

from gpuemu.dtypes import get_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.inputs.adversarial import ADVERSARIAL_GENERATORS
from gpuemu.inputs.exact import EXACT, exact_form, exact_integers
from gpuemu.inputs.floats import make_floats, round_chunks
from gpuemu.inputs.integers import make_booleans, make_integers
from gpuemu.inputs.random import Stream
from gpuemu.inputs.value_classes import Shape
from gpuemu.model import expression
from gpuemu.model.case import Case
from gpuemu.model.op import Op


def make_elements(op: Op, name: str, shape: Shape, case: Case) -> torch.Tensor:
    """The elements of input `name` in row-major order: a fresh CPU tensor of shape (prod(shape),).

    Its dtype is the one that the op fixes, else the case's. `make_floats`, `make_integers` and
    `make_booleans` say which values it holds.

    Raises:
        OpDefinitionError: the bounds or the sentinel suit neither each other nor the dtype.
        UsageError: the case names no value class for a float input that needs one, or an unknown one.
    """
    tensor = op.tensors[name]
    dtype = get_dtype(tensor.dtype or case.dtype)
    where = f"op {case.op!r}: inputs[{name!r}]"
    low, high = (
        expression.evaluate(bound, case.dims) if isinstance(bound, str) else bound
        for bound in (tensor.low, tensor.high)
    )

    def streams(part: str) -> Stream:
        return Stream(case.seed, f"{name}/{part}")

    if dtype.kind in ("int", "uint"):
        sentinel = None
        if tensor.sentinel is not None:
            if tensor.sentinel not in case.params:
                raise OpDefinitionError(f"{where}: sentinel {tensor.sentinel!r} is no parameter of the case")
            sentinel = case.params[tensor.sentinel]
        return make_integers(streams, shape, dtype, (low, high), sentinel, where)
    if tensor.sentinel is not None:
        raise OpDefinitionError(f"{where} is {dtype.name}; only an integer input can have a sentinel")
    if dtype.is_float:
        value_class = case.value_classes.get(name)
        if low is None and high is None and value_class == EXACT:
            return round_chunks(exact_integers(streams, shape, exact_form(op, case)), shape, dtype)
        if low is None and high is None and value_class in ADVERSARIAL_GENERATORS:
            return round_chunks(ADVERSARIAL_GENERATORS[value_class](streams, shape, dtype), shape, dtype)
        return make_floats(streams, shape, dtype, (low, high), value_class, where)
    if low is not None or high is not None:
        raise OpDefinitionError(f"{where} is bool, which takes no low or high")
    return make_booleans(streams, shape)
