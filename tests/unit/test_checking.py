"""`gpuemu.check`: options, statuses of a run, what is recorded, and replaying it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import gpuemu
from gpuemu import checking
from gpuemu.errors import UnsupportedEnvironmentError, UsageError
from gpuemu.model.op import Dim, Op
from gpuemu.model.record import Report, Run
from gpuemu.model.verdict import Status
from gpuemu.replay import replay
from gpuemu.store.sqlite import Store

OP = Op("double", {"x": "R C"}, {"R": Dim(1, 8), "C": Dim(1, 99)}, lambda x: x * 2)


def run(kernel: Callable[..., Any], op: Op | str = OP, **options: Any) -> Report:
    return gpuemu.check(kernel, op, **{"budget": 10, "seed": 0, "store": False, **options})


def test_a_right_kernel_passes() -> None:
    report = run(lambda x: x * 2)
    assert report.passed
    assert report.status is Status.PASS
    assert len(report.cases) == 10
    assert not report.failures
    assert report.replay_command is None
    assert set(report.adequacy.rejected) == {"zeros", "input", "mean", "constant"}


def test_a_wrong_kernel_fails_with_a_minimal_case() -> None:
    report = run(lambda x: x * 2 + (x.shape[1] > 20))
    assert report.status is Status.FAIL
    assert report.minimal is not None
    assert dict(report.minimal.record.case.dims) == {"R": 1, "C": 21}
    assert report.cases_to_first_failure is not None
    assert report.replay_command == f"gpuemu replay {report.run.id} {report.minimal.record.case.id}"


def test_a_plan_that_accepts_zeros_establishes_nothing() -> None:
    op = Op("nothing", {"x": "N"}, {"N": Dim(2, 9)}, lambda x: x * 0)
    report = run(lambda x: torch.zeros_like(x), op, value_classes=["uniform"])  # noqa: PLW0108
    assert report.status is Status.INCONCLUSIVE
    assert "zeros" in report.message


def test_a_copy_is_not_blamed_for_equalling_its_input() -> None:
    op = Op("copy", {"x": "N"}, {"N": Dim(2, 9)}, lambda x: x.clone())
    assert run(lambda x: x.clone(), op).passed


def test_a_kernel_is_called_as_often_as_asked_and_the_record_says_how_often() -> None:
    calls: list[int] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x / 3

    op = Op("third", {"x": "N"}, {"N": Dim(20, 30)}, lambda x: x / 3)
    for repeats in (1, 2, 5):
        calls.clear()
        report = run(kernel, op, repeats=repeats, budget=4, value_classes=["uniform"], dtypes=["float32"],
                     without_guards=["stale"])  # fmt: skip
        assert len(calls) == 4 * repeats
        assert report.run.repeats == repeats
        assert Run.from_json(report.run.to_json()).repeats == repeats
    with pytest.raises(UsageError, match="repeats is 0; it must be at least 1"):
        run(kernel, op, repeats=0)


def test_a_third_call_is_made_where_every_answer_is_exact() -> None:
    calls: list[int] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * 2 if len(calls) % 3 else x * 2 + 1

    report = run(kernel, budget=1, without_guards=["stale"])
    assert {record.verdict.kind for record in report.failures} == {"nondeterministic"}
    assert "call 3" in report.records[0].verdict.message


def test_statuses_by_priority() -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 0)

    def unsupported(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("later")

    broken = Op("broken", {"x": "N"}, {"N": 3}, lambda x: x.no_such_method())
    assert run(raising).status is Status.ERROR
    assert run(unsupported).status is Status.UNSUPPORTED
    invalid = run(lambda x: x, broken)
    assert invalid.status is Status.INVALID
    assert "N=3" in invalid.message


def test_same_seed_same_run_and_no_seed_draws_one() -> None:
    first, second = run(lambda x: x * 2), run(lambda x: x * 2)
    assert [r.inputs_sha256 for r in first.records] == [r.inputs_sha256 for r in second.records]
    assert run(lambda x: x * 2, seed=None).run.seed != run(lambda x: x * 2, seed=None).run.seed


def test_restrictions_reach_the_plan() -> None:
    report = run(lambda x: x * 2, dtypes=["float16"], layouts=["strided"], value_classes=["bell"], profile="P2")
    assert {case.dtype for case in report.cases} == {"float16"}
    assert {record.verdict.profile for record in report.records} == {"P2"}


def test_progress_is_called_after_each_case() -> None:
    seen: list[tuple[int, int]] = []
    run(lambda x: x * 2, progress=lambda done, total, record: seen.append((done, total)))
    assert seen == [(i, 10) for i in range(1, 11)]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"device": "tpu"}, "tpu"),
        ({"profile": "P9"}, "P9"),
        ({"budget": 0}, "budget"),
        ({"op": "sofmax"}, "softmax"),
    ],
)
def test_wrong_options_are_usage_errors(options: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        gpuemu.check(lambda x: x, **{"op": OP, "store": False, **options})


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what happens without a device")
def test_a_missing_device_is_said() -> None:
    with pytest.raises(UnsupportedEnvironmentError, match="doctor"):
        run(lambda x: x, device="cuda")


def test_without_an_op_the_fitting_ones_are_proposed() -> None:
    def my_gelu(x: torch.Tensor) -> torch.Tensor:
        return x

    with pytest.raises(UsageError, match=r"my_gelu.*--op.*gelu"):
        gpuemu.check(my_gelu, store=False)


def test_the_decorator_names_the_op() -> None:
    @gpuemu.kernel(op="relu")
    def mine(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

    assert gpuemu.check(mine, budget=8, seed=0, store=False).run.op == "relu"


def test_records_are_stored_as_they_come_and_an_interrupt_loses_none(tmp_path: Path) -> None:
    def stop(done: int, total: int, record: object) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(lambda x: x * 2, store=tmp_path, progress=stop)
    with Store(tmp_path) as store:
        stored, status = store.load_run("latest")
        assert status == "interrupted"
        assert len(store.load_records(stored.id)) == 3


KERNEL = "def kernel(x):\n    return x.relu() if x.shape[-1] < 30 else x\n"


def test_replay_repeats_bytes_and_verdict_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    report = gpuemu.check("kernel.py::kernel", "relu", budget=8, seed=0, store=tmp_path / "store")
    assert report.minimal is not None
    monkeypatch.chdir("/")
    again = replay(report.run.id, report.minimal.record.case.id, tmp_path / "store")
    assert again.same_inputs and again.same_outputs and again.same_verdict
    assert not again.source_changed
    (tmp_path / "kernel.py").write_text(KERNEL.replace("else x", "else x.relu()"))
    mended = replay("latest", report.minimal.record.case.id, tmp_path / "store")
    assert mended.same_inputs and not mended.same_verdict and mended.source_changed


def test_what_cannot_be_found_again_is_said(tmp_path: Path) -> None:
    report = run(lambda x: x, store=tmp_path)
    with pytest.raises(UsageError, match=r"file.py::name"):
        replay(report.run.id, report.records[0].case.id, tmp_path)
    report = run(lambda x: x, "relu", store=tmp_path)
    with pytest.raises(UsageError, match="nothing to import"):
        replay(report.run.id, report.records[0].case.id, tmp_path)


def test_a_changed_op_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    source = (
        "import gpuemu\nmine = gpuemu.Op('mine', {'x': 'N'}, {'N': gpuemu.Dim(1, 60)}, lambda x: x.relu())\n"
    )
    (tmp_path / "ops.py").write_text(source)
    report = checking.check(
        f"{tmp_path}/kernel.py::kernel", f"{tmp_path}/ops.py::mine", budget=4, seed=0, store=tmp_path
    )
    (tmp_path / "ops.py").write_text(source.replace("60", "50"))
    with pytest.raises(UsageError, match="has changed"):
        replay(report.run.id, report.records[0].case.id, tmp_path)


@pytest.mark.parametrize(("device", "kind"), [("cpu", "cpu"), ("cuda", "cuda"), ("cuda:1", "cuda")])
def test_a_device_is_of_a_kind(device: str, kind: str) -> None:
    assert checking.device_kind(device) == kind
