"""The first cases of a plan: awkward sizes, plain values, contiguous; most shape bugs already show there.

Two of them, since no one distribution suits every op: uniform values in [-10, 10) reach further into an
activation, bell-shaped ones keep the logits of an attention from saturating. A third, where the op computes
small integers exactly: there, every order of summation gives the same bits, so that any difference is a bug
(ORACLE.md section 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu.planning.covering import Axis, Levels

VALUES = ("uniform", "bell")
EXACT = "exact_integers"
SIZES = {
    "uniform": ("above_power", "prime", "below_power", "few"),
    "bell": ("prime", "below_power", "above_power", "few"),
    "exact_integers": ("above_power", "unaligned", "prime", "few"),
}
BATCH_SIZES = ("few", "one")
NOTABLE = 8  # a listed size up to this is within any tile


def make_anchors(
    axes: Sequence[Axis],
    sizes: Mapping[str, Mapping[str, tuple[int, ...]]],
    batch: frozenset[str],
    exact: bool = False,
) -> list[list[Levels]]:
    """Per anchor its alternatives, the preferred first: later ones make the batch dims smaller.

    Args:
        axes: the plan's axes; those named "dim NAME" choose a class of `sizes[NAME]`.
        batch: dims that only add programs.
        exact: whether to add a case of exactly computed integers.
    """
    anchors: list[list[Levels]] = []
    for values in (*VALUES, EXACT) if exact else VALUES:
        alternatives: list[Levels] = []
        for shrunk in range(len(batch) + 1):
            smallest = frozenset(sorted(batch)[:shrunk])
            alternatives.append({axis.name: _choose(axis, values, sizes, batch, smallest) for axis in axes})
        anchors.append(alternatives)
    return anchors


def _choose(
    axis: Axis,
    values: str,
    sizes: Mapping[str, Mapping[str, tuple[int, ...]]],
    batch: frozenset[str],
    smallest: frozenset[str],
) -> object:
    kind, _, name = axis.name.partition(" ")
    preferred: tuple[str, ...]
    if kind != "dim":
        if kind == "values" and values == EXACT:
            return EXACT
        preferred = (values,) if kind == "values" else ("contiguous",)
    elif name in smallest:
        return min(axis.levels, key=lambda level: min(sizes[name][level]))
    elif name in batch:
        preferred = BATCH_SIZES
    else:
        preferred = SIZES[values]
    found = next((level for level in preferred if level in axis.levels), None)
    if found is not None:
        return found
    if kind == "dim":
        return _most_awkward(axis.levels, sizes[name], small=name in batch)
    return axis.levels[0]


def _most_awkward(levels: Sequence[str], sizes: Mapping[str, tuple[int, ...]], small: bool) -> str:
    """Of listed sizes: the smallest above 1 for a dim that only adds programs, else the largest, and before it
    the largest that is no power of two, if it is notable."""
    ascending = sorted(levels, key=lambda level: sizes[level][0])
    if small:
        return next((level for level in ascending if sizes[level][0] > 1), ascending[0])
    odd = [
        level for level in ascending if sizes[level][0] & (sizes[level][0] - 1) and sizes[level][0] > NOTABLE
    ]
    return (odd or ascending)[-1]
