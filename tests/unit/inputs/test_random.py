"""The random streams against b2sum, a second implementation (rng/make_vectors.py) and closed forms."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.errors import UsageError
from gpuemu.inputs.random import Stream, bounded, stream_key

RNG = Path(__file__).parents[3] / "rng"
VECTORS: dict[str, list[dict[str, Any]]] = json.loads((RNG / "vectors.json").read_text(encoding="utf-8"))
LAST_INDEX = 2**63 - 1

seeds = st.integers(0, 2**64 - 1)
paths = st.text(st.characters(codec="utf-8"), max_size=20)
streams = st.builds(Stream, seeds, paths)
starts = st.one_of(st.integers(0, 300), st.integers(0, 2**62))


def integers_of(values: list[str]) -> list[int]:
    return [int(value) for value in values]


def stream_of(record: dict[str, Any]) -> Stream:
    return Stream(int(record["seed"]), record["path"])


def load_make_vectors() -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_vectors", RNG / "make_vectors.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("seed", "path", "digest"),
    [
        # coreutils 9: printf '<seed, 8 bytes, little-endian><path>' | b2sum -l 64
        (0, "", "ca08ea5bca49cc18"),
        (1, "x/values", "d314be74032fb653"),
        (2**64 - 1, "x/values", "27b3b38e6f8cbe27"),
        (43, "w/é", "ab762a74afdaa405"),
    ],
)
def test_stream_key_is_what_b2sum_prints(seed: int, path: str, digest: str) -> None:
    assert stream_key(seed, path) == int.from_bytes(bytes.fromhex(digest), "little")


# --- the committed vectors -----------------------------------------------------------------------------------


def test_keys_agree_with_the_vectors() -> None:
    for record in VECTORS["stream_key"]:
        assert stream_of(record).key == int(record["key"])


def test_committed_vectors_are_what_the_script_writes() -> None:
    committed = (RNG / "vectors.json").read_text(encoding="utf-8")
    assert load_make_vectors().render() == committed


def test_script_check_notices_a_changed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_make_vectors()
    changed = tmp_path / "vectors.json"
    changed.write_text(script.render().replace("6457827717110365317", "6457827717110365316"), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["make_vectors.py", "--check"])
    assert script.main() == 0
    monkeypatch.setattr(script, "VECTORS", changed)
    assert script.main() == 1
    assert "differs" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["words", "draws32", "draws16"])
def test_draws_agree_with_the_vectors(method: str) -> None:
    assert VECTORS[method]
    for record in VECTORS[method]:
        expected = integers_of(record["values"])
        assert getattr(stream_of(record), method)(len(expected), int(record["start"])).tolist() == expected


def test_bulk_words_agree_with_the_vectors() -> None:
    for record in VECTORS["words"]:
        start = int(record["start"])
        before = min(start, 700)  # enough that NumPy's path makes the slice
        expected = integers_of(record["values"])
        after = min(2000, LAST_INDEX + 1 - start - len(expected))
        words = stream_of(record).words(before + len(expected) + after, start - before)
        assert words[before : before + len(expected)].tolist() == expected


def test_unit_values_agree_with_the_vectors() -> None:
    for record in VECTORS["unit"]:
        values = stream_of(record).unit(len(record["binary64"]), record["bits"], int(record["start"]))
        assert [value.hex() for value in values.astype(">f8").view("V8").tolist()] == record["binary64"]


def test_integers_agree_with_the_vectors_and_the_vectors_hold_redraws() -> None:
    for record in VECTORS["integers"]:
        expected = integers_of(record["values"])
        bounds = int(record["low"]), int(record["high"])
        assert stream_of(record).integers(8, *bounds, start=int(record["start"])).tolist() == expected
    assert max(max(record["redraws"]) for record in VECTORS["integers"]) >= 4


def test_permutations_agree_with_the_vectors() -> None:
    for record in VECTORS["permutation"]:
        assert stream_of(record).permutation(len(record["order"])).tolist() == record["order"]


# --- slices --------------------------------------------------------------------------------------------------


@given(streams, starts, st.integers(0, 900), st.data())
@settings(max_examples=60, deadline=None)
def test_any_slice_of_words_can_be_made_alone(
    stream: Stream, start: int, count: int, data: st.DataObject
) -> None:
    whole = stream.words(count, start)
    a = data.draw(st.integers(0, count))
    b = data.draw(st.integers(a, count))
    np.testing.assert_array_equal(whole[a:b], stream.words(b - a, start=start + a))


@given(streams, starts, st.integers(0, 130), st.integers(1, 53), st.data())
@settings(max_examples=60, deadline=None)
def test_any_slice_of_draws_can_be_made_alone(
    stream: Stream, start: int, count: int, bits: int, data: st.DataObject
) -> None:
    a = data.draw(st.integers(0, count))
    b = data.draw(st.integers(a, count))
    for draw in (stream.draws32, stream.draws16, lambda n, start: stream.unit(n, bits, start)):
        np.testing.assert_array_equal(draw(count, start)[a:b], draw(b - a, start + a))


@given(streams, starts, st.integers(0, 100), st.integers(-(2**63), 2**63 - 1), st.data())
@settings(max_examples=60, deadline=None)
def test_any_slice_of_integers_can_be_made_alone(
    stream: Stream, start: int, count: int, low: int, data: st.DataObject
) -> None:
    high = data.draw(st.integers(low + 1, 2**63))
    a = data.draw(st.integers(0, count))
    b = data.draw(st.integers(a, count))
    whole = stream.integers(count, low, high, start)
    assert all(low <= value < high for value in whole.tolist())
    np.testing.assert_array_equal(whole[a:b], stream.integers(b - a, low, high, start + a))


def test_low_parts_of_a_word_come_first() -> None:
    stream = Stream(5, "order")
    words = stream.words(3).tolist()
    assert stream.draws32(6).tolist() == [w >> shift & 0xFFFFFFFF for w in words for shift in (0, 32)]
    assert stream.draws16(12).tolist() == [w >> shift & 0xFFFF for w in words for shift in (0, 16, 32, 48)]


def test_unit_takes_the_high_bits_exactly() -> None:
    stream = Stream(5, "order")
    draws, words = stream.draws32(50).tolist(), stream.words(50).tolist()
    for bits in (1, 24, 32):
        assert stream.unit(50, bits).tolist() == [(d >> 32 - bits) / 2**bits for d in draws]
    for bits in (33, 53):
        assert stream.unit(50, bits).tolist() == [(w >> 64 - bits) / 2**bits for w in words]


def test_results_have_the_documented_dtypes_and_can_be_written_to() -> None:
    stream = Stream(5, "dtypes")
    results: list[tuple[np.ndarray[Any, Any], type]] = [
        (stream.words(3), np.uint64),
        (stream.draws32(3, 1), np.uint32),
        (stream.draws16(3, 1), np.uint16),
        (stream.unit(3, 24), np.float64),
        (stream.integers(3, 0, 9), np.int64),
        (stream.permutation(3), np.int64),
    ]
    for array, dtype in results:
        assert array.dtype == dtype and array.shape == (3,) and array.flags.writeable
        before = array.copy()
        array[:] = 0
        assert before.any()
    assert stream.words(3).any(), "writing to a result must not reach the stream"


def test_numpy_integers_serve_as_counts_starts_and_bounds() -> None:
    # Their own arithmetic would overflow int64 in both calls.
    stream, four = Stream(5, "numpy"), 4
    count: Any = np.int64(four)
    start: Any = np.int64(2**62 + 5)
    low: Any = np.int64(-(2**63))
    high: Any = np.int64(2**63 - 1)
    assert stream.words(count, start).tolist() == stream.words(four, int(start)).tolist()
    assert stream.integers(count, low, high).tolist() == stream.integers(four, int(low), int(high)).tolist()


# --- bounded integers and permutations are fair --------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 4, 8])
def test_bounded_gives_every_value_equally_often_over_all_words(width: int) -> None:
    every_word = np.arange(2**width, dtype=np.uint64)
    for span in range(1, 2**width + 1):
        values, accepted = bounded(every_word, span, width)
        counts = np.bincount(values[accepted].astype(np.int64), minlength=span)
        assert counts.tolist() == [2**width // span] * span


def test_bounded_gives_every_value_equally_often_at_twelve_bits() -> None:
    every_word = np.arange(2**12, dtype=np.uint64)
    for span in (3, 63, 64, 65, 1000, 1365, 2047, 2048, 2049, 3000, 4095, 4096):
        values, accepted = bounded(every_word, span, 12)
        counts = np.bincount(values[accepted].astype(np.int64), minlength=span)
        assert counts.tolist() == [2**12 // span] * span


@given(st.lists(seeds, min_size=1, max_size=20), st.one_of(st.integers(1, 2**34), st.integers(1, 2**64)))
@settings(max_examples=200, deadline=None)
def test_bounded_agrees_with_exact_products_at_full_width(words: list[int], span: int) -> None:
    # Includes the words on both sides of the first refusal boundaries of this span.
    edges = [-(-k * 2**64 // span) + d for k in (0, 1, span - 1) for d in (-1, 0, 1)]
    words = [*words, 0, 2**64 - 1, *(word for word in edges if 0 <= word < 2**64)]
    values, accepted = bounded(np.array(words, np.uint64), span)
    assert values.tolist() == [word * span >> 64 for word in words]
    assert accepted.tolist() == [word * span % 2**64 >= 2**64 % span for word in words]


def test_refused_integers_come_from_their_own_lane() -> None:
    # With this span nearly half of all words are refused, so long runs of redraws occur.
    stream, low, high, count = Stream(3, "redraw"), -(2**62), 2**62 + 1, 2000
    script = load_make_vectors()
    expected = [script.integer(stream.key, low, high, i) for i in range(count)]
    assert max(redraws for _, redraws in expected) >= 6
    assert stream.integers(count, low, high).tolist() == [value for value, _ in expected]


def test_integers_redraw_across_chunks() -> None:
    stream, high = Stream(4, "chunks"), 2**62 + 2**61 + 1
    whole = stream.integers(40_000, -(2**62), high)
    for start in (0, 16_384 - 3, 32_768 - 3, 39_990):
        np.testing.assert_array_equal(whole[start : start + 6], stream.integers(6, -(2**62), high, start))


@given(streams, st.integers(0, 300))
@settings(max_examples=30, deadline=None)
def test_permutation_holds_every_index_once(stream: Stream, n: int) -> None:
    assert sorted(stream.permutation(n).tolist()) == list(range(n))


# --- identity and bad input ----------------------------------------------------------------------------------


def test_streams_do_not_depend_on_what_others_drew() -> None:
    expected = Stream(9, "b").words(5).tolist()
    Stream(9, "a").words(1000)
    Stream(9, "b").words(77)
    assert Stream(9, "b").words(5).tolist() == expected
    assert Stream(9, "a").words(5).tolist() != expected
    assert Stream(8, "b").words(5).tolist() != expected


def test_key_is_an_eight_byte_digest_not_a_cut_longer_one() -> None:
    longer = hashlib.blake2b(bytes(8) + b"x").digest()[:8]
    assert stream_key(0, "x") != int.from_bytes(longer, "little")


def test_streams_compare_by_seed_and_path_and_are_frozen() -> None:
    assert Stream(1, "x") == Stream(1, "x") != Stream(1, "y")
    assert len({Stream(1, "x"), Stream(1, "x"), Stream(2, "x")}) == 2
    with pytest.raises(AttributeError):
        Stream(1, "x").seed = 2  # type: ignore[misc]


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "1", None, True])
def test_a_bad_seed_is_refused_with_its_value(seed: Any) -> None:
    with pytest.raises(UsageError, match=r"0 to 2\*\*64-1") as caught:
        Stream(seed, "x")
    assert repr(seed) in str(caught.value)


@pytest.mark.parametrize("path", [b"x", 3, None, "\ud800"])
def test_a_bad_path_is_refused(path: Any) -> None:
    with pytest.raises(UsageError, match="path"):
        Stream(0, path)


@pytest.mark.parametrize("method", ["words", "draws32", "draws16"])
@pytest.mark.parametrize(("count", "start"), [(-1, 0), (1, -1), (1, 2**63), (2, LAST_INDEX)])
def test_an_impossible_slice_is_refused(method: str, count: int, start: int) -> None:
    with pytest.raises(UsageError, match="slice"):
        getattr(Stream(0, "x"), method)(count, start)


def test_the_last_index_is_served_and_an_empty_slice_is_empty() -> None:
    stream = Stream(0, "x")
    assert stream.words(1, LAST_INDEX).shape == stream.integers(1, 0, 3, LAST_INDEX).shape == (1,)
    for start in (0, 63, 64):
        assert (
            stream.words(0, start).size == stream.draws32(0, start).size == stream.draws16(0, start).size == 0
        )
    assert stream.integers(0, 0, 3).size == stream.unit(0, 24).size == stream.permutation(0).size == 0


@pytest.mark.parametrize("bits", [0, 54, -1, 64])
def test_unit_refuses_bits_that_float64_cannot_hold(bits: int) -> None:
    with pytest.raises(UsageError, match="1 to 53 bits"):
        Stream(0, "x").unit(1, bits)


@pytest.mark.parametrize(("low", "high"), [(0, 0), (1, 0), (-(2**63) - 1, 0), (0, 2**63 + 1)])
def test_integers_refuse_an_empty_or_too_wide_range(low: int, high: int) -> None:
    with pytest.raises(UsageError, match="low < high"):
        Stream(0, "x").integers(1, low, high)


def test_a_fractional_count_is_refused() -> None:
    with pytest.raises(TypeError):
        Stream(0, "x").words(2.5)  # type: ignore[arg-type]
