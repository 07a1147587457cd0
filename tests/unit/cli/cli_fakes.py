"""Fakes of what the verbs call, so that the command line is tested by itself and without torch."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from gpuemu.model.record import Report


def install_fake(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Put a module of these members in the place of gpuemu's own."""
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    package, _, child = name.rpartition(".")
    monkeypatch.setattr(import_module(package), child, module, raising=False)


class FakeCheck:
    """Stands for `gpuemu.checking.check`: remembers its arguments, reports progress, returns a report."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.error: BaseException | None = None
        self.prints = ""
        self.arguments: dict[str, Any] = {}

    def __call__(self, kernel: str, op: str | None, **arguments: Any) -> Report:
        self.arguments = {"kernel": kernel, "op": op, **arguments}
        if self.prints:
            print(self.prints)  # noqa: T201 - what a kernel under test may do
        records = self.report.records if self.report else ()
        for done, record in enumerate(records, start=1):
            arguments["progress"](done, len(records), record)
        if self.error is not None:
            raise self.error
        assert self.report is not None
        return self.report
