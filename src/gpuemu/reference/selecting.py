"""Indices that a reference selects by comparing values, followed to its outputs (ORACLE.md section 2.5).

Beside every index goes its place: row * count + rank. Ops that only move elements move the places alike, so at
an output it can be told which index should be which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpuemu.model.expected import Selection
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import overloads

Tensor = torch.Tensor
# Memory, shape, strides and dtype of a tensor: what stays the same where torch wraps it anew.
Key = tuple[int, torch.Size, tuple[int, ...], torch.dtype]

CARRIERS = frozenset(
    overload
    for name in (
        "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "chunk", "clone", "contiguous", "detach",
        "flatten.using_ints", "flip", "lift_fresh", "movedim", "narrow", "permute", "reshape", "select.int",
        "slice.Tensor", "split.Tensor", "split_with_sizes", "squeeze", "t", "transpose.int", "unbind.int",
        "unsqueeze", "view",
    )
    for overload in overloads(name)
)  # fmt: skip


RESHAPES = ("aten::view", "aten::_unsafe_view", "aten::_reshape_alias", "aten::reshape")


@dataclass(frozen=True)
class Choice:
    """What one call selects: the dim (None: all elements), the first rank and the flags of `Selection`."""

    dim: int | None
    first: int = 0
    largest: bool = True
    ordered: bool = True
    stable: bool = False
    nan_first: bool = True


class _Arguments:
    """Arguments of a call, by position or name."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs

    def get(self, position: int, name: str, default: Any) -> Any:
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


def _extreme(name: str) -> Callable[[_Arguments], Choice]:
    return lambda given: Choice(given.get(1, "dim", None), largest=name.endswith("max"))


def _top(given: _Arguments) -> Choice:
    largest, ordered = given.get(3, "largest", True), given.get(4, "sorted", True)
    return Choice(given.get(2, "dim", -1), largest=largest, ordered=ordered, nan_first=largest)


def _sort(given: _Arguments) -> Choice:
    descending = given.get(2, "descending", False)
    return Choice(given.get(1, "dim", -1), largest=descending, nan_first=descending)


def _stable_sort(given: _Arguments) -> Choice:
    descending, stable = given.kwargs.get("descending", False), bool(given.kwargs.get("stable", False))
    dim = given.kwargs.get("dim", -1)
    return Choice(dim, largest=descending, stable=stable, nan_first=descending)


def _nth(given: _Arguments) -> Choice:
    return Choice(given.get(2, "dim", -1), given.get(1, "k", 1) - 1, largest=False, nan_first=False)


def _median(given: _Arguments) -> Choice:
    """The lower of two medians; a row that holds a NaN has NaN for its median, which no rank expresses."""
    dim = given.get(1, "dim", -1)
    scores = given.args[0]
    return Choice(dim, (scores.shape[dim] - 1) // 2 if scores.dim() else 0, largest=False, nan_first=False)


def _nan_median(given: _Arguments) -> Choice | None:
    """As the median where no element is NaN; else the rank differs from row to row."""
    return None if bool(to_plain(given.args[0]).isnan().any()) else _median(given)


_SELECTORS: dict[str, Callable[[_Arguments], Choice | None]] = {
    "argmax": _extreme("argmax"), "argmin": _extreme("argmin"), "max.dim": _extreme("max"),
    "min.dim": _extreme("min"), "topk": _top, "sort": _sort, "argsort": _sort, "sort.stable": _stable_sort,
    "argsort.stable": _stable_sort, "kthvalue": _nth, "median.dim": _median,
    "nanmedian.dim": _nan_median,
}  # fmt: skip
# Names without an overload mean all of an op's, so the more special names come last and win.
SELECTORS = {
    overload: choose
    for name, choose in sorted(_SELECTORS.items(), key=lambda item: "." in item[0])
    for overload in overloads(name)
}


@dataclass(frozen=True)
class Tracked:
    """A tensor of selected indices, or scores, with the places of its elements."""

    tensor: Tensor
    selection: Selection
    count: int
    first: int
    places: Tensor


class Selections:
    """The tensors of one evaluation that hold selected indices, or the scores selected."""

    def __init__(self) -> None:
        self._indices: dict[Key, Tracked] = {}
        self._scores: dict[Key, Tracked] = {}

    def __bool__(self) -> bool:
        return bool(self._indices)

    def observe(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Note what a call has selected, moved or overwritten."""
        if func in SELECTORS:
            choice = SELECTORS[func](_Arguments(args, kwargs))
            if choice is not None:
                self._remember(choice, args[0], result)
        elif func in CARRIERS:
            self._carry(func, args, kwargs, result)
        elif func._schema.is_mutable:
            self._forget(kwargs["out"] if "out" in kwargs else args[0])

    def attach(self, results: Sequence[Any]) -> tuple[Selection | None, ...]:
        """The selection of every output of a reference; None where it holds no selected indices."""
        tracked = [self._find(self._indices, result) for result in results]
        selections = [None if one is None else to_selection(one) for one in tracked]
        for number, result in enumerate(results):
            scores = self._find(self._scores, result)
            for i, one in enumerate(tracked):
                selection = selections[i]
                if scores is None or one is None or selection is None or scores.selection is not one.selection:
                    continue
                if torch.equal(scores.places, one.places):
                    selections[i] = replace(selection, values=number)
        return tuple(selections)

    def _remember(self, choice: Choice, argument: Tensor, result: Any) -> None:
        value, error = argument, None
        if type(argument) is Bounded:
            (argument if argument.base is None else argument.base)._owned = False  # it may be written later
            value, error = argument.value, argument.error
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        indices = to_plain(outputs[-1])
        if indices.numel() == 0:
            return
        rows, bound = to_rows(value, choice.dim), None if error is None else to_rows(error, choice.dim)
        count = indices.numel() // rows.shape[0]
        options = {name: getattr(choice, name) for name in ("largest", "ordered", "stable", "nan_first")}
        selection = Selection(rows, bound, indices, **options)
        places = _places_of(value, choice.dim, count).reshape(indices.shape)
        tables = (self._scores, self._indices) if len(outputs) == 2 else (self._indices,)
        for table, output in zip(tables, outputs, strict=True):
            plain = to_plain(output)
            table[key_of(plain)] = Tracked(plain, selection, count, choice.first, places)

    def _carry(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        for table in (self._indices, self._scores):
            tracked = self._find(table, args[0])
            if tracked is None:
                continue
            is_cast = func._schema.name == "aten::_to_copy"
            if is_cast and (table is self._scores or not _can_hold(kwargs, tracked.selection.scores.shape[1])):
                continue
            moved: Any = tracked.places
            if func._schema.name in RESHAPES:  # the places may have other strides than the indices
                moved = moved.reshape(result.shape)
            elif not is_cast:
                moved = func(moved, *args[1:], **kwargs)
            many = isinstance(result, (tuple, list))
            for output, places in zip(result if many else (result,), moved if many else (moved,), strict=True):
                plain = to_plain(output)
                if plain.numel():
                    table[key_of(plain)] = replace(tracked, tensor=plain, places=places)

    def _forget(self, written: Any) -> None:
        if not isinstance(written, Tensor):
            return
        memory = to_plain(written).untyped_storage().data_ptr()
        for table in (self._indices, self._scores):
            gone = [k for k, one in table.items() if one.tensor.untyped_storage().data_ptr() == memory]
            for key in gone:
                del table[key]

    def _find(self, table: dict[Key, Tracked], tensor: Any) -> Tracked | None:
        return table.get(key_of(to_plain(tensor))) if table and isinstance(tensor, Tensor) else None


def to_plain(tensor: Tensor) -> Tensor:
    """The plain tensor inside a bounded one."""
    return tensor.value if type(tensor) is Bounded else tensor


def key_of(tensor: Tensor) -> Key:
    """What tells a tensor from others while it is alive."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def to_rows(tensor: Tensor, dim: int | None) -> Tensor:
    """(rows, length) of what a selection along a dim, or of all elements, chooses from."""
    if dim is None or tensor.dim() == 0:
        return tensor.reshape(1, -1)
    return tensor.movedim(dim, -1).reshape(-1, tensor.shape[dim])


def _places_of(scores: Tensor, dim: int | None, count: int) -> Tensor:
    """row * count + rank for `count` indices selected per row, in the layout of `topk`'s result."""
    if dim is None or scores.dim() == 0:
        return torch.arange(count, device=scores.device)
    rest = [size for axis, size in enumerate(scores.shape) if axis != dim % scores.dim()]
    rows = scores.numel() // scores.shape[dim]
    return torch.arange(rows * count, device=scores.device).view(*rest, count).movedim(-1, dim)


def _can_hold(kwargs: dict[str, Any], length: int) -> bool:
    """Whether the dtype of a cast holds every index."""
    dtype = kwargs.get("dtype")
    if dtype is None:
        return True
    is_integer = not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool
    return is_integer and length - 1 <= torch.iinfo(dtype).max


def to_selection(tracked: Tracked) -> Selection | None:
    """The selection of an output; None where it does not hold the same ranks of every row."""
    flat = tracked.places.reshape(-1)
    in_order = bool((flat.diff() > 0).all())
    order = torch.arange(len(flat), device=flat.device) if in_order else flat.argsort()
    rows, ranks = flat[order] // tracked.count, flat[order] % tracked.count
    count = int((rows == rows[0]).sum())
    if flat.numel() % count:
        return None
    rows, ranks = rows.view(-1, count), ranks.view(-1, count)
    is_grid = bool((rows == rows[:, :1]).all()) and bool((ranks == ranks[:1]).all())
    if not is_grid or bool((ranks[0].diff() <= 0).any()) or bool((rows[:, 0].diff() <= 0).any()):
        return None
    selection = tracked.selection
    if not selection.ordered and count != tracked.count:
        return None  # which of the selected elements these are was never said
    scores, bound = selection.scores, selection.bound
    if rows.shape[0] != scores.shape[0]:
        scores, bound = scores[rows[:, 0]], None if bound is None else bound[rows[:, 0]]
    return replace(
        selection,
        scores=scores,
        bound=bound,
        positions=order.view(-1, count),
        ranks=tuple(tracked.first + rank for rank in ranks[0].tolist()),
    )
