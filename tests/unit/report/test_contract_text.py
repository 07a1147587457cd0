"""A contract in plain words."""

from __future__ import annotations

import math

import pytest

from gpuemu.model.contract import Contract
from gpuemu.report.contract_text import contract_rows


def test_every_promise_but_the_profile_has_a_line() -> None:
    named = [name for name, _ in contract_rows(Contract().to_json())]
    assert set(named) == set(vars(Contract())) - {"profile", "profile_reason"}


@pytest.mark.parametrize(
    ("contract", "name", "words"),
    [
        (Contract(accumulate="float16"), "accumulate", "float16"),
        (Contract(nan="propagate"), "nan", "is a failure"),
        (Contract(nan="ignore"), "nan", "may be swallowed"),
        (Contract(nan="forbid"), "nan", "every NaN that the kernel returns is a failure"),
        (Contract(masked_value=0), "masked_value", "fully masked row), 0 is due"),
        (Contract(masked_value=-math.inf), "masked_value", "-inf is due"),
        (Contract(infinity="saturate"), "infinity", "largest finite number"),
        (Contract(signed_zero=True), "signed_zero", "sign counts"),
        (Contract(stable=True), "stable", "the first is selected"),
        (Contract(mutates=("x", "y")), "mutates", "x and y may be overwritten"),
        (Contract(aliases=("x",)), "aliases", "share the memory of x, unwritten"),
        (Contract(layouts=("contiguous", "offset")), "layouts", "these layouts: contiguous, offset"),
        (Contract(empty=True), "empty", "are answered"),
        (
            Contract(deterministic=False),
            "deterministic",
            "differ by twice the bound, on exact inputs not at all",
        ),
        (
            Contract(batch_invariant=("B",)),
            "batch_invariant",
            "a slice along B, run alone, gives the same bits",
        ),
    ],
)
def test_a_promise_changes_its_line_and_no_other(contract: Contract, name: str, words: str) -> None:
    rows, plain = dict(contract_rows(contract.to_json())), dict(contract_rows(Contract().to_json()))
    assert words in rows[name]
    assert {key for key in rows if rows[key] != plain[key]} == {name}


def test_a_record_of_fewer_promises_is_told_as_far_as_it_goes() -> None:
    assert [name for name, _ in contract_rows({"nan": "report", "empty": False})] == ["nan", "empty"]
    assert contract_rows({}) == []
