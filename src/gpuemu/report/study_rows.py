"""What the terminal says of any study that is made of many rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuemu.report.text import Line, make_line


def missing_row_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """The rows that ended their worker, and how many were not begun in time."""
    for item, message in document["failures"].items():
        yield make_line((f"row {item} ended its worker: ", "red"), message)
    if document["items"] < document["items_planned"]:
        yield make_line(
            f"{document['items']} of {document['items_planned']} rows: the time was up; "
            "the same command with the same --journal goes on"
        )
