"""Lines of the terminal report: styled words, numbers in decimal and hexadecimal, harmless foreign text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

Line = Text
LABEL_STYLE = "bold"
FAINT_STYLE = "dim"


def make_line(*parts: str | tuple[str, str]) -> Line:
    """A line from plain strings and (text, style) pairs; none of them is markup."""
    line = Text()
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        line.append(clean(text), style)
    return line


def clean(text: str) -> str:
    """Text from a candidate on one line: an escape sequence in it must not reach the terminal."""
    flat = " ".join(text.split("\n"))
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in flat)


def shorten_target(target: str) -> str:
    """A file target relative to the working directory when it lies inside it."""
    return target.removeprefix(f"{Path.cwd()}/")


def format_hex(value: float) -> str:
    """`float.hex` without the zeros that end its significand: 0x1.4p+0; "" for NaN and infinities."""
    if not math.isfinite(value):
        return ""
    significand, _, exponent = value.hex().partition("p")
    return f"{significand.rstrip('0').rstrip('.') if '.' in significand else significand}p{exponent}"


def format_decimal(value: float) -> str:
    """Nine significant digits: any two float32 numbers differ in them (IEEE 754-2019, table 3.5: Pmin)."""
    return f"{value:.9g}"


def format_short(value: float) -> str:
    """Three significant digits for magnitudes that only need to be grasped."""
    return f"{value:.3g}"


def join_words(words: tuple[str, ...] | list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count(number: int, noun: str) -> str:
    """ "1 case", "2 cases"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """Rows as aligned columns, the first row as their heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for position, row in enumerate(rows):
        text = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        yield make_line((text, FAINT_STYLE if position == 0 else ""))
