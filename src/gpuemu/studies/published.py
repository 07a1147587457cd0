"""The published corpus study's sizes (arXiv 2606.20128; PUBLISHED.md), for ops of our library."""

from __future__ import annotations

from gpuemu.model.op import Op

CASES_PER_KERNEL_AND_DTYPE = 30
DTYPES = ("float32", "float16", "bfloat16")

_ROWS = {"B": (1, 2, 8), "S": (1, 7, 128), "H": (1, 3, 256, 1025)}
_SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "matmul": {"M": (1, 2, 7, 64), "K": (1, 3, 16, 64), "N": (1, 2, 15, 64)},
    "attention": {"M": (1, 2, 8), "N": (1, 3, 16, 256), "D": (8, 16, 64)},
    "flash_attention": {"M": (1, 2, 8), "N": (1, 3, 16, 64, 128, 256), "D": (8, 16, 64)},
}


def published_sizes(op: Op) -> Op:
    """The op over the published candidate sizes."""
    return op.with_dims(**_SIZES.get(op.name, _ROWS))


def one_shape(op: Op, batch_limit: int, batch: frozenset[str]) -> dict[str, int]:
    """The shape of a one-shape test: the largest power of two among the published sizes of each dim.

    batch_limit bounds the product of the dims in `batch` (dims that only add programs).
    """
    dims = {}
    remaining = batch_limit
    for name, sizes in _SIZES.get(op.name, _ROWS).items():
        powers = [s for s in sizes if s & (s - 1) == 0 and (name not in batch or s <= remaining)]
        dims[name] = max(powers)
        if name in batch:
            remaining //= dims[name]
    return dims
