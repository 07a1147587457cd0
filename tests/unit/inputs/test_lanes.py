"""The lanes of generator words against published vectors and the committed ones."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.inputs import lanes

VECTORS_FILE = Path(__file__).parents[3] / "rng" / "vectors.json"
VECTORS: dict[str, list[dict[str, Any]]] = json.loads(VECTORS_FILE.read_text(encoding="utf-8"))
GOLDEN_GAMMA = 0x9E3779B97F4A7C15

counters = st.integers(0, 2**64 - 1)


def integers_of(values: list[str]) -> list[int]:
    return [int(value) for value in values]


def xorshift_words(state_0: int, state_1: int, count: int) -> list[int]:
    states = lanes.xorshift_states(state_0, state_1, count)
    return [(a + b) % 2**64 for a, b in itertools.pairwise(states)]


def test_splitmix64_gives_the_published_outputs_for_1234567() -> None:
    # Rosetta Code, "Pseudo-random numbers/Splitmix64".
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [lanes.splitmix(1234567 + k * GOLDEN_GAMMA) for k in range(1, 6)] == published


@pytest.mark.parametrize(
    ("state", "published"),
    [
        # mozilla/gecko-dev, mfbt/tests/TestXorShift128PlusRNG.cpp, TestDumbSequence: "calculated by hand".
        ((1, 4), [0x800049, 0x3000186, 0x400003001145]),
        # oprypin/nim-random, test/test.nim, suite "Xorshift128+".
        ((1234524356, 47845723665), [10356027574996968, 421627830503766283, 7267806761253193977]),
        ((262151541652562, 468594272265), [3923822141990852456, 3993942717521754294, 13070632098572223408]),
        # AndreasMadsen/xorshift, reference/xorshift128plus.json, printed by Vigna's C code of 2014.
        ((1, 2), [0x800045, 0x2000104, 0x4000020010C3, 0xC00002103045, 0x1000801C450C4, 0x148200440334B]),
        ((3, 4), [0x18000CB, 0x500028A, 0xC000050031C7, 0x1C000053070CB, 0x20018042CB1CA, 0x2D8500C9878DF]),
    ],
)
def test_xorshift_gives_published_words_from_the_second_on(
    state: tuple[int, int], published: list[int]
) -> None:
    # These sources return the sum after a step, which is the sum before the next one.
    words = xorshift_words(*state, len(published) + 1)
    assert words == [sum(state), *published]


def test_xorshift_gives_vignas_words_far_into_the_sequence() -> None:
    # AndreasMadsen/xorshift, reference/xorshift128plus.json, integer "1-2": entries 61 to 65 and the last, 99.
    words = xorshift_words(1, 2, 101)[1:]
    assert words[61:66] == [
        0xEFF2E2E63100DF1B,
        0x5BCAEC4E508BD9EB,
        0x40EF77776C50F7A4,
        0xBBFC8F9C16579A90,
        0x37532B741DE05469,
    ]
    assert words[99] == 0x5CEDAF6F6BB02E6B


def test_splitmix64_agrees_with_the_vectors() -> None:
    for record in VECTORS["splitmix64"]:
        steps = range(1, len(record["outputs"]) + 1)
        outputs = [lanes.splitmix(int(record["state"]) + k * GOLDEN_GAMMA) for k in steps]
        assert outputs == integers_of(record["outputs"])


def test_xorshift_agrees_with_the_vectors() -> None:
    for record in VECTORS["xorshift128plus"]:
        state_0, state_1 = integers_of(record["state"])
        assert xorshift_words(state_0, state_1, 12) == integers_of(record["words"])


def test_lane_states_agree_with_the_vectors() -> None:
    for record in VECTORS["lane_state"]:
        states = lanes.lane_states(int(record["key"]), np.array([int(record["lane"])], np.uint64))
        assert [int(state[0]) for state in states] == integers_of(record["state"])


@given(counters, counters, st.integers(1, 20))
def test_next_state_walks_the_same_sequence_elementwise(state_0: int, state_1: int, steps: int) -> None:
    expected = lanes.xorshift_states(state_0, state_1, steps + 1)
    first, second = np.array([[state_0, 1], [state_1, 2]], np.uint64)
    for state in expected[2:]:
        first, second = second, lanes.next_state(first, second)
        assert int(second[0]) == state


@pytest.mark.parametrize("count", [511, 512, 513, 2048 * 64, 2048 * 64 + 1, 3 * 2048 * 64 - 5])
@pytest.mark.parametrize("first_lane", [0, 2**57 - 7000])
def test_lengths_around_the_block_sizes_agree_lane_by_lane(count: int, first_lane: int) -> None:
    whole = lanes.lane_words(12345, first_lane, count)
    assert whole.shape == (count,)
    for lane in {0, 1, count // 128, (count - 1) // 64}:
        alone = lanes.lane_words(12345, first_lane + lane, min(64, count - 64 * lane))
        np.testing.assert_array_equal(whole[64 * lane : 64 * lane + 64], alone)


def unmix(z: int) -> int:
    """The inverse of `splitmix`: each of its five steps undone, from the last to the first."""

    def undo_xor_shift(value: int, shift: int) -> int:
        result = value
        for _ in range(64 // shift):
            result = value ^ result >> shift
        return result

    z = undo_xor_shift(z, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    z = undo_xor_shift(z, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return undo_xor_shift(z, 30)


@given(counters)
def test_splitmix_is_a_bijection_so_only_zero_gives_zero(counter: int) -> None:
    assert unmix(lanes.splitmix(counter)) == counter
    assert lanes.splitmix(unmix(counter)) == counter
    assert lanes.splitmix(0) == 0


def test_no_lane_can_have_an_all_zero_state() -> None:
    # The keys for which lane 0 has one zero state: the other one comes from another counter, so is not zero.
    for key, zeros in ((-GOLDEN_GAMMA % 2**64, [True, False]), (-2 * GOLDEN_GAMMA % 2**64, [False, True])):
        state_0, state_1 = (int(state[0]) for state in lanes.lane_states(key, np.zeros(1, np.uint64)))
        assert [state_0 == 0, state_1 == 0] == zeros
        assert len(set(xorshift_words(state_0, state_1, 64))) == 64
