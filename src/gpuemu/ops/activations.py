"""Activations: elementwise functions of one tensor, `x: B S H`, and gated ones of two."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from gpuemu.model.op import Dim, Op

# Only the element count matters to such a kernel; H alone carries it across block boundaries.
ELEMENT_DIMS = {"B": Dim(1, 64, batch=True), "S": Dim(1, 4096, batch=True), "H": Dim(1, 16384)}


def _elementwise(name: str, reference: Callable[[torch.Tensor], torch.Tensor], doc: str) -> Op:
    return Op(name, inputs={"x": "B S H"}, dims=ELEMENT_DIMS, reference=reference, doc=doc)


def _gated(name: str, reference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], doc: str) -> Op:
    inputs = {"a": "B S H", "b": "B S H"}
    return Op(name, inputs=inputs, dims=ELEMENT_DIMS, reference=reference, doc=doc)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU in the tanh form (Hendrycks and Gimpel, arXiv 1606.08415, section 2)."""
    return functional.gelu(x, approximate="tanh")


def silu(x: torch.Tensor) -> torch.Tensor:
    """SiLU (Elfwing et al., arXiv 1702.03118)."""
    return functional.silu(x)


def relu(x: torch.Tensor) -> torch.Tensor:
    """max(x, 0); NaN stays NaN."""
    return functional.relu(x)


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """The logistic function."""
    return torch.sigmoid(x)


def tanh(x: torch.Tensor) -> torch.Tensor:
    """The hyperbolic tangent."""
    return torch.tanh(x)


def elu(x: torch.Tensor) -> torch.Tensor:
    """ELU (Clevert et al., arXiv 1511.07289, equation 15) with alpha = 1."""
    return functional.elu(x, alpha=1.0)


def leaky_relu(x: torch.Tensor) -> torch.Tensor:
    """Leaky ReLU with slope 0.01 (Maas et al., 2013)."""
    return functional.leaky_relu(x, negative_slope=0.01)


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """SwiGLU's product (Shazeer, arXiv 2002.05202, equation 6) of a gate `a` and a value `b`."""
    return functional.silu(a) * b


def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """GEGLU's product (arXiv 2002.05202, equation 6) with GELU in the tanh form."""
    return functional.gelu(a, approximate="tanh") * b


OPS = (
    _elementwise("gelu", gelu, "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"),
    _elementwise("silu", silu, "x / (1 + exp(-x))"),
    _elementwise("relu", relu, "max(x, 0)"),
    _elementwise("sigmoid", sigmoid, "1 / (1 + exp(-x))"),
    _elementwise("tanh", tanh, "tanh(x)"),
    _elementwise("elu", elu, "x for x > 0, else exp(x) - 1"),
    _elementwise("leaky_relu", leaky_relu, "x for x > 0, else 0.01 x"),
    _gated("swiglu", swiglu, "silu(a) b"),
    _gated("geglu", geglu, "gelu(a) b, GELU in the tanh form"),
)
