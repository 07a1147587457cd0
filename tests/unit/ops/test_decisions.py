"""Choices, orders, samples, codes, factorisations: correct implementations pass, wrong ones fail."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.corpus.population import Implementation, load_population
from gpuemu.inputs import fill
from gpuemu.model.op import Dim, Op
from gpuemu.model.record import Record
from gpuemu.model.verdict import Status
from gpuemu.ops import decisions, factorisations, quantisation
from gpuemu.ops.registry import get_op
from gpuemu.oracle import adequacy
from gpuemu.oracle.bounds import accept
from gpuemu.planning.plan import make_plan
from gpuemu.reference.evaluate import evaluate

OPS = (*decisions.OPS, *quantisation.OPS, *factorisations.OPS)
POPULATION = [i for op in OPS for i in load_population(op.name) if i.kind == "torch"]
SMALL = {"R": Dim(1, 256), "N": Dim(8, 300), "H": Dim(1, 128), "B": Dim(1, 8)}
SQUARE = {"N": Dim(1, 40), "K": Dim(1, 4)}


def small(op: Op) -> Op:
    """The op over sizes that take no time; the samples must stay many."""
    if op.name == "sample":
        return op.with_dims(V=Dim(2, 64), R=[2048])
    sizes = SQUARE if op.residual else SMALL
    return op.with_dims(**{name: size for name, size in sizes.items() if name in op.dims})


def run(implementation: Implementation, budget: int = 12) -> Iterator[Record]:
    op = small(get_op(implementation.op))
    for dtype in op.dtypes:
        plan = make_plan(op, budget=budget // len(op.dtypes), seed=3, dtypes=[dtype])
        candidate = loader.from_callable(implementation.function, name=implementation.name)
        campaign = make_campaign(op, candidate, "cpu", implementation.profiles.get(dtype))
        yield from campaign.run(plan)


def name_of(implementation: Implementation) -> str:
    return f"{implementation.op}-{implementation.name}"


@pytest.mark.parametrize("implementation", [i for i in POPULATION if i.role == "control"], ids=name_of)
def test_known_correct_implementations_pass(implementation: Implementation) -> None:
    records = list(run(implementation))
    wrong = [r for r in records if r.verdict.status not in (Status.PASS, Status.INCONCLUSIVE)]
    assert not wrong, (wrong[0].case.summary(), wrong[0].verdict)
    assert sum(r.verdict.status is Status.PASS for r in records) >= 0.75 * len(records)
    scores = [r.verdict.errors.max_bound_units for r in records if r.verdict.errors]
    assert max(scores) < 0.7


@pytest.mark.parametrize("implementation", [i for i in POPULATION if i.role == "mutant"], ids=name_of)
def test_known_wrong_implementations_fail(implementation: Implementation) -> None:
    assert any(r.verdict.status is Status.FAIL for r in run(implementation, 24))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_has_two_controls_and_two_mutants(op: Op) -> None:
    roles = [i.role for i in load_population(op.name)]
    assert roles.count("control") >= 2
    assert roles.count("mutant") >= (1 if op.name == "quantise_int8_blocks" else 2)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_plan_rejects_every_trivial_predictor(op: Op) -> None:
    control = next(i for i in load_population(op.name) if i.role == "control" and i.kind == "torch")
    established = [r.verdict for r in run(control, 24) if r.verdict.status is Status.PASS]
    assert adequacy.summarise(established).is_sufficient


def test_references_are_their_definitions() -> None:
    x = torch.tensor([[1.0, -4.0, 2.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    codes, scale = quantisation.quantise_int8(x)
    assert codes.tolist() == [[32, -127, 64], [0, 0, 0]]  # 31.75 and 63.5, which goes to the even
    assert scale.tolist() == [[4 / 127], [1.0]]
    assert quantisation.quantise_int8_static(x, torch.tensor([0.03125])).tolist() == [[32, -128, 64], [0] * 3]
    even = torch.tensor([[7.0, -1.0, -7.0, 3.0]], dtype=torch.float64)
    assert quantisation.quantise_int4(even)[0].tolist() == [[0x7 | 0xF << 4, 0x9 | 0x3 << 4]]
    y, scale = quantisation.quantise_fp8(torch.float8_e4m3fn, 448.0)(x)
    assert y.float().tolist() == [[112.0, -448.0, 224.0], [0.0] * 3]
    blocks = torch.cat((torch.full((1, 32), 2.0), torch.full((1, 32), -8.0)), 1)
    codes, scales = quantisation.quantise_int8_blocks(blocks)
    assert set(codes.flatten().tolist()) == {127, -127}
    assert scales[0].tolist() == pytest.approx([2 / 127, 8 / 127])


def test_dropout_at_its_limits() -> None:
    x, dropped = torch.tensor([[1.0, -2.0]]), torch.tensor([[False, False]])
    assert decisions.dropout(x, 1.0, 0, dropped).tolist() == [[0.0, 0.0]]
    assert decisions.dropout(x, 0.0, 0, ~dropped).tolist() == x.tolist()
    visible = decisions.find_visible({"x": torch.tensor([0.0, math.nan, 1e-6, -1.0])}, (), {})
    assert visible.tolist() == [False, False, False, True]


def test_a_wrong_quantiser_is_found_element_by_element() -> None:
    """At least 99 % of the elements that differ from the right code are flagged (ORACLE.md section 2.5)."""
    op = get_op("quantise_int8").with_dims(R=[8], N=[4096])
    case = make_plan(op, budget=1, seed=0, dtypes=["float32"], value_classes=["uniform"]).cases[0]
    inputs = fill.make_inputs(op, case)
    accepted = accept(evaluate(op, case, inputs, "P0"), op.contract).outputs[0]
    functions = {i.name: i.function for i in load_population("quantise_int8")}
    right = functions["divide"](inputs["x"])[0]
    assert bool(accepted.contains(right).all())
    assert bool(accepted.contains(functions["reciprocal"](inputs["x"])[0]).all())
    for name in ("truncated", "coarse_scale", "by_128"):
        wrong = functions[name](inputs["x"])[0]
        differs = wrong != right
        assert int(differs.sum()) > 500
        assert float((~accepted.contains(wrong))[differs].double().mean()) >= 0.99
    ambiguous = (accepted.upper != accepted.lower).double().mean()
    assert float(ambiguous) < 2e-4
