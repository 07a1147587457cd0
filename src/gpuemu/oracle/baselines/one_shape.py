"""The oracles that study P1 measures gpuemu against: `allclose` at three tolerances, and KernelBench's rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Baseline:
    """An oracle of the kind |actual - reference| <= atol + rtol |reference|, over a number of random trials.

    atol, rtol: per dtype name; "" is for every dtype not named. same_shape: whether the shapes must be equal;
    else they only have to broadcast, as `torch.allclose` does. source: where the rule comes from.
    """

    name: str
    atol: Mapping[str, float]
    rtol: Mapping[str, float]
    trials: int = 1
    same_shape: bool = False
    source: str = ""

    def accepts(self, actual: torch.Tensor, reference: torch.Tensor, dtype: str) -> bool:
        """Whether one trial satisfies this oracle.

        Args:
            actual, reference: tensors of any dtype; compared as float32, NaN equal to nothing.
            dtype: the case's dtype name, which selects the tolerances.
        """
        if self.same_shape and actual.shape != reference.shape:
            return False
        atol, rtol = (tolerance.get(dtype, tolerance[""]) for tolerance in (self.atol, self.rtol))
        try:
            return torch.allclose(actual.float(), reference.float(), rtol=rtol, atol=atol, equal_nan=False)
        except RuntimeError:  # the shapes do not broadcast
            return False


def _allclose(atol: str, rtol: str) -> Baseline:
    source = "PUBLISHED.md, P1: one shape, one trial"
    return Baseline(f"allclose_{atol}_{rtol}", {"": float(atol)}, {"": float(rtol)}, source=source)


_KERNELBENCH = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2, "": 1e-4}

BASELINES: tuple[Baseline, ...] = (
    _allclose("1e-5", "1e-2"),
    _allclose("1e-2", "1e-2"),
    _allclose("1e-4", "1e-4"),
    Baseline(
        "kernelbench",
        _KERNELBENCH,
        _KERNELBENCH,
        trials=5,
        same_shape=True,
        source="KernelBench src/kernelbench/eval.py: 1e-4 for fp32, 1e-2 for 16 bits, five trials",
    ),
)


def accepts(baseline: Baseline, actual: torch.Tensor, reference: torch.Tensor, dtype: str) -> bool:
    """`Baseline.accepts` as a function."""
    return baseline.accepts(actual, reference, dtype)
