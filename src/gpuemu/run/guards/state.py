"""The process's state must be after a call what it was before (HACKS.md 23 to 25 and 34).

Looked at beside the candidate. In a worker that is the candidate's own process, so that a hostile one can hide
what it did there; the judge's process it cannot reach at all.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpuemu import environment
from gpuemu.model.observation import GuardFinding

NAME = "state"
_TOOLS = ("torch", "triton", "concurrent", "multiprocessing", "tqdm")
_SIGNALS = (signal.SIGALRM, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT, signal.SIGABRT)
_TORCH_FUNCTIONS = ("allclose", "equal", "isclose", "empty", "zeros", "where", "isnan")
_TENSOR_METHODS = ("__eq__", "contiguous", "cpu", "numpy", "clone", "to", "equal", "allclose", "isnan", "copy_")
_CUDA_FUNCTIONS = ("synchronize", "current_stream", "Event", "Stream")


def _flags() -> dict[str, Any]:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": _read(torch.get_float32_matmul_precision),
        "cuda.matmul.allow_tf32": _read(lambda: matmul.allow_tf32),
        "reduced precision of fp16 sums": _read(lambda: matmul.allow_fp16_reduced_precision_reduction),
        "reduced precision of bf16 sums": _read(lambda: matmul.allow_bf16_reduced_precision_reduction),
        "cudnn.allow_tf32": _read(lambda: cudnn.allow_tf32),
        "cudnn.benchmark": cudnn.benchmark,
        "cudnn.deterministic": cudnn.deterministic,
        "autocast": torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"),
        "anomaly detection": torch.is_anomaly_enabled(),
        "threads of torch": torch.get_num_threads(),
    }


def _read(flag: Callable[[], Any]) -> Any:
    """A flag's value; torch refuses to tell it while its old and its new spelling disagree."""
    try:
        return flag()
    except RuntimeError:
        return "set in two ways that disagree"


def _functions() -> dict[str, Any]:
    found = {f"torch.{name}": getattr(torch, name) for name in _TORCH_FUNCTIONS}
    found |= {f"torch.Tensor.{name}": torch.Tensor.__dict__.get(name) for name in _TENSOR_METHODS}
    found |= {f"torch.cuda.{name}": getattr(torch.cuda, name) for name in _CUDA_FUNCTIONS}
    found |= {
        f"builtins.{name}": getattr(builtins, name) for name in ("isinstance", "type", "open", "abs", "max")
    }
    found |= {f"time.{name}": getattr(time, name) for name in ("time", "perf_counter", "monotonic")}
    testing = sys.modules.get("torch.testing")
    if testing is not None:
        found["torch.testing.assert_close"] = testing.assert_close
    return found


def _process() -> dict[str, Any]:
    return {
        "working directory": str(Path.cwd()),
        "environment": environment.snapshot(),
        "path of modules": tuple(entry for entry in sys.path if not _is_vendored(entry)),
        "floating-point subnormals": _keeps_subnormals(),
        **{f"handler of {one.name}": signal.getsignal(one) for one in _SIGNALS},
    }


def _is_vendored(entry: str) -> bool:
    """Whether an installed package keeps others there, as setuptools, which torch.compile imports, does."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(entry).parent.parts)


def _random() -> dict[str, Any]:
    state: Any = np.random.get_state()
    return {
        "torch's random state": torch.random.get_rng_state().numpy().tobytes(),
        "NumPy's random state": (state[1].tobytes(), state[2]),
        "Python's random state": hash(random.getstate()),
    }


def _keeps_subnormals() -> bool:
    return float(torch.tensor(2.0**-140) * 1.0) != 0.0


_PARTS: tuple[Callable[[], dict[str, Any]], ...] = (_flags, _functions, _process, _random)
State = Mapping[str, Any]


def take(with_random: bool = True) -> State:
    """The state of this process. with_random: the generators' too, unless the op may draw numbers."""
    found: dict[str, Any] = {}
    for part in _PARTS:
        if part is not _random or with_random:
            found |= part()
    return {**found, "threads": frozenset(thread for thread in threading.enumerate() if not _is_tool(thread))}


def _is_tool(thread: threading.Thread) -> bool:
    """Whether a compiler or a pool keeps the thread, as `torch.compile` does; no work of a call's own."""
    target = getattr(thread, "_target", None) or type(thread)
    return str(getattr(target, "__module__", "")).partition(".")[0] in _TOOLS


def compare(before: State, after: State) -> GuardFinding | None:
    """The finding, if the state changed: what, from what, to what."""
    changed = [name for name in before if name in after and _differ(before[name], after[name])]
    started = after["threads"] - before["threads"]
    changed = [name for name in changed if name != "threads"] + (["threads"] if started else [])
    if not changed:
        return None
    name = changed[0]
    names = ", ".join(sorted(thread.name for thread in started)[:3])
    text = f"left {len(started)} threads running ({names})" if name == "threads" else f"changed the {name}"
    if name in _flags():
        text += f" from {before[name]} to {after[name]}"
    if name == "environment":
        keys = {k for k in {**before[name], **after[name]} if before[name].get(k) != after[name].get(k)}
        text += f" ({', '.join(sorted(keys)[:3])})"
    if len(changed) > 1:
        text += f"; also {', '.join(changed[1:])}" + (f" ({names})" if "threads" in changed[1:] else "")
    return GuardFinding(NAME, text)


def restore(before: State) -> None:
    """Put back what decides how later calls compute."""
    torch.set_default_dtype(before["default dtype"])
    torch.set_grad_enabled(before["grad mode"])
    torch.use_deterministic_algorithms(before["deterministic algorithms"])
    with contextlib.suppress(RuntimeError):
        torch.backends.cuda.matmul.allow_tf32 = before["cuda.matmul.allow_tf32"]
        torch.set_float32_matmul_precision(before["float32 matmul precision"])
        torch.backends.cudnn.allow_tf32 = before["cudnn.allow_tf32"]
    if torch.get_num_threads() != before["threads of torch"]:
        torch.set_num_threads(before["threads of torch"])
    torch.set_flush_denormal(not before["floating-point subnormals"])
    if str(Path.cwd()) != before["working directory"]:
        os.chdir(before["working directory"])


def _differ(a: Any, b: Any) -> bool:
    if isinstance(a, str | bytes | int | dict | tuple | frozenset) or a is None:
        return bool(a != b)
    return a is not b
