"""The arithmetic fingerprint of a run as lines of the terminal report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuemu.model.profile import PROFILES
from gpuemu.model.verdict import Fingerprint
from gpuemu.report.text import FAINT_STYLE, Line, count, make_line


def fingerprint_lines(fingerprint: Mapping[str, Fingerprint]) -> Iterator[Line]:
    """A line per dtype in which the kernel needs less than it was granted, and one per departure."""
    for dtype, found in fingerprint.items():
        if found.cases and found.profile != found.judged:
            rest = f"{dtype} passes {found.profile} ({PROFILES[found.profile].meaning})"
            cases = f" in all of {count(found.cases, 'benign case')}; --profile {found.profile} holds it there"
            yield make_line(("arithmetic: ", FAINT_STYLE), rest + cases)
        if found.departures:
            most = f"{dtype} passes a tighter profile than {found.judged} in most benign cases"
            yield make_line(
                ("suspicious: ", "yellow"), f"{most}, but not in {found.departures} of {found.cases}"
            )
