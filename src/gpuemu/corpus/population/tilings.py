"""Triton controls in two tilings: the corpus kernels with other block sizes, and kernels that loop over a row.

Nothing here imports Triton: whether a kernel is interpreted is decided when its module is imported, so that
happens at the first call, after the tier has been chosen (`gpuemu.candidates.loader.prepare_tier`).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuemu.corpus.population.implementation import Function, Implementation

_CORPUS = Path(__file__).parents[1]
# Op to the corpus file and function, and the second tiling's constants; None: the row is one block already.
_ELEMENTWISE = ("gelu", "silu", "relu", "sigmoid", "tanh", "elu", "leaky_relu")
_TILES: dict[str, dict[str, int] | None] = {
    **{op: {"BLOCK": 256} for op in _ELEMENTWISE},
    "softmax": None,
    "rmsnorm": None,
    "l2norm": None,
    "matmul": {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64},
    "attention": {"BLOCK_M": 32, "BLOCK_N": 16},
    "flash_attention": {"BLOCK_M": 32, "BLOCK_N": 16},
}
_LOOPED = ("softmax", "layernorm", "rmsnorm", "l2norm", "rms_norm", "layer_norm", "swiglu", "geglu")


def _load(path: Path, constants: dict[str, int]) -> ModuleType:
    """A module of its own for these constants, from a file."""
    name = f"gpuemu_tiling_{path.stem}_{'_'.join(map(str, constants.values()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: S101 - the file is part of the package
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for constant, value in constants.items():
        setattr(module, constant, value)
    return module


def _lazily(path: Path, function: str, constants: dict[str, int]) -> Function:
    found: list[Any] = []

    def call(*inputs: Any, **params: Any) -> Any:
        if not found:
            found.append(getattr(_load(path, constants), function))
        return found[0](*inputs, **params)

    return call


def _tiling(op: str, name: str, path: Path, function: str, constants: dict[str, int]) -> Implementation:
    return Implementation(op, name, _lazily(path, function, constants), kind="triton")


def _of_corpus(op: str) -> list[Implementation]:
    path, constants = _CORPUS / op / f"{op}_triton.py", _TILES[op]
    first = _tiling(op, "triton", path, f"{op}_triton", {})
    if constants is None:
        return [first]
    name = "triton_" + "x".join(str(value) for value in constants.values())
    return [first, _tiling(op, name, path, f"{op}_triton", constants)]


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    *(implementation for op in _TILES for implementation in _of_corpus(op)),
    *(
        _tiling(op, f"triton_looped_{block}", Path(__file__).parent / "looped_kernels.py", op, {"BLOCK": block})
        for op in _LOOPED
        for block in (64, 256)
    ),
)
