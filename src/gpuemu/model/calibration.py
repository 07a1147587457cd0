"""A calibration: scores of known-correct kernels on one device, as a file that people read and commit.

TOML, since it is read by people and by `tomllib`; written here, since the standard library only reads it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuemu.errors import ConfigurationError

HEADER = """\
# Scores (error over bound, of a whole run) of known-correct kernels, per (op family, profile, dtype).
# Written by `{command}`. A constant above 1 widens the bound of that family; it is never below 1.
# rate_95: at 95 % confidence at most this share of correct runs, drawn alike, scores above `largest`.
# [published]: the published tolerance per "op dtype", 1.5 x the 95th percentile of the largest absolute errors;
# no verdict rests on it, `gpuemu check --audit` and study P2 do.
"""


@dataclass(frozen=True)
class CalibrationEntry:
    """Scores of the controls of one op family under one profile in one dtype.

    runs, implementations: what was measured. median, q95, q99, largest: of the scores; quantiles are upper ends
    of bins. constant: what bounds are multiplied by, at least 1. rate_95: see `HEADER`.
    """

    family: str
    profile: str
    dtype: str
    runs: int
    implementations: int
    median: float
    q95: float
    q99: float
    largest: float
    constant: float
    rate_95: float


@dataclass(frozen=True)
class Drift:
    """A kernel's largest score beyond that of every control of its family, in how many runs of those."""

    dtype: str
    profile: str
    score: float
    largest_control: float
    control_runs: int


@dataclass(frozen=True)
class Calibration:
    """All entries of one device, with where they come from. published: "op dtype" to an absolute tolerance."""

    device: str
    device_name: str
    command: str
    seed: int
    entries: tuple[CalibrationEntry, ...]
    published: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def find(self, family: str, profile: str, dtype: str) -> CalibrationEntry | None:
        """The entry of a family under a profile in a dtype, if it was measured."""
        wanted = (family, profile, dtype)
        return next((e for e in self.entries if (e.family, e.profile, e.dtype) == wanted), None)

    def to_toml(self) -> str:
        """The file's text."""
        lines = [HEADER.format(command=self.command)]
        head = {
            "device": self.device,
            "device_name": self.device_name,
            "command": self.command,
            "seed": self.seed,
        }
        lines += [f"{key} = {json.dumps(value)}" for key, value in head.items()]
        for title, table in (("environment", self.environment), ("published", self.published)):
            lines += ["", f"[{title}]"]
            lines += [f"{json.dumps(key)} = {_value(value)}" for key, value in table.items()]
        for entry in self.entries:
            lines += ["", "[[scores]]"]
            lines += [f"{key} = {_value(value)}" for key, value in vars(entry).items()]
        return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.6g}"
        return text if any(c in text for c in ".en") else f"{text}.0"
    return json.dumps(value)


def load_calibration(path: Path) -> Calibration:
    """The calibration of a file.

    Raises:
        ConfigurationError: it cannot be read, is no TOML or no calibration, or lowers a constant below 1.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        entries = tuple(CalibrationEntry(**entry) for entry in document.pop("scores", []))
        calibration = Calibration(entries=entries, **document)
    except OSError as error:
        raise ConfigurationError(f"calibration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, TypeError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"calibration {path}: {error}; `gpuemu calibrate` writes such files"
        ) from error
    for entry in entries:
        if not isinstance(entry.constant, int | float) or not entry.constant >= 1.0:
            where = f"calibration {path}: {entry.family} {entry.profile} {entry.dtype}"
            raise ConfigurationError(f"{where} has constant {entry.constant}; it may only be raised above 1")
    return calibration
