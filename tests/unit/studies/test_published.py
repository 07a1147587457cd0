"""The published sizes and the one-shape tests made from them."""

from __future__ import annotations

from gpuemu.ops.registry import get_op
from gpuemu.planning.limits import batch_dims
from gpuemu.studies.published import one_shape, published_sizes


def test_sizes_are_the_published_ones() -> None:
    assert published_sizes(get_op("softmax")).domains["H"].candidates == (1, 3, 256, 1025)
    assert published_sizes(get_op("matmul")).domains["N"].candidates == (1, 2, 15, 64)
    assert published_sizes(get_op("flash_attention")).domains["N"].candidates[-1] == 256


def test_one_shape_takes_the_largest_powers_of_two() -> None:
    op = get_op("softmax")
    assert one_shape(op, 1 << 20, batch_dims(op)) == {"B": 8, "S": 128, "H": 256}
    assert one_shape(op, 8, batch_dims(op)) == {"B": 8, "S": 1, "H": 256}
    assert one_shape(get_op("matmul"), 8, frozenset()) == {"M": 64, "K": 64, "N": 64}
