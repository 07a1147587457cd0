"""Primitives of `jax.lax` as torch expressions; parameters are those of the jaxpr (jax.lax's documentation)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gpuemu.dtypes import DTYPES, torch_dtype
from gpuemu.reference.errors import UnsupportedReferenceError

Tensor = torch.Tensor
Primitive = Callable[..., Any]


def _plain(function: Primitive) -> Primitive:
    """A function of tensors only; the parameters (accuracy hints, sharding) do not change its value."""
    return lambda *tensors, **_: function(*tensors)


def _select(which: Tensor, *cases: Tensor, **_: Any) -> Tensor:
    if which.dtype == torch.bool:
        return torch.where(which, cases[1], cases[0])
    result = cases[0]
    for position, case in enumerate(cases[1:], start=1):
        result = torch.where(which == position, case, result)
    return result


def _broadcast_in_dim(
    x: Tensor, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any
) -> Tensor:
    places = [1] * len(shape)
    for size, dim in zip(x.shape, broadcast_dimensions, strict=True):
        places[dim] = size
    return x.reshape(places).expand(*shape)


def _dot_general(a: Tensor, b: Tensor, *, dimension_numbers: Any, **_: Any) -> Tensor:
    """Batch dims first, then the free dims of both, as `lax.dot_general` orders them: one batched matmul."""
    (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
    free_a = [d for d in range(a.dim()) if d not in (*contract_a, *batch_a)]
    free_b = [d for d in range(b.dim()) if d not in (*contract_b, *batch_b)]
    batch = [a.shape[d] for d in batch_a]
    terms = math.prod(a.shape[d] for d in contract_a)
    rows, columns = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    left = a.permute(*batch_a, *free_a, *contract_a).reshape(math.prod(batch), math.prod(rows), terms)
    right = b.permute(*batch_b, *contract_b, *free_b).reshape(math.prod(batch), terms, math.prod(columns))
    return torch.bmm(left, right).reshape(*batch, *rows, *columns)


def _reduce(function: Primitive) -> Primitive:
    return lambda x, *, axes, **_: function(x, list(axes)) if axes else x


def _one_by_one(function: Primitive) -> Primitive:
    def reduce(x: Tensor, *, axes: Sequence[int], **_: Any) -> Tensor:
        for axis in sorted(axes, reverse=True):
            x = function(x, axis)
        return x

    return reduce


def _arg(function: Primitive) -> Primitive:
    return lambda x, *, axes, index_dtype, **_: function(x, axes[0]).to(torch_dtype(np.dtype(index_dtype).name))


def _cumulative(function: Primitive) -> Primitive:
    def accumulate(x: Tensor, *, axis: int, reverse: bool, **_: Any) -> Tensor:
        result: Tensor = function(x.flip(axis), axis).flip(axis) if reverse else function(x, axis)
        return result

    return accumulate


def _slice(x: Tensor, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any) -> Tensor:
    steps = strides or (1,) * x.dim()
    return x[tuple(slice(*each) for each in zip(start_indices, limit_indices, steps, strict=True))]


def _dynamic_slice(x: Tensor, *starts: Tensor, slice_sizes: Sequence[int], **_: Any) -> Tensor:
    for dim, (start, size) in enumerate(zip(starts, slice_sizes, strict=True)):
        x = x.narrow(dim, min(max(int(start), 0), x.shape[dim] - size), size)
    return x


def _dynamic_update_slice(x: Tensor, update: Tensor, *starts: Tensor, **_: Any) -> Tensor:
    result = x.clone()
    view = result
    for dim, start in enumerate(starts):
        size = update.shape[dim]
        view = view.narrow(dim, min(max(int(start), 0), x.shape[dim] - size), size)
    view.copy_(update)
    return result


def _pad(x: Tensor, value: Tensor, *, padding_config: Any, **_: Any) -> Tensor:
    if any(interior or low < 0 or high < 0 for low, high, interior in padding_config):
        raise UnsupportedReferenceError("jax.lax.pad with interior or negative padding cannot be followed")
    flat = [amount for low, high, _ in reversed(padding_config) for amount in (low, high)]
    return functional.pad(x, flat, value=float(value))


def _iota(*_: Any, dtype: Any, shape: Sequence[int], dimension: int, **__: Any) -> Tensor:
    line = torch.arange(shape[dimension], dtype=torch_dtype(np.dtype(dtype).name))
    places = [1] * len(shape)
    places[dimension] = shape[dimension]
    return line.reshape(places).expand(*shape)


def _convert(x: Tensor, *, new_dtype: Any, **_: Any) -> Tensor:
    name = np.dtype(new_dtype).name
    if name not in DTYPES:
        raise UnsupportedReferenceError(f"{name} numbers in a JAX reference cannot be followed")
    return x.to(torch_dtype(name))


def _gather(
    x: Tensor, indices: Tensor, *, dimension_numbers: Any, slice_sizes: Sequence[int], **_: Any
) -> Tensor:
    """Whole rows along one axis (`x[indices]`, `jnp.take`); the general gather is not followed."""
    numbers = dimension_numbers
    axes = tuple(numbers.start_index_map)
    whole = all(size == x.shape[d] for d, size in enumerate(slice_sizes) if d not in axes)
    simple = len(axes) == 1 and tuple(numbers.collapsed_slice_dims) == axes and slice_sizes[axes[0]] == 1
    if not (whole and simple) or numbers.operand_batching_dims:
        raise UnsupportedReferenceError("jax.lax.gather of this form cannot be followed; use jnp.take or torch")
    picked = x.index_select(axes[0], indices.reshape(-1).long())
    rest = [size for d, size in enumerate(x.shape) if d != axes[0]]
    batch = list(indices.shape[:-1])
    picked = picked.movedim(axes[0], 0).reshape(*batch, *rest)
    places = list(numbers.offset_dims)
    return picked.movedim(list(range(len(batch), picked.dim())), places)


def _sort(*operands: Tensor, dimension: int, num_keys: int, **_: Any) -> tuple[Tensor, ...]:
    if num_keys != 1:
        raise UnsupportedReferenceError("jax.lax.sort by several keys cannot be followed")
    values, order = torch.sort(operands[0], dim=dimension, stable=True)
    return (values, *(torch.gather(x, dimension, order) for x in operands[1:]))


def _integer_pow(x: Tensor, *, y: int, **_: Any) -> Tensor:
    return x**y


def _clamp(low: Tensor, x: Tensor, high: Tensor, **_: Any) -> Tensor:
    return torch.minimum(torch.maximum(x, low), high)


def _round(x: Tensor, *, rounding_method: Any, **_: Any) -> Tensor:
    if int(rounding_method) == 1:  # to nearest even
        return torch.round(x)
    return torch.where(x < 0, torch.ceil(x - 0.5), torch.floor(x + 0.5))


PRIMITIVES: dict[str, Primitive] = {
    "add": _plain(torch.add),
    "add_any": _plain(torch.add),
    "sub": _plain(torch.sub),
    "mul": _plain(torch.mul),
    "div": _plain(lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")),
    "rem": _plain(torch.fmod),
    "pow": _plain(torch.pow),
    "max": _plain(torch.maximum),
    "min": _plain(torch.minimum),
    "atan2": _plain(torch.atan2),
    "nextafter": _plain(torch.nextafter),
    "neg": _plain(torch.neg),
    "abs": _plain(torch.abs),
    "sign": _plain(torch.sign),
    "square": _plain(torch.square),
    "cbrt": _plain(lambda x: torch.sign(x) * torch.abs(x) ** (1.0 / 3.0)),
    "logistic": _plain(torch.sigmoid),
    "erf_inv": _plain(torch.erfinv),
    "is_finite": _plain(torch.isfinite),
    "eq": _plain(torch.eq),
    "ne": _plain(torch.ne),
    "lt": _plain(torch.lt),
    "le": _plain(torch.le),
    "gt": _plain(torch.gt),
    "ge": _plain(torch.ge),
    "and": _plain(torch.bitwise_and),
    "or": _plain(torch.bitwise_or),
    "xor": _plain(torch.bitwise_xor),
    "not": _plain(torch.bitwise_not),
    "stop_gradient": _plain(lambda x: x),
    "copy": _plain(lambda x: x),
    "copy_p": _plain(lambda x: x),
    "optimization_barrier": lambda *tensors, **_: list(tensors),
    "select_n": _select,
    "clamp": _clamp,
    "integer_pow": _integer_pow,
    "round": _round,
    "convert_element_type": _convert,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda x, *, new_sizes, **_: x.reshape(*new_sizes),
    "squeeze": lambda x, *, dimensions, **_: x.squeeze(tuple(dimensions)),
    "expand_dims": lambda x, *, dimensions, **_: x.unsqueeze(dimensions[0]),
    "transpose": lambda x, *, permutation, **_: x.permute(*permutation),
    "rev": lambda x, *, dimensions, **_: x.flip(list(dimensions)),
    "concatenate": lambda *parts, dimension, **_: torch.cat(parts, dimension),
    "split": lambda x, *, sizes, axis, **_: list(torch.split(x, list(sizes), axis)),
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "pad": _pad,
    "iota": _iota,
    "dot_general": _dot_general,
    "reduce_sum": _reduce(torch.sum),
    "reduce_max": _reduce(torch.amax),
    "reduce_min": _reduce(torch.amin),
    "reduce_prod": _one_by_one(torch.prod),
    "reduce_and": _one_by_one(torch.all),
    "reduce_or": _one_by_one(torch.any),
    "argmax": _arg(torch.argmax),
    "argmin": _arg(torch.argmin),
    "cumsum": _cumulative(torch.cumsum),
    "cumprod": _cumulative(torch.cumprod),
    "cummax": _cumulative(lambda x, axis: torch.cummax(x, axis).values),
    "cummin": _cumulative(lambda x, axis: torch.cummin(x, axis).values),
    "cumlogsumexp": _cumulative(torch.logcumsumexp),
    "sort": _sort,
    "top_k": lambda x, *, k, **_: list(torch.topk(x, k)),
}
_SAME_NAME = (
    "exp exp2 expm1 log log1p sqrt rsqrt sin cos tan "
    "asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "erfc lgamma digamma floor ceil"
)
for _name in _SAME_NAME.split():
    PRIMITIVES[_name] = _plain(getattr(torch, _name))
