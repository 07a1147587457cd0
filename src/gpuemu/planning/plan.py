"""Making the plan of a run: which cases, in which order."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from gpuemu.errors import UsageError
from gpuemu.model.case import Case, Plan
from gpuemu.model.contract import DEFAULT_LAYOUTS, LAYOUTS
from gpuemu.model.op import Op
from gpuemu.model.value_class import DEFAULT_VALUE_CLASSES, VALUE_CLASSES
from gpuemu.planning.anchors import make_anchors
from gpuemu.planning.boundaries import size_classes
from gpuemu.planning.choice import Chooser
from gpuemu.planning.covering import Axis, Levels, cover
from gpuemu.planning.isolation import Isolation
from gpuemu.planning.limits import LIMITS, Limits, batch_dims, describe, fits, last_axis_dims

STRATEGIES = {"covering": "pairs of (boundary class of each dim, dtype, layout, value class, parameter)"}
SIZE_DRAWS = 8


def make_plan(
    op: Op,
    *,
    budget: int,
    seed: int,
    device: str = "cpu",
    dtypes: Sequence[str] | None = None,
    layouts: Sequence[str] | None = None,
    value_classes: Sequence[str] | None = None,
    block_sizes: Sequence[int] = (),
    strategy: str = "covering",
    limits: Limits | None = None,
    exact: bool = False,
) -> Plan:
    """The plan of a run: the same for the same arguments on any machine.

    Args:
        budget: number of cases, at least 1.
        seed: 0 <= seed < 2^64; determines choices and every case's own seed.
        device: "cpu" or "cuda"; sets the size limits unless `limits` is given.
        dtypes, layouts, value_classes: restrict the axes; None takes what the op declares. Of value classes
            dense in NaN, infinities or extremes ("adversarial", "nan_injected", "sparse_adversarial") a case
            has one input, in turn, beside plain ones; one case in eight is hard in all (`isolation`).
        block_sizes: the kernel's tile sizes, if they could be read.
        exact: whether the op computes small integers exactly, so that a case of them is worth having.

    Raises:
        UsageError: a bad budget, seed, name, or a domain without any admissible case.
    """
    _check_arguments(op, budget, seed, strategy)
    limits = limits or LIMITS["cuda" if device.startswith("cuda") else "cpu"]
    batch = batch_dims(op)
    sizes = _size_classes(op, limits, batch, block_sizes)
    axes = _axes(op, sizes, dtypes, layouts, value_classes)

    def complete(levels: Levels, chooser: Chooser) -> Mapping[str, int] | None:
        for _ in range(SIZE_DRAWS):
            dims = {name: chooser.pick(sizes[name][levels[f"dim {name}"]]) for name in op.domains}
            if op.admits(dims) and fits(op, dims, limits, batch):
                return dims
        return None

    chooser = Chooser(seed, f"plan/{op.name}")
    cases: list[Case] = []
    isolation = Isolation(op, sizes, batch, limits, block_sizes, seed)
    for planned in cover(axes, chooser, make_anchors(axes, sizes, batch, exact), complete):
        levels, dims = isolation.apply(*planned)
        cases.append(_make_case(op, levels, dims, Chooser(seed, f"case/{op.name}/{len(cases)}").word()))
        if len(cases) == budget:
            break
    if not cases:
        raise UsageError(f"op {op.name!r}: no sizes fulfil its dims and constraints {list(op.constraints)}")
    notes = describe(limits, batch)
    return Plan(op.name, strategy, seed, tuple(cases), notes)


def _check_arguments(op: Op, budget: int, seed: int, strategy: str) -> None:
    if budget < 1:
        raise UsageError(f"budget is {budget}; it must be at least 1")
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"seed is {seed}; it must be at least 0 and below 2^64")
    if strategy not in STRATEGIES:
        raise UsageError(f"unknown strategy {strategy!r}; known: {', '.join(STRATEGIES)}")
    if not op.dtypes:
        raise UsageError(f"op {op.name!r} declares no dtype")


def _size_classes(
    op: Op, limits: Limits, batch: frozenset[str], block_sizes: Sequence[int]
) -> dict[str, Mapping[str, tuple[int, ...]]]:
    last = last_axis_dims(op)
    classes = {}
    for name, dim in op.domains.items():
        largest = limits.batch if name in batch else limits.elements if name in last else limits.inner
        blocks = () if name in batch else block_sizes
        classes[name] = size_classes(dim, largest, blocks, allow_empty=op.contract.empty)
    return classes


def _axes(
    op: Op,
    sizes: Mapping[str, Mapping[str, tuple[int, ...]]],
    dtypes: Sequence[str] | None,
    layouts: Sequence[str] | None,
    value_classes: Sequence[str] | None,
) -> list[Axis]:
    chosen_dtypes = _choose(dtypes, op.dtypes, op.dtypes, "dtype", op)
    allowed = op.contract.layouts or DEFAULT_LAYOUTS
    chosen_layouts = _choose(layouts, allowed, LAYOUTS, "layout", op)
    classes = _choose(
        value_classes, op.value_classes or DEFAULT_VALUE_CLASSES, tuple(VALUE_CLASSES), "value class", op
    )
    axes = [Axis(f"dim {name}", tuple(levels)) for name, levels in sizes.items()]
    axes.append(Axis("dtype", chosen_dtypes))
    for name, tensor in op.tensors.items():
        if tensor.axes:
            own = tensor.layouts and _restrict(tensor.layouts, layouts, DEFAULT_LAYOUTS)
            axes.append(Axis(f"layout {name}", own or chosen_layouts, favoured="contiguous"))
        if tensor.takes_value_class:
            own = tensor.value_classes and _restrict(tensor.value_classes, value_classes, DEFAULT_VALUE_CLASSES)
            axes.append(Axis(f"values {name}", own or tensor.value_classes or classes))
    axes += [Axis(f"param {name}", tuple(range(len(values)))) for name, values in op.params.items()]
    return axes


def _restrict(own: Sequence[str], asked: Sequence[str] | None, everything: Sequence[str]) -> tuple[str, ...]:
    """Those of an input's own choices that were asked for; all of them where everything was."""
    if asked is None or set(everything) <= set(asked):
        return tuple(own)
    return tuple(name for name in own if name in asked)


def _choose(
    asked: Sequence[str] | None, default: Sequence[str], known: Sequence[str], what: str, op: Op
) -> tuple[str, ...]:
    if asked is None:
        return tuple(default)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        near = difflib.get_close_matches(unknown[0], known, n=1) if unknown else []
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"{what} {', '.join(unknown) or 'list is empty'}: {hint}op {op.name!r} has {', '.join(known)}"
        )
    return tuple(dict.fromkeys(asked))


def _make_case(op: Op, levels: Levels, dims: Mapping[str, int], seed: int) -> Case:
    return Case(
        op=op.name,
        dims=dims,
        dtype=levels["dtype"],
        layouts={name: levels.get(f"layout {name}", "contiguous") for name in op.inputs},
        value_classes={name: levels.get(f"values {name}", "uniform") for name in op.inputs},
        params={name: values[levels[f"param {name}"]] for name, values in op.params.items()},
        seed=seed,
    )
