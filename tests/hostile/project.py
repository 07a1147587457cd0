"""One hostile candidate in a project folder of its own, checked by the CLI; what it left behind.

    test ── shield ── python -m gpuemu check …

The shield is the CLI's parent, for a candidate that kills its parent where nothing keeps it from that. The test
adopts whatever loses its parent (PR_SET_CHILD_SUBREAPER), so a process left over is seen by descent, and
by a mark in its environment. Only processes that are ours in this way are ever ended, by their id.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CANDIDATES = Path(__file__).parent / "candidates"
SOURCE = Path(__file__).parents[2] / "src"
BUDGET, SEED = 12, 1
MARK = "TORCH_HOSTILE_RUN"  # a worker's environment keeps TORCH_*
MARKER_TEXT = "untouched\n"
TOLERANCE_TEXT = "1e-2"
ADDRESS_SPACE_BYTES = 16 << 30  # for the whole check on the CPU: a safety net, not a protection
SETTLING_S = 1.0
PR_SET_CHILD_SUBREAPER = 36

# Its arguments: the address space in bytes (0: no limit), the folder, then the command.
_SHIELD = """
import resource, subprocess, sys
size, folder, *command = sys.argv[1:]
if int(size):
    resource.setrlimit(resource.RLIMIT_AS, (int(size), int(size)))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
with open(folder + "/.stdout", "wb") as out, open(folder + "/.stderr", "wb") as err:
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
open(folder + "/.status", "w").write(str(ended.returncode))
"""


@dataclass(frozen=True)
class Outcome:
    """What a check of a hostile candidate came to.

    exit_code: None if the CLI had to be ended or its parent was killed. report: the JSON document on stdout, if
    it was one. harm: what was damaged or left, a sentence each.
    """

    exit_code: int | None
    report: Mapping[str, Any] | None
    stderr: str
    seconds: float
    timed_out: bool = False
    harm: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """The run's status; "refused" if there is none because the target could not be imported."""
        if self.timed_out:
            return "judge hangs"
        if self.report is not None and "status" in self.report:
            return str(self.report["status"])
        return "refused" if self.exit_code == 2 else "judge lost"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the records that do not pass, each once, in the order of the plan."""
        records = (self.report or {}).get("records", ())
        verdicts = [record["verdict"] for record in records if record["verdict"]["status"] in ("fail", "error")]
        return tuple(dict.fromkeys(str(verdict.get("kind") or "exception") for verdict in verdicts))


@dataclass
class Project:
    """A folder with one candidate in it, and the mark of the processes that belong to its check."""

    folder: Path
    name: str
    source: str
    device: str = "cpu"
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def file(self) -> Path:
        """The candidate's file."""
        return self.folder / f"{self.name}.py"


def check(
    name: str, op: str, folder: Path, options: Sequence[str] = (), device: str = "cpu", timeout_s: float = 180
) -> Outcome:
    """Check the candidate of this name in `folder` (empty) with the CLI; never raises for what it does."""
    project = make_project(name, folder, device)
    device_options = [] if device == "cpu" else ["--device", device]
    target = [f"{project.file.name}::{op}", "--op", op, "--budget", str(BUDGET), "--seed", str(SEED)]
    command = [sys.executable, "-m", "gpuemu", "check", *target, "--json", *device_options, *options]
    shield = [sys.executable, "-c", _SHIELD, str(ADDRESS_SPACE_BYTES if device == "cpu" else 0), str(folder)]
    started = time.monotonic()
    with _adopting(), _listener(folder):
        before = children()
        process = subprocess.Popen(
            [*shield, *command], cwd=folder, env=make_environment(project), start_new_session=True
        )
        timed_out = not _wait(process, project, timeout_s)
        seconds = time.monotonic() - started
        left = [] if timed_out else leftovers(project, before, process.pid)
        end(project, before)
        process.wait()
    status = folder / ".status"
    harm = [f"process {pid} was left: {line}" for pid, line in left]
    if not timed_out and not status.exists():
        harm.append("the parent of the check was ended")
    report = _report(folder)
    return Outcome(
        exit_code=int(status.read_text()) if status.exists() else None,
        report=report,
        stderr=_read(folder / ".stderr"),
        seconds=seconds,
        timed_out=timed_out,
        harm=tuple(harm + damage(project, report)),
    )


def judge_naively(
    name: str, op: str, folder: Path, order: str = "first", device: str = "cpu", timeout_s: float = 20
) -> str:
    """What the naive judge says: "accepts" (exit status 0), "rejects" or "hangs"."""
    project = make_project(name, folder, device)
    judge = [sys.executable, str(Path(__file__).with_name("naive.py")), f"{project.file}::{op}", "--op", op]
    command = [*judge, "--order", order, "--seed", "42", "--device", device]
    shield = [sys.executable, "-c", _SHIELD, str(ADDRESS_SPACE_BYTES if device == "cpu" else 0), str(folder)]
    with _adopting(), _listener(folder):
        before = children()
        process = subprocess.Popen(
            [*shield, *command], cwd=folder, env=make_environment(project), start_new_session=True
        )
        timed_out = not _wait(process, project, timeout_s)
        end(project, before)
        process.wait()
    status = folder / ".status"
    if timed_out:
        return "hangs"
    return "accepts" if status.exists() and status.read_text() == "0" else "rejects"


def make_project(name: str, folder: Path, device: str = "cpu") -> Project:
    """Put a candidate into an empty folder, with what some candidates are after."""
    source = (CANDIDATES / f"{name}.py").read_text()
    project = Project(folder, name, source, device)
    folder.mkdir(parents=True, exist_ok=True)
    project.file.write_text(source)
    (folder / "marker.txt").write_text(MARKER_TEXT)
    (folder / "tolerance.txt").write_text(TOLERANCE_TEXT)
    (folder / "spare.txt").write_text(f"{os.getpid()} {os.getppid()}")
    return project


def make_environment(project: Project) -> dict[str, str]:
    """This process's environment with the mark."""
    kept = {name: value for name, value in os.environ.items() if name != "GPUEMU_STORE"}
    own = {MARK: project.mark, "HOSTILE_SEED": str(SEED), "HOSTILE_PROJECT": str(project.folder)}
    return {**kept, "PYTHONPATH": str(SOURCE), "TRITON_INTERPRET": str(int(project.device == "cpu")), **own}


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Orphans among this process's descendants become its children."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextlib.contextmanager
def _listener(folder: Path) -> Iterator[None]:
    """Somebody on this host to whom a candidate could send what it found."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        (folder / "listener.txt").write_text(str(server.getsockname()[1]))
        yield


def _wait(process: subprocess.Popen[bytes], project: Project, timeout_s: float) -> bool:
    """Whether the check came to its end in time, without its shield if need be."""
    deadline = time.monotonic() + timeout_s
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    while not (project.folder / ".status").exists() and _living(project):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def leftovers(project: Project, before: set[int], shield: int) -> list[tuple[int, str]]:
    """Processes that are still there a moment after the end, with their command lines."""
    deadline = time.monotonic() + SETTLING_S
    while True:
        pids = (_living(project) | (children() - before)) - {shield}
        alive = [(pid, _command_line(pid)) for pid in sorted(pids) if not _is_zombie(pid)]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.02)


def end(project: Project, before: set[int]) -> None:
    """End what is left of this check, by process id, until nothing is."""
    for _ in range(200):
        pids = _living(project) | (children() - before)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def _living(project: Project) -> set[int]:
    """Processes whose environment carries this check's mark."""
    mark = f"{MARK}={project.mark}".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes():
                found.add(int(path.parent.name))
    return found - {os.getpid()}


def children() -> set[int]:
    """This process\'s own children."""
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(word) for word in path.read_text().split()}
    return found


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def _command_line(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")[:120]


def _read(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(1 << 26).decode(errors="replace")
    return ""


def _report(folder: Path) -> Mapping[str, Any] | None:
    """The one JSON document on stdout; None if there is anything else on it."""
    with contextlib.suppress(ValueError):
        document = json.loads(_read(folder / ".stdout"))
        return document if isinstance(document, dict) else None
    return None


def damage(project: Project, report: Mapping[str, Any] | None) -> list[str]:
    """What is no longer as it was in the project, shared memory and the run store."""
    folder = project.folder
    texts = {"marker.txt": MARKER_TEXT, "tolerance.txt": TOLERANCE_TEXT, project.file.name: project.source}
    found = [f"{name} was changed" for name, text in texts.items() if _read(folder / name) != text]
    found += [f"{path.name} was planted" for path in folder.glob("sitecustomize.py")]
    kept = [
        path
        for mark in (project.mark, "")  # where the environment did not tell the mark
        for path in Path("/dev/shm").glob(f"gpuemu_hostile_{mark}_*")  # noqa: S108
    ]
    for path in kept:
        path.unlink(missing_ok=True)
    found += [f"{path} was left in shared memory" for path in kept]
    return found + damage_to_store(folder / ".gpuemu" / "runs.sqlite", report)


def damage_to_store(path: Path, report: Mapping[str, Any] | None) -> list[str]:
    """Records of a report that its store has not, or not as reported."""
    if not path.exists():
        return ["there is no run store"] if report is not None and "records" in report else []
    run = (report or {}).get("run", {}).get("id")
    query = "SELECT idx, case_id, status, record FROM records WHERE run_id = ? AND role = 'case'"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            if store.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                return ["the run store is corrupt"]
            stored = {row[0]: row for row in store.execute(query, (run,))}
    except sqlite3.Error as error:
        return [f"the run store cannot be read: {error}"]
    if report is None or "records" not in report:
        return []
    records = report["records"]
    found = [] if len(records) == BUDGET else [f"{len(records)} of {BUDGET} cases have a record"]
    for record in records:
        _, case_id, status, text = stored.get(record["index"], (None, "", "", "{}"))
        told = json.loads(text).get("verdict", {}).get("status")
        if (case_id, status, told) != (record["case_id"], *[record["verdict"]["status"]] * 2):
            found.append(f"the store's record {record['index']} is missing or another")
    return found


def remove(folder: Path) -> None:
    """Remove a project's folder, whatever the candidate made of it."""
    shutil.rmtree(folder, ignore_errors=True)
