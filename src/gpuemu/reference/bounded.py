"""A float64 tensor that carries a bound on the error of a legitimate kernel, element by element.

Views and in-place writes: a view remembers its base and the view ops that lead to it. A write goes to the
base's private copy; views made earlier notice the base's new generation and take their elements afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.errors import UnmappedReferenceError, UnsupportedReferenceError
from gpuemu.reference.extent import carry

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

ViewStep = Callable[[torch.Tensor], torch.Tensor]


def no_error(value: torch.Tensor) -> torch.Tensor:
    """The explicit form of "no error" for a value of any dtype."""
    dtype = torch.bool if value.dtype == torch.bool else torch.float64
    return torch.zeros(value.shape, dtype=dtype, device=value.device)


def _laid_out(value: torch.Tensor) -> torch.Tensor:
    """An error tensor with the strides of its value, so that the same view ops apply to both."""
    return torch.empty_like(value, dtype=torch.bool if value.dtype == torch.bool else torch.float64)


class Bounded(torch.Tensor):
    """The wrapper that a reference computes with.

    value: plain tensor; floats are float64 whatever the reference casts them to. error: None where the value is
    exact, else a tensor of the same shape: for numbers float64, at most that far off is a legitimate kernel's
    number (inf: any is legitimate, NaN included); for bools a bool tensor, true where a rounding may flip them.
    raw: every element is a number of the storage dtype, since it was only moved or selected from inputs.
    Values that are not finite have error 0 or inf.
    """

    evaluation: Evaluation
    _value: torch.Tensor
    _error: torch.Tensor | None
    _raw: bool
    base: Bounded | None = None
    steps: tuple[ViewStep, ...] = ()
    generation: int = 0
    _owned: bool = False  # no other object uses the memory of value and error

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls, evaluation: Evaluation, value: torch.Tensor, error: torch.Tensor | None, raw: bool = False
    ) -> Bounded:
        wrapper: Bounded = torch.Tensor._make_wrapper_subclass(
            cls, value.shape, strides=value.stride(), dtype=value.dtype, device=value.device
        )
        wrapper.evaluation = evaluation
        wrapper._value = value
        wrapper._error = error
        wrapper._raw = raw
        return wrapper

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return find_evaluation(args, kwargs or {}).apply(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Bounded(value={self.value}, error={self.error}, raw={self.raw})"

    @property
    def value(self) -> torch.Tensor:
        self._refresh()
        return self._value

    @property
    def error(self) -> torch.Tensor | None:
        self._refresh()
        return self._error

    @property
    def raw(self) -> bool:
        return self._raw if self.base is None else self.base._raw and self._raw

    def make_view(self, step: ViewStep, value: torch.Tensor, error: torch.Tensor | None) -> Bounded:
        """A view of this tensor; `step` maps a tensor of this shape to the view's elements."""
        view = Bounded(self.evaluation, value, error, self.raw)
        view.base = self if self.base is None else self.base
        view.steps = (*self.steps, step)
        view.generation = view.base.generation
        carry(self._value, self._error, value, error)
        return view

    def share(self) -> Bounded:
        """A tensor of its own with the same content; the memory is copied when one of the two is written."""
        (self if self.base is None else self.base)._owned = False
        return Bounded(self.evaluation, self.value, self.error, self.raw)

    def write(self, value: torch.Tensor, error: torch.Tensor | None, raw: bool) -> None:
        """Overwrite the elements in place, seen by the base and by all its views."""
        if value.shape != self.shape:
            raise UnmappedReferenceError(
                f"an in-place result of shape {tuple(value.shape)} does not fit {tuple(self.shape)}"
            )
        if value.is_floating_point() and not self.value.is_floating_point():
            raise RuntimeError(f"a float result cannot be written in place into {self.value.dtype}")
        base = self if self.base is None else self.base
        if base is self and value.dtype == self._value.dtype and value.stride() == self._value.stride():
            self._replace(value, error, raw)
            return
        base._own(with_error=error is not None)
        self.value.copy_(value)
        if self.error is not None:
            self.error.copy_(no_error(value) if error is None else error)
        base._raw = base._raw and raw

    def _replace(self, value: torch.Tensor, error: torch.Tensor | None, raw: bool) -> None:
        """Take over a whole result; others may hold its memory too, and views take their elements afresh."""
        if error is not None and error.stride() != value.stride():
            error = _laid_out(value).copy_(error)
        self._value, self._error, self._owned = value, error, False
        self._raw = self._raw and raw
        self.generation += 1

    def _own(self, with_error: bool) -> None:
        """Give this base memory of its own, with an explicit error if one is to be written."""
        if not self._owned:
            self._value = self._value.clone()
            self._error = None if self._error is None else _laid_out(self._value).copy_(self._error)
            self._owned = True
            self.generation += 1
        if with_error and self._error is None:
            self._error = _laid_out(self._value).zero_()
            self.generation += 1

    def _refresh(self) -> None:
        base = self.base
        if base is None or base.generation == self.generation:
            return
        value, error = base._value, base._error
        for step in self.steps:
            value = step(value)
            error = None if error is None else step(error)
        self._value, self._error, self.generation = value, error, base.generation


def find_evaluation(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Evaluation:
    """The evaluation that the bounded tensors among the arguments belong to."""
    for argument in (*args, *kwargs.values()):
        for item in argument if isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(item, Bounded):
                return item.evaluation
    raise UnsupportedReferenceError("a bounded tensor was hidden inside an argument that cannot be followed")
