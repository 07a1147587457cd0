"""What compute-sanitizer said about a case."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["clean", "findings", "unavailable"]


@dataclass(frozen=True)
class SanitizerFinding:
    """One kind of fault at one place.

    kind: the tool's own words. place: function, offset and source line as far as the tool knows them. example:
    the first one's thread and address. count: how often it was reported.
    """

    kind: str
    place: str
    example: str = ""
    count: int = 1

    @property
    def kernel(self) -> str:
        """The function's name without arguments and offset; "" if the tool names none."""
        return self.place.partition("(")[0].partition("+")[0]


@dataclass(frozen=True)
class SanitizerResult:
    """What one tool came to.

    state: "clean" and "findings" only where the tool found its planted bug, and nothing in the same kernel
    without it; else "unavailable", and reason says why.
    """

    tool: str
    state: State
    findings: tuple[SanitizerFinding, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)
