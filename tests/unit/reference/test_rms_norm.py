"""The closed form of the RMS norm, which torch calls on devices only, against its steps in mpmath."""

from __future__ import annotations

import math
from typing import Any

import legitimate_kernels as kernels
import mpmath
import numpy as np
import pytest
import torch
from input_regimes import draw
from reference_cases import assert_accepted, is_rejected, outputs_of
from torch.utils._python_dispatch import _disable_current_modes

from gpuemu.reference.registry import RULES, Call

mpmath.mp.prec = 120
EPS, LENGTH = 1e-5, 30
# Unit roundoff, smallest normal number and NumPy dtype of the arithmetic of a profile on a storage dtype.
ARITHMETIC = {
    ("P0", "float32"): (2.0**-24, 2.0**-126, np.float32),
    ("P0", "float16"): (2.0**-24, 2.0**-126, np.float32),
    ("P2", "float16"): (2.0**-11, 2.0**-14, np.float16),
}


def fused(x: Any) -> torch.Tensor:
    """The rule itself, since torch decomposes the op before it reaches any rule on the CPU."""
    call = Call(x.evaluation, torch.ops.aten._fused_rms_norm.default, (x, [LENGTH], None, EPS), {})
    with _disable_current_modes():
        result: torch.Tensor = RULES[call.func](call)[0]
    return result


def computed(x: torch.Tensor) -> torch.Tensor:
    return x + 0.3 * x


def expected_row(
    x: list[Any], e: list[Any], unit: float, omega: float, format_: Any
) -> tuple[list[Any], list[Any]]:
    """Values and bounds of x / sqrt(mean(x^2) + eps) for one row, rule by rule of ORACLE.md section 2.3.

    A square loses 4 units (rule 3), a sum of n g(n) (rule 6), the quotient of the mean and the sum with eps one
    each, the inverse root 4 and its interval (rule 3), the product one.
    """
    u, n, off = mpmath.mpf(unit), len(x), abs(float(format_(EPS)) - EPS)
    g = min(n, 4 * math.sqrt(n) + n / 4) + 2
    squares = [v * v for v in x]
    lost = [(2 * abs(v) + d) * d + 4 * u * v * v + omega for v, d in zip(x, e, strict=True)]
    mean = mpmath.fsum(squares) / n
    total = (
        mpmath.fsum(lost) + g * u * mpmath.fsum(s + d for s, d in zip(squares, lost, strict=True)) + n * omega
    )
    below = mean + EPS
    spread = total / n + u * mean + off + u * below + omega
    root = 1 / mpmath.sqrt(below)
    root_off = 1 / mpmath.sqrt(below - spread) - root + 4 * u * root + omega
    bounds = [
        abs(v) * root_off + (root + root_off) * d + u * abs(v * root) + omega for v, d in zip(x, e, strict=True)
    ]
    return [v * root for v in x], bounds


@pytest.mark.parametrize("regime", ["normal", "offset", "small", "constant"])
@pytest.mark.parametrize(("profile", "dtype"), ARITHMETIC)
@pytest.mark.parametrize("argument", [lambda x: x, computed])
def test_the_closed_form_is_its_steps(regime: str, profile: str, dtype: str, argument: Any) -> None:
    unit, omega, format_ = ARITHMETIC[profile, dtype]
    x = draw(regime, (4, LENGTH), 0, getattr(torch, dtype))
    if profile == "P2":  # where squares of 1000 overflow, and those of 0.001 are flushed
        x = draw("normal", (4, LENGTH), len(regime), torch.float16) + (1.0 if regime == "offset" else 0.0)
    ((value, bound),) = outputs_of(lambda x: fused(argument(x)), x, profile=profile)
    ((given, error),) = outputs_of(argument, x, profile=profile)
    for row, errors, values, bounds in zip(given, error, value, bound, strict=True):
        exact = [[mpmath.mpf(v) for v in part.tolist()] for part in (row, errors)]
        expected, expected_bounds = expected_row(*exact, unit, omega, format_)
        torch.testing.assert_close(values.tolist(), [float(v) for v in expected], rtol=1e-13, atol=0)
        # In 16 bits every rounding is one of the number with its error: up to 16 u, of 2^-11, more.
        rtol = 5e-2 if profile == "P2" else 1e-3
        torch.testing.assert_close(bounds.tolist(), [float(b) for b in expected_bounds], rtol=rtol, atol=1e-30)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("order", kernels.SUMS)
def test_kernels_of_every_order_are_accepted_and_wrong_ones_rejected(dtype: str, order: str) -> None:
    x = draw("normal", (4, LENGTH), 1, getattr(torch, dtype))
    ((value, bound),) = outputs_of(fused, x)

    def kernel(eps: float, x: torch.Tensor = x) -> torch.Tensor:
        return torch.from_numpy(kernels.rms_norm(x.float().numpy(), eps, kernels.SUMS[order])).to(x.dtype)

    assert_accepted(kernel(EPS), value, bound, dtype)
    assert is_rejected(kernel(1e-3), value, bound, dtype)
    padded = torch.cat((x, torch.zeros(4, 2, dtype=x.dtype)), 1)  # divides by the padded length
    assert is_rejected(kernel(EPS, padded)[:, :LENGTH], value, bound, dtype)
