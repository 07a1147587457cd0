"""On a CUDA device the evaluation gives what it gives on the CPU, and the device's own kernels are accepted."""

from __future__ import annotations

import pytest
import torch
from input_regimes import ALL, draw
from reference_cases import assert_accepted, follow
from test_bounded import WRITES
from test_native import REFERENCES, SHAPE, outputs

pytestmark = pytest.mark.gpu
# Ops that cuDNN, cuBLAS or torch's own CUDA kernels compute in an unspecified way where an input is extreme.
REGIMES = [regime for regime in ALL if regime not in ("near_overflow", "huge", "subnormal")]


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("profile", ["P0", "P2"])
def test_cuda_gives_the_same_bounds(name: str, profile: str) -> None:
    for seed, regime in enumerate(ALL):
        x = draw(regime, SHAPE, seed)
        here, there = (follow(REFERENCES[name], t, profile=profile) for t in (x, x.cuda()))
        assert there.problem is None
        assert there.generic == here.generic
        assert there.infinite_input == here.infinite_input
        for mine, theirs in zip(here.outputs, there.outputs, strict=True):
            assert theirs.value.is_cuda
            assert theirs.bound.is_cuda
            assert theirs.dtype == mine.dtype
            torch.testing.assert_close(theirs.value.cpu(), mine.value, rtol=1e-9, atol=1e-12, equal_nan=True)
            judged = mine.bound < torch.inf
            assert torch.equal(theirs.bound.cpu() < torch.inf, judged)
            # torch decomposes its attention differently on each device.
            rtol = 16.0 if name.startswith("sdpa") else 1e-4
            # Where float64 rounds a result to a number of the format on one of them only, that is exact there.
            room = rtol * mine.bound + 1e-36 + 2.0**-23 * mine.value.abs().nan_to_num(posinf=0.0, neginf=0.0)
            assert bool(((theirs.bound.cpu() - mine.bound).abs() <= room)[judged].all())


@pytest.mark.parametrize("name", REFERENCES)
def test_native_cuda_kernels_are_accepted(name: str) -> None:
    reference = REFERENCES[name]
    for seed, regime in enumerate(REGIMES):
        x = draw(regime, SHAPE, seed).cuda()
        expected = follow(reference, x)
        with torch.no_grad(), torch.device("cuda"):
            actual = outputs(reference(x.clone()))
        for y, output in zip(actual, expected.outputs, strict=True):
            assert_accepted(y, output.value, output.bound, "float32")


@pytest.mark.parametrize("reference", WRITES)
def test_in_place_writes_work_on_cuda(reference: object) -> None:
    x = draw("normal", (4, 8), 0)
    here, there = follow(reference, x), follow(reference, x.cuda())  # type: ignore[arg-type]
    assert there.problem is None
    torch.testing.assert_close(there.outputs[0].bound.cpu(), here.outputs[0].bound)


def test_large_tensors_are_not_cut_on_cuda() -> None:
    x = draw("normal", (1000, 1000), 0)
    here = follow(lambda x: torch.nn.functional.layer_norm(x, (1000,)), x).outputs[0]
    there = follow(lambda x: torch.nn.functional.layer_norm(x, (1000,)), x.cuda()).outputs[0]
    torch.testing.assert_close(there.bound.cpu(), here.bound, rtol=1e-6, atol=0)
