"""Calls that differ: what the contract promises, what the bound allows, and what exact inputs forbid."""

from __future__ import annotations

import pytest
import torch
from oracle_cases import INF, NAN, expect, f64

from gpuemu.model.contract import Contract
from gpuemu.model.expected import Expected
from gpuemu.model.observation import GuardFinding, Observation
from gpuemu.model.verdict import Flag, Kind, Status, Verdict
from gpuemu.oracle import determinism
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.compare import judge

STRICT = Contract()
LOOSE = Contract(deterministic=False)


def all_calls(expected: Expected, contract: Contract, *calls: torch.Tensor, **fields: object) -> Verdict:
    """The verdict on several calls of one output."""
    acceptance = accept(expected, contract)
    repeats = {number: (outputs,) for number, outputs in enumerate(calls[1:], start=2)}
    observation = Observation((calls[0],), repeats=repeats, calls=len(calls), **fields)  # type: ignore[arg-type]

    def judge_call(outputs: tuple[torch.Tensor, ...]) -> Verdict:
        return judge(Observation(outputs), expected, acceptance, contract)

    first = judge(observation, expected, acceptance, contract)
    return determinism.judge(observation, first, judge_call, expected, acceptance, contract)


ROUNDED = expect(f64(1.0, 2.0, 3.0), 1e-6)
A = torch.tensor([1.0, 2.0, 3.0])
B = torch.tensor([1.0, 2.0 + 2.0**-22, 3.0])


def test_a_promise_of_the_same_bits_is_broken_by_one_bit() -> None:
    verdict = all_calls(ROUNDED, STRICT, A, A, B)
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.NONDETERMINISTIC)
    assert verdict.message == (
        "1 of 3 elements differ between two calls on the same inputs: output 0 at [1] is 2 in the first call "
        "and 2.00000024 in call 3; the contract promises the same bits"
    )
    signs = all_calls(expect(f64(0.0), 1e-6), STRICT, torch.tensor([0.0]), torch.tensor([-0.0]))
    assert signs.kind == Kind.NONDETERMINISTIC


def test_equal_calls_change_nothing() -> None:
    verdict = all_calls(ROUNDED, STRICT, B, B, B)
    assert (verdict.status, verdict.flags, verdict.message) == (Status.PASS, (), "")


def test_without_the_promise_a_difference_within_the_bound_is_reported_and_passes() -> None:
    verdict = all_calls(ROUNDED, LOOSE, A, B)
    assert (verdict.status, verdict.kind, verdict.flags) == (Status.PASS, None, (Flag.NONDETERMINISTIC,))
    assert verdict.message.endswith("is 2 in the first call and 2.00000024 in call 2, within the bound")


def test_without_the_promise_every_call_must_be_right() -> None:
    wrong = torch.tensor([1.0, 2.0, 3.1])
    later = all_calls(ROUNDED, LOOSE, A, B, wrong)
    assert (later.status, later.kind) == (Status.FAIL, Kind.NONDETERMINISTIC)
    assert later.message.startswith("right in the first call, wrong in call 3: 1 of 3 elements are outside")
    assert later.worst is not None
    assert later.worst.index == (2,)
    first = all_calls(ROUNDED, LOOSE, wrong, A)
    assert (first.status, first.kind) == (Status.FAIL, Kind.VALUE)
    poisoned = all_calls(ROUNDED, LOOSE, A, torch.tensor([1.0, NAN, 3.0]))
    assert poisoned.kind == Kind.NONDETERMINISTIC


def test_adjacent_stored_values_may_stand_for_one_number_however_small_the_bound() -> None:
    """A split sum ends a hair above or below the middle of two bfloat16 numbers: one ulp apart, both right."""
    middle = 1.0 + 2.0**-8
    expected = expect(f64(middle), 1e-7, "bfloat16")
    low, high = torch.tensor([1.0]).bfloat16(), torch.tensor([1.0 + 2.0**-7]).bfloat16()
    assert all_calls(expected, LOOSE, low, high).status is Status.PASS


def test_exact_elements_may_not_differ_whatever_the_contract_says() -> None:
    """At an exact tie both neighbours are accepted; that one kernel gives both is no rounding."""
    middle = 1.0 + 2.0**-8
    expected = expect(f64(middle, middle), f64(0.0, 1e-7), "bfloat16")
    low, high = torch.tensor([1.0, 1.0]).bfloat16(), torch.tensor([1.0 + 2.0**-7, 1.0]).bfloat16()
    verdict = all_calls(expected, LOOSE, low, high)
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.NONDETERMINISTIC)
    assert "1 of 2 elements differ" in verdict.message
    assert "every order" in verdict.message
    assert all_calls(expected, LOOSE, low, low[[0, 1]]).flags == ()


def test_exact_zeros_may_differ_in_sign_unless_it_is_part_of_the_answer() -> None:
    zeros = expect(f64(0.0), 0.0)
    plus, minus = torch.tensor([0.0]), torch.tensor([-0.0])
    assert all_calls(zeros, LOOSE, plus, minus).status is Status.PASS
    signed = Contract(deterministic=False, signed_zero=True)
    assert all_calls(zeros, signed, plus, minus).kind == Kind.NONDETERMINISTIC


def test_what_is_not_judged_may_differ_without_the_promise() -> None:
    expected = expect(f64(1.0, 2.0, 5.0, 5.0), f64(INF, 1e-6, 1e-6, 1e-6))
    calls = torch.tensor([7.0, 2.0, 5.0, 5.0]), torch.tensor([NAN, 2.0, 5.0, 5.0])
    assert all_calls(expected, LOOSE, *calls).flags == (Flag.NONDETERMINISTIC,)
    assert all_calls(expected, STRICT, *calls).kind == Kind.NONDETERMINISTIC


def test_a_masked_value_is_exact() -> None:
    contract = Contract(deterministic=False, masked_value=0.0, infinity="saturate")
    expected = expect(f64(NAN, INF), 0.0, "float16")
    calls = torch.tensor([0.0, INF]).half(), torch.tensor([0.0, 65504.0]).half()
    assert all_calls(expected, contract, *calls).status is Status.PASS
    assert all_calls(expected, contract, calls[0], torch.tensor([1.0, INF]).half()).status is Status.FAIL


def test_what_keeps_values_from_being_compared_comes_first() -> None:
    finding = (GuardFinding("mutation", "input x was overwritten"),)
    assert all_calls(ROUNDED, STRICT, A, B, findings=finding).kind == "guard:mutation"
    failed = Expected((), "P0", problem="RuntimeError: no")
    assert all_calls(failed, STRICT, A, B).status is Status.INVALID
    assert all_calls(ROUNDED, STRICT, A[:2], B[:2]).kind == Kind.SHAPE


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_the_first_differing_element_is_named_in_every_dtype(dtype: torch.dtype) -> None:
    first = torch.zeros(3, 4).to(dtype)
    again = first.clone()
    again[1, 2] = 1
    value = torch.zeros(3, 4, dtype=torch.float64) if dtype.is_floating_point else torch.zeros(3, 4).to(dtype)
    verdict = all_calls(expect(value, 3.0, str(dtype).removeprefix("torch.")), STRICT, first, again)
    assert "output 0 at [1, 2] is 0 in the first call and 1 in call 2" in verdict.message
