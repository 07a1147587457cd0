"""The normalisations' references against closed forms in 50 digits."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import pytest
import torch

from gpuemu.ops.registry import get_op

mpmath.mp.dps = 50
Row = list[mpmath.mpf]


def _softmax(row: Row) -> Row:
    weights = [mpmath.exp(x) for x in row]
    return [weight / mpmath.fsum(weights) for weight in weights]


def _layernorm(row: Row) -> Row:
    mean = mpmath.fsum(row) / len(row)
    variance = mpmath.fsum((x - mean) ** 2 for x in row) / len(row)
    return [(x - mean) / mpmath.sqrt(variance + mpmath.mpf("1e-5")) for x in row]


def _rmsnorm(row: Row) -> Row:
    return [x / mpmath.sqrt(mpmath.fsum(y * y for y in row) / len(row) + mpmath.mpf("1e-5")) for x in row]


def _l2norm(row: Row) -> Row:
    return [x / mpmath.sqrt(mpmath.fsum(y * y for y in row) + mpmath.mpf("1e-12")) for x in row]


CLOSED_FORMS: dict[str, Callable[[Row], Row]] = {
    "softmax": _softmax,
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    "l2norm": _l2norm,
}
# The tiny row makes eps decide; the shifted one makes a one-pass variance fail.
ROWS = ((0.5, -1.25, 3.0), (1e-6, -2e-6, 1e-7), (1000.25, 1000.5, 999.75), (0.0, 0.0, 0.0))


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_a_reference_is_its_closed_form(name: str) -> None:
    actual = get_op(name).reference(torch.tensor(ROWS, dtype=torch.float64).reshape(2, 2, 3))
    assert actual.shape == (2, 2, 3)
    for row, found in zip(ROWS, actual.reshape(4, 3).tolist(), strict=True):
        exact = CLOSED_FORMS[name]([mpmath.mpf(x) for x in row])
        for y, expected in zip(found, exact, strict=True):
            assert abs(y - expected) <= 1e-12 * max(abs(value) for value in exact), row


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm", "l2norm"])
def test_a_norm_has_its_length(name: str) -> None:
    x = torch.randn(3, 4, 65, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 2
    squares = get_op(name).reference(x).square().sum(-1)
    torch.testing.assert_close(
        squares, torch.full_like(squares, 1.0 if name == "l2norm" else 65.0), rtol=1e-4, atol=0.0
    )


def test_softmax_does_not_move_when_a_row_is_shifted() -> None:
    x = torch.linspace(-2, 2, 9, dtype=torch.float64).reshape(1, 1, 9)
    reference = get_op("softmax").reference
    torch.testing.assert_close(reference(x - 1e4), reference(x), rtol=1e-11, atol=0.0)


@pytest.mark.parametrize(("name", "plain", "bias"), [("rms_norm", _rmsnorm, 0), ("layer_norm", _layernorm, 1)])
def test_a_norm_with_weights_scales_and_shifts_its_columns(
    name: str, plain: Callable[[Row], Row], bias: int
) -> None:
    w, b = (0.5, -2.0, 3.0), (10.0, -20.0, 0.25)
    parameters = [torch.tensor(p, dtype=torch.float64) for p in (w, b)[: 1 + bias]]
    actual = get_op(name).reference(torch.tensor(ROWS, dtype=torch.float64), *parameters, eps=1e-5)
    for row, found in zip(ROWS, actual.tolist(), strict=True):
        exact = [y * u + bias * v for y, u, v in zip(plain([mpmath.mpf(x) for x in row]), w, b, strict=True)]
        assert all(abs(y - e) <= 1e-11 * max(map(abs, exact)) for y, e in zip(found, exact, strict=True)), row
