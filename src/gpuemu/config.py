"""Configuration: `[tool.gpuemu]` of pyproject.toml, or gpuemu.toml; flags of the command line override it.

| key | value | like |
|---|---|---|
| seed | integer, 0 <= seed < 2^64 | `--seed` |
| budget | integer, at least 1 | `--budget` |
| device | "cpu", "cuda" or "cuda:N" | `--device` |
| dtypes | list of dtype names | `--dtype` |
| layouts | list of layout names, or "all" | `--layouts` |
| values | list of value class names | `--values` |
| profile | "P0", "P1", "PT" or "P2" | `--profile` |
| strategy | name of a planning strategy | `--strategy` |
| runner | "worker" or "inline" | `--runner` |
| timeout_s | seconds, above 0 | `--timeout` |
| strict | true or false | `--strict` |
| store | folder of the run store, relative to the file; GPUEMU_STORE overrides it | |
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.dtypes import DTYPES
from gpuemu.errors import ConfigurationError
from gpuemu.model.contract import DEFAULT_LAYOUTS, LAYOUTS
from gpuemu.model.profile import PROFILES
from gpuemu.model.value_class import VALUE_CLASSES

FILE_NAME = "gpuemu.toml"
PROJECT_FILE_NAME = "pyproject.toml"
LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Configuration:
    """What a configuration file sets; None where it is silent. source: the file, None where there is none."""

    seed: int | None = None
    budget: int | None = None
    device: str | None = None
    dtypes: tuple[str, ...] | None = None
    layouts: tuple[str, ...] | None = None
    values: tuple[str, ...] | None = None
    profile: str | None = None
    strategy: str | None = None
    strict: bool | None = None
    runner: str | None = None
    timeout_s: float | None = None
    rigorous: bool | None = None
    store: Path | None = None
    calibration: Path | None = None
    source: Path | None = None

    @property
    def store_path(self) -> Path:
        """Folder of the run store: GPUEMU_STORE, else the file's, else `.gpuemu` in the working directory."""
        return environment.get_store_path(self.store)


def is_device(text: str) -> bool:
    """Whether a text spells a device; whether the device is there is another question."""
    return re.fullmatch(r"cpu|cuda(:[0-9]+)?", text) is not None


def _is_integer(low: int, high: int | None) -> Callable[[Any], bool]:
    # bool is an int in Python, but `seed = true` is a mistake
    return lambda value: type(value) is int and value >= low and (high is None or value <= high)


def _is_names(known: Collection[str]) -> Callable[[Any], bool]:
    def is_valid(value: Any) -> bool:
        names = value if isinstance(value, list) else []
        return bool(names) and all(isinstance(name, str) and name in known for name in names)

    return is_valid


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "seed": (_is_integer(0, LARGEST_SEED), "an integer from 0 to 2^64 - 1"),
    "budget": (_is_integer(1, None), "an integer of at least 1"),
    "device": (lambda value: isinstance(value, str) and is_device(value), '"cpu", "cuda" or "cuda:N"'),
    "dtypes": (_is_names(DTYPES), f"a list of names from {', '.join(DTYPES)}"),
    "layouts": (
        lambda value: value == "all" or _is_names(LAYOUTS)(value),
        f'"all" or a list of names from {", ".join(LAYOUTS)}',
    ),
    "values": (_is_names(VALUE_CLASSES), f"a list of names from {', '.join(VALUE_CLASSES)}"),
    "profile": (lambda value: isinstance(value, str) and value in PROFILES, f"one of {', '.join(PROFILES)}"),
    "strategy": (_is_text, "the name of a strategy"),
    "strict": (lambda value: isinstance(value, bool), "true or false"),
    "runner": (lambda value: value in ("worker", "inline"), '"worker" or "inline"'),
    "timeout_s": (
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value > 0,
        "a number of seconds above 0",
    ),
    "rigorous": (lambda value: isinstance(value, bool), "true or false"),
    "store": (_is_text, "the path of a folder"),
    "calibration": (_is_text, "the path of a file that `gpuemu calibrate` wrote"),
}


def load_configuration(folder: Path) -> Configuration:
    """The configuration that holds in a folder: of the nearest file from there upwards, or an empty one.

    Raises:
        ConfigurationError: the file is no TOML, has an unknown key or a wrong value, or a folder has both.
    """
    found = _find(folder.resolve())
    if found is None:
        return Configuration()
    source, table = found
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(_KEYS)}"
            raise ConfigurationError(f"{source}: unknown key {key!r}; {hint}")
        is_valid, wanted = _KEYS[key]
        if not is_valid(value):
            raise ConfigurationError(f"{source}: {key} = {value!r} is not {wanted}")
    return _make_configuration(source, table)


def _find(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    for place in (folder, *folder.parents):
        own, project = place / FILE_NAME, place / PROJECT_FILE_NAME
        table = _read_project_table(project) if project.is_file() else None
        if own.is_file():
            if table is not None:
                raise ConfigurationError(f"{own} and [tool.gpuemu] in {project} both exist; keep one of them")
            return own, _read(own)
        if table is not None:
            return project, table
    return None


def _read_project_table(path: Path) -> Mapping[str, Any] | None:
    tools = _read(path).get("tool", {})
    table = tools.get("gpuemu") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigurationError(f"{path}: tool.gpuemu is {table!r}, not a table")
    return table


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error


def _make_configuration(source: Path, table: Mapping[str, Any]) -> Configuration:
    values = dict(table)
    if values.get("layouts") == "all":
        values["layouts"] = DEFAULT_LAYOUTS
    for key in ("dtypes", "layouts", "values"):
        if key in values:
            values[key] = tuple(values[key])
    for key in ("store", "calibration"):
        if key in values:
            values[key] = source.parent / Path(values[key]).expanduser()
    return Configuration(**values, source=source)
