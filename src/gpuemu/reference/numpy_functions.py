"""NumPy's functions in terms of torch's, with NumPy's argument names; for `numpy_array` only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from gpuemu.reference.errors import UnsupportedReferenceError

Function = Callable[..., Any]


def _tensor(x: Any) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x
    return torch.as_tensor(x, dtype=torch.float64 if isinstance(x, float) else None)


def _unary(function: Function) -> Function:
    return lambda x: function(_tensor(x))


def _binary(function: Function) -> Function:
    """torch takes a number beside a tensor for most binary functions, but not for all and not first."""

    def call(a: Any, b: Any) -> Any:
        if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
            return function(_tensor(a), _tensor(b))
        return function(_as_operand(a, b), _as_operand(b, a))

    return call


def _as_operand(x: Any, other: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x
    return torch.full((), x, dtype=torch.float64 if isinstance(x, float) else other.dtype)


UFUNCS: dict[str, Function] = {
    "add": (lambda a, b: a + b),
    "subtract": (lambda a, b: a - b),
    "multiply": (lambda a, b: a * b),
    "divide": (lambda a, b: a / b),
    "floor_divide": (lambda a, b: a // b),
    "remainder": (lambda a, b: a % b),
    "power": (lambda a, b: a**b),
    "float_power": (lambda a, b: a**b),
    "matmul": _binary(torch.matmul),
    "maximum": _binary(torch.maximum),
    "minimum": _binary(torch.minimum),
    "fmax": _binary(torch.fmax),
    "fmin": _binary(torch.fmin),
    "hypot": _binary(torch.hypot),
    "arctan2": _binary(torch.atan2),
    "copysign": _binary(torch.copysign),
    "logaddexp": _binary(torch.logaddexp),
    "fmod": _binary(torch.fmod),
    "greater": (lambda a, b: a > b),
    "greater_equal": (lambda a, b: a >= b),
    "less": (lambda a, b: a < b),
    "less_equal": (lambda a, b: a <= b),
    "equal": (lambda a, b: a == b),
    "not_equal": (lambda a, b: a != b),
    "logical_and": _binary(torch.logical_and),
    "logical_or": _binary(torch.logical_or),
    "logical_not": _unary(torch.logical_not),
    "bitwise_and": (lambda a, b: a & b),
    "bitwise_or": (lambda a, b: a | b),
    "invert": _unary(torch.bitwise_not),
    "negative": _unary(torch.neg),
    "positive": _unary(lambda x: x),
    "absolute": _unary(torch.abs),
    "fabs": _unary(torch.abs),
    "sign": _unary(torch.sign),
    "reciprocal": _unary(torch.reciprocal),
    "square": _unary(torch.square),
    "cbrt": _unary(lambda x: torch.sign(x) * torch.abs(x) ** (1.0 / 3.0)),
    "rint": _unary(torch.round),
    "deg2rad": _unary(lambda x: x * (math.pi / 180.0)),
    "rad2deg": _unary(lambda x: x * (180.0 / math.pi)),
    "isnan": _unary(torch.isnan),
    "isinf": _unary(torch.isinf),
    "isfinite": _unary(torch.isfinite),
}
_SAME_NAME = (
    "exp exp2 expm1 log log2 log10 log1p sqrt sin cos "
    "tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh "
    "floor ceil trunc"
)
for _name in _SAME_NAME.split():
    UFUNCS[_name] = _unary(getattr(torch, _name))


def _refuse(others: Mapping[str, Any]) -> None:
    """Arguments that would change the result (`where`, `initial`); a dtype is a cast, which is ignored."""
    given = [name for name, value in others.items() if name not in ("dtype", "order") and value is not None]
    if given:
        raise UnsupportedReferenceError(f"NumPy's argument {given[0]!r} cannot be mapped onto torch")


def _over(function: Function, whole: Function | None = None) -> Function:
    """A reduction `function(x, dim, keepdim)` with NumPy's axis and keepdims; None is over all."""

    def reduce(x: Any, axis: Any = None, keepdims: bool = False, **others: Any) -> Any:
        _refuse(others)
        x = _tensor(x)
        if axis is None:
            axis = tuple(range(x.dim()))
        axis = (axis,) if isinstance(axis, int) else tuple(axis)
        return function(x, axis, keepdims) if axis else (whole or (lambda y: y))(x)

    return reduce


def _one_by_one(function: Function) -> Function:
    """A reduction for torch functions that take one dim at a time."""

    def reduce(x: torch.Tensor, axis: tuple[int, ...], keepdims: bool) -> torch.Tensor:
        for dim in sorted((a % x.dim() for a in axis), reverse=True):
            x = function(x, dim, keepdims)
        return x

    return reduce


def _variance(root: bool) -> Function:
    def reduce(x: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False, **others: Any) -> Any:
        _refuse(others)
        dims = list(range(x.dim())) if axis is None else axis
        result = torch.var(x, dim=dims, correction=ddof, keepdim=keepdims)
        return torch.sqrt(result) if root else result

    return reduce


_SUM = _over(torch.sum)
_MAX = _over(torch.amax)
_MIN = _over(torch.amin)
_PROD = _over(_one_by_one(torch.prod))
_ANY = _over(_one_by_one(torch.any))
_ALL = _over(_one_by_one(torch.all))
REDUCTIONS: dict[str, Function] = {
    "add": lambda x, axis=0, keepdims=False: _SUM(x, axis=axis, keepdims=keepdims),
    "maximum": lambda x, axis=0, keepdims=False: _MAX(x, axis, keepdims),
    "minimum": lambda x, axis=0, keepdims=False: _MIN(x, axis, keepdims),
    "multiply": lambda x, axis=0, keepdims=False: _PROD(x, axis, keepdims),
    "logical_or": lambda x, axis=0, keepdims=False: _ANY(x, axis, keepdims),
    "logical_and": lambda x, axis=0, keepdims=False: _ALL(x, axis, keepdims),
}


def _cumulative(function: Function) -> Function:
    def accumulate(x: torch.Tensor, axis: int | None = None, **_: Any) -> torch.Tensor:
        result: torch.Tensor = function(x.reshape(-1), 0) if axis is None else function(x, axis)
        return result

    return accumulate


ACCUMULATIONS: dict[str, Function] = {
    "add": lambda x, axis=0: torch.cumsum(x, dim=axis),
    "multiply": lambda x, axis=0: torch.cumprod(x, axis),
    "maximum": lambda x, axis=0: torch.cummax(x, axis).values,
    "minimum": lambda x, axis=0: torch.cummin(x, axis).values,
}


def _transpose(x: torch.Tensor, *axes: Any) -> torch.Tensor:
    if axes and isinstance(axes[0], (tuple, list)):
        axes = tuple(axes[0])
    return x.permute(*(axes if axes and axes[0] is not None else reversed(range(x.dim()))))


def _reshape(x: torch.Tensor, *shape: Any, **_: Any) -> torch.Tensor:
    return x.reshape(*shape)


def _clip(x: torch.Tensor, a_min: Any = None, a_max: Any = None, **names: Any) -> torch.Tensor:
    low, high = names.get("min", a_min), names.get("max", a_max)
    x = x if low is None else UFUNCS["maximum"](x, low)
    return x if high is None else UFUNCS["minimum"](x, high)


def _where(condition: Any, a: Any, b: Any) -> torch.Tensor:
    return torch.where(_tensor(condition), a, b)


def _pad(x: torch.Tensor, pad_width: Any, mode: str = "constant", constant_values: float = 0.0) -> torch.Tensor:
    if mode != "constant":
        raise UnsupportedReferenceError(f"numpy.pad(mode={mode!r})")
    pairs = [pad_width] * x.dim() if isinstance(pad_width, int) else list(pad_width)
    if pairs and isinstance(pairs[0], int):
        pairs = [(p, p) for p in pairs] if len(pairs) == x.dim() else [tuple(pairs)] * x.dim()
    flat = [amount for pair in reversed(pairs) for amount in pair]
    return functional.pad(x, flat, value=constant_values)


def _norm(x: torch.Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> torch.Tensor:  # noqa: A002
    if ord not in (None, 2) or (axis is None and x.dim() > 1 and ord is not None):
        raise UnsupportedReferenceError(f"numpy.linalg.norm(ord={ord})")
    return torch.sqrt(_SUM(x * x, axis, keepdims))


def _split(x: torch.Tensor, sections: Any, axis: int = 0) -> tuple[torch.Tensor, ...]:
    return torch.tensor_split(x, sections, dim=axis)


def _filled(like: torch.Tensor, value: Any, **_: Any) -> torch.Tensor:
    return torch.full(like.shape, value, dtype=like.dtype, device=like.device)


def _squeeze(x: torch.Tensor, axis: Any = None) -> torch.Tensor:
    return x.squeeze() if axis is None else x.squeeze(axis)


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() == 0 or b.dim() == 0:
        return a * b
    return torch.matmul(a, b) if b.dim() <= 2 else torch.tensordot(a, b, dims=([-1], [-2]))


FUNCTIONS: dict[str, Function] = {
    **{name: function for name, function in UFUNCS.items() if name not in ("power",)},
    "sum": _SUM,
    "mean": _over(torch.mean),
    "max": _MAX,
    "amax": _MAX,
    "min": _MIN,
    "amin": _MIN,
    "prod": _PROD,
    "any": _ANY,
    "all": _ALL,
    "var": _variance(root=False),
    "std": _variance(root=True),
    "cumsum": _cumulative(torch.cumsum),
    "cumprod": _cumulative(torch.cumprod),
    "argmax": lambda x, axis=None, **_: torch.argmax(x, axis),
    "argmin": lambda x, axis=None, **_: torch.argmin(x, axis),
    "sort": lambda x, axis=-1, **_: torch.sort(x, dim=axis, stable=True).values,
    "argsort": lambda x, axis=-1, **_: torch.argsort(x, dim=axis, stable=True),
    "concatenate": lambda parts, axis=0: torch.cat([_tensor(p) for p in parts], axis),
    "stack": lambda parts, axis=0: torch.stack([_tensor(p) for p in parts], axis),
    "einsum": lambda text, *operands, **_: torch.einsum(text, *operands),
    "dot": _dot,
    "outer": lambda a, b: a.reshape(-1, 1) * b.reshape(1, -1),
    "tensordot": lambda a, b, axes=2: torch.tensordot(a, b, dims=axes),
    "transpose": _transpose,
    "swapaxes": lambda x, a, b: x.transpose(dim0=a, dim1=b),
    "moveaxis": torch.movedim,
    "reshape": _reshape,
    "ravel": lambda x, **_: x.reshape(-1),
    "flatten": lambda x, **_: x.reshape(-1),
    "expand_dims": lambda x, axis: x.unsqueeze(dim=axis),
    "squeeze": _squeeze,
    "broadcast_to": lambda x, shape: _tensor(x).broadcast_to(shape),
    "where": _where,
    "clip": _clip,
    "pad": _pad,
    "roll": lambda x, shift, axis=None: torch.roll(x, shift, dims=axis),
    "flip": lambda x, axis=None: torch.flip(x, list(range(x.dim())) if axis is None else [axis]),
    "tril": lambda x, k=0: torch.tril(x, k),
    "triu": lambda x, k=0: torch.triu(x, k),
    "take": lambda x, indices, axis=None: (
        x.reshape(-1)[indices] if axis is None else x.index_select(axis, indices)
    ),
    "take_along_axis": lambda x, indices, axis: torch.take_along_dim(x, indices, dim=axis),
    "repeat": lambda x, repeats, axis=None: torch.repeat_interleave(x, repeats, dim=axis),
    "tile": lambda x, reps: torch.tile(x, (reps,) if isinstance(reps, int) else tuple(reps)),
    "split": _split,
    "array_split": _split,
    "zeros_like": lambda x, **_: _filled(x, 0),
    "ones_like": lambda x, **_: _filled(x, 1),
    "full_like": _filled,
    "empty_like": lambda x, **_: _filled(x, 0),
    "norm": _norm,
    "round": lambda x, decimals=0, **_: torch.round(x, decimals=decimals),
    "around": lambda x, decimals=0, **_: torch.round(x, decimals=decimals),
    "nan_to_num": lambda x, nan=0.0, posinf=None, neginf=None, **_: torch.nan_to_num(x, nan, posinf, neginf),
    "shape": lambda x: tuple(x.shape),
    "ndim": lambda x: x.dim(),
    "size": lambda x, axis=None: x.numel() if axis is None else x.shape[axis],
    "copy": lambda x, **_: x.clone(),
}
