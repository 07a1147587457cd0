"""What the corpus holds: one entry per kernel, read from the `corpus.toml` of each op's folder."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from gpuemu.errors import ConfigurationError, UsageError

CORPUS_FOLDER = Path(__file__).parent
KERNEL_COUNT = 26

# The classes of wrong kernels, by letter: BUGS.md section 1.
BUG_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "A": "Tail / padded lanes (mask missing or undone)",
        "B": "Out-of-bounds read or write",
        "C": "32-bit index, count or launch-limit overflow",
        "D": "Stride, contiguity, broadcast assumption",
        "E": "Missing synchronisation / race",
        "F": "Uninitialised or unwritten memory",
        "G": "Quantisation scale, packing, rounding",
        "H": "Accumulator / intermediate dtype, cancellation",
        "I": "NaN, Inf, sentinel, extreme value",
        "J": "Boundary shape or lane geometry",
        "K": "Causal / window mask alignment",
        "L": "Head / batch / expert mapping, wrong operand",
        "M": "Backward-only formula or reduction",
        "N": "In-place / aliasing",
        "O": "Autotune / config dependent",
        "P": "Compiler, DSL or hardware-specific wrong code",
        "Q": "torch.compile / decomposition difference",
        "R": "Determinism, batch invariance, ties",
        "S": "Wrong constant, eps, scale",
    }
)

_FOLDER_KEYS = frozenset({"op", "kernels"})
_REQUIRED_KEYS = frozenset({"name", "file", "function", "role", "kind"})
_BUGGY_KEYS = frozenset({"control", "bug_class", "bug"})
_KNOWN_KEYS = _REQUIRED_KEYS | _BUGGY_KEYS | {"note"}


@dataclass(frozen=True)
class CorpusKernel:
    """A kernel of the corpus.

    role: "control" for a known-correct kernel, "buggy" for its wrong twin.
    kind: what the kernel is written in.
    path, function: the file and the host function in it, `function(*inputs) -> output`.
    control, bug_class, bug: of a buggy kernel, its control's name, its class ("A: Tail / ...", the letter and
        name of `BUG_CLASSES`) and the fault in one sentence; None for a control.
    note: what a reader of the kernel's results should know, if anything.
    """

    name: str
    op: str
    role: Literal["control", "buggy"]
    kind: Literal["triton", "numpy"]
    path: Path
    function: str
    control: str | None = None
    bug_class: str | None = None
    bug: str | None = None
    note: str | None = None


@cache
def load_catalogue() -> tuple[CorpusKernel, ...]:
    """Every kernel of the corpus that gpuemu ships, by op folder in alphabetical order.

    Raises:
        ConfigurationError: a `corpus.toml` is wrong, or the corpus does not hold the published 26 kernels.
    """
    kernels = read_catalogue(CORPUS_FOLDER)
    if len(kernels) != KERNEL_COUNT:
        raise ConfigurationError(f"{CORPUS_FOLDER} holds {len(kernels)} kernels, expected {KERNEL_COUNT}")
    return kernels


def find_kernel(name: str) -> CorpusKernel:
    """The corpus kernel of that name.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    by_name = {kernel.name: kernel for kernel in load_catalogue()}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"it holds {', '.join(sorted(by_name))}"
    raise UsageError(f"unknown corpus kernel {name!r}; {hint}")


def read_catalogue(folder: Path) -> tuple[CorpusKernel, ...]:
    """The kernels that the `*/corpus.toml` files under a folder state, checked against each other.

    Raises:
        ConfigurationError: a file is no TOML, a key is unknown or missing, a value is not allowed, a kernel
            file does not exist, a name is used twice, or a buggy kernel's control is no control of the same op.
    """
    kernels = tuple(
        kernel for source in sorted(folder.glob("*/corpus.toml")) for kernel in _read_folder(source)
    )
    by_name: dict[str, CorpusKernel] = {}
    for kernel in kernels:
        if kernel.name in by_name:
            raise ConfigurationError(f"corpus kernel {kernel.name!r} is declared twice (again in {kernel.op})")
        by_name[kernel.name] = kernel
    for kernel in kernels:
        control = by_name.get(kernel.control) if kernel.control is not None else None
        if kernel.role == "buggy" and (control is None or control.role != "control" or control.op != kernel.op):
            raise ConfigurationError(
                f"corpus kernel {kernel.name!r}: control {kernel.control!r} is no control of op {kernel.op!r}"
            )
    return kernels


def _read_folder(source: Path) -> list[CorpusKernel]:
    try:
        document = tomllib.loads(source.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{source}: not TOML: {error}") from error
    _check_keys(str(source), document, known=_FOLDER_KEYS, required=_FOLDER_KEYS)
    entries = document["kernels"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(f"{source}: kernels must be [[kernels]] tables")
    return [_read_kernel(source, document["op"], entry) for entry in entries]


def _read_kernel(source: Path, op: str, entry: dict[str, Any]) -> CorpusKernel:
    where = f"{source}: kernel {entry.get('name', '?')!r}"
    role = _one_of(where, entry, "role", ("control", "buggy"))
    if role == "buggy":
        _check_keys(where, entry, known=_KNOWN_KEYS, required=_REQUIRED_KEYS | _BUGGY_KEYS)
        _one_of(where, entry, "bug_class", tuple(f"{letter}: {name}" for letter, name in BUG_CLASSES.items()))
    else:
        _check_keys(where, entry, known=_KNOWN_KEYS - _BUGGY_KEYS, required=_REQUIRED_KEYS)
    _one_of(where, entry, "kind", ("triton", "numpy"))
    fields = {key: value for key, value in entry.items() if key != "file"}
    path = source.parent / entry["file"]
    if not path.is_file():
        raise ConfigurationError(f"{where}: there is no file {path}")
    return CorpusKernel(op=op, path=path, **fields)


def _check_keys(where: str, table: dict[str, Any], *, known: frozenset[str], required: frozenset[str]) -> None:
    for key in table.keys() - known:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(sorted(known))}"
        raise ConfigurationError(f"{where}: unknown key {key!r}; {hint}")
    for key in required - table.keys():
        raise ConfigurationError(f"{where}: key {key!r} is missing")
    for key, value in table.items():
        if key != "kernels" and not isinstance(value, str):
            raise ConfigurationError(f"{where}: {key} must be text, not {value!r}")


def _one_of(where: str, table: dict[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    value = table.get(key)
    if not isinstance(value, str) or value not in allowed:
        raise ConfigurationError(f"{where}: {key} is {value!r}, must be one of {', '.join(allowed)}")
    return value
