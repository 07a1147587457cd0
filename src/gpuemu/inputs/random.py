"""Random streams: the same seed gives the same bits on every machine and in every language.

DESIGN.md, section 5. A stream is named by a seed and a path such as ``"x/values"``; its 64-bit key is a hash of
both, so no stream depends on how much another one drew. Its words come from `lanes`, so every slice can be made
without the words before it. Everything is integer arithmetic and exact scaling by powers of two; nothing is
rounded. `rng/vectors.json` holds the answers that every implementation must give.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from operator import index

import numpy as np
import numpy.typing as npt

from gpuemu.errors import UsageError
from gpuemu.inputs.lanes import MASK64, WORDS_PER_LANE, Words, lane_states, lane_words, next_state

REDRAW_LANE = 1 << 63
"""Lane ``REDRAW_LANE + i`` serves the redraws of bounded integer ``i``; words stay in lanes below 2**57."""

_INDEX_LIMIT = 1 << 63
# The temporaries of `bounded` then stay in the cache: four times as fast on a million words (measured).
_WORDS_PER_CHUNK = 1 << 14


def stream_key(seed: int, path: str) -> int:
    """Return the 64-bit key of the stream `path` under `seed`.

    It is BLAKE2b (RFC 7693), unkeyed and with an 8-byte digest, over the seed as 8 little-endian bytes followed
    by the path in UTF-8; the digest is read as a little-endian integer.

    Raises:
        UsageError: `seed` is not an integer in 0 .. 2**64-1, or `path` is not text that UTF-8 can hold.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MASK64:
        raise UsageError(f"a seed must be an integer from 0 to 2**64-1, got {seed!r}")
    if not isinstance(path, str):
        raise UsageError(f"a stream's path must be text such as 'x/values', got {path!r}")
    try:
        encoded_path = path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"a stream's path must not hold half of a surrogate pair, got {path!r}") from error
    digest = hashlib.blake2b(seed.to_bytes(8, "little") + encoded_path, digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class Stream:
    """A random stream: a pure function of `seed` (0 .. 2**64-1) and `path`.

    Methods keep no position: equal arguments give equal arrays, and ``draw(n)[a:b]`` equals
    ``draw(b - a, start=a)``. All methods of one stream read the same words; take a path each for numbers that
    must be independent.

    Raises:
        UsageError: the seed or the path is invalid (see `stream_key`); in every method, `count` or `start` is
            negative, or the slice ends beyond index 2**63.
    """

    seed: int
    path: str

    def __post_init__(self) -> None:
        # Validates both fields, and keeps the key for the calls to come.
        _ = self.key

    @cached_property
    def key(self) -> int:
        """The stream's 64-bit key, see `stream_key`."""
        return stream_key(self.seed, self.path)

    def words(self, count: int, start: int = 0) -> Words:
        """Return words `start` .. `start + count - 1`, uint64, shape (count,), writeable."""
        count, start = _check_slice(count, start)
        first_lane, skip = divmod(start, WORDS_PER_LANE)
        return lane_words(self.key, first_lane, skip + count)[skip:]

    def draws32(self, count: int, start: int = 0) -> npt.NDArray[np.uint32]:
        """Return 32-bit draws, uint32, shape (count,), writeable: two a word, its low half first."""
        count, start = _check_slice(count, start)
        first_word, skip = divmod(start, 2)
        words = self.words(-(-(skip + count) // 2), first_word)
        # "<" keeps the low part first on a big-endian machine too, where it costs a copy.
        halves = words.astype("<u8", copy=False).view("<u4")
        return halves[skip : skip + count].astype(np.uint32, copy=False)

    def draws16(self, count: int, start: int = 0) -> npt.NDArray[np.uint16]:
        """Return 16-bit draws, uint16, shape (count,), writeable: four a word, its lowest quarter first."""
        count, start = _check_slice(count, start)
        first_word, skip = divmod(start, 4)
        words = self.words(-(-(skip + count) // 4), first_word)
        quarters = words.astype("<u8", copy=False).view("<u2")
        return quarters[skip : skip + count].astype(np.uint16, copy=False)

    def unit(self, count: int, bits: int, start: int = 0) -> npt.NDArray[np.float64]:
        """Return multiples of 2**-bits in [0, 1), float64, shape (count,), each exact.

        With up to 32 bits they are the high bits of 32-bit draws, with 33 to 53 the high bits of words.

        Raises:
            UsageError: `bits` is not in 1 .. 53, the significant bits of float64.
        """
        if not 1 <= bits <= 53:
            raise UsageError(f"unit() takes 1 to 53 bits, got {bits!r}")
        if bits <= 32:
            draws = self.draws32(count, start)
            draws >>= np.uint32(32 - bits)
            values = draws.astype(np.float64)
        else:
            words = self.words(count, start)
            words >>= np.uint64(64 - bits)
            values = words.astype(np.float64)
        values *= 2.0**-bits
        return values

    def integers(self, count: int, low: int, high: int, start: int = 0) -> npt.NDArray[np.int64]:
        """Return integers in [low, high), int64, shape (count,), each value equally likely.

        Value ``i`` takes word ``i`` and maps it by `bounded`, which refuses the few words that would favour
        some values (fewer than ``high - low`` of the 2**64). A refused value is redrawn from words 0, 1, 2 ..
        of a lane of its own, ``REDRAW_LANE + i``, until one is accepted. So no value moves another one's
        words, every slice is independent of the rest, and a GPU thread needs nothing but the key.

        Raises:
            UsageError: not ``-2**63 <= low < high <= 2**63``.
        """
        count, start = _check_slice(count, start)
        low, high = index(low), index(high)
        if not -(1 << 63) <= low < high <= 1 << 63:
            raise UsageError(f"integers() needs -2**63 <= low < high <= 2**63, got {low=}, {high=}")
        offsets = self.words(count, start)
        refused = []
        for begin in range(0, count, _WORDS_PER_CHUNK):
            chunk = offsets[begin : begin + _WORDS_PER_CHUNK]
            chunk[:], accepted = bounded(chunk, high - low)
            if not accepted.all():
                refused.append(begin + np.flatnonzero(~accepted))
        if refused:
            self._redraw(offsets, np.concatenate(refused), high - low, start)
        offsets += np.uint64(low & MASK64)
        return offsets.view(np.int64)

    def _redraw(self, offsets: Words, refused: npt.NDArray[np.intp], span: int, start: int) -> None:
        """Write to ``offsets[refused]`` the first accepted value of each one's own redraw lane."""
        lanes = refused.astype(np.uint64) + np.uint64(REDRAW_LANE + start)
        state_0, state_1 = lane_states(self.key, lanes)
        while refused.size:
            values, accepted = bounded(state_0 + state_1, span)
            offsets[refused[accepted]] = values[accepted]
            again = ~accepted
            refused, state_0, state_1 = refused[again], state_0[again], state_1[again]
            state_0, state_1 = state_1, next_state(state_0, state_1)

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """Return a permutation of 0 .. n-1, int64, shape (n,): the indices that sort words 0 .. n-1 ascending.

        Equal words stay in index order. Distinct words have every order equally likely; that any two of n
        are equal has a probability below n**2 / 2**65, 3e-8 for a million. The permutation of a smaller n
        is no slice of a larger one's.
        """
        return np.argsort(self.words(n), kind="stable").astype(np.int64, copy=False)


def bounded(words: Words, span: int, width: int = 64) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Map words to values in [0, span) and say which words are accepted, without a division per word.

    With L = `width`, the value is floor(word * span / 2**L), and a word is accepted when
    ``word * span mod 2**L >= 2**L mod span``. The products that give one value are the multiples of `span` in
    an interval of length 2**L. Without its first ``2**L mod span`` integers, its length is a multiple of
    `span`, so that each value keeps exactly floor(2**L / span) words (D. Lemire, "Fast random integer
    generation in an interval", ACM TOMACS 29(1), 2019, algorithm 5).

    Args:
        words: uint64 below 2**width, shape (n,).
        span: 1 .. 2**width.
        width: the random bits of a word, even; 64 in use, while fewer let a test try every word.

    Returns:
        The values, uint64, and whether each is accepted, bool, both of shape (n,).
    """
    half = np.uint64(width // 2)
    low_half = np.uint64((1 << width // 2) - 1)
    span_high, span_low = (np.uint64(digit) for digit in divmod(span, 1 << width // 2))
    # Schoolbook multiplication by half words; no sum here exceeds 2**width - 1.
    high_digit, low_digit = words >> half, words & low_half
    middle = high_digit * span_low
    middle += (low_digit * span_low) >> half
    values = middle >> half
    if span_high:
        low_digit *= span_high
        low_digit += middle & low_half
        values += low_digit >> half
        values += high_digit * span_high
    threshold = (1 << width) % span
    if threshold == 0:  # also spares the span 2**64, which uint64 cannot hold
        return values, np.ones(words.shape, np.bool_)
    remainders = (words * np.uint64(span)) & np.uint64((1 << width) - 1)
    return values, remainders >= np.uint64(threshold)


def _check_slice(count: int, start: int) -> tuple[int, int]:
    """Return both as Python integers, which cannot overflow; raise UsageError for an impossible slice."""
    count, start = index(count), index(start)
    if count < 0 or start < 0 or start + count > _INDEX_LIMIT:
        raise UsageError(f"a slice needs count >= 0, start >= 0, end <= 2**63, got {count=}, {start=}")
    return count, start
