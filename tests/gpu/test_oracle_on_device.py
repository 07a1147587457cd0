"""The judge gives the same verdict on the device as on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.observation import Observation
from gpuemu.model.op import Contract
from gpuemu.oracle.adequacy import rejected
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.compare import judge
from gpuemu.rounding import round_to

pytestmark = pytest.mark.gpu

DTYPES = ("float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2")
SHAPE = (37, 53)


def _case(seed: int, dtype: str) -> tuple[Expected, torch.Tensor]:
    """A planted answer: right, nearly right or wrong; some with exact, unjudged and non-finite elements."""
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(SHAPE, generator=generator, dtype=torch.float64) * 10.0 ** (seed % 9 - 4)
    bound = value.abs() * 2.0 ** -(seed % 20 + 3)
    taint = None
    if seed % 3 == 0:
        bound[:5] = 0
    if seed % 4 == 0:
        value[7, 7], value[8], bound[9] = torch.inf, torch.nan, torch.inf
        taint = value.isnan()
        taint[8, 20:] = False
    spread = (torch.rand(SHAPE, generator=generator, dtype=torch.float64) - 0.5) * 2 * (seed % 4)
    actual = round_to(value + bound.nan_to_num(posinf=1.0) * spread * 0.9, dtype)
    if seed % 5 == 0:
        lost = torch.rand(SHAPE, generator=generator) < 0.01
        actual = torch.where(lost, torch.nan, actual.float()).to(actual.dtype)
    expected = Expected((ExpectedOutput(value, bound, dtype, taint),), "P0", infinite_input=seed % 8 == 0)
    return expected, actual


def _to_device(expected: Expected) -> Expected:
    outputs = [
        replace(
            output,
            value=output.value.cuda(),
            bound=output.bound.cuda(),
            expects_nan=None if output.expects_nan is None else output.expects_nan.cuda(),
        )
        for output in expected.outputs
    ]
    return replace(expected, outputs=tuple(outputs))


CONTRACTS = (
    Contract(),
    Contract(nan="propagate", masked_value=0.5),
    Contract(nan="forbid", infinity="saturate", signed_zero=True),
)


@pytest.mark.parametrize("contract", CONTRACTS, ids=("default", "masked", "saturate"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_verdicts_are_those_of_the_cpu(dtype: str, contract: Contract) -> None:
    x = {"x": torch.ones(SHAPE)}
    for seed in range(40):
        expected, actual = _case(seed, dtype)
        there = _to_device(expected)
        here_accepted, there_accepted = accept(expected, contract), accept(there, contract)
        here = judge(Observation((actual,)), expected, here_accepted, contract)
        verdict = judge(Observation((actual.cuda(),)), there, there_accepted, contract)
        assert verdict.to_json() == here.to_json(), seed
        on_device = {name: tensor.cuda() for name, tensor in x.items()}
        assert rejected(on_device, there, there_accepted) == rejected(x, expected, here_accepted)


def test_an_output_left_on_the_cpu_is_not_compared() -> None:
    expected, actual = _case(1, "float32")
    there = _to_device(expected)
    verdict = judge(Observation((actual,)), there, accept(there), Contract())
    assert (verdict.kind, verdict.message) == ("shape", "output 0 is on cpu, expected cuda:0")
