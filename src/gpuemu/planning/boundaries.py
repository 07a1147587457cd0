"""The boundary sizes of a dim: where masks, tiles and alignment assumptions break."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuemu.model.op import Dim

_PRIMES = (5, 7, 11, 13, 29, 61, 97, 127, 251, 509, 1021, 2039, 4093, 8191)
_ALIGNMENTS = (8, 16, 32, 64, 128)


def size_classes(
    dim: Dim, largest: int | None = None, block_sizes: Iterable[int] = (), allow_empty: bool = False
) -> Mapping[str, tuple[int, ...]]:
    """Boundary classes of a dim, each with the sizes of its domain that belong to it, smallest first.

    Args:
        dim: the domain. Explicit candidates make a class of their own each.
        largest: a cap that the tier sets; sizes above it are left out.
        block_sizes: tile sizes read from the kernel; they give the class "block" with size-1, size, size+1.
        allow_empty: whether size 0 may be used where the domain allows it.

    Returns:
        Class name to sizes; never empty: the smallest size of the domain is kept even above `largest`.
    """
    high = dim.high if largest is None else min(dim.high, max(largest, dim.low))
    if dim.candidates:
        sizes = [size for size in dim.candidates if size <= high] or [min(dim.candidates)]
        return {str(size): (size,) for size in sizes}
    classes: dict[str, tuple[int, ...]] = {}
    taken: set[int] = set() if allow_empty else {0}
    for name, sizes in _generate(dim, block_sizes):
        kept = tuple(s for s in dict.fromkeys(sizes) if s <= high and dim.contains(s) and s not in taken)
        if kept:
            classes[name] = kept
            taken.update(kept)
    if not classes:
        first = -(-max(dim.low, 0 if allow_empty else 1) // dim.multiple_of) * dim.multiple_of
        classes["lowest"] = (first,)
    return classes


def _generate(dim: Dim, block_sizes: Iterable[int]) -> Iterable[tuple[str, list[int]]]:
    step = dim.multiple_of
    powers = [1 << k for k in range(2, max(dim.high, 4).bit_length() + 1)]
    multiples = [3 * a * k // 1 for a in _ALIGNMENTS for k in (1, 5)]
    yield "zero", [0]
    yield "one", [1, step]
    yield "few", [2, 3, 2 * step, 3 * step]
    yield "block", sorted({size + delta for size in block_sizes for delta in (-step, 0, step)})
    yield "above_power", [p + step for p in powers]
    yield "below_power", [p - step for p in powers]
    yield "power", powers
    yield "prime", list(_PRIMES)
    yield "aligned", sorted(multiples)
    yield "unaligned", sorted(m + d for m in multiples for d in (-step, step))
    yield "highest", [dim.high - dim.high % step]
