"""Every document becomes JSON that a strict parser reads."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.model.verdict import Status
from gpuemu.report.json_text import dump
from report_builders import make_record, make_report

WORDS = st.text('a"\\\n\u0000\u00e9\U0001f600', max_size=4)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
DOCUMENTS = st.dictionaries(
    WORDS,
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=8,
    ),
)


def refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


@settings(max_examples=30)
@given(DOCUMENTS)
def test_finite_documents_round_trip(document: dict[str, Any]) -> None:
    assert json.loads(dump(document), parse_constant=refuse) == document


def test_non_finite_numbers_become_strings_at_any_depth() -> None:
    text = dump({"a": [math.nan, {"b": (math.inf, -math.inf)}], "c": -0.0})
    assert json.loads(text, parse_constant=refuse) == {"a": ["nan", {"b": ["inf", "-inf"]}], "c": 0.0}
    assert "-0.0" in text


def test_key_order_is_kept() -> None:
    assert list(json.loads(dump({"z": 1, "a": 2}))) == ["z", "a"]


def test_status_is_written_as_its_word() -> None:
    assert json.loads(dump({"status": Status.PASS})) == {"status": "pass"}


@pytest.mark.parametrize("document", [{1: "a"}, {"a": {None: 1}}, {"a": object()}, {"a": {1, 2}}])
def test_what_json_cannot_hold_is_rejected(document: Any) -> None:
    with pytest.raises(TypeError):
        dump(document)


def test_a_whole_report_with_nan_is_json() -> None:
    worst = make_record(0, Status.FAIL).verdict.worst
    assert worst is not None
    broken = type(worst)(0, (1,), math.nan, 1.0, 0.1, math.inf, math.inf)
    report = make_report(Status.FAIL, (make_record(0, Status.FAIL, worst=broken),))
    document = json.loads(dump(report.to_json()), parse_constant=refuse)
    assert document["records"][0]["verdict"]["worst"]["actual"] == "nan"
    assert document["run"]["seed"] == str(2**64 - 1)


def test_no_control_reaches_a_terminal() -> None:
    text = "".join(map(chr, range(0x100))) + "\\u0080 \u20ac"
    dumped = dump({text: text})
    assert [letter for letter in dumped if not letter.isprintable() and letter not in "\n\xa0\xad"] == []
    assert json.loads(dumped) == {text: text}
