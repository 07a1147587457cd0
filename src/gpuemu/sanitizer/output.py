"""Reading what compute-sanitizer prints.

Its lines begin with "========="; a finding is a line of words and the indented lines under it, up to an empty
one (Compute Sanitizer manual, "Using the Memcheck Tool" and following). What the program prints lies between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpuemu.model.sanitizer import SanitizerFinding

_MARK = "========="
# Lines about the run, not about a fault of the program.
_ABOUT = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY:|Error: (?!Race|Potential)|Warning: |WARNING: |"
    r"Internal Sanitizer|Target application|Host Frame|\(|\d+ "
)
_RACE = re.compile(r"(?P<kind>(Error|Warning): .*? (?:between|at) .*?access) at (?P<place>\S.*)")
_SUMMARY = re.compile(r"^=+ (ERROR|RACECHECK) SUMMARY: ", re.MULTILINE)
_PLACE = re.compile(r"\s+at (?P<place>\S.*)")
_EXAMPLE = re.compile(r"\s+((by thread|Access to|Address|and is) .*)")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def has_finished(text: str) -> bool:
    """Whether the tool came to its summary."""
    return _SUMMARY.search(text) is not None


def complaint(text: str) -> str:
    """Why the tool did not do its work, in its own words; else the last line that the program printed."""
    said = [line.removeprefix(_MARK).strip() for line in text.splitlines() if line.startswith(_MARK)]
    errors = [line for line in said if line.startswith(("Error:", "Internal"))]
    printed = [line for line in text.splitlines() if line.strip()]
    lines = errors or [line for line in printed if not line.startswith(_MARK)] or printed
    return lines[-1].strip() if lines else "it printed nothing"


def parse(text: str) -> tuple[SanitizerFinding, ...]:
    """The findings, those of one kind at one place together, in the order in which they were first printed."""
    found: dict[tuple[str, str], SanitizerFinding] = {}
    for block in _blocks(text):
        one = _read(block)
        if one is not None:
            key = (one.kind, one.place)
            found[key] = replace(found[key], count=found[key].count + 1) if key in found else one
    return tuple(found.values())


def _blocks(text: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in text.splitlines():
        if not line.startswith(_MARK):
            continue
        rest = line.removeprefix(_MARK).removeprefix(" ")
        if rest.strip() and (rest.startswith("  ") or (block and _RACE.match(block[0]))):
            block.append(rest)
            continue
        if block:
            yield block
        block = [rest] if rest.strip() else []
    if block:
        yield block


def _read(block: list[str]) -> SanitizerFinding | None:
    head, *rest = block
    if head.startswith(" ") or _ABOUT.match(head):
        return None
    race = _RACE.match(head)
    if race is not None:
        return SanitizerFinding(race["kind"], race["place"].strip(), "; ".join(line.strip() for line in rest))
    places = [match["place"] for line in rest if (match := _PLACE.fullmatch(line))]
    examples = [match[1] for line in rest if (match := _EXAMPLE.fullmatch(line))]
    return SanitizerFinding(_ADDRESS.sub("0x…", head.strip()), places[0] if places else "", "; ".join(examples))
