"""What is kept and reported: a record per case, a run per campaign, a report of it all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuemu.model.audit import Audit
from gpuemu.model.calibration import Drift
from gpuemu.model.case import Case
from gpuemu.model.observation import REPEATS
from gpuemu.model.verdict import Adequacy, Fingerprint, Status, Verdict

# Before an op's target: the run checked the kernel's own backward pass against the op's.
BACKWARD_OF = "backward of "
INLINE, WORKER = "inline", "worker"  # where a run's candidate was called


@dataclass(frozen=True)
class Record:
    """One case as it happened. inputs_sha256, outputs_sha256: over names, dtypes, shapes, strides and bytes."""

    index: int
    case: Case
    verdict: Verdict
    inputs_sha256: str
    outputs_sha256: str | None = None
    duration_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; inverse of `from_json`."""
        return {
            "index": self.index,
            "case_id": self.case.id,
            "case": self.case.to_json(),
            "verdict": self.verdict.to_json(),
            "inputs_sha256": self.inputs_sha256,
            "outputs_sha256": self.outputs_sha256,
            "duration_s": self.duration_s,
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Record:
        """The record of a JSON document written by `to_json`."""
        return Record(
            index=int(document["index"]),
            case=Case.from_json(document["case"]),
            verdict=Verdict.from_json(document["verdict"]),
            inputs_sha256=document["inputs_sha256"],
            outputs_sha256=document.get("outputs_sha256"),
            duration_s=float(document.get("duration_s", 0.0)),
        )


@dataclass(frozen=True)
class Run:
    """A campaign's header: what was checked, how, and where.

    op_target: how to find the op again (a built-in name or file.py::name, after `BACKWARD_OF` if the kernel's
    own backward pass was checked). mode: `INLINE` runs share the judge's process and say so; of a `WORKER`,
    protections are those in force. contract: every promise that the kernel was held to, defaults included.
    rigorous, repeats, constants: as in `gpuemu.campaign.Settings`. reference: whether one was evaluated.
    request: what the plan was made from, with the guards and the time per call, so that it can be resumed.
    """

    id: str
    target: str
    op: str
    op_target: str
    op_digest: str
    plan_digest: str
    strategy: str
    seed: int
    device: str
    profile: str | None
    started: str
    source_digest: str | None = None
    mode: str = INLINE
    protections: tuple[str, ...] = ()
    contract: Mapping[str, Any] = field(default_factory=dict)
    rigorous: bool = False
    repeats: int = REPEATS
    constants: Mapping[str, float] = field(default_factory=dict)
    reference: bool = True
    request: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; inverse of `from_json`."""
        document = dict(vars(self))
        document["seed"] = str(self.seed)
        document["environment"] = dict(self.environment)
        document["contract"] = dict(self.contract)
        document["constants"] = dict(self.constants)
        document["notes"] = list(self.notes)
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Run:
        """The run of a JSON document written by `to_json`."""
        fields = dict(document)
        fields["seed"] = int(fields["seed"])
        fields["notes"] = tuple(fields["notes"])
        fields["protections"] = tuple(fields.get("protections", ()))
        return Run(**fields)


@dataclass(frozen=True)
class Minimal:
    """A shrunk failing case: the smallest found, its verdict, and how many runs shrinking took."""

    record: Record
    original_case_id: str
    runs: int


@dataclass(frozen=True)
class Report:
    """What `check` returns.

    status: of the whole run. records: in plan order. minimal: shrunk first failure, if any. seconds: wall time.
    fingerprint: per dtype, the tightest arithmetic that the kernel shows in benign cases.
    drift: where it comes nearer to its bound than the controls of a calibration. audit: what other projects'
    rules say of the same outputs, if that was asked for. printed: the end of what the kernel wrote to stdout
    and stderr in its worker; no part of the document.
    """

    run: Run
    status: Status
    records: tuple[Record, ...]
    adequacy: Adequacy
    message: str = ""
    minimal: Minimal | None = None
    seconds: float = 0.0
    fingerprint: Mapping[str, Fingerprint] = field(default_factory=dict)
    drift: tuple[Drift, ...] = ()
    audit: Audit | None = None
    printed: str = field(default="", compare=False)

    @property
    def passed(self) -> bool:
        return self.status is Status.PASS

    @property
    def failures(self) -> tuple[Record, ...]:
        """Records whose verdict is `fail` or `error`."""
        return tuple(r for r in self.records if r.verdict.status in (Status.FAIL, Status.ERROR))

    @property
    def cases(self) -> tuple[Case, ...]:
        return tuple(record.case for record in self.records)

    @property
    def flags(self) -> tuple[str, ...]:
        """Every flag that some verdict carries, sorted."""
        return tuple(sorted({flag for record in self.records for flag in record.verdict.flags}))

    @property
    def cases_to_first_failure(self) -> int | None:
        """1-based position in the plan of the first failing case."""
        for position, record in enumerate(self.records, start=1):
            if record.verdict.status in (Status.FAIL, Status.ERROR):
                return position
        return None

    @property
    def replay_command(self) -> str | None:
        """The command that repeats the minimal (else the first) failing case."""
        record = self.minimal.record if self.minimal else next(iter(self.failures), None)
        return None if record is None else f"gpuemu replay {self.run.id} {record.case.id}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run": self.run.to_json(),
            "status": str(self.status),
            "message": self.message,
            "cases": len(self.records),
            "cases_to_first_failure": self.cases_to_first_failure,
            "flags": list(self.flags),
            "adequacy": {
                key: dict(value) if isinstance(value, Mapping) else list(value)
                for key, value in vars(self.adequacy).items()
            },
            "minimal": None
            if self.minimal is None
            else {
                "record": self.minimal.record.to_json(),
                "original_case_id": self.minimal.original_case_id,
                "runs": self.minimal.runs,
            },
            "replay_command": self.replay_command,
            "audit": None if self.audit is None else self.audit.to_json(),
            "drift": [vars(drift) for drift in self.drift],
            "fingerprint": {dtype: vars(found) for dtype, found in self.fingerprint.items()},
            "records": [record.to_json() for record in self.records],
            "seconds": self.seconds,
        }
