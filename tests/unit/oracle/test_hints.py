"""Hints on planted patterns, and silence where there is none."""

from __future__ import annotations

import pytest
import torch
from oracle_cases import NAN, expect, judged

from gpuemu.oracle.bounds import accept
from gpuemu.oracle.hints import hint
from gpuemu.rounding import round_to

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
ROWS, COLUMNS = 6, 16


def _value(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(*(shape or (ROWS, COLUMNS)), generator=generator, dtype=torch.float64) + 0.1


def _hint(wrong: torch.Tensor, value: torch.Tensor, dtype: str = "float32", **inputs: torch.Tensor) -> str:
    """The hint for a wrong answer given in float64."""
    expected = expect(value, value.abs() * 1e-6, dtype)
    stored = round_to(wrong, dtype) if wrong.dtype == torch.float64 else wrong
    return hint(stored, expected.outputs[0], accept(expected).outputs[0], inputs)


@DTYPES
def test_zeros(dtype: str) -> None:
    value = _value()
    assert _hint(torch.zeros_like(value), value, dtype) == "every element is zero"


def test_an_input_handed_through() -> None:
    value = _value()
    x = _value().float() * 3
    assert _hint(x.clone(), value, "float32", w=torch.ones(3), x=x) == "the output equals the input 'x'"
    assert _hint(x.half(), value, "float16", x=x) == "the output equals the input 'x'"


@DTYPES
@pytest.mark.parametrize(("ratio", "text"), [(2.0, "2.000x"), (10.0, "10.000x"), (8.0, "8.000x")])
def test_a_uniform_ratio(dtype: str, ratio: float, text: str) -> None:
    value = _value()
    assert _hint(value * ratio, value, dtype) == f"every element is {text} the expected value"


def test_a_ratio_that_is_no_round_number() -> None:
    value = _value()
    assert _hint(value * 64**0.25, value) == "every element is 2.828x the expected value"
    assert _hint(value * 0.0123, value) == "every element is 0.0123x the expected value"


@DTYPES
def test_a_ratio_of_some_elements_only(dtype: str) -> None:
    """leaky_relu with a slope of 0.1 instead of 0.01: only the negative side is wrong."""
    x = _value()
    value, wrong = torch.where(x > 0, x, 0.01 * x), torch.where(x > 0, x, 0.1 * x)
    assert _hint(wrong, value, dtype).startswith("every wrong element is 10")
    assert _hint(wrong, value, dtype).endswith("x the expected value")


@DTYPES
def test_a_flipped_sign(dtype: str) -> None:
    value = _value()
    assert _hint(-value, value, dtype) == "every element is the expected value with its sign flipped"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_with_a_multiple_of_their_own(dtype: str) -> None:
    """A softmax whose denominator also sums padding."""
    x = _value()
    value = torch.softmax(x, dim=-1)
    wrong = x.exp() / (x.exp().sum(dim=-1, keepdim=True) + 7)
    sentence = _hint(wrong, value, dtype)
    assert sentence.startswith("every wrong row is the expected row times a number of its own (row 0: 0.")


@DTYPES
def test_a_constant_offset(dtype: str) -> None:
    value = _value()
    assert _hint(value + 0.5, value, dtype) == "every wrong element is the expected value +0.5"
    assert _hint(value - 3.0, value, dtype) == "every wrong element is the expected value -3"


@DTYPES
@pytest.mark.parametrize("first", [1, 10, 15])
def test_only_the_tail_of_the_columns(dtype: str, first: int) -> None:
    value = _value()
    wrong = value.clone()
    wrong[:, first:] = wrong[:, first:].flip(0) * 1.7 + 0.3
    left = COLUMNS - first
    assert _hint(wrong, value, dtype) == (
        f"wrong only from column {first} on (the last {left} of {COLUMNS} columns)"
    )


def test_the_tail_of_a_vector_and_of_a_flattened_tensor() -> None:
    vector = _value(40)
    wrong = vector.clone()
    wrong[33:] = torch.linspace(5, 9, 7)
    assert _hint(wrong, vector) == "wrong only from column 33 on (the last 7 of 40 columns)"
    value = _value()
    wrong = value.clone()
    wrong.view(-1)[70:] = torch.linspace(5, 9, ROWS * COLUMNS - 70)
    assert _hint(wrong, value) == "wrong only from element 70 on (the last 26 in row-major order)"


def test_first_and_last_rows() -> None:
    value = _value()
    noise = _value(2, COLUMNS) + 3
    for rows, sentence in (
        (slice(0, 1), "wrong only in the first row"),
        (slice(0, 2), f"wrong only in the first 2 of {ROWS} rows"),
        (slice(-1, None), "wrong only in the last row"),
        (slice(-2, None), f"wrong only in the last 2 of {ROWS} rows"),
    ):
        wrong = value.clone()
        wrong[rows] = (noise * value[rows].flip(1))[: wrong[rows].shape[0]]
        assert _hint(wrong, value) == sentence


@DTYPES
@pytest.mark.parametrize(("step", "place"), [(1, "after"), (-1, "before")])
def test_shifted_rows_and_columns(dtype: str, step: int, place: str) -> None:
    value = _value()
    rows = _hint(value.roll(step, 0), value, dtype)
    assert rows == f"rows are shifted by one: each stands one row {place} its place"
    columns = _hint(value.roll(step, 1), value, dtype)
    assert columns == f"columns are shifted by one: each stands one column {place} its place"


def test_equal_rows_are_not_taken_for_shifted_ones() -> None:
    value = _value(1, COLUMNS).expand(3, COLUMNS).clone()
    wrong = value.clone()
    wrong[0] = value[0].flip(0)
    assert _hint(wrong, value) == "wrong only in the first row"


@DTYPES
def test_a_transposed_result(dtype: str) -> None:
    square, batch = _value(5, 5), _value(3, 4, 4)
    assert _hint(square.t().contiguous(), square, dtype) == "the output is the expected one transposed"
    transposed = batch.transpose(1, 2).contiguous()
    assert _hint(transposed, batch, dtype) == "the output is the expected one transposed"


def test_only_non_finite_elements() -> None:
    value = _value()
    wrong = value.clone()
    wrong[1, 3], wrong[2, 2], wrong[4, 4] = NAN, NAN, float("inf")
    assert _hint(wrong, value) == "only non-finite elements are wrong (2 NaN and 1 infinite)"
    wrong[0, 0] += 5
    assert "non-finite" not in _hint(wrong, value)


def test_whole_rows() -> None:
    value = _value(9, 5)
    wrong = value.clone()
    wrong[[2, 5]] = value[[5, 2]].flip(1) + _value(2, 5)
    assert _hint(wrong, value) == "whole rows are wrong (2 of 9, the first is row 2); the others are right"


def test_elements_left_at_zero() -> None:
    value = _value()
    wrong = value.clone()
    wrong[::2, ::3] = 0
    assert _hint(wrong, value) == "every wrong element is zero"


@DTYPES
def test_no_pattern_no_hint(dtype: str) -> None:
    value = _value()
    generator = torch.Generator().manual_seed(9)
    noise = value + torch.randn(value.shape, generator=generator, dtype=torch.float64)
    assert _hint(noise, value, dtype) == ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_single_roundings_are_not_taken_for_a_ratio_or_an_offset(dtype: str) -> None:
    """Wrong in the last place only: every ratio is near 1, which names nothing."""
    value = _value()
    stored = round_to(value, dtype)
    integer = stored.view(torch.int16)
    wrong = (integer + 1).view(stored.dtype)
    assert _hint(wrong, value, dtype) == ""


@pytest.mark.parametrize("at", [(3, 5), (0, 0), (0, -1), (-1, 0), (-1, -1)])
def test_a_single_wrong_element_names_nothing(at: tuple[int, int]) -> None:
    value = _value()
    wrong = value.clone()
    wrong[at] += 1
    assert _hint(wrong, value) == ""


def test_ratios_beyond_float64_do_not_trip() -> None:
    value = torch.full((4, 4), 1e-300, dtype=torch.float64)
    assert "offset" not in _hint(torch.full((4, 4), 1e38, dtype=torch.float64), value)


def test_a_right_output_has_no_hint() -> None:
    assert _hint(_value(), _value()) == ""


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 1), (1, 2), (3, 1, 2)])
def test_small_shapes_do_not_trip(shape: tuple[int, ...]) -> None:
    value = torch.ones(shape, dtype=torch.float64)
    for wrong in (value * 2, value * NAN, value * 0, -value):
        assert isinstance(_hint(wrong, value), str)


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8", "float8_e5m2"])
def test_other_dtypes_do_not_trip(dtype: str) -> None:
    stored = getattr(torch, dtype)
    value = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1]])
    value = value.double() if stored.is_floating_point else value.to(stored)
    wrong = (1 - value.double()).to(stored)
    verdict = judged(wrong, expect(value, 0.0, dtype))
    assert verdict.kind == "value"
    tripled = judged((value.double() * 3).to(torch.int32), expect(value.to(torch.int32), 0.0, "int32"))
    assert tripled.hint == "every element is 3.000x the expected value"


def test_the_judge_hands_the_hint_on() -> None:
    value = _value()
    expected = expect(value, value.abs() * 1e-6)
    assert judged((value * 2).float(), expected).hint == "every element is 2.000x the expected value"
    x = (value * 3).float()
    assert judged(x.clone(), expected, x=x).hint == "the output equals the input 'x'"


def test_a_transposed_output_is_read_in_row_major_order() -> None:
    """A candidate may return any strides; the tail is still that of the elements."""
    value = _value()
    wrong = value.clone()
    wrong[4, 5:], wrong[5:] = 1e3, -1e3
    strided = wrong.t().contiguous().t()
    assert _hint(strided, value) == _hint(wrong, value)
    assert "wrong only from element" in _hint(strided, value)
