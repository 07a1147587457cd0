"""Contracts: sound defaults, contradictions refused in one line, everything in the record."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from gpuemu.errors import GpuemuError, OpDefinitionError
from gpuemu.model.contract import Contract


def test_the_defaults_are_the_sound_ones() -> None:
    contract = Contract()
    assert (contract.nan, contract.masked_value, contract.infinity) == ("report", None, "exact")
    assert contract.deterministic
    assert not (contract.signed_zero or contract.stable or contract.empty)
    assert (contract.mutates, contract.aliases, contract.batch_invariant, contract.layouts) == (
        (),
        (),
        (),
        None,
    )
    assert contract.accumulate == "float32"
    assert [contract.profile_for(dtype) for dtype in ("float32", "float16", "bfloat16")] == ["P0", "P1", "P1"]


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"nan": "keep"}, "nan='keep'.*propagate, ignore or forbid"),
        ({"infinity": "clamp"}, "infinity='clamp'.*exact or saturate"),
        ({"accumulate": "int8"}, "accumulate='int8'.*int32 or int64"),
        ({"layouts": ("diagonal",)}, r"names \['diagonal'\]; known: contiguous"),
        ({"layouts": ()}, "accepts no input"),
        ({"masked_value": math.nan}, "masked_value=nan.*use None"),
        ({"masked_value": True}, "masked_value=True.*a number"),
        ({"masked_value": "zero"}, "masked_value='zero'.*a number"),
        ({"mutates": "x"}, r"mutates='x'.*tuple of names, \('x',\)"),
        ({"batch_invariant": "B"}, "batch_invariant='B'.*tuple"),
        ({"aliases": ("x", "x")}, "aliases.*twice"),
        ({"mutates": ("x", "y"), "aliases": ("y",)}, r"\['y'\] stand in mutates and in aliases.*keep one"),
        ({"batch_invariant": ("B",), "deterministic": False}, "two calls may differ; drop one"),
        ({"profile": "P2", "accumulate": "float64"}, "profile='P2', accumulate='float64'.*drop one"),
        ({"profile": {"float16": "P8"}, "accumulate": "float64"}, "profile='P8'"),
    ],
)
def test_contradictions_are_refused_in_one_line(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(OpDefinitionError, match=match) as raised:
        Contract(**fields)
    assert "\n" not in str(raised.value)


def test_an_unknown_accumulator_is_refused() -> None:
    with pytest.raises(GpuemuError, match="float31"):
        Contract(accumulate="float31")


@pytest.mark.parametrize(
    "fields",
    [
        {"masked_value": 0, "nan": "propagate"},
        {"masked_value": -math.inf, "nan": "forbid"},
        {"mutates": ("x",), "aliases": ("y",)},
        {"profile": "P2", "accumulate": "float16"},
        {"profile": "PT", "accumulate": "float64"},
        {"batch_invariant": ("B", "S")},
        {"accumulate": "int32"},
    ],
)
def test_promises_that_can_be_kept_together_are_accepted(fields: dict[str, Any]) -> None:
    document = Contract(**fields).to_json()
    assert set(document) == set(vars(Contract()))
    json.dumps(document, allow_nan=False)
