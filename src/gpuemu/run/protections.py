"""What keeps a candidate from the judge: what is asked for, and what is in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Set up by `namespaces.isolate`, then by `sandbox.confine`, in the order of reading.
ISOLATION = (
    "user namespace",
    "mount namespace",
    "pid namespace",
    "own /proc",
    "network namespace",
    "ipc namespace",
)
CONFINEMENT = (
    "hidden store",
    "read-only files",
    "judge's memory",
    "judge's process",
    "unix sockets",
    "privileges",
    "memory limit",
    "process limit",
    "file limit",
)
NAMES = ISOLATION + CONFINEMENT


@dataclass(frozen=True)
class Policy:
    """What the candidate may do.

    writable: folders below which it may write (its scratch folder); they must exist.
    hidden: folders that it must not even see (the run store: it holds the seed); they must exist.
    memory_bytes: address space beyond what is mapped when `confine` is called; None sets no limit (CUDA
        reserves huge ranges).
    processes: how many it may have at a time, threads included.
    file_bytes: the longest file or shared memory it may make.
    """

    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    memory_bytes: int | None = None
    processes: int = 256
    file_bytes: int = 1 << 34

    def __post_init__(self) -> None:
        for folder in self.writable:
            for store in self.hidden:
                scratch, secret = Path(folder).resolve(), Path(store).resolve()
                if scratch.is_relative_to(secret) or secret.is_relative_to(scratch):
                    raise ValueError(f"one of {folder} (writable) and {store} (hidden) is inside the other")


@dataclass(frozen=True)
class Protections:
    """Names of `NAMES` that are in force, each tried out, and why the others are not.

    A name that was not asked for (nothing to hide, no memory limit) is in neither.
    """

    active: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def none(names: Iterable[str], reason: str) -> Protections:
        """All of these missing, for one reason."""
        return Protections(missing=dict.fromkeys(names, reason))

    def join(self, other: Protections) -> Protections:
        """Both reports; a name that either reports missing is missing."""
        missing = {**self.missing, **other.missing}
        active = {*self.active, *other.active} - set(missing)
        return Protections(
            tuple(name for name in NAMES if name in active),
            {name: missing[name] for name in NAMES if name in missing},
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON document."""
        return {"active": list(self.active), "missing": dict(self.missing)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Protections:
        """The inverse of `to_json`."""
        return Protections(tuple(document["active"]), dict(document["missing"]))


UNPROTECTED = Protections.none(NAMES, "switched off")
