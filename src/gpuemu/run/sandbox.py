"""What a worker gives up before it imports the candidate, and the trial of each protection.

    judge ── spawns ──► zygote: `isolate`, then imports torch ── forks ──► worker: `confine`, then the candidate

Nothing here imports torch: it runs before that. Nothing is believed because a call succeeded: what is reported
as active was tried. Known gaps: a unix socket made outside after `isolate` can be connected to, modes and
owners of files can be changed where there is no mount namespace, memory is limited per process.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gpuemu.run import landlock, mounts, namespaces, system
from gpuemu.run.mounts import SHARED_MEMORY
from gpuemu.run.namespaces import get_isolation, isolate
from gpuemu.run.processes import kill_others, read_processes
from gpuemu.run.protections import CONFINEMENT, NAMES, Policy, Protections

__all__ = ["Policy", "Protections", "confine", "isolate", "kill_others", "probe", "shield_memory"]

PROBE_TIMEOUT_S = 60.0
_SLACK_BYTES = 1 << 26  # mapped between reading the size of the process and limiting it
_PLACES = (".", "/tmp", "/var/tmp", "/dev/shm", "~")  # noqa: S108 - where a file might be made
_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")  # a program that the system itself would start
_DEVICES = (
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "nvidia*",
    "nvidia-caps/*",
    "nvmap",
    "nvhost*",
    "dxg",
    "kfd",
    "dri/*",
)


def confine(policy: Policy) -> Protections:
    """Give up, for good, what the candidate must not have; call it in the worker, with one thread.

    It works after `isolate` and without it. Only the calling thread and what it starts from here on is bound,
    hence the one thread. Descriptors that are open stay usable.
    """
    if not system.is_linux():
        return Protections.none(CONFINEMENT, "only Linux has it")
    if namespaces.count_threads() != 1:
        return Protections.none(CONFINEMENT, "the worker must be confined before its first thread is started")
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    missing: dict[str, str] = {}
    _limit(policy, missing)
    system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    planted = [_plant(Path(store)) for store in policy.hidden]
    abi = landlock.get_abi()
    if abi:
        try:
            _restrict(policy, abi)
        except OSError as error:
            abi = 0
            missing["read-only files"] = f"Landlock failed: {error.strerror}"
    with suppress(OSError):
        system.drop_capabilities()
    system.prctl(system.PR_SET_DUMPABLE, 1)  # the zygote took it away; libraries read their own /proc
    return _verify(policy, abi, planted, missing)


def shield_memory() -> None:
    """Make this process's memory unreadable to others of the same user: a wall the judge can build itself.

    Debuggers and core dumps of it stop working, hence not by default.
    """
    if system.is_linux():
        system.prctl(system.PR_SET_DUMPABLE, 0)


def _limit(policy: Policy, missing: dict[str, str]) -> None:
    import resource

    def lower(kind: int, wanted: int) -> None:
        _, most = resource.getrlimit(kind)
        value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(kind, (value, value))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, policy.file_bytes)
    if policy.memory_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        lower(resource.RLIMIT_AS, pages * mmap.PAGESIZE + policy.memory_bytes)
    own = _has_own_user_namespace()
    lower(resource.RLIMIT_NPROC, policy.processes + (0 if own else _count_threads_of_user()))
    if get_isolation().pid_limit is None and _is_root_outside():
        missing["process limit"] = (
            "the system's does not count for root, and a pid namespace with one of its own needs Linux 6.14"
        )


def _has_own_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]


def _is_root_outside() -> bool:
    """Whether the system counts this process as root's: by the identity that it has outside, as far as seen."""
    inner = os.geteuid()
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, outer, count = map(int, line.split())
        if first <= inner < first + count:
            return outer + inner - first == 0
    return False


def _count_threads_of_user() -> int:
    """Where the user's other programs count as well, the limit comes on top of them."""
    count = 0
    for process in read_processes():
        with suppress(OSError):
            if Path(f"/proc/{process.pid}").stat().st_uid == os.geteuid():
                count += sum(1 for _ in os.scandir(f"/proc/{process.pid}/task"))
    return count


def _restrict(policy: Policy, abi: int) -> None:
    visible = [Path(store) for store in policy.hidden if not _is_covered(Path(store))]
    rules = landlock.Ruleset(abi, reads=bool(visible), tcp=not get_isolation().own_network)
    for folder in policy.writable:
        rules.allow_writing(folder)
    if get_isolation().private_shared_memory:
        rules.allow_writing(SHARED_MEMORY)
    rules.allow_changing("/proc" if get_isolation().private_proc else "/proc/self/task")
    for pattern in _DEVICES:
        for device in Path("/dev").glob(pattern):
            rules.allow_changing(device)
    if visible:
        rules.allow_listing("/")
        for path in landlock.list_beside(visible):
            rules.allow_reading(path)
    rules.enforce()


def _is_covered(store: Path) -> bool:
    """Whether a folder is a mount of its own that is empty and stays so."""
    try:
        read_only = os.statvfs(store).f_flag & os.ST_RDONLY
        return bool(read_only) and store.is_mount() and not any(store.iterdir())
    except OSError:
        return False


def _verify(policy: Policy, abi: int, planted: list[int | None], missing: dict[str, str]) -> Protections:
    """Try what is forbidden. A reason found earlier stays."""
    covered = get_isolation().sockets
    sockets = [
        path for path in (mounts.find_sockets() if covered is None else covered) if mounts.is_open_socket(path)
    ]
    landlocked = "Landlock" if abi else "Landlock, which this kernel lacks or does not permit"
    attempts = {
        "hidden store": (_is_hidden(policy.hidden, planted), f"it needs a mount namespace or {landlocked}"),
        "read-only files": (
            not _can_write_outside(policy.writable) and (abi >= 3 or _is_root_read_only()),
            f"it needs a mount namespace, or {landlocked}, in version 3 (Linux 6.2)",
        ),
        "judge's memory": (_cannot_read_judge(), f"it needs a pid namespace or {landlocked}"),
        "judge's process": (
            _cannot_signal_judge(),
            f"it needs a pid namespace, or {landlocked}, in version 6 (Linux 6.12)",
        ),
        "unix sockets": (
            not sockets,
            f"it needs a mount namespace: {', '.join(sockets[:3])} can be connected to",
        ),
        "privileges": (_is_unprivileged(), "capabilities could not be given up"),
        "memory limit": (_is_memory_limited(policy.memory_bytes), "a larger mapping succeeded"),
        "process limit": ("process limit" not in missing, ""),
        "file limit": (_is_file_size_limited(policy.file_bytes), "a longer file could be made"),
    }
    if not policy.hidden:
        del attempts["hidden store"]
    if policy.memory_bytes is None:
        del attempts["memory limit"]
    for name, (holds, reason) in attempts.items():
        if not holds:
            missing.setdefault(name, reason)
        elif name != "process limit":
            missing.pop(name, None)
    return Protections(tuple(name for name in attempts if name not in missing), missing)


def _plant(store: Path) -> int | None:
    """A nameless file in a folder, to see later whether files there can be opened; None where it is refused."""
    try:
        file, name = tempfile.mkstemp(dir=store)
    except OSError:
        return None
    Path(name).unlink()
    return file


def _is_hidden(stores: Iterable[str], planted: Iterable[int | None]) -> bool:
    tried = [_is_one_hidden(Path(store), file) for store, file in zip(stores, planted, strict=True)]
    return all(tried)


def _is_one_hidden(store: Path, planted: int | None) -> bool:
    """Covered so that it cannot be uncovered, or with files that cannot be opened."""
    if planted is None:
        if not _is_covered(store):
            return False
        try:
            system.umount(str(store))
        except OSError:
            return True
        return False
    try:
        return not _can_open(Path(f"/proc/self/fd/{planted}"), os.O_RDONLY)
    finally:
        os.close(planted)


def _can_open(path: Path, flags: int) -> bool:
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True


def _can_write_outside(writable: Iterable[str]) -> bool:
    """By making a file wherever one might be made, and by opening one that exists."""
    roots = [Path(folder).resolve() for folder in writable]
    if get_isolation().private_shared_memory:
        roots.append(Path(SHARED_MEMORY))
    for place in (*_PLACES, *(str(root.parent) for root in roots)):
        folder = Path(place).expanduser().resolve()
        if any(folder.is_relative_to(root) for root in roots):
            continue
        with suppress(OSError), tempfile.TemporaryFile(dir=folder):
            return True
    return any(_can_open(path, os.O_WRONLY | os.O_APPEND) for path in (Path(__file__), _CORE_PATTERN))


def _is_root_read_only() -> bool:
    return bool(os.statvfs("/").f_flag & os.ST_RDONLY)


def _judges() -> set[int]:
    """Processes that must be out of reach: the zygote, and the judge where it can be named at all."""
    judge = get_isolation().judge
    return {os.getppid()} | ({judge} if judge else set())


def _cannot_read_judge() -> bool:
    return not any(system.may_read_memory(pid) for pid in _judges())


def _cannot_signal_judge() -> bool:
    """Where the judge cannot be named it is out of reach, and pid 1 ignores what it does not handle."""
    if get_isolation().first is not None:
        return True
    for pid in _judges():
        try:
            os.kill(pid, 0)
        except OSError:
            continue
        return False
    return True


def _is_unprivileged() -> bool:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held = [lines[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")]
    return all(int(value, 16) == 0 for value in held) and lines["NoNewPrivs"].strip() == "1"


def _is_memory_limited(memory_bytes: int | None) -> bool:
    """A mapping without access is counted by the limit, and costs nothing."""
    if memory_bytes is None:
        return False
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        mmap.mmap(-1, memory_bytes + _SLACK_BYTES, flags=flags, prot=0).close()
    except (OSError, ValueError):
        return True
    return False


def _is_file_size_limited(file_bytes: int) -> bool:
    with os.fdopen(os.memfd_create("gpuemu"), "wb") as file:
        try:
            os.ftruncate(file.fileno(), file_bytes + 1)
        except OSError:
            return True
    return False


def probe() -> Protections:
    """What this system offers: a zygote and a worker are made in a throw-away process and say what holds."""
    if not system.is_linux():
        return Protections.none(NAMES, "only Linux has it")
    try:
        with tempfile.TemporaryDirectory() as place:
            program = "import sys; from gpuemu.run import sandbox; sandbox.answer_probe(sys.argv[1])"
            done = subprocess.run(  # noqa: S603 - our own command line
                [sys.executable, "-c", program, place],
                capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True,
            )  # fmt: skip
        return Protections.from_json(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Protections.none(NAMES, f"the trial of it failed: {error}")


def answer_probe(place: str) -> None:
    """What the process that `probe` starts does, in an empty folder: print what holds, as JSON."""
    scratch, store = Path(place, "scratch"), Path(place, "store")
    scratch.mkdir()
    store.mkdir()
    policy = Policy((str(scratch),), (str(store),), memory_bytes=1 << 28)
    isolated = isolate(policy)
    source, sink = os.pipe()
    worker = os.fork()
    if not worker:
        os.write(sink, json.dumps(confine(policy).to_json()).encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as answer:
        confined = Protections.from_json(json.loads(answer.read()))
    kill_others()
    sys.stdout.write(json.dumps(isolated.join(confined).to_json()))
    sys.stdout.flush()
