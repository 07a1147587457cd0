"""NumPy references: an array that answers NumPy's functions with torch ones, which are followed as usual.

NumPy hands a call to its arguments through `__array_ufunc__` (NEP 13) and `__array_function__` (NEP 18). What
has no counterpart here, or turns the array into a plain one, ends the attempt: the whole reference is then
evaluated at random points instead, with a generic bound (ORACLE.md section 12.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gpuemu.dtypes import torch_dtype
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.numpy_functions import ACCUMULATIONS, FUNCTIONS, REDUCTIONS, UFUNCS


class NumpyEscapeError(UnsupportedReferenceError):
    """A NumPy reference calls something that cannot be mapped onto torch."""


class FollowedArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for an `ndarray` inside a reference; `tensor` holds the values, with their error if inexact."""

    __array_priority__ = 1000.0

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NumpyEscapeError("the NumPy reference makes a plain array of a followed one")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        tables: dict[str, dict[str, Callable[..., Any]]] = {
            "__call__": UFUNCS, "reduce": REDUCTIONS, "accumulate": ACCUMULATIONS,
        }  # fmt: skip
        function = tables.get(method, {}).get(ufunc.__name__)
        kwargs = {key: value for key, value in kwargs.items() if value is not None and key != "dtype"}
        if function is None or kwargs.keys() & {"out", "where", "initial"}:
            raise NumpyEscapeError(f"numpy.{ufunc.__name__} ({method}) cannot be mapped onto torch")
        return wrap(function(*map(unwrap, inputs), **kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = FUNCTIONS.get(func.__name__)
        if function is None:
            raise NumpyEscapeError(f"numpy.{func.__name__} cannot be mapped onto torch")
        return wrap(function(*map(unwrap, args), **{key: unwrap(value) for key, value in kwargs.items()}))

    def __getattr__(self, name: str) -> Any:
        """ndarray's methods that are functions of the same name: sum, mean, reshape, clip, …"""
        function = FUNCTIONS.get(name)
        if function is None or name.startswith("_"):
            raise AttributeError(f"ndarray.{name} cannot be mapped onto torch")

        def method(*args: Any, **kwargs: Any) -> Any:
            values = {key: unwrap(value) for key, value in kwargs.items()}
            return wrap(function(self.tensor, *map(unwrap, args), **values))

        return method

    def __getitem__(self, index: Any) -> Any:
        return wrap(self.tensor[_to_index(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tensor[_to_index(index)] = unwrap(value)

    def __len__(self) -> int:
        return len(self.tensor)

    def __iter__(self) -> Any:
        return (wrap(part) for part in self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    @property
    def T(self) -> FollowedArray:  # noqa: N802 - ndarray's name
        return FollowedArray(self.tensor.permute(*reversed(range(self.tensor.dim()))))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return self.tensor.dim()

    @property
    def size(self) -> int:
        return self.tensor.numel()

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    def astype(self, dtype: Any, **_: Any) -> FollowedArray:
        """A cast, under the rules for casts of references."""
        return FollowedArray(self.tensor.to(torch_dtype(np.dtype(dtype).name)))

    def copy(self) -> FollowedArray:
        return FollowedArray(self.tensor.clone())

    def item(self) -> Any:
        return self.tensor.item()


def wrap(value: Any) -> Any:
    """Tensors, also within tuples and lists, as followed arrays."""
    if isinstance(value, torch.Tensor):
        return FollowedArray(value)
    return type(value)(map(wrap, value)) if isinstance(value, (tuple, list)) else value


def unwrap(value: Any) -> Any:
    """The inverse; plain arrays become tensors, and NumPy scalars numbers."""
    if isinstance(value, FollowedArray):
        return value.tensor
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.astype(np.float64) if value.dtype.kind == "f" else value)
    if isinstance(value, np.generic):
        return value.item()
    return type(value)(map(unwrap, value)) if isinstance(value, (tuple, list)) else value


def _to_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(_to_index, index))
    return unwrap(index)
