"""Acceptance intervals against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle_cases import INF, NAN, expect, f64, inside
from rounding_truth import FORMATS, Format

from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.oracle.bounds import CHUNK_ELEMENTS, accept, convicting, widen

by_name = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


STEPS = [0, 1, -1, 3, -3, 1 << 20, -(1 << 20), 1 << 40, -(1 << 40)]  # float64 ulp off an end of the interval
BOUNDS = [0.0, 1e-12, 2.0**-25, 1e-3, 0.25, 0.5, 1.0, 7.3]  # in units of the format's spacing


def _ordinals(form: Format) -> st.SearchStrategy[int]:
    """Positions of stored values, with emphasis on zero, subnormals, powers of two and the largest."""
    top = form.largest + form.infinite
    powers = [e << form.mantissa_bits for e in range(2**form.exponent_bits)]
    near = {n + step for n in (0, 1, top, *powers) for step in (-2, -1, 0, 1, 2)}
    special = st.sampled_from(sorted(n for n in near if abs(n) <= top))
    return st.one_of(special, special.map(lambda n: -n), st.integers(-top, top))


def _elements(form: Format, ordinal: int) -> list[tuple[float, float]]:
    """Expected values around the ends and the middle of a rounding interval, each with every bound.

    The last ones are just within and just beyond the bound from either end.
    """
    anchors = [end for end in (*form.interval(ordinal), form.value(ordinal)) if end is not None]
    spacing = float(form.value(abs(ordinal) + 1) - form.value(abs(ordinal)))
    expected = [float(anchor) + step * math.ulp(float(anchor)) for anchor in anchors for step in STEPS]
    around = [(r, bound * spacing) for r in expected for bound in BOUNDS]
    edges = [
        (float(anchor) + side * bound * spacing * factor, bound * spacing)
        for anchor in anchors[:2]
        for side in (1, -1)
        for bound in BOUNDS
        for factor in (1 - 2.0**-20, 1 + 2.0**-20)
    ]
    return around + edges


@by_name
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_value_is_accepted_exactly_when_its_rounding_interval_meets_the_bound(
    form: Format, data: st.DataObject
) -> None:
    ordinal = data.draw(_ordinals(form))
    elements = _elements(form, ordinal)
    expected = expect(*(f64(*column) for column in zip(*elements, strict=True)), form.name)
    accepted = inside(form.tensor([ordinal] * len(elements)), expected)
    for (r, bound), answer in zip(elements, accepted, strict=True):
        residual = form.residual(ordinal, Fraction(r))
        # float64 cannot represent r - bound exactly; a non-zero bound is widened by that much, and no more.
        slack = Fraction(2) ** -49 * (abs(Fraction(r)) + Fraction(bound)) if bound else 0
        if residual <= Fraction(bound):
            assert answer, (ordinal, r, bound)
        elif residual > Fraction(bound) + slack:
            assert not answer, (ordinal, r, bound)


@by_name
def test_both_neighbours_of_an_exact_tie_are_accepted_and_no_others(form: Format) -> None:
    ordinal = 3 << form.mantissa_bits
    tie = (form.value(ordinal) + form.value(ordinal + 1)) / 2
    for sign in (1, -1):
        around = form.tensor([sign * (ordinal + step) for step in (-1, 0, 1, 2)])
        expected = expect(f64(*[sign * float(tie)] * 4), 0.0, form.name)
        assert inside(around, expected) == [False, True, True, False]


@by_name
def test_one_float64_step_off_a_tie_with_a_bound_of_zero_accepts_one_neighbour_only(form: Format) -> None:
    ordinal = 3 << form.mantissa_bits
    tie = float((form.value(ordinal) + form.value(ordinal + 1)) / 2)
    around = form.tensor([ordinal, ordinal + 1])
    below, above = math.nextafter(tie, 0.0), math.nextafter(tie, INF)
    assert inside(around, expect(f64(below, below), 0.0, form.name)) == [True, False]
    assert inside(around, expect(f64(above, above), 0.0, form.name)) == [False, True]


@by_name
def test_an_exact_element_stays_exact_beside_bounded_ones(form: Format) -> None:
    one = 1.0
    ordinal = form.bias << form.mantissa_bits
    assert form.value(ordinal) == 1
    stored = form.tensor([ordinal + 1, ordinal + 1])
    ulp = float(form.value(ordinal + 1)) - one
    assert inside(stored, expect(f64(one, one), f64(0.0, ulp), form.name)) == [False, True]


@pytest.mark.parametrize("form", [f for f in FORMATS if f.infinite], ids=lambda f: f.name)
def test_infinity_owns_everything_from_half_an_ulp_above_the_largest_number(form: Format) -> None:
    threshold = float((form.value(form.largest) + form.value(form.largest + 1)) / 2)
    both = form.tensor([form.largest, form.largest + 1])
    for r, answer in (
        (threshold, [True, True]),
        (math.nextafter(threshold, 0.0), [True, False]),
        (math.nextafter(threshold, INF), [False, True]),
        (threshold * 4, [False, True]),
    ):
        assert inside(both, expect(f64(r, r), 0.0, form.name)) == answer


def test_a_format_without_infinity_saturates() -> None:
    stored = torch.tensor([448.0, 416.0]).to(torch.float8_e4m3fn)
    assert inside(stored, expect(f64(1e6, 1e6), 0.0, "float8_e4m3fn")) == [True, False]
    assert inside(stored, expect(f64(INF, INF), 0.0, "float8_e4m3fn")) == [True, False]
    assert inside(stored, expect(f64(-INF, -INF), 0.0, "float8_e4m3fn")) == [False, False]


def test_float64_outputs_are_exact_where_the_bound_is_zero_and_within_it_elsewhere() -> None:
    up = math.nextafter(1.0, 2.0)
    actual = f64(1.0, up, 1.25, 1.5)
    assert inside(actual, expect(f64(1, 1, 1, 1), f64(0, 0, 0.25, 0.25), "float64")) == [
        True,
        False,
        True,
        False,
    ]


@example(values=[-128, 127, 0], reach=3.0)
@given(values=st.lists(st.integers(-128, 127), min_size=1, max_size=8), reach=st.floats(0, 300))
@settings(max_examples=40, deadline=None)
def test_integers_are_accepted_within_their_bound_without_wrapping(values: list[int], reach: float) -> None:
    value = torch.tensor(values, dtype=torch.int8)
    everything = torch.arange(-128, 128).to(torch.int8)
    for element in value:
        expected = expect(element.expand(256), reach, "int8")
        truth = [abs(int(y) - int(element)) <= reach for y in everything]
        assert inside(everything, expected) == truth


def test_the_widest_integers_do_not_overflow() -> None:
    ends = torch.tensor([-(2**63), 2**63 - 1, 0], dtype=torch.int64)
    assert inside(ends, expect(ends, 5.0, "int64")) == [True, True, True]
    assert inside(ends.roll(1), expect(ends, 1e300, "int64")) == [True, True, True]
    assert inside(ends.roll(1), expect(ends, 0.0, "int64")) == [False, False, False]


def test_bools_must_be_equal_unless_ambiguous() -> None:
    value = torch.tensor([True, True, False, False])
    bound = f64(0, 1, 0, 1)
    assert inside(~value, expect(value, bound, "bool")) == [False, True, False, True]
    assert inside(value, expect(value, bound, "bool")) == [True] * 4


def test_pieces_of_a_large_tensor_are_treated_as_a_small_one() -> None:
    generator = torch.Generator().manual_seed(1)
    size = 2 * CHUNK_ELEMENTS + 17
    value = torch.randn(size, generator=generator, dtype=torch.float64)
    bound = value.abs() * 1e-6
    bound[3 * size // 4 :] = 0
    value[-1], bound[-2] = INF, INF
    whole = accept(expect(value.view(-1, 1), bound.view(-1, 1), "float16")).outputs[0]
    for start in (0, CHUNK_ELEMENTS - 5, size - 40):
        part = slice(start, start + 40)
        small = accept(expect(value[part], bound[part], "float16")).outputs[0]
        for name in ("lower", "upper", "rounded"):
            assert torch.equal(
                getattr(whole, name)[part].view(-1),
                getattr(small, name),
            ), name
    assert whole.lower.shape == (size, 1)
    assert whole.judged == size - 1


def test_masks_are_absent_where_everything_is_finite() -> None:
    output = accept(expect(f64(1, 2), 0.1)).outputs[0]
    assert output.masks is None
    assert output.judged == output.elements == 2


def test_a_non_contiguous_expected_value_keeps_its_positions() -> None:
    value = torch.arange(6, dtype=torch.float64).view(2, 3).t()
    accepted = accept(expect(value, torch.zeros(3, 2, dtype=torch.float64))).outputs[0]
    assert torch.equal(accepted.rounded, value.float())


# --- widen (ORACLE.md section 12.7) ---------------------------------------------------------------------------


def _with_bound(expected: Expected, bound: torch.Tensor) -> Expected:
    output = expected.outputs[0]
    return Expected((ExpectedOutput(output.value, bound, output.dtype),), "P0")


def test_the_references_own_error_is_added_to_the_bound() -> None:
    expected = expect(f64(1.0, 1.0), f64(1e-6, 0.0))
    widened = widen(expected, _with_bound(expected, f64(1e-12, 1e-12))).outputs[0]
    assert widened.bound.tolist() == [1e-6 + 1e-12, 1e-12]


def test_where_the_reference_lost_too_much_nothing_is_judged() -> None:
    """The limit is 2^-10 (delta + half an ulp): half an ulp of float32 at 1 is 2^-24."""
    expected = expect(f64(1.0, 1.0, 1.0, 1.0), f64(0.0, 0.0, 1.0, 1.0))
    limit = 2.0**-10
    own = f64(limit * 2.0**-24, limit * 2.0**-24 * 1.01, limit, limit * 1.01)
    assert widen(expected, _with_bound(expected, own)).outputs[0].bound.tolist() == [
        own[0],
        INF,
        1.0 + limit,
        INF,
    ]
    unknown = _with_bound(expected, f64(NAN, INF, 0.0, 0.0))
    assert widen(expected, unknown).outputs[0].bound.tolist() == [INF, INF, 1.0, 1.0]


def test_widening_leaves_nan_elements_and_error_free_references_alone() -> None:
    expected = expect(f64(NAN, 1.0), 0.0)
    assert widen(expected, expected).outputs[0] is expected.outputs[0]
    assert widen(expected, _with_bound(expected, f64(1.0, 1e-30))).outputs[0].bound.tolist() == [0.0, 1e-30]


def test_widening_integers_counts_half_a_unit_as_half_an_ulp() -> None:
    expected = expect(torch.tensor([7, 7]), f64(0.0, 1.0), "int32")
    assert widen(expected, _with_bound(expected, f64(0.0, 1.0))).outputs[0].bound.tolist() == [0.0, INF]


def test_a_reference_that_fails_in_either_evaluation_is_a_problem() -> None:
    good, bad = expect(f64(1.0)), Expected((), "P0", problem="ZeroDivisionError: division by zero")
    assert widen(bad, good).problem == bad.problem
    assert widen(good, bad).problem == bad.problem


def test_a_generic_bound_convicts_only_beyond_its_coarse_form() -> None:
    known, generic = expect(f64(1.0, 2.0), 1e-6), expect(f64(1.0, 2.0), 1e-6, generic=("aten.conv2d",))
    assert convicting(known, accept(known)).outputs[0].upper[0] < 1.0 + 1e-5
    assert convicting(generic, accept(generic)).outputs[0].upper[0] == pytest.approx(1.02)  # 1 % of the row
