"""Tile sizes read from source text."""

from __future__ import annotations

from gpuemu.candidates.block_sizes import read_block_sizes

SOURCE = """
BLOCK = 1024
N_STAGES = 4
TILE_K: int = 32
BLOCK_P, BLOCK_Q = 20, 40

def wrapper(x, chunk_size=48, *, block_n=96):
    kernel[(1,)](x, BLOCK_M=128, num_warps=8)

configs = [Config({"BLOCK_N": 256, "STAGES": 3})]
"""


def test_every_way_of_stating_a_tile_is_read() -> None:
    assert read_block_sizes(SOURCE) == (20, 32, 40, 48, 96, 128, 256, 1024)


def test_a_syntax_error_gives_none() -> None:
    assert read_block_sizes("def (") == ()


def test_absurd_and_computed_sizes_are_left_out() -> None:
    assert (
        read_block_sizes("BLOCK = 1\nBLOCK_B = 2**20\nBLOCK_C = 1 << 4\nBLOCK_D = 1000000\nBLOCK_E = True")
        == ()
    )
