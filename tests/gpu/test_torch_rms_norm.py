"""A difference of torch that our controls found: its CUDA rms_norm spreads an infinity over the row as NaN.

x / sqrt(mean(x^2) + eps) is 0 for the finite elements of a row that holds an infinity, and so it is on the CPU.
While this holds, torch's own rms_norm is no control on CUDA (`implementation.WRONG_ON_CUDA`).
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

pytestmark = pytest.mark.gpu


def test_an_infinity_makes_the_whole_row_nan() -> None:
    x = torch.ones(2, 300)
    x[0, 7] = torch.inf
    here = functional.rms_norm(x, (300,), eps=1e-5)
    there = functional.rms_norm(x.cuda(), (300,), eps=1e-5).cpu()
    assert float(here[0, 0]) == 0.0
    assert bool(there[0, 0].isnan()), "torch is mended: drop WRONG_ON_CUDA"
