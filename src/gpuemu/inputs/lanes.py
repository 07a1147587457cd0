"""The generator under the random streams: lanes of xorshift128+ words, each seeded by SplitMix64.

Word ``i`` of a stream is step ``i % 64`` of lane ``i // 64``. A lane's two states are the first two outputs of
SplitMix64 from the counter ``key XOR lane * golden gamma``, so any lane can be made alone; NumPy works on many
lanes at once, and a GPU thread can fill one.

xorshift128+: S. Vigna, "Further scramblings of Marsaglia's xorshift generators", arXiv:1404.0390, with its
shifts 23, 17, 26. SplitMix64: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014, with the mixing constants of Vigna's splitmix64.c.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

WORDS_PER_LANE = 64
MASK64 = (1 << 64) - 1

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # the odd integer nearest to 2**64 / golden ratio (Steele et al.)
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_SHIFT_23, _SHIFT_17, _SHIFT_26 = (np.array(shift, np.uint64) for shift in (23, 17, 26))

# Up to this many words Python integers are faster than NumPy, which pays for 64 steps of 7 calls (measured).
_PYTHON_WORDS = 8 * WORDS_PER_LANE
# 65 rows of this many states fill 1 MiB, about a second-level cache; half as many are slower (measured).
_LANES_PER_BLOCK = 2048


def lane_words(key: int, first_lane: int, count: int) -> Words:
    """Return `count` words from the start of lane `first_lane` on, uint64, shape (count,), writeable."""
    if count <= _PYTHON_WORDS:
        return _few_words(key, first_lane, count)
    return _many_words(key, first_lane, -(-count // WORDS_PER_LANE))[:count]


def splitmix(counter: int) -> int:
    """Return SplitMix64's output for `counter` modulo 2**64: the mixing of splitmix64.c, after its addition.

    The mixing is a bijection that maps only 0 to 0, and a lane mixes two different counters. So no lane's
    state is all zero, the one state from which xorshift128+ never moves.
    """
    z = counter & MASK64
    z = (z ^ z >> 30) * _MIX_1 & MASK64
    z = (z ^ z >> 27) * _MIX_2 & MASK64
    return z ^ z >> 31


def xorshift_states(state_0: int, state_1: int, steps: int) -> list[int]:
    """Return the `steps` + 1 states s that give `steps` words, word ``i`` being ``s[i] + s[i+1]`` mod 2**64.

    A step of xorshift128+ moves its second state to the first place and computes one new state, so all states
    form one sequence that starts with `state_0`, `state_1`; a sum of neighbours is the word before the step.
    """
    states = [state_0, state_1]
    append = states.append
    for _ in range(steps - 1):
        shifted = state_0 ^ (state_0 << 23 & MASK64)
        state_0 = state_1
        state_1 = shifted ^ shifted >> 17 ^ state_1 ^ state_1 >> 26
        append(state_1)
    return states


def lane_states(key: int, lanes: Words) -> tuple[Words, Words]:
    """Return the two states of every lane before its first step; `lanes` holds lane numbers, uint64."""
    counters = lanes * np.uint64(_GOLDEN_GAMMA)
    counters ^= np.uint64(key)
    counters += np.uint64(_GOLDEN_GAMMA)
    state_0 = _splitmix_array(counters)
    counters += np.uint64(_GOLDEN_GAMMA)
    return state_0, _splitmix_array(counters)


def next_state(state_0: Words, state_1: Words) -> Words:
    """Return the state that follows the pair, elementwise, in a new array."""
    state = np.empty_like(state_0)
    _step(state_0, state_1, state, scratch=np.empty_like(state_0))
    return state


def _few_words(key: int, first_lane: int, count: int) -> Words:
    words = np.empty(count, np.uint64)
    for begin in range(0, count, WORDS_PER_LANE):
        lane = first_lane + begin // WORDS_PER_LANE
        counter = key ^ (lane * _GOLDEN_GAMMA & MASK64)
        state_0, state_1 = splitmix(counter + _GOLDEN_GAMMA), splitmix(counter + 2 * _GOLDEN_GAMMA)
        steps = min(WORDS_PER_LANE, count - begin)
        states = np.fromiter(xorshift_states(state_0, state_1, steps), np.uint64, steps + 1)
        np.add(states[:-1], states[1:], out=words[begin : begin + steps])
    return words


def _many_words(key: int, first_lane: int, lane_count: int) -> Words:
    words = np.empty((lane_count, WORDS_PER_LANE), np.uint64)
    block_count = -(-lane_count // _LANES_PER_BLOCK)
    block = -(-lane_count // block_count)
    state_rows = np.empty((WORDS_PER_LANE + 1, block), np.uint64)
    scratch_row = np.empty(block, np.uint64)
    for begin in range(0, lane_count, block):
        size = min(block, lane_count - begin)
        states, scratch = state_rows[:, :size], scratch_row[:size]
        lanes = np.arange(size, dtype=np.uint64) + np.uint64(first_lane + begin)
        states[0], states[1] = lane_states(key, lanes)
        for step in range(2, WORDS_PER_LANE + 1):
            _step(states[step - 2], states[step - 1], states[step], scratch)
        # Sum along rows before transposing: NumPy adds transposed operands more slowly (measured).
        np.add(states[:-1], states[1:], out=states[:-1])
        words[begin : begin + size] = states[:-1].T
    return words.reshape(-1)


def _step(state_0: Words, state_1: Words, out: Words, scratch: Words) -> None:
    """Write to `out` the state that follows the pair, elementwise, without allocating."""
    np.left_shift(state_0, _SHIFT_23, out)
    np.bitwise_xor(out, state_0, out)
    np.right_shift(out, _SHIFT_17, scratch)
    np.bitwise_xor(out, scratch, out)
    np.bitwise_xor(out, state_1, out)
    np.right_shift(state_1, _SHIFT_26, scratch)
    np.bitwise_xor(out, scratch, out)


def _splitmix_array(counters: Words) -> Words:
    """Return `splitmix` of every counter, in a new array."""
    z = counters ^ (counters >> np.uint64(30))
    z *= np.uint64(_MIX_1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_MIX_2)
    z ^= z >> np.uint64(31)
    return z
