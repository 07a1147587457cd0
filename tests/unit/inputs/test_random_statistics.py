"""Statistical sanity of the random streams; every seed is fixed, so each test always gives the same answer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpuemu.inputs.random import Stream


def chi_square(counts: np.ndarray[Any, Any]) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2).sum() / expected)


@pytest.mark.parametrize("byte", range(8))
def test_bytes_of_words_are_uniform(byte: int) -> None:
    words = Stream(0, "chi-square").words(2**16)
    counts = np.bincount((words >> np.uint64(8 * byte) & np.uint64(255)).astype(np.int64), minlength=256)
    # Chi-square with 255 degrees of freedom: mean 255, standard deviation 22.6; this is four of them.
    assert 165 < chi_square(counts) < 345


def test_first_words_of_neighbouring_lanes_seeds_and_paths_are_uniform() -> None:
    lane_starts = Stream(0, "lanes").words(64 * 4096)[::64]
    seed_starts = np.array([Stream(seed, "x").words(1)[0] for seed in range(4096)])
    path_starts = np.array([Stream(0, f"x{number}").words(1)[0] for number in range(4096)])
    for words in (lane_starts, seed_starts, path_starts):
        top, bottom = (words >> np.uint64(58)).astype(np.int64), (words & np.uint64(63)).astype(np.int64)
        for sixths in (top, bottom, top[1:] ^ top[:-1]):
            # 63 degrees of freedom, standard deviation 11.2; four of them.
            assert 18 < chi_square(np.bincount(sixths, minlength=64)) < 108


def test_every_bit_is_set_half_the_time_and_moves_alone() -> None:
    bits = np.unpackbits(Stream(0, "bits").words(2**14).view(np.uint8)).reshape(2**14, 64).astype(np.float64)
    # Means of 2**14 fair bits deviate by 0.0039; correlations of two such bits by 0.0078. Five of each.
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.0195
    correlations = np.corrcoef(bits, rowvar=False) - np.eye(64)
    assert np.abs(correlations).max() < 0.039


def test_permutations_of_four_are_equally_frequent() -> None:
    orders = dict.fromkeys(itertools.permutations(range(4)), 0)
    for number in range(4800):
        orders[tuple(Stream(1, f"order/{number}").permutation(4).tolist())] += 1
    # 23 degrees of freedom, standard deviation 6.8; four of them.
    assert chi_square(np.array(list(orders.values()))) < 50
