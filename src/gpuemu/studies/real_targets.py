"""Triton kernels from PyPI packages, the ops that they are checked as, and the causes of what was found."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuemu.errors import ConfigurationError

# Wrappers and causes lie in the repository, beside the package's sources.
REPOSITORY = Path(__file__).parents[3]
CAUSES_FILE = REPOSITORY / "studies" / "real-kernels" / "causes.toml"
ORIGINS = ("theirs", "ours", "semantics")


@dataclass(frozen=True)
class RealKernel:
    """A kernel that none of us wrote.

    package: the distribution that holds it. target: as `gpuemu check` takes it, a file relative to the
    repository. op: what it is checked as.
    """

    package: str
    target: str
    op: str

    @property
    def local_target(self) -> str:
        """The target with its file, if it names one, found from any working directory."""
        return str(REPOSITORY / self.target) if "::" in self.target else self.target

    def problem(self, version: str | None) -> str | None:
        """Why the kernel cannot be had here, given its package's installed version; None where it can."""
        if version is None:
            return "not installed"
        file, separator, _ = self.target.partition("::")
        if separator and not (REPOSITORY / file).is_file():
            return f"needs {file} of a clone of the repository"
        return None


LIGER, CONCH = "liger-kernel", "conch-triton-kernels"
_LIGER_RMS_NORM = "liger_kernel.ops.rms_norm:LigerRMSNormFunction"
_LIGER_LOSS = "liger_kernel.transformers.functional:liger_cross_entropy"

REAL_KERNELS = (
    RealKernel(LIGER, _LIGER_RMS_NORM, "liger.rms_norm"),
    RealKernel(LIGER, _LIGER_RMS_NORM, "liger.rms_norm_gemma"),
    RealKernel(LIGER, _LIGER_RMS_NORM, "liger.rms_norm_none"),
    RealKernel(
        LIGER, "liger_kernel.ops.fused_add_rms_norm:LigerFusedAddRMSNormFunction", "liger.fused_add_rms_norm"
    ),
    RealKernel(LIGER, "liger_kernel.ops.layer_norm:LigerLayerNormFunction", "liger.layer_norm"),
    RealKernel(LIGER, "liger_kernel.ops.softmax:LigerSoftmaxFunction", "liger.softmax"),
    RealKernel(LIGER, "liger_kernel.ops.swiglu:LigerSiLUMulFunction", "liger.swiglu"),
    RealKernel(LIGER, "liger_kernel.ops.geglu:LigerGELUMulFunction", "liger.geglu"),
    RealKernel(LIGER, _LIGER_LOSS, "liger.cross_entropy"),
    RealKernel(LIGER, _LIGER_LOSS, "liger.cross_entropy_inference"),
    RealKernel(LIGER, "examples/liger_cross_entropy_gradient.py::gradient", "liger.cross_entropy_gradient"),
    RealKernel(LIGER, "liger_kernel.ops.rope:LigerRopeFunction", "liger.rope"),
    RealKernel(CONCH, "conch.ops.normalization.rms_norm:rms_norm", "conch.rms_norm"),
    RealKernel(CONCH, "conch.ops.normalization.rms_norm:fused_add_rms_norm", "conch.fused_add_rms_norm"),
    RealKernel(CONCH, "conch.ops.normalization.gemma_rms_norm:gemma_rms_norm", "conch.gemma_rms_norm"),
    RealKernel(CONCH, "conch.ops.activation.silu_and_mul:silu_and_mul", "conch.silu_and_mul"),
    RealKernel(CONCH, "conch.ops.activation.gelu_tanh_and_mul:gelu_tanh_and_mul", "conch.gelu_tanh_and_mul"),
    RealKernel(CONCH, "examples/conch_rotary_embedding.py::rotary_embedding", "conch.rotary_embedding"),
)


@dataclass(frozen=True)
class Cause:
    """Why a kind of outcome occurs for an op, as a person who read the kernel wrote it down.

    origin: "theirs" (a discrepancy of the kernel), "ours" (a false alarm, not mended yet) or "semantics" (a
    documented or permitted difference). reference: where else it is described, if anywhere.
    """

    origin: str
    text: str
    reference: str = ""


def load_causes(path: Path = CAUSES_FILE) -> Mapping[tuple[str, str, str], Cause]:
    """Causes by (target, op, kind); none where the file is missing, as it is outside a clone.

    Raises:
        ConfigurationError: no TOML; an entry lacks a field, names an unknown kernel or origin, or occurs twice.
    """
    if not path.is_file():
        return {}
    known = {(kernel.target, kernel.op) for kernel in REAL_KERNELS}
    causes: dict[tuple[str, str, str], Cause] = {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for position, entry in enumerate(document.get("cause", []), start=1):
        where = f"{path}: cause {position}"
        missing = {"target", "op", "kind", "origin", "text"} - entry.keys()
        if missing:
            raise ConfigurationError(f"{where} lacks {', '.join(sorted(missing))}")
        key = (entry["target"], entry["op"], entry["kind"])
        if key[:2] not in known or key in causes or entry["origin"] not in ORIGINS:
            raise ConfigurationError(
                f"{where} is for no kernel of the study, occurs twice or has no known origin"
            )
        causes[key] = Cause(entry["origin"], " ".join(entry["text"].split()), entry.get("reference", ""))
    return causes
