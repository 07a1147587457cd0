"""gpuemu finds GPU kernels that are silently wrong.

op = gpuemu.Op("rmsnorm", inputs={"x": "B H", "w": "H"}, dims={...}, reference=...)
report = gpuemu.check(my_rmsnorm, op, budget=64, seed=0)
assert report.passed, report
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuemu.candidates.loader import mark as kernel
    from gpuemu.checking import check
    from gpuemu.model.case import Case
    from gpuemu.model.op import Contract, Dim, Op, Tensor
    from gpuemu.model.record import Report
    from gpuemu.model.verdict import Status, Verdict
    from gpuemu.ops.registry import get_op

__version__ = "0.1.0"

# Public name to the module that holds it; loaded on first use, so that `import gpuemu` stays light.
_EXPORTS = {
    "Case": "gpuemu.model.case:Case",
    "Contract": "gpuemu.model.op:Contract",
    "Dim": "gpuemu.model.op:Dim",
    "Op": "gpuemu.model.op:Op",
    "Report": "gpuemu.model.record:Report",
    "Status": "gpuemu.model.verdict:Status",
    "Tensor": "gpuemu.model.op:Tensor",
    "Verdict": "gpuemu.model.verdict:Verdict",
    "check": "gpuemu.checking:check",
    "get_op": "gpuemu.ops.registry:get_op",
    "kernel": "gpuemu.candidates.loader:mark",
}

__all__ = [
    "Case",
    "Contract",
    "Dim",
    "Op",
    "Report",
    "Status",
    "Tensor",
    "Verdict",
    "check",
    "get_op",
    "kernel",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    try:
        module, _, attribute = _EXPORTS[name].partition(":")
    except KeyError:
        raise AttributeError(f"module 'gpuemu' has no attribute {name!r}") from None
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
