"""The safe evaluator against Python's own arithmetic, and what it must refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.errors import OpDefinitionError
from gpuemu.model.expression import evaluate, evaluate_number, names

DIMS = {"N": 12, "G": 5, "D": 3}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("2*D", 6),
        ("N//G", 2),
        ("N % G", 2),
        ("-D + N", 9),
        ("N % D == 0", 1),
        ("N > G and G > D", 1),
        ("N < G or D == 4", 0),
        ("1 <= D <= 3", 1),
        ("1 <= D < 3", 0),
        ("max(N, G, 40) - min(D, 2)", 38),
    ],
)
def test_evaluate_gives_the_value(text: str, value: int) -> None:
    assert evaluate(text, DIMS) == value


@given(a=st.integers(0, 99), b=st.integers(1, 99), c=st.integers(-9, 9))
def test_precedence_is_pythons(a: int, b: int, c: int) -> None:
    assert evaluate("a + b*c - a//b % b", {"a": a, "b": b, "c": c}) == a + b * c - a // b % b


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "N.real",
        "N[0]",
        "lambda: 1",
        "2**N",
        "'a'",
        "1.5",
        "True",
        "f(N)",
        "min(N, key=D)",
        "N +",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(OpDefinitionError):
        evaluate(text, DIMS)


def test_unknown_name_and_zero_division_say_what() -> None:
    with pytest.raises(OpDefinitionError, match="'Q'"):
        evaluate("Q + 1", DIMS)
    with pytest.raises(OpDefinitionError, match="divides by zero"):
        evaluate("N // (D - 3)", DIMS)


def test_names_lists_dims_without_functions() -> None:
    assert names("max(N, 2*G) - 1") == {"N", "G"}


def test_parameters_need_not_be_integers() -> None:
    assert evaluate_number("1 - p", {"p": 0.25}) == 0.75
    assert evaluate_number("p * N", {"p": 0.5, "N": 6}) == 3.0
    with pytest.raises(OpDefinitionError, match="'p'"):
        evaluate_number("1 - p", {})
