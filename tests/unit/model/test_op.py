"""Op declarations: what is accepted, what is refused and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuemu.errors import OpDefinitionError
from gpuemu.model.op import Contract, Dim, Op, Recovered, Tensor


def identity(*tensors: object) -> object:
    return tensors[0]


def make(**changes: object) -> Op:
    arguments: dict[str, object] = {
        "name": "copy",
        "inputs": {"x": "B 2*H", "mask": "B : bool"},
        "dims": {"B": Dim(1, 4), "H": [1, 3, 8]},
        "reference": identity,
    }
    return Op(**{**arguments, **changes})  # type: ignore[arg-type]


def test_shapes_follow_the_dims() -> None:
    op = make()
    assert op.shape_of("x", {"B": 3, "H": 8}) == (3, 16)
    assert op.shape_of("mask", {"B": 3, "H": 8}) == (3,)
    assert op.tensors["mask"].dtype == "bool"


def test_admits_checks_domain_candidates_and_constraints() -> None:
    op = make(constraints=["H % B == 0"])
    assert op.admits({"B": 4, "H": 8})
    assert not op.admits({"B": 4, "H": 3})
    assert not op.admits({"B": 5, "H": 8})
    assert not op.admits({"B": 1, "H": 2})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"inputs": {}}, "no inputs"),
        ({"inputs": {"x": "B Q"}}, "Q"),
        ({"constraints": ["B == Z"]}, "Z"),
        ({"name": "a b"}, "name"),
        ({"params": {"eps": []}}, "eps"),
        ({"params": {"mode": "abc"}}, "mode"),
        ({"dims": {"B": [], "H": 1}}, "empty list"),
        ({"contract": Contract(mutates=("y",))}, "mutates"),
        ({"contract": Contract(aliases=("y",))}, "aliases"),
        ({"contract": Contract(batch_invariant=("Q",))}, "'Q', which is no dim"),
        ({"contract": Contract(batch_invariant=("H",))}, "'H', which is no axis of an input"),
        (
            {"contract": Contract(batch_invariant=("B",)), "inputs": {"x": "B 2*B*H"}},
            r"'2\*B\*H' depends on it",
        ),
        (
            {
                "contract": Contract(batch_invariant=("B",)),
                "inputs": {"x": "B H", "i": Tensor("H", dtype="int64", low=0, high="B")},
            },
            "'B' depends on it",
        ),
    ],
)
def test_contradictions_are_refused_with_the_name(changes: dict[str, object], match: str) -> None:
    with pytest.raises(OpDefinitionError, match=match):
        make(**changes)


def test_empty_domain_is_refused() -> None:
    with pytest.raises(OpDefinitionError, match="empty"):
        Dim(5, 4)


@pytest.mark.parametrize(
    ("make_wrong", "match"),
    [
        (lambda: Dim(1.5, 8), "integers"),  # type: ignore[arg-type]
        (lambda: Contract(nan="x"), "report, propagate, ignore or forbid"),  # type: ignore[arg-type]
        (lambda: Contract(layouts=("diagonal",)), "diagonal"),
    ],
)
def test_wrong_values_are_refused_where_they_are_written(make_wrong: Callable[[], object], match: str) -> None:
    with pytest.raises(OpDefinitionError, match=match):
        make_wrong()


def test_a_negative_shape_is_said_with_its_dims() -> None:
    op = make(inputs={"x": "B H-5"})
    assert op.shape_of("x", {"B": 2, "H": 8}) == (2, 3)
    with pytest.raises(OpDefinitionError, match=r"\[2, -4\].*constraint"):
        op.shape_of("x", {"B": 2, "H": 1})


def test_digest_sees_the_values_that_a_reference_closes_over() -> None:
    def scale(factor: float) -> Callable[..., object]:
        return lambda x, mask: factor * x

    assert make(reference=scale(2.0)).digest != make(reference=scale(3.0)).digest
    assert make(reference=scale(2.0)).digest == make(reference=scale(2.0)).digest


def test_default_profile_depends_on_the_dtype() -> None:
    assert Contract().profile_for("float32") == "P0"
    assert Contract().profile_for("bfloat16") == "P1"
    assert Contract(profile="P2").profile_for("float32") == "P2"
    assert Contract(profile={"float16": "P2"}).profile_for("bfloat16") == "P1"


def test_digest_changes_with_schema_contract_and_reference() -> None:
    digests = {
        make().digest,
        make(dims={"B": Dim(1, 5), "H": [1, 3, 8]}).digest,
        make(contract=Contract(nan="ignore")).digest,
        make(reference=lambda x, mask: x + 1).digest,
        make(inputs={"x": "B 2*H", "mask": Tensor("B", dtype="bool", sentinel="s")}).digest,
    }
    assert len(digests) == 5
    assert make().digest == make().digest


def test_declared_output_shapes_follow_the_dims() -> None:
    op = Op("pairs", {"x": "B 2*D"}, {"B": Dim(), "D": Dim()}, lambda x: x, outputs=["B D", "B", ""])
    assert op.output_shapes({"B": 3, "D": 5}) == ((3, 5), (3,), ())
    assert Op("copy", {"x": "B"}, {"B": Dim()}, lambda x: x).output_shapes({"B": 3}) == ()


def test_what_a_random_decision_must_follow_counts_in_the_digest() -> None:
    def op(rate: str) -> Op:
        kept = Recovered(lambda _inputs, outputs, _params: outputs[0] != 0, rate=rate)
        return Op("drop", {"x": "B"}, {"B": Dim()}, lambda x, kept: x, outputs=["B"], recovered={"kept": kept})

    assert op("1").digest == op("1").digest
    assert op("1").digest != op("B").digest


@pytest.mark.parametrize(
    ("tensor", "takes"),
    [
        (Tensor("N"), True),
        (Tensor("N", dtype="float8_e4m3fn"), True),
        (Tensor("N", dtype="int64"), False),
        (Tensor("N", low=0.0), False),
        (Tensor("N", high=1.0), False),
    ],
)
def test_only_an_unbounded_float_takes_a_value_class(tensor: Tensor, takes: bool) -> None:
    asked, unasked = (Op("plain", {"x": replace(tensor)}, {"N": Dim(1, 8)}, reference=abs) for _ in range(2))
    assert asked.tensors["x"].takes_value_class is takes
    assert asked.digest == unasked.digest  # the answer is no part of the schema


@pytest.mark.parametrize(
    ("rate", "match"),
    [
        ("0.5", r"recovered\['kept'\]\.rate is '0\.5': .*only integers are allowed; .* goes into params"),
        (0.5, r"rate is 0\.5; give an expression"),
        ("1 -", "cannot parse"),
        ("1 - q", r"names \['q'\], no parameter or dim"),
    ],
)
def test_a_rate_that_is_no_expression_of_parameters_and_dims_is_refused_at_once(rate: Any, match: str) -> None:
    kept = Recovered(lambda _inputs, outputs, _params: outputs[0] != 0, rate=rate)
    with pytest.raises(OpDefinitionError, match=match):
        Op("drop", {"x": "B"}, {"B": Dim()}, lambda x, p, kept: x, {"p": [0.5]}, outputs=["B"],
           recovered={"kept": kept})  # fmt: skip
