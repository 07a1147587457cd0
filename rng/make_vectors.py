"""Write rng/vectors.json: the answers that every implementation of the random streams must give.

A second implementation, kept slow and plain: Python integers, one word at a time, every lane walked from its
first step. It shares no code with `gpuemu.inputs.random`, so that agreement of the two means something.

    python rng/make_vectors.py            # writes vectors.json beside this file
    python rng/make_vectors.py --check    # exit code 1 if the committed file differs
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).with_name("vectors.json")
TWO_64 = 2**64
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
FIRST_REDRAW_LANE = 2**63

Record = dict[str, Any]


def splitmix64(state: int) -> Iterator[int]:
    """Yield SplitMix64's outputs from `state`."""
    while True:
        state = (state + GOLDEN_GAMMA) % TWO_64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % TWO_64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % TWO_64
        yield z ^ (z >> 31)


def xorshift128plus(s0: int, s1: int) -> Iterator[int]:
    """Yield the sum of the two states before each step."""
    while True:
        yield (s0 + s1) % TWO_64
        t = s0 ^ ((s0 << 23) % TWO_64)
        s0, s1 = s1, t ^ s1 ^ (t >> 17) ^ (s1 >> 26)


def stream_key(seed: int, path: str) -> int:
    """Hash the seed and the path to the stream's key."""
    digest = hashlib.blake2b(struct.pack("<Q", seed) + path.encode(), digest_size=8).digest()
    return int(struct.unpack("<Q", digest)[0])


def lane_state(key: int, lane: int) -> tuple[int, int]:
    """Return the two states before the first step of `lane`."""
    outputs = splitmix64(key ^ (lane * GOLDEN_GAMMA % TWO_64))
    return next(outputs), next(outputs)


def lane_word(key: int, lane: int, step: int) -> int:
    """Return word `step` of `lane`, walking there from the lane's start."""
    words = xorshift128plus(*lane_state(key, lane))
    for _ in range(step):
        next(words)
    return next(words)


def word(key: int, index: int) -> int:
    """Return word `index` of a stream."""
    return lane_word(key, index // 64, index % 64)


def draw(key: int, bits: int, index: int) -> int:
    """Return draw `index` of 64, 32 or 16 bits: the low part of a word comes first."""
    draws_per_word = 64 // bits
    shift = bits * (index % draws_per_word)
    return (word(key, index // draws_per_word) >> shift) % (1 << bits)


def unit_bits(key: int, bits: int, index: int) -> str:
    """Return unit value `index` as the 16 hexadecimal digits of its binary64 representation."""
    width = 32 if bits <= 32 else 64
    numerator = draw(key, width, index) >> (width - bits)
    return struct.pack(">d", numerator / 2**bits).hex()


def integer(key: int, low: int, high: int, index: int) -> tuple[int, int]:
    """Return bounded integer `index`, and how many words it refused."""
    span = high - low
    candidate = word(key, index)
    redraws = 0
    while candidate * span % TWO_64 < TWO_64 % span:
        candidate = lane_word(key, FIRST_REDRAW_LANE + index, redraws)
        redraws += 1
    return low + candidate * span // TWO_64, redraws


def permutation(key: int, n: int) -> list[int]:
    """Return 0 .. n-1 in ascending order of their words."""
    return sorted(range(n), key=lambda index: word(key, index))


def decimal(values: Iterator[int] | list[int] | tuple[int, ...]) -> list[str]:
    """Spell integers as strings, since a JSON number keeps 53 bits in most readers."""
    return [str(value) for value in values]


STREAMS = [(0, "x/values"), (1, "x/values"), (2**64 - 1, "w/values"), (43, "a/é/β/\U0001d4b3")]
SLICES = [(0, 8), (62, 4), (126, 3), (6398, 4), (2**40 + 61, 5), (2**63 - 2, 2)]
RANGES = [
    (0, 1), (0, 2), (0, 3), (-5, 6), (0, 1000), (0, 2**31), (0, 2**32), (-1, 2**32), (0, 3 * 2**40 + 1),
    (-(2**62), 2**62 + 1), (-(2**63), 2**62), (-(2**63), 2**63 - 1), (-(2**63), 2**63),
]  # fmt: skip


def generator_records() -> dict[str, list[Record]]:
    """The two published generators alone, and how keys and lanes are seeded."""
    states = [(1, 2), (1, 4), (1234524356, 47845723665), (TWO_64 - 1, TWO_64 - 1), (0, 1), (1, 0)]
    keys = [(seed, path, stream_key(seed, path)) for seed, path in [(0, ""), *STREAMS]]
    lanes = [0, 1, 2, 99, 2**57 - 1, FIRST_REDRAW_LANE, FIRST_REDRAW_LANE + 1, TWO_64 - 1]
    return {
        "splitmix64": [
            {"state": str(state), "outputs": decimal(islice(splitmix64(state), 5))}
            for state in (0, 1234567, TWO_64 - 1)
        ],
        "xorshift128plus": [
            {"state": decimal(state), "words": decimal(islice(xorshift128plus(*state), 12))} for state in states
        ],
        "stream_key": [{"seed": str(seed), "path": path, "key": str(key)} for seed, path, key in keys],
        "lane_state": [
            {"key": str(key), "lane": str(lane), "state": decimal(lane_state(key, lane))}
            for _, _, key in keys[:2]
            for lane in lanes
        ],
    }


def draw_records(bits: int) -> list[Record]:
    """Slices of draws of 64, 32 or 16 bits, across the lanes' boundaries."""
    return [
        {
            "seed": str(seed),
            "path": path,
            "start": str(start),
            "values": decimal([draw(stream_key(seed, path), bits, start + i) for i in range(count)]),
        }
        for seed, path in STREAMS
        for start, count in [*SLICES, (64 * 64 // bits - 1, 3)]
    ]


def unit_records() -> list[Record]:
    """Fractions in [0, 1) of every interesting number of bits."""
    seed, path = STREAMS[1]
    key = stream_key(seed, path)
    return [
        {
            "seed": str(seed),
            "path": path,
            "bits": bits,
            "start": str(start),
            "binary64": [unit_bits(key, bits, start + i) for i in range(4)],
        }
        for bits in (1, 8, 11, 24, 31, 32, 33, 52, 53)
        for start in (0, 62, 127)
    ]


def integer_records() -> list[Record]:
    """Bounded integers; `redraws` says how many words each value refused."""
    records = []
    for seed, path in STREAMS[:2]:
        key = stream_key(seed, path)
        for low, high in RANGES:
            for start in (0, 60, 2**63 - 8):
                pairs = [integer(key, low, high, start + i) for i in range(8)]
                values, redraws = zip(*pairs, strict=True)
                records.append(
                    {
                        "seed": str(seed),
                        "path": path,
                        "low": str(low),
                        "high": str(high),
                        "start": str(start),
                        "values": decimal(values),
                        "redraws": list(redraws),
                    }
                )
    return records


def permutation_records() -> list[Record]:
    """Permutations within a lane and across one."""
    return [
        {"seed": str(seed), "path": path, "order": permutation(stream_key(seed, path), n)}
        for seed, path in STREAMS[:2]
        for n in (0, 1, 2, 5, 16, 100)
    ]


def render() -> str:
    """Return the text of vectors.json: one record a line."""
    sections: dict[str, list[Record]] = {
        **generator_records(),
        "words": draw_records(64),
        "draws32": draw_records(32),
        "draws16": draw_records(16),
        "unit": unit_records(),
        "integers": integer_records(),
        "permutation": permutation_records(),
    }
    blocks = []
    for name, records in sections.items():
        lines = ",\n".join(json.dumps(record, ensure_ascii=True) for record in records)
        blocks.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> int:
    """Write or check the file; return the exit code."""
    text = render()
    if sys.argv[1:] == ["--check"]:
        same = VECTORS.read_text(encoding="utf-8") == text
        print(f"{VECTORS.name}: {'up to date' if same else 'differs; run rng/make_vectors.py'}")
        return 0 if same else 1
    if sys.argv[1:]:
        print("usage: make_vectors.py [--check]", file=sys.stderr)
        return 2
    VECTORS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
