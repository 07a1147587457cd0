"""torch functions whose own implementation reshapes a result in place, which a bounded tensor cannot follow.

They are written out of place here, and put in their stead while a reference runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Tensor = torch.Tensor


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """A product with a vector, as one with a matrix of one row or column."""
    left, right = a.dim() == 1, b.dim() == 1
    result = torch.matmul(a.unsqueeze(0) if left else a, b.unsqueeze(-1) if right else b)
    result = result.squeeze(-1) if right else result
    return result.squeeze(-1 if right else -2) if left else result


def _has_vector(a: Any, b: Any) -> bool:
    tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    return tensors and min(a.dim(), b.dim()) == 1 and max(a.dim(), b.dim()) > 1


def quantile(
    x: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    **_: Any,
) -> Tensor:
    """The elements beside the place q (n - 1) of the sorted ones, interpolated, as torch defines it."""
    whole = dim is None or not x.dim()
    ordered = x.reshape(-1).sort().values if dim is None or whole else x.sort(dim=dim).values
    axis = 0 if dim is None or not x.dim() else dim % x.dim()
    ordered = ordered if ordered.dim() else ordered.reshape(1)
    places = torch.as_tensor(q, dtype=torch.float64).reshape(-1) * (ordered.shape[axis] - 1)
    choose: dict[str, Callable[[Tensor], Tensor]] = {
        "lower": torch.floor,
        "higher": torch.ceil,
        "nearest": torch.round,
    }
    below, above = torch.floor(places).long(), torch.ceil(places).long()
    if interpolation in choose:
        result = ordered.index_select(axis, choose[interpolation](places).long())
    else:
        weight = places - below if interpolation == "linear" else torch.full_like(places, 0.5)
        shape = [1] * ordered.dim()
        shape[axis] = -1
        low, high = ordered.index_select(axis, below), ordered.index_select(axis, above)
        result = low + (high - low) * weight.reshape(shape)
    result = result.movedim(axis, 0)
    if keepdim:
        result = result.reshape(-1, *(1,) * x.dim()) if whole else result.unsqueeze(axis + 1)
    return result if isinstance(q, torch.Tensor) and q.dim() else result[0]


def isclose(
    input: Tensor,  # noqa: A002
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """a = b, or |a - b| <= atol + |rtol b| for a finite difference, or both NaN if `equal_nan`."""
    a, b = (x if x.is_floating_point() else x.double() for x in (input, other))
    distance = (a - b).abs()
    close = (a == b) | ((distance <= (b * rtol).abs() + atol) & torch.isfinite(distance))
    return close | (torch.isnan(a) & torch.isnan(b)) if equal_nan else close


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002
    """x W^T + b for a vector x: that of one row."""
    return torch.nn.functional.linear(input.unsqueeze(0), weight, bias).squeeze(0)


def _takes_vector(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:  # noqa: A002, ARG001
    return input.dim() == 1 and weight.dim() == 2


# Function to its replacement and when it applies.
REPLACED: dict[Any, tuple[Callable[..., Any], Callable[..., bool]]] = {
    **dict.fromkeys((torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__), (matmul, _has_vector)),
    torch.Tensor.__rmatmul__: (lambda b, a: matmul(a, b), lambda b, a: _has_vector(a, b)),
    **dict.fromkeys((torch.isclose, torch.Tensor.isclose), (isclose, lambda *_, **__: True)),
    torch.nn.functional.linear: (
        linear,
        _takes_vector,
    ),
    torch.quantile: (quantile, lambda *_, **__: True),
    torch.Tensor.quantile: (quantile, lambda *_, **__: True),
}


class ReplacingMode(TorchFunctionMode):
    """Puts the replacements in the functions' stead."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        found = REPLACED.get(func)
        if found is not None and found[1](*args, **kwargs):
            return found[0](*args, **kwargs)
        return func(*args, **kwargs)
