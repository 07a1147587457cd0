"""Installing, taking back, versions, tuned kernels, and kernels decorated for a device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from gpuemu import environment
from gpuemu.candidates import triton_interpreter
from gpuemu.errors import UnsupportedEnvironmentError


@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr, NAME: tl.constexpr = 0):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor + NAME, mask=i < n)


def _state() -> list[object]:
    return [
        interpreter._get_np_dtype,
        interpreter._convert_float,
        interpreter.interpreter_builder,
        interpreter.InterpretedFunction.run,
        interpreter.InterpretedFunction.__call__,
        JITFunction.run,
        JITFunction.__call__,
        triton.runtime.autotuner.Autotuner.run,
    ]


def test_install_is_idempotent_and_uninstall_restores_everything(bare: None) -> None:
    before = _state()
    assert not triton_interpreter.is_installed()
    triton_interpreter.install()
    first = _state()
    triton_interpreter.install()
    assert triton_interpreter.is_installed() and _state() == first
    assert all(new is not old for new, old in zip(first, before, strict=True))
    triton_interpreter.uninstall()
    assert _state() == before
    triton_interpreter.uninstall()
    assert _state() == before and not triton_interpreter.is_installed()


def test_installed_restores_after_an_exception(bare: None) -> None:
    before = _state()
    with pytest.raises(RuntimeError, match="inside"), triton_interpreter.installed():
        raise RuntimeError("inside")
    assert _state() == before


@pytest.mark.parametrize("version", ["3.5.1", "3.10.0", "2.3.0", "4.0", "unknown"])
def test_an_untested_version_is_refused_in_one_line(
    version: str, bare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "get_package_version", lambda name: version)
    with pytest.raises(UnsupportedEnvironmentError) as caught:
        triton_interpreter.install()
    assert "\n" not in str(caught.value)
    assert f"Triton {version}" in str(caught.value) and "pip install 'triton>=3.6,<3.10'" in str(caught.value)
    assert not triton_interpreter.is_installed()


def test_a_missing_triton_is_named(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "get_package_version", lambda name: None)
    with pytest.raises(UnsupportedEnvironmentError, match="Triton is not installed: pip install"):
        triton_interpreter.install()


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0+git123", "3.9.0"])
def test_tested_versions_are_accepted(version: str, bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "get_package_version", lambda name: version)
    triton_interpreter.check_version()


def test_there_are_no_faults(bare: None) -> None:
    assert triton_interpreter.interpreter_faults() == ()
    assert not triton_interpreter.is_installed()


def test_autotune_takes_the_first_configuration_without_timing(interpreted: None) -> None:
    hooks: list[int] = []
    configurations = [
        triton.Config({"BLOCK": 4, "NAME": 1}, num_warps=2, pre_hook=lambda args: hooks.append(args["n"])),
        triton.Config({"BLOCK": 8, "NAME": 2}),
    ]
    tuned = triton.autotune(configurations, key=["n"])(scale)
    x, y = torch.arange(6.0), torch.zeros(6)
    with triton_interpreter.count_programs() as count:
        tuned[lambda meta: (triton.cdiv(6, meta["BLOCK"]),)](x, y, 6, 2.0)
    assert y.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    assert count.programs == 2 and hooks == [6]
    assert tuned.best_config is configurations[0]


def test_autotune_respects_pruning(interpreted: None) -> None:
    configurations = [triton.Config({"BLOCK": 4, "NAME": 1}), triton.Config({"BLOCK": 8, "NAME": 2})]
    prune = {
        "early_config_prune": lambda configs, named, **kwargs: [c for c in configs if c.kwargs["BLOCK"] == 8]
    }
    tuned = triton.autotune(configurations, key=["n"], prune_configs_by=prune)(scale)
    y = torch.zeros(6)
    tuned[(1,)](torch.arange(6.0), y, 6, 2.0)
    assert y[0] == 2.0


def test_heuristics_compute_their_parameters(interpreted: None) -> None:
    guided = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(scale)
    y = torch.zeros(6)
    guided[(1,)](torch.arange(6.0), y, 6, 2.0)
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_a_kernel_decorated_for_a_device_is_interpreted(interpreted: None) -> None:
    compiled = JITFunction(scale.fn)
    y = torch.zeros(6)
    compiled[(2,)](torch.arange(6.0), y, 6, 2.0, BLOCK=4)
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    module = ModuleType("somewhere")
    module.plain, module.kernel = scale, compiled  # type: ignore[attr-defined]
    module.tuned = triton.autotune([triton.Config({"BLOCK": 4})], key=["n"])(compiled)  # type: ignore[attr-defined]
    found = triton_interpreter.ensure_interpretable(module)
    assert "kernel" in found and "tuned" in found
    assert ("plain" in found) == isinstance(scale, JITFunction)


def test_warmup_compiles_nothing(interpreted: None) -> None:
    with triton_interpreter.count_programs() as count:
        scale.warmup(torch.float32, torch.float32, 6, 2.0, BLOCK=4, grid=(1,))
    assert count.programs == 0


_SCRIPT = """
import sys, torch
from gpuemu.candidates import triton_interpreter
triton_interpreter.install()
sys.path.insert(0, sys.argv[1])
import triton_kernels as kernels
from triton.runtime.jit import JITFunction
assert isinstance(kernels.reduce_rows, JITFunction)
x = torch.full((2, 64), 0.5, dtype=torch.bfloat16)
y = torch.zeros(2, dtype=torch.bfloat16)
kernels.reduce_rows[(1,)](x, y, OP="sum", R=2, C=64)
assert y.tolist() == [32.0, 32.0], y
kernels.scan_rows[(1,)](x, x, OP="cumsum", R=2, C=64)
assert x[0, -1] == 32.0
print(triton_interpreter.interpreter_faults())
"""


def test_everything_works_without_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    # Here triton.language itself was imported for a device: tl.sum is a JITFunction.
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "()"
