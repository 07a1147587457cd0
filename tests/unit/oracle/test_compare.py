"""The order of decisions, structural failures, flags and messages."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from oracle_cases import INF, NAN, expect, f64, judged

from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.observation import CandidateException, GuardFinding, Observation
from gpuemu.model.op import Contract
from gpuemu.model.verdict import Flag, Kind, Status, Verdict
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.compare import judge

VALUE = torch.arange(1, 33, dtype=torch.float64).view(4, 8)
EXPECTED = expect(VALUE, 1e-3)
RIGHT = VALUE.float()
RAISED = CandidateException("ValueError", "N must be even", "kernel.py:12")
FINDING = GuardFinding("mutation", "input 'x' changed at element 3")


def _judge(observation: Observation, expected: Expected = EXPECTED) -> Verdict:
    return judge(observation, expected, accept(expected), Contract())


def test_a_right_output_passes_with_its_figures() -> None:
    verdict = _judge(Observation((RIGHT,)))
    assert (verdict.status, verdict.kind, verdict.flags, verdict.profile) == (Status.PASS, None, (), "P0")
    assert verdict.worst is None
    assert verdict.errors is not None
    assert (verdict.errors.elements, verdict.errors.judged, verdict.errors.exceeding) == (32, 32, 0)
    assert verdict.errors.max_bound_units == 0


def test_a_wrong_element_fails_with_its_place_and_size() -> None:
    actual = RIGHT.clone()
    actual[2, 5] = 23.0
    verdict = _judge(Observation((actual,)))
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.VALUE)
    worst = verdict.worst
    assert worst is not None
    assert (worst.output, worst.index, worst.actual, worst.expected, worst.bound) == (
        0,
        (2, 5),
        23.0,
        22.0,
        1e-3,
    )
    assert worst.error_bound_units == pytest.approx(1000, rel=1e-3)
    assert worst.error_ulp == 2.0**19  # one float32 ulp in [16, 32) is 2^-19
    assert verdict.message.startswith("1 of 32 elements are outside their bound; output 0 at [2, 5] is 23, ")
    assert verdict.hint == ""


# --- the order of decisions -----------------------------------------------------------------------------------


def test_each_decision_takes_precedence_over_the_later_ones() -> None:
    failed = Expected((), "P1", problem="RuntimeError: shapes differ")
    everything = Observation((RIGHT.double(),), RAISED, "not a tensor", (FINDING,))
    assert (_judge(everything, failed).status, _judge(everything, failed).message) == (
        Status.INVALID,
        "RuntimeError: shapes differ",
    )
    assert _judge(everything).status is Status.ERROR
    without_exception = Observation((RIGHT.double(),), None, "returned a list of str", (FINDING,))
    verdict = _judge(without_exception)
    assert (verdict.status, verdict.kind, verdict.message) == (
        Status.FAIL,
        Kind.SHAPE,
        "returned a list of str",
    )
    assert _judge(Observation((RIGHT.double(),), findings=(FINDING,))).kind == Kind.DTYPE
    assert _judge(Observation((-RIGHT,), findings=(FINDING,))).kind == "guard:mutation"
    assert _judge(Observation((-RIGHT,))).kind == Kind.VALUE


def test_an_exception_is_an_error_and_a_refusal_is_unsupported() -> None:
    verdict = _judge(Observation(exception=RAISED))
    assert (verdict.status, verdict.kind) == (Status.ERROR, None)
    assert verdict.message == "ValueError: N must be even at kernel.py:12"
    refused = CandidateException("NotImplementedError", "strides", refused=True)
    verdict = _judge(Observation(exception=refused))
    assert (verdict.status, verdict.message) == (Status.UNSUPPORTED, "NotImplementedError: strides")


def test_the_first_finding_names_the_kind_and_the_others_are_mentioned() -> None:
    findings = (FINDING, GuardFinding("alias", "a"), GuardFinding("poison", "p"), GuardFinding("alias", "b"))
    verdict = _judge(Observation((RIGHT,), findings=findings))
    assert (verdict.status, verdict.kind) == (Status.FAIL, "guard:mutation")
    assert verdict.message == "input 'x' changed at element 3 (also: alias, poison)"


# --- structure ------------------------------------------------------------------------------------------------


class _Lazy(torch.Tensor):
    """Would compute, or lie, when it is compared."""


@pytest.mark.parametrize(
    ("outputs", "kind", "message"),
    [
        ((), Kind.SHAPE, "returned 0 outputs, expected 1 output"),
        ((RIGHT, RIGHT), Kind.SHAPE, "returned 2 outputs, expected 1 output"),
        ((RIGHT.double(),), Kind.DTYPE, "output 0 is float64, expected float32"),
        ((RIGHT.half(),), Kind.DTYPE, "output 0 is float16, expected float32"),
        ((RIGHT.long(),), Kind.DTYPE, "output 0 is int64, expected float32"),
        ((RIGHT.to(torch.complex64),), Kind.DTYPE, "output 0 is complex64, expected float32"),
        ((RIGHT[:1],), Kind.SHAPE, "output 0 has shape (1, 8), expected (4, 8)"),
        ((RIGHT.view(-1),), Kind.SHAPE, "output 0 has shape (32,), expected (4, 8)"),
        ((RIGHT.t(),), Kind.SHAPE, "output 0 has shape (8, 4), expected (4, 8)"),
        ((RIGHT[None],), Kind.SHAPE, "output 0 has shape (1, 4, 8), expected (4, 8)"),
        ((torch.tensor(1.0),), Kind.SHAPE, "output 0 has shape (), expected (4, 8)"),
        ((torch.empty(0),), Kind.SHAPE, "output 0 has shape (0,), expected (4, 8)"),
        ((RIGHT.to("meta"),), Kind.SHAPE, "output 0 is on meta, expected cpu"),
        ((RIGHT.to_sparse(),), Kind.SHAPE, "output 0 has layout torch.sparse_coo, expected torch.strided"),
        ((RIGHT.as_subclass(_Lazy),), Kind.SHAPE, "output 0 is a _Lazy, expected a torch.Tensor"),
        (([[1.0] * 8] * 4,), Kind.SHAPE, "output 0 is a list, expected a torch.Tensor"),
        ((None,), Kind.SHAPE, "output 0 is a NoneType, expected a torch.Tensor"),
        ((RIGHT.numpy(),), Kind.SHAPE, "output 0 is a ndarray, expected a torch.Tensor"),
    ],
)
def test_structure_is_judged_before_any_value(outputs: tuple, kind: Kind, message: str) -> None:
    verdict = _judge(Observation(outputs))
    assert (verdict.status, verdict.kind, verdict.message) == (Status.FAIL, kind, message)
    assert verdict.errors is None


def test_a_single_element_is_not_broadcast_over_a_constant_result() -> None:
    ones = expect(torch.ones(4, 8, dtype=torch.float64), 1.0)
    for shape in ((1,), (1, 1), (4, 1), (1, 8), ()):
        assert judged(torch.ones(shape), ones).kind == Kind.SHAPE


def test_every_output_is_judged_and_the_worst_one_named() -> None:
    first = ExpectedOutput(f64(1.0, 2.0), f64(0.1, 0.1), "float32")
    second = ExpectedOutput(torch.tensor([3, 4]), f64(0.0, 0.0), "int64")
    expected = Expected((first, second), "P0")
    right = Observation((torch.tensor([1.0, 2.0]), torch.tensor([3, 4])))
    assert _judge(right, expected).status is Status.PASS
    verdict = _judge(Observation((torch.tensor([1.0, 2.5]), torch.tensor([3, 5]))), expected)
    assert verdict.worst is not None
    assert (verdict.worst.output, verdict.worst.index) == (1, (1,))
    assert verdict.errors is not None
    assert (verdict.errors.elements, verdict.errors.exceeding) == (4, 2)
    swapped = _judge(Observation((torch.tensor([3, 4]), torch.tensor([1.0, 2.0]))), expected)
    assert swapped.message == "output 0 is int64, expected float32"


def test_empty_outputs_pass_if_their_structure_is_right() -> None:
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        stored = getattr(torch, dtype)
        value = torch.empty(0, 8, dtype=torch.float64 if stored.is_floating_point else stored)
        expected = expect(value, 0.0, dtype)
        assert judged(torch.empty(0, 8, dtype=stored), expected).status is Status.PASS
        assert judged(torch.empty(8, 0, dtype=stored), expected).kind == Kind.SHAPE


def test_zero_dimensional_outputs_are_judged() -> None:
    expected = expect(torch.tensor(2.0, dtype=torch.float64), 1e-3)
    assert judged(torch.tensor(2.0), expected).status is Status.PASS
    verdict = judged(torch.tensor(2.1), expected)
    assert verdict.worst is not None
    assert verdict.worst.index == ()
    assert "output 0 at [] is 2.0999999" in verdict.message


# --- kinds and flags ------------------------------------------------------------------------------------------


def test_the_kind_is_nonfinite_only_if_every_wrong_element_is() -> None:
    expected = expect(f64(1.0, 2.0, INF), 0.1)
    assert judged(torch.tensor([NAN, 2.0, INF]), expected).kind == Kind.NONFINITE
    assert judged(torch.tensor([1.0, INF, INF]), expected).kind == Kind.NONFINITE
    assert judged(torch.tensor([1.0, 2.0, 3e38]), expected).kind == Kind.NONFINITE
    assert judged(torch.tensor([1.0, 2.0, -INF]), expected).kind == Kind.NONFINITE
    assert judged(torch.tensor([NAN, 5.0, INF]), expected).kind == Kind.VALUE


@pytest.mark.parametrize(
    ("error", "flags"), [(0.4, ()), (0.49, ()), (0.6, (Flag.SUSPICIOUS,)), (1.0, (Flag.SUSPICIOUS,))]
)
def test_a_score_above_one_half_is_suspicious(error: float, flags: tuple[Flag, ...]) -> None:
    verdict = judged(f64(1.0 + error * 2.0**-10), expect(f64(1.0), 2.0**-10, "float64"))
    assert (verdict.status, verdict.flags) == (Status.PASS, flags)
    assert verdict.worst is not None
    assert verdict.worst.error_bound_units == pytest.approx(error)
    assert bool(verdict.message) == bool(flags)


def test_a_generic_bound_convicts_only_gross_errors() -> None:
    expected = expect(f64(1.0, 2.0), 1e-6, generic=("aten.conv2d",))
    right = judged(torch.tensor([1.0, 2.0]), expected)
    assert (right.status, right.flags, right.generic) == (Status.PASS, (Flag.GENERIC_BOUND,), ("aten.conv2d",))
    for gross in ([1.0, 3.0], [0.0, 0.0]):
        verdict = judged(torch.tensor(gross), expected)
        assert (verdict.status, verdict.kind, verdict.flags) == (Status.FAIL, Kind.VALUE, (Flag.GENERIC_BOUND,))
    wrong = judged(torch.tensor([1.0, 2.01]), expected)
    assert (wrong.status, wrong.flags) == (Status.PASS, (Flag.SUSPICIOUS, Flag.GENERIC_BOUND))
    assert "1 of 2 elements are outside their bound" in wrong.message
    assert "generic" in wrong.message
    assert wrong.errors is not None
    assert wrong.errors.exceeding == 1


def test_nan_where_a_number_is_due_needs_no_bound_to_convict() -> None:
    expected = expect(f64(1.0, 2.0), 1e-6, generic=("aten.conv2d",))
    verdict = judged(torch.tensor([NAN, 2.0]), expected)
    assert (verdict.status, verdict.kind, verdict.flags) == (Status.FAIL, Kind.NONFINITE, (Flag.GENERIC_BOUND,))


def test_a_verdict_survives_json() -> None:
    for actual in (RIGHT, -RIGHT, torch.full((4, 8), NAN)):
        verdict = _judge(Observation((actual,)))
        document = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
        assert Verdict.from_json(document).to_json() == verdict.to_json()


def test_outputs_that_require_gradients_are_judged() -> None:
    actual = RIGHT.clone().requires_grad_()
    assert _judge(Observation((actual * 1.0,))).status is Status.PASS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _judge(Observation((actual * 2.0,))).kind == Kind.VALUE


def test_strided_outputs_are_judged_by_their_elements() -> None:
    padded = torch.zeros(4, 16)
    padded[:, ::2] = RIGHT
    assert _judge(Observation((padded[:, ::2],))).status is Status.PASS
    padded[3, 14] = 0
    verdict = _judge(Observation((padded[:, ::2],)))
    assert verdict.worst is not None
    assert verdict.worst.index == (3, 7)
