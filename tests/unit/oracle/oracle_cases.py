"""Small builders for tests of the oracle."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.observation import Observation
from gpuemu.model.op import Contract
from gpuemu.model.verdict import Verdict
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.compare import judge

INF = float("inf")
NAN = float("nan")


def f64(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def expect(
    value: torch.Tensor, bound: torch.Tensor | float = 0.0, dtype: str = "float32", **fields: Any
) -> Expected:
    """An `Expected` of one output; a float bound is spread over its elements."""
    mask = fields.pop("expects_nan", None)
    if not isinstance(bound, torch.Tensor):
        bound = torch.full(value.shape, bound, dtype=torch.float64)
    return Expected((ExpectedOutput(value, bound, dtype, mask),), "P0", **fields)


def judged(
    actual: torch.Tensor, expected: Expected, contract: Contract | None = None, **inputs: torch.Tensor
) -> Verdict:
    """The verdict on one output."""
    contract = contract or Contract()
    return judge(Observation((actual,)), expected, accept(expected, contract), contract, inputs or None)


def inside(actual: torch.Tensor, expected: Expected, contract: Contract | None = None) -> list[bool]:
    """Element by element, whether the first output is accepted."""
    result: list[bool] = accept(expected, contract or Contract()).outputs[0].contains(actual).tolist()
    return result
