"""The real kernels' list and their causes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu.errors import ConfigurationError
from gpuemu.ops.registry import load_ops
from gpuemu.studies import real_targets
from gpuemu.studies.real_targets import REAL_KERNELS, RealKernel, load_causes

ENTRY = """[[cause]]
target = "liger_kernel.ops.softmax:LigerSoftmaxFunction"
op = "liger.softmax"
kind = "value"
origin = "theirs"
text = '''
One
line.
'''
"""


def test_every_kernel_has_its_op_and_every_op_of_the_packages_its_kernel() -> None:
    ops = [kernel.op for kernel in REAL_KERNELS]
    assert len(set(ops)) == len(ops)
    assert set(ops) == {name for name in load_ops() if name.startswith(("liger.", "conch."))}


def test_wrappers_lie_in_the_repository_and_modules_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = RealKernel("p", "examples/k.py::f", "o")
    monkeypatch.setattr(real_targets, "REPOSITORY", Path("/nowhere"))
    assert wrapper.local_target == "/nowhere/examples/k.py::f"
    assert wrapper.problem("1.0") == "needs examples/k.py of a clone of the repository"
    module = RealKernel("p", "package.module:f", "o")
    assert module.local_target == "package.module:f"
    assert module.problem("1.0") is None
    assert module.problem(None) == "not installed"


def test_the_committed_causes_can_be_read_and_tell_something() -> None:
    causes = load_causes()
    assert causes
    for cause in causes.values():
        assert len(cause.text) > 40
        assert "\n" not in cause.text


def test_causes_are_keyed_by_kernel_and_kind(tmp_path: Path) -> None:
    path = tmp_path / "causes.toml"
    assert load_causes(path) == {}
    path.write_text(ENTRY)
    key = ("liger_kernel.ops.softmax:LigerSoftmaxFunction", "liger.softmax", "value")
    assert load_causes(path) == {key: real_targets.Cause("theirs", "One line.")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.replace('kind = "value"\n', ""), "cause 1 lacks kind"),
        (ENTRY.replace("liger.softmax", "liger.nothing"), "cause 1 is for no kernel"),
        (
            ENTRY.replace("theirs", "nobody"),
            "cause 1 is for no kernel of the study, occurs twice or has no known",
        ),
        (ENTRY + ENTRY, "cause 2 is for no kernel of the study, occurs twice"),
        ("[[cause]\n", "causes.toml: "),
    ],
)
def test_a_bad_cause_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "causes.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_causes(path)
