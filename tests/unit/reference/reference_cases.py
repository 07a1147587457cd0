"""Evaluating a reference on given tensors, and judging a kernel's result by the acceptance rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gpuemu.dtypes import dtype_name
from gpuemu.model.case import Case
from gpuemu.model.expected import Expected
from gpuemu.model.op import Op
from gpuemu.reference.evaluate import evaluate
from gpuemu.rounding import half_ulp

U = 2.0**-24
OMEGA_SMALL = 2.0**-126
FLOAT32_MAX = torch.finfo(torch.float32).max


def follow(
    reference: Callable[..., Any],
    *inputs: torch.Tensor,
    profile: str = "P0",
    dtype: str | None = None,
    unit_roundoff: float | None = None,
    output_dtypes: Sequence[str | None] = (),
    params: Mapping[str, Any] | None = None,
) -> Expected:
    """Evaluate `reference(*inputs, **params)`; the case's dtype is that of the first float input."""
    floats = [x for x in inputs if x.is_floating_point()]
    dtype = dtype or (dtype_name(floats[0].dtype) if floats else "float32")
    names = [f"x{i}" for i in range(len(inputs))]
    op = Op("t", dict.fromkeys(names, "1"), {}, reference, output_dtypes=output_dtypes)
    case = Case(
        "t", {}, dtype, dict.fromkeys(names, "contiguous"), dict.fromkeys(names, "normal"), params or {}, 0
    )
    return evaluate(op, case, dict(zip(names, inputs, strict=True)), profile, unit_roundoff)


def outputs_of(*arguments: Any, **keywords: Any) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """Value and bound of every output; the reference must have been followed."""
    expected = follow(*arguments, **keywords)
    assert expected.problem is None, expected.problem
    return tuple((output.value, output.bound) for output in expected.outputs)


def bound_of(*arguments: Any, **keywords: Any) -> torch.Tensor:
    """The bound of the first output."""
    return outputs_of(*arguments, **keywords)[0][1]


def excess(actual: torch.Tensor, value: torch.Tensor, bound: torch.Tensor, dtype: str) -> torch.Tensor:
    """How far each element lies outside r +- (delta + half an ulp), 0 inside; unjudged ones count as inside.

    An overflow is inside if the largest number of the dtype is reached.
    """
    y = actual.double()
    largest = torch.finfo(getattr(torch, dtype)).max
    reaches = (value.abs() + bound).clamp(max=1e308) * (1 + 2.0**-24) >= largest
    overflowed = y.isinf() & (y.sign() == value.sign()) & reaches
    distance = torch.where(y == value, 0.0, (y - value).abs() - half_ulp(y, dtype) - bound)
    # The reference's own float64 error (2^-53 relative per step) is far below this slack.
    distance = distance - value.abs().nan_to_num(posinf=0.0) * 2.0**-45
    unjudged = ~(bound < torch.inf) | value.isnan() | overflowed
    return torch.where(unjudged, 0.0, distance.nan_to_num(nan=torch.inf, posinf=torch.inf)).clamp(min=0.0)


def assert_accepted(actual: torch.Tensor, value: torch.Tensor, bound: torch.Tensor, dtype: str) -> None:
    """Every element of a legitimate kernel's result is accepted."""
    outside = excess(actual, value, bound, dtype)
    worst = int(outside.argmax()) if outside.numel() else 0
    assert not bool((outside > 0).any()), (
        f"{int((outside > 0).sum())} of {outside.numel()} rejected; worst {actual.flatten()[worst]} "
        f"for {value.flatten()[worst]} +- {bound.flatten()[worst]}"
    )


def is_rejected(actual: torch.Tensor, value: torch.Tensor, bound: torch.Tensor, dtype: str) -> bool:
    """Whether some element of a wrong kernel's result is refused."""
    return bool((excess(actual, value, bound, dtype) > 0).any())
