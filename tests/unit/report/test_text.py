"""Words and numbers of the terminal report."""

from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.report.text import clean, count, format_decimal, format_hex, join_words, make_line


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_hexadecimal_is_exact(value: float) -> None:
    restored = float.fromhex(format_hex(value))
    assert math.copysign(1, restored) == math.copysign(1, value)
    assert restored == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.25, "0x1.4p+0"), (1.0, "0x1p+0"), (0.0, "0x0p+0"), (-0.0, "-0x0p+0"), (16.0, "0x1p+4")],
)
def test_hexadecimal_has_no_idle_zeros(value: float, text: str) -> None:
    assert format_hex(value) == text


def test_non_finite_numbers_have_no_hexadecimal() -> None:
    assert [format_hex(v) for v in (math.nan, math.inf, -math.inf)] == ["", "", ""]


@given(st.floats(width=32, allow_nan=False))
def test_decimal_tells_any_two_float32_apart(value: float) -> None:
    assert numpy.float32(format_decimal(value)) == numpy.float32(value)


def test_escape_sequences_of_a_candidate_do_not_reach_the_terminal() -> None:
    assert clean("a\x1b[2Jb\r\n\x07c\u202e") == "a\ufffd[2Jb\ufffd \ufffdc\ufffd"
    assert "\x1b" not in make_line(("x\x1b]0;title\x07", "bold")).plain


def test_words() -> None:
    assert join_words(("a",)) == "a"
    assert join_words(("a", "b")) == "a and b"
    assert join_words(["a", "b", "c"]) == "a, b and c"
    assert (count(1, "case"), count(0, "case")) == ("1 case", "0 cases")
