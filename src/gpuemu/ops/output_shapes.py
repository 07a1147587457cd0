"""The symbolic shapes of an op's outputs, found by running its reference at sizes that tell the dims apart."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gpuemu.dtypes import get_dtype, torch_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.model import expression
from gpuemu.model.op import Dim, Op

TRIALS = 3  # sizes differ from trial to trial, so that no constant passes for a dim
DRAWS = 400
SMALLEST, LARGEST = 2, 40  # 1 looks like a broadcast axis
MOST_FACTORS = 3  # of a flattened axis

Dims = Mapping[str, int]


@dataclass(frozen=True)
class OutputShape:
    """One output: its shape as of an input, where a parameter's value changes it, and whether it is float."""

    shape: str
    variants: tuple[tuple[str, Any, str], ...]
    is_float: bool


def find_output_shapes(op: Op) -> tuple[OutputShape, ...]:
    """The outputs' shapes: as declared, else as the reference gives them.

    Raises:
        OpDefinitionError: they cannot be told; the message asks for `outputs=`.
    """
    if op.outputs:
        dtypes = [*op.output_dtypes, *(None,) * len(op.outputs)]
        floats = [dtype is None or get_dtype(dtype).is_float for dtype in dtypes]
        return tuple(
            OutputShape(shape, (), is_float) for shape, is_float in zip(op.outputs, floats, strict=False)
        )
    trials = _choose_trials(op)
    first = {name: values[0] for name, values in op.params.items()}
    found = _shapes_with(op, trials, first)
    others: list[tuple[str, Any, list[tuple[str, bool]]]] = []
    for name, values in op.params.items():
        for value in values[1:]:
            others.append((name, value, _shapes_with(op, trials, {**first, name: value})))
    if any(len(shapes) != len(found) for _, _, shapes in others):
        raise _untold(op, "their number depends on a parameter")
    return tuple(
        _with_variants(op, first, found[i], [(n, v, shapes[i]) for n, v, shapes in others])
        for i in range(len(found))
    )


def _with_variants(
    op: Op, first: Mapping[str, Any], base: tuple[str, bool], others: list[tuple[str, Any, tuple[str, bool]]]
) -> OutputShape:
    """The shape of the highest rank, and beside it the parameter's values that give another."""
    names = {name for name, _, other in others if other[0] != base[0]}
    if not names:
        return OutputShape(base[0], (), base[1])
    if len(names) > 1:
        raise _untold(op, f"they depend on {' and '.join(sorted(names))}")
    (name,) = names
    shapes = [(name, first[name], base[0]), *((n, v, shape) for n, v, (shape, _) in others if n == name)]
    widest = max((shape for _, _, shape in shapes), key=lambda shape: len(shape.split()))
    return OutputShape(widest, tuple(each for each in shapes if each[2] != widest), base[1])


def _choose_trials(op: Op) -> list[dict[str, int]]:
    """Admissible dims, small and as different from each other as the domains allow."""
    sizes = {name: _small_sizes(dim) for name, dim in op.domains.items()}
    draws = random.Random(0)  # noqa: S311 - not for secrets: the same trials every time
    found: list[dict[str, int]] = []
    for _ in range(DRAWS):
        dims = {name: draws.choice(choices) for name, choices in sizes.items()}
        if op.admits(dims) and dims not in found:
            found.append(dims)
    if not found:
        raise _untold(op, "no small sizes fulfil its constraints")
    found.sort(key=lambda dims: (-len(set(dims.values())), sum(dims.values())))
    return found[:TRIALS]


def _small_sizes(dim: Dim) -> list[int]:
    if dim.candidates:
        return list(dim.candidates)
    smallest = max(SMALLEST, dim.low)
    sizes = [size for size in range(smallest, smallest + LARGEST) if dim.contains(size)]
    return sizes or [dim.low if dim.contains(dim.low) else dim.high]


def _shapes_with(op: Op, trials: list[dict[str, int]], params: Mapping[str, Any]) -> list[tuple[str, bool]]:
    runs = [_run(op, dims, params) for dims in trials]
    if len({tuple(len(shape) for shape, _ in run) for run in runs}) != 1:
        raise _untold(op, "their ranks or number depend on the sizes")
    shapes = []
    for outputs in zip(*runs, strict=True):
        axes = [_name_axis(op, trials, sizes) for sizes in zip(*(shape for shape, _ in outputs), strict=True)]
        shapes.append((" ".join(axes), outputs[0][1]))
    return shapes


def _run(op: Op, dims: Dims, params: Mapping[str, Any]) -> list[tuple[tuple[int, ...], bool]]:
    """Shape of every output and whether it is float."""
    if op.reference is None:
        raise OpDefinitionError(f"op {op.name!r} has no reference whose outputs could be looked at")
    inputs = [_plain_input(op, name, dims) for name in op.inputs]
    try:
        with torch.no_grad():
            result = op.reference(*inputs, **params)
    except Exception as error:
        raise _untold(op, f"its reference raises {type(error).__name__} for {dict(dims)}: {error}") from error
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    if not all(isinstance(output, torch.Tensor) for output in outputs):
        raise _untold(op, "its reference returns something else than tensors")
    return [(tuple(output.shape), output.is_floating_point()) for output in outputs]


def _plain_input(op: Op, name: str, dims: Dims) -> torch.Tensor:
    tensor = op.tensors[name]
    dtype = get_dtype(tensor.dtype or "float64")
    low = expression.evaluate(tensor.low, dims) if isinstance(tensor.low, str) else tensor.low
    number: Any = low if low is not None else 0.5 if dtype.is_float else 0
    return torch.full(op.shape_of(name, dims), number, dtype=torch_dtype(dtype.name))


def _name_axis(op: Op, trials: list[dict[str, int]], sizes: tuple[int, ...]) -> str:
    """The first expression of the dims that gives the axis's size in every trial."""
    for text in _axis_candidates(op):
        if all(expression.evaluate(text, dims) == size for dims, size in zip(trials, sizes, strict=True)):
            return text
    if len(set(sizes)) == 1:
        return str(sizes[0])
    raise _untold(op, f"an axis of {list(sizes)} elements for {trials} is no dim, axis or product of dims")


def _axis_candidates(op: Op) -> Iterator[str]:
    yield from op.dims
    for tensor in op.tensors.values():
        yield from tensor.axes
    for count in range(2, MOST_FACTORS + 1):
        for names in itertools.combinations(op.dims, count):
            yield "*".join(names)


def _untold(op: Op, reason: str) -> OpDefinitionError:
    return OpDefinitionError(
        f"op {op.name!r}: the shapes of its outputs cannot be told, since {reason}; "
        'declare them, outputs=("B H", …)'
    )
