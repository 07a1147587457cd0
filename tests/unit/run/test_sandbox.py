"""Each protection is tried from a worker; where the system lacks one, the report has to say so."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from sandbox_trial import PROCESSES, Trial, run_trial

from gpuemu.run import landlock, sandbox, system
from gpuemu.run.protections import CONFINEMENT, ISOLATION, NAMES, Policy, Protections

USERS = ("same", "nobody") if os.geteuid() == 0 else ("same",)
MODES = ("full", "userns", "landlock", "bare", "bare+landlock")
REFUSED = {"EROFS", "EACCES", "EPERM", "EXDEV", "ENOENT"}

pytestmark = pytest.mark.skipif(not system.is_linux(), reason="Linux only")
every_system = pytest.mark.parametrize("mode", MODES)
every_user = pytest.mark.parametrize("user", USERS)


def holds(trial: Trial, name: str) -> bool:
    """Whether it is reported; if not, that a reason is given."""
    assert trial.status == 0
    assert (name in trial.active) != (name in trial.missing)
    assert name in trial.active or len(trial.missing[name]) > 20
    return name in trial.active


@every_user
@every_system
def test_files_outside_cannot_be_changed(user: str, mode: str) -> None:
    trial = run_trial("write", user, mode)
    result = dict(trial.result)
    for name in ("scratch", "read", "null", "thread name"):  # CUDA does not start where it cannot name threads
        assert result.pop(name) == "done"
    if not holds(trial, "read-only files"):
        assert "mount namespace" in trial.missing["read-only files"]
        return
    assert result.pop("kept") == "done"
    if "mount namespace" not in trial.active:
        del result["chmod"]  # a gap that the module states
    assert set(result.values()) <= REFUSED


@every_user
@every_system
def test_the_store_cannot_be_read(user: str, mode: str) -> None:
    trial = run_trial("read_store", user, mode)
    if holds(trial, "hidden store"):
        assert trial.result["read"] in REFUSED
        assert trial.result["last"] in REFUSED
    else:
        assert trial.result["read"] == "done"


@every_user
@every_system
def test_the_judge_is_out_of_reach(user: str, mode: str) -> None:
    trial = run_trial("reach_judge", user, mode)
    assert trial.result["read judge"] is not holds(trial, "judge's memory")
    assert trial.result["read zygote"] is False
    assert (trial.result["signal judge"] == "done") is not holds(trial, "judge's process")
    if holds(trial, "own /proc"):
        assert trial.result["pids"] == sorted({1, trial.result["me"]})


@every_user
@every_system
def test_no_socket_of_the_host_answers(user: str, mode: str, tmp_path: Path) -> None:
    path = f"/tmp/gpuemu-{os.getpid()}.sock"  # noqa: S108 - short, and open to the ordinary user
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind("\0" + path)
        abstract.listen()
        unix.bind(path)
        unix.listen()
        Path(path).chmod(0o777)
        try:
            trial = run_trial("connect", user, mode, f"{tcp.getsockname()[1]}:{path}")
        finally:
            Path(path).unlink()
            abstract.close()
    isolated, reachable = holds(trial, "network namespace"), trial.result
    assert not isolated or reachable["tcp"] != "done"
    assert not isolated or reachable["abstract"] != "done"
    assert (reachable["unix"] == "done") is not holds(trial, "unix sockets")
    if not isolated and "landlock" not in mode and holds(trial, "judge's process"):  # Landlock of version 6
        assert reachable["tcp"] == "EACCES"
        assert reachable["abstract"] == "EPERM"


@every_user
@pytest.mark.parametrize("mode", ["full", "userns"])
def test_memory_is_bounded(user: str, mode: str) -> None:
    trial = run_trial("allocate", user, mode)
    assert holds(trial, "memory limit")
    assert holds(trial, "file limit")
    assert trial.result == {
        "10 GB": "MemoryError",
        "10 GB mapped": "ENOMEM",
        "64 MB": "done",
        "shared": "EFBIG",
    }


@every_user
@every_system
def test_a_fork_bomb_is_bounded_and_cleared_away(user: str, mode: str) -> None:
    trial = run_trial("fork_bomb", user, mode)
    bounded = holds(trial, "process limit")
    assert (trial.result < 20 * PROCESSES) is bounded
    assert bounded or "root" in trial.missing["process limit"]
    assert trial.left == []


@every_user
@pytest.mark.parametrize("mode", ["full", "userns", "bare+landlock"])
def test_nothing_outlives_its_worker(user: str, mode: str) -> None:
    trial = run_trial("leave_orphans", user, mode)
    assert trial.status == 0
    assert trial.left == []


@every_user
def test_where_everything_is_refused_the_reasons_are_given(user: str) -> None:
    trial = run_trial("nothing", user, "bare+landlock")
    assert set(trial.missing) >= {*ISOLATION, "hidden store", "read-only files", "judge's process"}
    assert "refuses it" in trial.missing["user namespace"]
    assert "Landlock, which this kernel lacks" in trial.missing["read-only files"]
    assert "privileges" in trial.active


def test_the_probe_says_what_holds_here() -> None:
    report = sandbox.probe()
    assert {*report.active, *report.missing} == set(NAMES)
    assert not {*report.active} & {*report.missing}
    assert report == Protections.from_json(json.loads(json.dumps(report.to_json())))


@every_user
def test_a_recent_kernel_offers_everything(user: str) -> None:
    missing = run_trial("nothing", user).missing
    if system.kernel_version() < (6, 14) or landlock.get_abi() < 6 or "user namespace" in missing:
        pytest.skip("this system offers less; the other tests see that it says so")
    assert missing == {}


def test_a_probe_that_fails_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.sys, "executable", "/nonexistent/python")
    report = sandbox.probe()
    assert report.active == ()
    assert set(report.missing) == set(NAMES)
    assert "the trial of it failed" in report.missing["own /proc"]


def test_other_systems_offer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "is_linux", lambda: False)
    assert sandbox.isolate(Policy()) == Protections.none(ISOLATION, "only Linux has it")
    assert sandbox.confine(Policy()) == Protections.none(CONFINEMENT, "only Linux has it")
    assert sandbox.probe() == Protections.none(NAMES, "only Linux has it")
    sandbox.shield_memory()


def test_with_several_threads_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.namespaces, "count_threads", lambda: 2)
    assert sandbox.isolate(Policy()).active == ()
    assert sandbox.confine(Policy()).active == ()


def test_what_is_not_asked_for_is_in_neither_list() -> None:
    source, sink = os.pipe()
    if not (child := os.fork()):
        os.write(sink, json.dumps(sandbox.confine(Policy()).to_json()).encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as answer:
        report = Protections.from_json(json.load(answer))
    os.waitpid(child, 0)
    assert not {*report.active, *report.missing} & {"hidden store", "memory limit"}


def test_scratch_and_store_must_lie_apart(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    for scratch in (store, store + "/scratch", str(tmp_path)):
        with pytest.raises(ValueError, match="inside the other"):
            Policy((scratch,), (store,))
    Policy((store + "2",), (store,))


def test_joined_reports_keep_the_order_and_the_doubts() -> None:
    first = Protections(("own /proc", "user namespace"), {})
    second = Protections(("memory limit",), {"own /proc": "it did not hold"})
    joined = first.join(second)
    assert joined.active == ("user namespace", "memory limit")
    assert joined.missing == {"own /proc": "it did not hold"}
