"""Targets: `file.py::function` and `package.module:function`, and importing what they name."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuemu.errors import TargetError


@dataclass(frozen=True)
class Target:
    """A parsed target: a file path or a dotted module, and a dotted attribute ("" for the file as a whole)."""

    text: str
    path: Path | None
    module: str | None
    attribute: str


def parse_target(text: str) -> Target:
    """Parse a target.

    Raises:
        TargetError: the text has none of the accepted forms, or names a file that does not exist.
    """
    name, separator, attribute = text.partition("::")
    if not separator and not name.endswith(".py"):
        name, separator, attribute = text.rpartition(":")
    if name.endswith(".py") or "/" in name:
        return Target(text, _find_file(name), None, attribute)
    if not separator or not name or not attribute:
        raise TargetError(
            f"{text!r} is not a kernel: give a corpus name (softmax_triton, say), file.py::function or "
            "package.module:function"
        )
    return Target(text, None, name, attribute)


def _find_file(name: str) -> Path:
    path = Path(name)
    try:
        if path.is_file():
            return path.resolve()
        what = "a directory, not a Python file" if path.is_dir() else "no such file"
    except OSError as error:  # too long a name, a folder that may not be entered
        what = f"cannot be read: {error.strerror}"
    raise TargetError(f"{name}: {what}")


def make_portable(text: str) -> str:
    """The target with an absolute path, so that it can be found again from another folder."""
    target = parse_target(text)
    if target.path is None:
        return text
    return f"{target.path}::{target.attribute}" if target.attribute else str(target.path)


def import_target(target: Target) -> ModuleType:
    """Import the module or file of a target.

    Raises:
        TargetError: it cannot be imported; the message is one line with file and line number.
    """
    try:
        if target.path is not None:
            return _import_file(target.path)
        with _importable(Path.cwd()):  # as `python -m` would; the console script leaves it out
            return importlib.import_module(target.module or "")
    except SyntaxError as error:
        where = Path(error.filename).name if error.filename else target.text
        line = f":{error.lineno}" if error.lineno else ""  # NUL bytes are found in no line
        raise TargetError(f"{where}{line}: syntax error: {error.msg}") from None
    except (Exception, SystemExit) as error:
        where = _location(error, target)
        text = next(iter(str(error).splitlines()), "")
        raise TargetError(f"{where}: cannot be imported: {type(error).__name__}: {text}") from error


def _import_file(path: Path) -> ModuleType:
    # A name per path and content: two files called kernel.py must not replace each other.
    digest = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"gpuemu_target_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let a file import its neighbours, as `python file.py` would."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _location(error: BaseException, target: Target) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if target.path is not None and f.filename == str(target.path)]
    return f"{target.path.name}:{own[-1].lineno}" if own and target.path else target.text


def get_attribute(module: ModuleType, target: Target) -> Any:
    """What the target's attribute names inside the module.

    Raises:
        TargetError: there is no such attribute; the message names the nearest.
    """
    found: Any = module
    for part in target.attribute.split("."):
        if not hasattr(found, part):
            public = [name for name in dir(found) if not name.startswith("_")]
            near = difflib.get_close_matches(part, public, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            where = target.path.name if target.path else target.module
            raise TargetError(f"{where} has no {target.attribute!r}{hint}")
        found = getattr(found, part)
    return found
