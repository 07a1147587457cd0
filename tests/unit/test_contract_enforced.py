"""Every promise of a contract, kept and broken, from the plan to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.model.case import Case
from gpuemu.model.op import Contract, Dim, Op, Recovered
from gpuemu.model.record import Record
from gpuemu.model.verdict import Flag, Status, Verdict
from gpuemu.planning.plan import make_plan

Kernel = Callable[..., Any]


def run(kernel: Kernel, op: Op, budget: int = 12, **restrictions: Any) -> list[Record]:
    plan = make_plan(op, budget=budget, seed=0, **restrictions)
    return list(make_campaign(op, loader.from_callable(kernel, name="kernel"), "cpu").run(plan))


def outcomes(records: Sequence[Record]) -> set[tuple[str, str | None]]:
    return {(str(record.verdict.status), record.verdict.kind) for record in records}


def verdict_of(
    kernel: Kernel, op: Op, dims: dict[str, int], value_class: str = "bell", **options: Any
) -> Verdict:
    case = Case(
        op.name,
        dims,
        "float32",
        dict.fromkeys(op.inputs, "contiguous"),
        dict.fromkeys(op.inputs, value_class),
        {},
        4,
    )
    candidate = loader.from_callable(kernel, name="kernel")
    # Without calls beside those that the tests count.
    campaign = make_campaign(op, candidate, "cpu", without_guards=("stale", "poison"), **options)
    return campaign.run_case(case).verdict


# --- NaN, masked rows -----------------------------------------------------------------------------------------


def masked_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.masked_fill(mask, -torch.inf), -1)


MASKED = Op(
    "masked_softmax",
    {"x": "R C", "mask": "R C : bool"},
    {"R": Dim(1, 64), "C": Dim(1, 3)},  # so short that many rows are fully masked
    masked_softmax,
    contract=Contract(masked_value=0.0, nan="propagate"),
)


def zero_where_masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    y = masked_softmax(x.float(), mask).to(x.dtype)
    return torch.where(mask.all(-1, keepdim=True), 0.0, y)


def test_a_fully_masked_row_must_have_the_named_value() -> None:
    assert outcomes(run(zero_where_masked, MASKED, 30)) <= {("pass", None), ("inconclusive", None)}
    plain = run(lambda x, mask: masked_softmax(x.float(), mask).to(x.dtype), MASKED, value_classes=["bell"])
    assert ("fail", "nonfinite") in outcomes(plain)
    halves = run(lambda x, mask: zero_where_masked(x, mask).clamp(min=1e-3), MASKED, value_classes=["bell"])
    assert ("fail", "value") in outcomes(halves)


def test_without_a_named_value_a_masked_row_may_be_anything_that_is_reported() -> None:
    op = replace(MASKED, contract=Contract())
    for kernel in (zero_where_masked, lambda x, mask: masked_softmax(x.float(), mask).to(x.dtype)):
        assert outcomes(run(kernel, op)) <= {("pass", None), ("inconclusive", None)}


def test_a_nan_is_propagated_reported_ignored_or_forbidden_as_promised() -> None:
    def swallow(x: torch.Tensor) -> torch.Tensor:
        return x.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf) * 2

    seen = {}
    for policy in ("report", "propagate", "ignore", "forbid"):
        op = Op("twice", {"x": "N"}, {"N": 64}, lambda x: x * 2, contract=Contract(nan=policy))  # type: ignore[arg-type]
        verdicts = [
            verdict_of(kernel, op, {"N": 64}, "sparse_nonfinite") for kernel in (swallow, lambda x: x * 2)
        ]
        seen[policy] = [(str(verdict.status), verdict.flags) for verdict in verdicts]
    assert seen == {
        "report": [("pass", (Flag.NAN_SEMANTICS,)), ("pass", ())],
        "propagate": [("fail", ()), ("pass", ())],
        "ignore": [("pass", ()), ("pass", ())],
        "forbid": [("pass", ()), ("fail", ())],
    }


# --- calls, slices, memory ------------------------------------------------------------------------------------


def alternating(*kernels: Kernel) -> Kernel:
    """A kernel that answers each call by the next of these."""
    calls: list[int] = []

    def kernel(*inputs: torch.Tensor, **params: Any) -> torch.Tensor:
        calls.append(1)
        return kernels[(len(calls) - 1) % len(kernels)](*inputs, **params)

    return kernel


ROW_SUM = Op("row_sum", {"x": "R K"}, {"R": Dim(1, 64), "K": Dim(1, 4096)}, lambda x: x.sum(-1))
FORWARDS: Kernel = lambda x: x.double().sum(-1).float()  # noqa: E731
BACKWARDS: Kernel = lambda x: FORWARDS(x) * (1 + 2.0**-23)  # noqa: E731


def test_calls_that_differ_break_the_default_promise_and_no_other() -> None:
    either = replace(ROW_SUM, contract=Contract(deterministic=False))
    promised = verdict_of(alternating(FORWARDS, BACKWARDS), ROW_SUM, {"R": 4, "K": 500})
    assert (promised.status, promised.kind) == (Status.FAIL, "nondeterministic")
    assert "the contract promises the same bits" in promised.message
    allowed = verdict_of(alternating(FORWARDS, BACKWARDS), either, {"R": 4, "K": 500})
    assert (allowed.status, allowed.flags) == (Status.PASS, (Flag.NONDETERMINISTIC,))
    wrong = verdict_of(alternating(FORWARDS, lambda x: FORWARDS(x) + 1), either, {"R": 4, "K": 500})
    assert (wrong.status, wrong.kind) == (Status.FAIL, "nondeterministic")


def test_on_exact_inputs_no_contract_excuses_a_difference() -> None:
    either = replace(ROW_SUM, contract=Contract(deterministic=False))
    rare = alternating(FORWARDS, FORWARDS, lambda x: FORWARDS(x) + 1)  # only the third call shows it
    verdict = verdict_of(rare, either, {"R": 4, "K": 500}, "small_integers")
    assert (verdict.status, verdict.kind) == (Status.FAIL, "nondeterministic")
    assert "call 3" in verdict.message
    assert verdict_of(rare, either, {"R": 4, "K": 500}, "small_integers", repeats=1).status is Status.PASS


def test_a_slice_run_alone_must_give_the_same_bits_where_promised() -> None:
    def by_batch(x: torch.Tensor) -> torch.Tensor:
        return FORWARDS(x) if len(x) > 1 else BACKWARDS(x)

    assert outcomes(run(by_batch, ROW_SUM, dtypes=["float32"])) == {("pass", None)}
    promised = replace(ROW_SUM, contract=Contract(batch_invariant=("R",)))
    records = run(by_batch, promised, dtypes=["float32"], value_classes=["uniform"])
    assert outcomes(records) == {("fail", "guard:batch_invariance"), ("pass", None)}
    assert all(r.case.dims["R"] > 1 for r in records if r.verdict.status is Status.FAIL)
    assert outcomes(run(FORWARDS, promised, dtypes=["float32"])) == {("pass", None)}


def test_memory_may_be_shared_or_overwritten_as_promised_and_not_otherwise() -> None:
    view = Op("flat", {"x": "R C"}, {"R": 4, "C": 5}, lambda x: x.reshape(-1), value_classes=["bell"])
    assert outcomes(run(lambda x: x.view(-1), view, 1)) == {("fail", "guard:alias")}
    aliased = replace(view, contract=Contract(aliases=("x",), layouts=("contiguous",)))
    assert outcomes(run(lambda x: x.view(-1), aliased, 4)) == {("pass", None)}
    written = replace(view, reference=lambda x: x.reshape(-1) * 2, contract=Contract(aliases=("x",)))
    assert outcomes(run(lambda x: x.mul_(2).reshape(-1), written, 1)) == {("fail", "guard:mutation")}
    in_place = replace(written, contract=Contract(mutates=("x",)))
    assert outcomes(run(lambda x: x.mul_(2).reshape(-1), in_place, 4)) == {("pass", None)}
    racy = alternating(lambda x: x.mul_(2).reshape(-1), lambda x: x.mul_(3).reshape(-1))
    assert outcomes(run(racy, in_place, 1)) == {("fail", "nondeterministic")}


DROPOUT = Op(
    "dropout",
    {"x": "R N"},
    {"R": 40, "N": 500},
    lambda x, p, kept: torch.where(kept, x / (1 - p), 0.0),
    params={"p": [0.5]},
    outputs=["R N"],
    recovered={"kept": Recovered(lambda inputs, outputs, params: outputs[0] != 0, rate="1 - p")},
    value_classes=["bell"],
)


def test_random_decisions_may_differ_from_call_to_call_only_where_nothing_else_is_promised() -> None:
    def kernel(x: torch.Tensor, p: float = 0.5) -> torch.Tensor:
        return x * 2 * (torch.rand(x.shape) < 0.5)

    def half_right(x: torch.Tensor, p: float = 0.5) -> torch.Tensor:
        return x * (torch.rand(x.shape) < 0.5) * 3

    torch.manual_seed(3)
    free = replace(DROPOUT, contract=Contract(deterministic=False))
    records = run(kernel, free, 3, dtypes=["float32"])
    assert outcomes(records) == {("pass", None)}
    assert all(record.verdict.flags == (Flag.NONDETERMINISTIC,) for record in records)
    assert outcomes(run(kernel, DROPOUT, 1)) == {("fail", "nondeterministic")}
    assert outcomes(run(alternating(kernel, half_right), free, 1, dtypes=["float32"])) == {
        ("fail", "nondeterministic")
    }


# --- empty tensors, signed zeros, saturation ------------------------------------------------------------------

EMPTY = Op(
    "matmul",
    {"a": "M K", "b": "K N"},
    {"M": Dim(0, 9), "K": Dim(0, 9), "N": Dim(0, 9)},
    lambda a, b: a @ b,
    dtypes=["float32"],
    contract=Contract(empty=True),
    value_classes=["bell"],
)


def empties(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if 0 in record.case.dims.values()]


def test_empty_inputs_are_planned_where_promised_and_judged_by_their_structure() -> None:
    right = run(lambda a, b: a @ b, EMPTY, 40)
    assert outcomes(right) == {("pass", None)}
    assert {name for r in empties(right) for name, size in r.case.dims.items() if size == 0} == {"M", "K", "N"}
    assert not empties(run(lambda a, b: a @ b, replace(EMPTY, contract=Contract()), 40))


@pytest.mark.parametrize(
    ("kernel", "outcome"),
    [
        (lambda a, b: (a @ b) / (a.numel() and 1) if a.numel() else a.view(-1, 0), ("error", None)),
        (lambda a, b: a @ b if a.numel() and b.numel() else a.new_empty(0), ("fail", "shape")),
        (lambda a, b: a @ b if a.shape[1] else a.new_ones(len(a), b.shape[1]), ("fail", "value")),
        (lambda a, b: a @ b if a.numel() and b.numel() else (a @ b).double(), ("fail", "dtype")),
    ],
)
def test_a_kernel_that_is_wrong_only_on_empty_inputs_fails(kernel: Kernel, outcome: Any) -> None:
    records = run(kernel, EMPTY, 40)
    assert outcome in outcomes(empties(records))
    assert outcomes([record for record in records if record not in empties(records)]) == {("pass", None)}


def test_the_sign_of_a_zero_is_judged_where_promised() -> None:
    fields: dict[str, Any] = {"inputs": {"x": "N"}, "dims": {"N": 64}, "reference": lambda x: -x}
    for contract, status in ((Contract(), Status.PASS), (Contract(signed_zero=True), Status.FAIL)):
        op = Op("negated", contract=contract, **fields)
        verdict = verdict_of(lambda x: 0.0 - x, op, {"N": 64}, "small_integers")
        assert verdict.status is status
    assert "zero of the wrong sign" in verdict.hint
    assert verdict_of(lambda x: -x, op, {"N": 64}, "small_integers").status is Status.PASS


def test_a_saturating_kernel_passes_where_promised() -> None:
    fields: dict[str, Any] = {"inputs": {"x": "N"}, "dims": {"N": 64}, "reference": lambda x: x * 1e4}

    def saturating(x: torch.Tensor) -> torch.Tensor:
        return (x.float() * 1e4).clamp(-65504, 65504).half()

    for contract, status in ((Contract(), "fail"), (Contract(infinity="saturate"), "pass")):
        op = Op("scaled", contract=contract, dtypes=["float16"], **fields)
        assert {s for s, _ in outcomes(run(saturating, op, 1, value_classes=["uniform"]))} == {status}
        assert outcomes(run(lambda x: (x.float() * 1e4).half(), op, 1, value_classes=["uniform"])) == {
            ("pass", None)
        }


def test_the_sign_of_an_infinity_is_free_only_where_rounding_can_change_that_of_the_zero() -> None:
    """Rule 4: 1/x at x = 0 has one sign, 1/(exp(x) - 1) there has none, for exp(0) may be off by a rounding."""
    sizes: dict[str, Any] = {"inputs": {"x": "N"}, "dims": {"N": 64}}
    inverse = Op("inverse", reference=lambda x: 1 / x, **sizes)
    assert verdict_of(lambda x: 1 / x, inverse, {"N": 64}, "small_integers").status is Status.PASS
    flipped = verdict_of(lambda x: 1 / torch.where(x == 0, -0.0, x), inverse, {"N": 64}, "small_integers")
    assert (flipped.status, flipped.kind) == (Status.FAIL, "nonfinite")
    rounded = Op("bose", reference=lambda x: 1 / (x.exp() - 1), **sizes)
    for sign in (1.0, -1.0):
        zero = torch.tensor(0.0).copysign(torch.tensor(sign))

        def kernel(x: torch.Tensor, zero: torch.Tensor = zero) -> torch.Tensor:
            return 1 / torch.where(x == 0, zero, x.double().expm1()).float()

        assert verdict_of(kernel, rounded, {"N": 64}, "small_integers").status is Status.PASS
