"""Every environment variable that gpuemu reads or sets, and the only reader of `os.environ`.

| variable | meaning |
|---|---|
| GPUEMU_STORE | folder of the run store; default `.gpuemu` under the working directory |
| GPUEMU_RUNNER | "worker" or "inline": where kernels are called if nothing else says; default worker |
| TRITON_INTERPRET | set to 1 before a Triton kernel is imported on the CPU tier |
| CI, NO_COLOR | honoured by the terminal report |
| OMP_WAIT_POLICY, GOMP_SPINCOUNT | set by the command line and for workers, unless one of them is set already |
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

# Variables that change what a kernel computes or how it is compiled: recorded with every run.
NUMERIC_VARIABLES = (
    "TRITON_INTERPRET",
    "TRITON_DEFAULT_FP_FUSION",
    "TRITON_F32_DEFAULT",
    "TRITON_PTXAS_PATH",
    "DISABLE_PTXAS_OPT",
    "PTXAS_OPTIONS",
    "CUDA_VISIBLE_DEVICES",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
    "OPENBLAS_CORETYPE",
)

SCRATCH_VARIABLES = (
    "HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH",
)  # fmt: skip
# What a worker's environment keeps; everything else may be a secret or a way of telling that it is a test.
WORKER_VARIABLES = ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONHASHSEED")
# What compilers set at their first use: their folders, and where torch.compile found their tools.
_CACHE_ENDINGS = ("_CACHE_DIR", "_CACHE_PATH", "_CACHE_HOME")
_OF_COMPILERS = ("_TORCHINDUCTOR_", "TRITON_PTXAS_", "TRITON_LIBDEVICE_", "TRITON_LIBCUDA_")
WORKER_PREFIXES = (
    "LC_", "CUDA_", "NVIDIA_", "CUBLAS_", "CUDNN_", "NCCL_", "TRITON_", "TORCH_", "PYTORCH_", "OMP_", "MKL_",
    "OPENBLAS_", "NUMBA_", "JAX_", "XLA_", "GOMP_", "KMP_",
)  # fmt: skip
# How long a thread of OpenMP keeps its core while it waits for work. By default libgomp's spin 300,000 times (3
# to 15 ms): those of the judge then hold the cores that the worker needs, and the other way round. 1,000 times
# bridge the gap from one operator to the next. libgomp prefers that number to the policy, others know only the
# policy (https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html).
SHORT_WAITS = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}


def snapshot() -> dict[str, str]:
    """Every variable but those that compilers set at their first use."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(_CACHE_ENDINGS) and not name.startswith(_OF_COMPILERS)
    }


def make_worker_environment(scratch: str, is_interpreted: bool) -> dict[str, str]:
    """The environment of a candidate's process: what tools need; caches and temporary files go to `scratch`.

    is_interpreted: whether Triton's kernels, its own library's included, are interpreted (CPU tier).
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in WORKER_VARIABLES or name.startswith(WORKER_PREFIXES)
    }
    folders = dict.fromkeys(SCRATCH_VARIABLES, scratch)
    kept.pop("TRITON_INTERPRET", None)  # Triton reads it when it is imported, before a candidate is known
    tier = {"TRITON_INTERPRET": "1"} if is_interpreted else {}
    return {**_missing_waits(), **kept, **folders, **tier, "PYTHONUNBUFFERED": "1"}


def make_sanitizer_environment() -> dict[str, str]:
    """For a program under compute-sanitizer.

    The caching allocator hands out parts of large blocks, in which a tool sees neither end nor first write.
    """
    return {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_LAUNCH_BLOCKING": "1"}


def shorten_waits() -> None:
    """Let threads that wait for work free their cores soon, in this process and those that it starts.

    It must precede the first import of torch, whose OpenMP looks at the variables when it is loaded.
    """
    os.environ.update(_missing_waits())


def _missing_waits() -> Mapping[str, str]:
    """What to set; nothing where the user has said how threads wait."""
    return {} if any(name in os.environ for name in SHORT_WAITS) else SHORT_WAITS


def get_store_path(default: Path | None = None) -> Path:
    """Folder of the run store: `GPUEMU_STORE`, else `default`, else `.gpuemu`."""
    return Path(os.environ.get("GPUEMU_STORE") or default or ".gpuemu")


def get_runner() -> str | None:
    """Where kernels are called by default: `GPUEMU_RUNNER`, None where it is not set."""
    return os.environ.get("GPUEMU_RUNNER") or None


def is_ci() -> bool:
    """True when `CI` is set to something other than empty, 0 or false."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def set_triton_interpret(enabled: bool) -> None:
    """Make Triton kernels imported from now on interpreted (CPU tier) or compiled.

    Triton reads the variable when `@triton.jit` is applied, so this must precede the import of a kernel.
    """
    if enabled:
        os.environ["TRITON_INTERPRET"] = "1"
    else:
        os.environ.pop("TRITON_INTERPRET", None)


def get_package_version(name: str) -> str | None:
    """Installed version of a distribution, or None."""
    from importlib import metadata  # takes long, and the command line imports this module for every verb

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def describe() -> Mapping[str, str]:
    """The environment block of a record: versions, platform, numeric-relevant variables."""
    block = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
    }
    for package in ("gpuemu", "torch", "triton", "numpy", "ml_dtypes"):
        version = get_package_version(package)
        if version is not None:
            block[package] = version
    for variable in NUMERIC_VARIABLES:
        value = os.environ.get(variable)
        if value is not None:
            block[f"env:{variable}"] = value
    return block
