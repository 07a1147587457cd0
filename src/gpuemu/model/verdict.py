"""What the oracle decided about one case (ORACLE.md section 12.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpuemu.model.canonical import decode_float, encode_float


class Status(StrEnum):
    """Outcome of a case or of a whole run."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"  # crashed, hung, did not compile
    UNSUPPORTED = "unsupported"  # the candidate refused this case with an error of its own
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"  # the reference failed; never counted against the candidate


class Kind(StrEnum):
    """In what way a failing case is wrong; a guard's finding is "guard:NAME".

    The last five are kinds of the status `error`: the worker that ran the candidate gave no answer.
    """

    VALUE = "value"
    PRECISION = "precision"
    NONFINITE = "nonfinite"
    NONDETERMINISTIC = "nondeterministic"
    SHAPE = "shape"
    DTYPE = "dtype"
    LAYOUT = "layout"
    CRASH = "crash"  # it ended by a signal or an exit
    HANG = "hang"  # no answer within the time allowed
    MEMORY = "memory"  # it held more memory than allowed
    OUTPUT_SIZE = "output_size"  # its outputs are larger than allowed
    PROTOCOL = "protocol"  # what it sent is no answer


class Flag(StrEnum):
    """A remark on a verdict that passes (or rests on a generic bound)."""

    SUSPICIOUS = "suspicious"
    NAN_SEMANTICS = "nan_semantics"
    GENERIC_BOUND = "generic_bound"
    NONDETERMINISTIC = "nondeterministic"  # calls differ, within the bound, and no contract forbids it


@dataclass(frozen=True)
class WorstElement:
    """The element furthest outside (or closest to) its acceptance interval.

    error_bound_units: distance of the expected value to the interval that rounds to `actual`, over the bound.
    """

    output: int
    index: tuple[int, ...]
    actual: float
    expected: float
    bound: float
    error_bound_units: float
    error_ulp: float


@dataclass(frozen=True)
class ErrorDistribution:
    """Errors of one case: elements, how many were judged and exceeded, largest and mean score."""

    elements: int
    judged: int
    exceeding: int
    max_bound_units: float
    max_absolute: float
    max_ulp: float


# Fields of a verdict that hold names.
_NAMES = (
    "flags", "rejected_predictors", "exempt_predictors", "generic", "relations", "rejected_distortions",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The decision about one case, with its evidence.

    kind: a `Kind` or "guard:NAME" on failures. profile: the profile judged under; looser_profile: the tightest
    looser profile that accepts a `precision` failure. rejected_predictors: trivial predictors that this case
    would have rejected (section 12.5); exempt_predictors: those that equal the op here. relations:
    those that were tried on this case and hold; a violated one is the kind "relation:NAME".
    rejected_distortions: distortions of the right answer that this case is the first to reject. visible_bits:
    it rejects the factors 1 +- 2^-k for this k, the largest so far in its dtype.
    """

    status: Status
    kind: str | None = None
    message: str = ""
    profile: str = ""
    looser_profile: str | None = None
    worst: WorstElement | None = None
    errors: ErrorDistribution | None = None
    flags: tuple[str, ...] = ()
    hint: str = ""
    rejected_predictors: tuple[str, ...] = ()
    exempt_predictors: tuple[str, ...] = ()
    generic: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    rejected_distortions: tuple[str, ...] = ()
    visible_bits: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; NaN and infinities as strings."""
        document: dict[str, Any] = {"status": str(self.status)}
        for name in ("kind", "message", "profile", "looser_profile", "hint"):
            if getattr(self, name):
                document[name] = str(getattr(self, name))
        for name in _NAMES:
            if getattr(self, name):
                document[name] = [str(item) for item in getattr(self, name)]
        if self.visible_bits is not None:
            document["visible_bits"] = self.visible_bits
        for name in ("worst", "errors"):
            part = getattr(self, name)
            if part is not None:
                document[name] = {key: _encode(value) for key, value in vars(part).items()}
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Verdict:
        """The verdict of a JSON document written by `to_json`."""
        fields = {name: value for name, value in document.items() if name not in ("worst", "errors")}
        fields["status"] = Status(fields["status"])
        for name in _NAMES:
            fields[name] = tuple(fields.get(name, ()))
        worst, errors = document.get("worst"), document.get("errors")
        if worst is not None:
            index = tuple(int(i) for i in worst["index"])
            numbers = {k: decode_float(v) for k, v in worst.items() if k not in ("output", "index")}
            fields["worst"] = WorstElement(output=int(worst["output"]), index=index, **numbers)
        if errors is not None:
            fields["errors"] = ErrorDistribution(
                *(int(errors[k]) for k in ("elements", "judged", "exceeding")),
                *(decode_float(errors[k]) for k in ("max_bound_units", "max_absolute", "max_ulp")),
            )
        return Verdict(**fields)


def _encode(value: Any) -> Any:
    if isinstance(value, float):
        return encode_float(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Fingerprint:
    """The arithmetic that a kernel shows in one dtype.

    profile: the tightest that passes in every benign case; judged: the one that the run was judged under.
    cases: how many cases that rests on. departures: cases that need more than a profile which more than 90 %
    pass; that is suspicious (ORACLE.md section 8).
    """

    profile: str
    judged: str
    cases: int
    departures: int = 0


@dataclass(frozen=True)
class Adequacy:
    """Which trivial predictors a whole plan rejected; a run that accepts one establishes nothing.

    rejected_distortions, accepted_distortions: small distortions of the right answer that some case rejects, or
    none does. visible_bits: per dtype the largest k for which some case rejects the factors 1 +- 2^-k: the
    smallest relative error that the plan sees is 2^-k.
    """

    rejected: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    exempt: tuple[str, ...] = field(default=())
    rejected_distortions: tuple[str, ...] = ()
    accepted_distortions: tuple[str, ...] = ()
    visible_bits: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_sufficient(self) -> bool:
        return not self.accepted
