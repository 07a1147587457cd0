"""The value classes against the rational numbers that their definitions give for the same random words."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.inputs import value_classes
from gpuemu.inputs.adversarial import ADVERSARIAL_GENERATORS
from gpuemu.inputs.exact import EXACT
from gpuemu.inputs.random import Stream
from gpuemu.inputs.value_classes import VALUE_CLASS_GENERATORS, Streams
from gpuemu.model.value_class import VALUE_CLASSES

COUNT = 1 << 16
ELEMENTWISE = ("uniform", "bell", "offset", "negative", "log_uniform", "small_integers", "all_equal")
seeds = st.integers(0, 2**64 - 1)
names = st.sampled_from(sorted(VALUE_CLASS_GENERATORS))
shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)


def streams_of(seed: int) -> Streams:
    return lambda part: Stream(seed, f"x/{part}")


def generate(name: str, shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[np.float64]:
    chunks = list(VALUE_CLASS_GENERATORS[name](streams_of(seed), shape))
    return np.concatenate([np.empty(0), *chunks]).reshape(shape)


def test_every_value_class_of_the_model_has_a_generator() -> None:
    generators = VALUE_CLASS_GENERATORS.keys() | ADVERSARIAL_GENERATORS.keys() | {EXACT}
    assert generators == VALUE_CLASSES.keys()


# --- exact values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "centre"), [("bell", 0), ("offset", 100), ("negative", -50)])
@given(seed=seeds)
@settings(max_examples=20)
def test_bell_is_twice_the_centred_sum_of_three_uniforms(name: str, centre: int, seed: int) -> None:
    mean = 2 * (Fraction(2**32 - 1, 2) / 2**32 + 2 * Fraction(2**16 - 1, 2) / 2**16)
    for word, value in zip(Stream(seed, "x/values").words(70), generate(name, (70,), seed), strict=True):
        low_half = int(word) % 2**32
        a, b, c = (
            Fraction(int(word) >> 32, 2**32),
            Fraction(low_half >> 16, 2**16),
            Fraction(low_half % 2**16, 2**16),
        )
        assert Fraction(float(value)) == centre + 2 * (a + b + c) - mean


@given(seed=seeds)
@settings(max_examples=20)
def test_uniform_is_an_exact_affine_map_of_a_draw(seed: int) -> None:
    draws = Stream(seed, "x/values").draws32(70)
    for draw, value in zip(draws, generate("uniform", (70,), seed), strict=True):
        assert Fraction(float(value)) == -10 + 20 * Fraction(int(draw), 2**32)


@given(seed=seeds)
@settings(max_examples=20)
def test_log_uniform_has_random_sign_exponent_and_significand(seed: int) -> None:
    draws = Stream(seed, "x/values").draws32(70)
    exponents = Stream(seed, "x/exponents").integers(70, -16 + 1023, 8 + 1023) - 1023
    values = generate("log_uniform", (70,), seed)
    for draw, exponent, value in zip(draws, exponents, values, strict=True):
        significand = 1 + Fraction(int(draw) % 2**31, 2**31)
        sign = -1 if draw >> 31 else 1
        assert Fraction(float(value)) == sign * significand * Fraction(2) ** int(exponent)


@pytest.mark.parametrize("low_word", [0, 2**64 - 1, 2**32 - 1, 0xFFFF0000, 0xFFFF])
def test_bell_is_exact_at_the_ends_of_its_range(low_word: int) -> None:
    class Constant:
        def words(self, count: int, start: int) -> npt.NDArray[np.uint64]:
            return np.full(count, low_word, np.uint64)

    (values,) = value_classes.bell(lambda part: Constant(), (1,))  # type: ignore[arg-type, return-value]
    total = (low_word >> 32) + ((low_word >> 16) % 2**16 + low_word % 2**16) * 2**16
    assert Fraction(float(values[0])) == Fraction(2 * total - (3 * 2**32 - 2**17 - 1), 2**32)
    assert abs(values[0]) < 3


def test_the_bells_variance_is_one_but_for_the_granularity() -> None:
    # Var of k/n, k uniform on 0 .. n-1, is (n^2 - 1) / (12 n^2).
    variance = sum(4 * Fraction(n**2 - 1, 12 * n**2) for n in (2**32, 2**16, 2**16))
    assert variance == 1 - (Fraction(1, 2**31) + Fraction(1, 2**64)) / 3


# --- distributions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "low", "high", "mean", "variance"),
    [
        ("uniform", -10, 10, 0, 400 / 12),
        ("bell", -3, 3, 0, 1),
        ("offset", 97, 103, 100, 1),
        ("negative", -53, -47, -50, 1),
        ("small_integers", -2, 3, 0, 2),
        # E(s^2) = 7/3 for s uniform in [1, 2); E(4^e) over e = -16 .. 7 is (4^8 - 4^-16) / (3 * 24).
        ("log_uniform", -256, 256, 0, 7 / 3 * (4.0**8 - 4.0**-16) / 72),
    ],
)
def test_bounds_mean_and_variance(name: str, low: float, high: float, mean: float, variance: float) -> None:
    values = generate(name, (COUNT,), seed=11)
    assert (values >= low).all() and (values < high).all()
    deviations = (values - mean) ** 2
    assert abs(values.mean() - mean) < 5 * math.sqrt(variance / COUNT)
    assert abs(deviations.mean() - variance) < 5 * deviations.std() / math.sqrt(COUNT)


def test_bell_has_the_fourth_moment_of_three_uniforms() -> None:
    # A sum of three independent uniforms of variance 1 has the kurtosis 3 - (6/5) / 3 = 2.6 (cumulants add).
    fourth = generate("bell", (COUNT,), seed=12) ** 4
    assert abs(fourth.mean() - 2.6) < 5 * fourth.std() / math.sqrt(COUNT)


def test_small_integers_are_equally_likely() -> None:
    counts = Counter(generate("small_integers", (COUNT,)).tolist())
    assert counts.keys() == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert all(abs(count - COUNT / 5) < 5 * math.sqrt(COUNT * 0.2 * 0.8) for count in counts.values())


def test_log_uniform_uses_every_exponent_and_both_signs_equally() -> None:
    values = generate("log_uniform", (COUNT,))
    exponents = Counter((np.frexp(values)[1] - 1).tolist())
    assert exponents.keys() == set(range(-16, 8))
    assert all(abs(count - COUNT / 24) < 5 * math.sqrt(COUNT / 24) for count in exponents.values())
    assert abs((values < 0).sum() - COUNT / 2) < 5 * math.sqrt(COUNT / 4)


def test_random_values_fill_float32s_significand() -> None:
    for name in ("uniform", "bell", "offset", "negative", "log_uniform", "impulse", "all_equal"):
        values = np.array([generate(name, (1,), seed).item() for seed in range(200)]).astype(np.float32)
        last_bits = values.view(np.uint32) & 1
        assert 60 < last_bits.sum() < 140, name


# --- classes by rows -----------------------------------------------------------------------------------------


def test_impulse_has_one_value_a_row_at_every_column() -> None:
    values = generate("impulse", (COUNT // 8, 8))
    rows, columns = np.nonzero(values)
    assert (rows == np.arange(COUNT // 8)).all()
    assert all(
        abs(count - COUNT / 64) < 5 * math.sqrt(COUNT / 64) for count in np.bincount(columns, minlength=8)
    )
    magnitudes = np.abs(values[rows, columns])
    assert magnitudes.min() >= 0.25 and magnitudes.max() < 3.25
    assert abs((values.sum(axis=1) > 0).mean() - 0.5) < 0.05


@given(seed=seeds)
def test_all_equal_repeats_one_value_away_from_zero(seed: int) -> None:
    values = generate("all_equal", (3, 5), seed)
    assert len(set(values.ravel().tolist())) == 1
    assert 0.25 <= abs(values[0, 0]) < 3.25


def test_sparse_nonfinite_spoils_a_quarter_of_the_rows_once_each() -> None:
    values = generate("sparse_nonfinite", (COUNT // 4, 4))
    rows, columns = np.nonzero(~np.isfinite(values))
    assert np.unique(rows).size == rows.size
    assert abs(rows.size - COUNT / 16) < 5 * math.sqrt(COUNT / 16 * 0.75)
    third = rows.size / 3
    found = values[rows, columns]
    for count in ((np.isnan(found)).sum(), (found == math.inf).sum(), (found == -math.inf).sum()):
        assert abs(count - third) < 5 * math.sqrt(third * 2 / 3)
    assert all(abs(n - rows.size / 4) < 5 * math.sqrt(rows.size / 4) for n in np.bincount(columns, minlength=4))


def test_sparse_nonfinite_leaves_the_bell_values_elsewhere() -> None:
    values, bell = generate("sparse_nonfinite", (50, 7), seed=3), generate("bell", (50, 7), seed=3)
    finite = np.isfinite(values)
    assert 0 < (~finite).sum() <= 50
    assert (values[finite] == bell[finite]).all()


@pytest.mark.parametrize("shape", [(), (1,), (6,), (2, 3), (3, 1, 2)])
def test_sparse_nonfinite_always_has_a_special_and_not_always_the_same(shape: tuple[int, ...]) -> None:
    found = Counter()
    for seed in range(120):
        values = generate("sparse_nonfinite", shape, seed).ravel()
        special = np.flatnonzero(~np.isfinite(values))
        assert special.size >= 1
        found.update((int(place), str(values[place])) for place in special)
    # Every place can get every kind.
    assert len(found) == 3 * max(math.prod(shape), 1)


# --- what holds for all of them ------------------------------------------------------------------------------


@given(name=names, shape=shapes, seed=seeds)
def test_a_generator_yields_the_shapes_elements_within_float16(
    name: str, shape: tuple[int, ...], seed: int
) -> None:
    values = generate(name, shape, seed)
    assert values.dtype == np.float64
    assert values.shape == shape
    assert (np.abs(values[np.isfinite(values)]) <= 256).all()


@pytest.mark.parametrize("name", sorted(VALUE_CLASS_GENERATORS))
def test_chunks_and_blocks_do_not_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate(name, (40, 25), seed=9)
    monkeypatch.setattr(value_classes, "_BLOCK", 192)
    monkeypatch.setattr(value_classes, "_CHUNK", 50)
    assert whole.tobytes() == generate(name, (40, 25), seed=9).tobytes()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_longer_tensor_starts_with_the_shorter_ones_elements(name: str) -> None:
    assert (generate(name, (300,), seed=4)[:100] == generate(name, (100,), seed=4)).all()


def test_ones_are_ones_whatever_the_seed() -> None:
    assert (generate("ones", (3, 5), seed=1) == 1).all() and generate("ones", (0, 5)).size == 0


@given(name=names.filter(lambda name: name != "ones"))
def test_another_seed_gives_other_values(name: str) -> None:
    assert generate(name, (8, 8), 1).tobytes() != generate(name, (8, 8), 2).tobytes()


@given(low=st.integers(-1000, 1000), width=st.integers(1, 1000), seed=seeds)
@settings(max_examples=30)
def test_between_is_exact_for_integer_bounds(low: int, width: int, seed: int) -> None:
    (values,) = value_classes.between(streams_of(seed), (20,), low, low + width)
    for draw, value in zip(Stream(seed, "x/values").draws32(20), values, strict=True):
        assert Fraction(float(value)) == low + width * Fraction(int(draw), 2**32)
