"""Cases: canonical JSON, identity, round trips."""

from __future__ import annotations

import hashlib
import json

from gpuemu.model.case import Case, Plan

CASE = Case(
    op="softmax",
    dims={"B": 1, "H": 33},
    dtype="float16",
    layouts={"x": "contiguous"},
    value_classes={"x": "uniform"},
    params={"eps": 1e-5},
    seed=2**64 - 1,
)


def test_id_is_the_sha256_prefix_of_canonical_json() -> None:
    text = (
        '{"dims":{"B":1,"H":33},"dtype":"float16","layouts":{"x":"contiguous"},"op":"softmax",'
        '"params":{"eps":1e-05},"seed":"18446744073709551615","value_classes":{"x":"uniform"}}'
    )
    assert CASE.canonical == text
    assert CASE.id == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_id_ignores_the_order_of_keys() -> None:
    assert CASE.with_changes(dims={"H": 33, "B": 1}).id == CASE.id


def test_every_field_changes_the_id() -> None:
    changed = [
        CASE.with_changes(op="gelu"),
        CASE.with_changes(dims={"B": 2, "H": 33}),
        CASE.with_changes(dtype="float32"),
        CASE.with_changes(layouts={"x": "strided"}),
        CASE.with_changes(value_classes={"x": "bell"}),
        CASE.with_changes(params={"eps": 1e-6}),
        CASE.with_changes(seed=0),
    ]
    assert len({case.id for case in [CASE, *changed]}) == 8


def test_json_round_trip_keeps_a_64_bit_seed() -> None:
    assert Case.from_json(json.loads(json.dumps(CASE.to_json()))) == CASE


def test_summary_names_what_departs_from_plain() -> None:
    assert CASE.summary() == "B=1 H=33, float16, uniform, eps=1e-05"
    assert "strided" in CASE.with_changes(layouts={"x": "strided"}).summary()


def test_plan_digest_depends_on_order() -> None:
    other = CASE.with_changes(seed=1)
    assert Plan("softmax", "s", 0, (CASE, other)).digest != Plan("softmax", "s", 0, (other, CASE)).digest
