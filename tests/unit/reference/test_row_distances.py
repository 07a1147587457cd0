"""Distances between rows: both algorithms of torch's `cdist` are legitimate where it may take either."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from reference_cases import U, assert_accepted, bound_of, follow, is_rejected, outputs_of

ROWS, LENGTH = 40, 16


def points(offset: float, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of which five pairs are close together, and one is equal."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, ROWS, LENGTH, generator=generator) * scale + offset
    b[:5] = a[:5] + 1e-4 * scale * torch.arange(5)[:, None]
    return a, b


def by_product(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> torch.Tensor:
    squares = (a * a).sum(-1)[:, None] + (b * b).sum(-1)[None, :] - np.float32(2.0) * (a @ b.T)
    return torch.from_numpy(np.sqrt(np.maximum(squares, np.float32(0.0))))


def by_difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> torch.Tensor:
    deviation = a[:, None] - b[None]
    return torch.from_numpy(np.sqrt((deviation * deviation).sum(-1)))


@pytest.mark.parametrize("offset", [0.0, 10.0, 1000.0])
@pytest.mark.parametrize("scale", [1.0, 1e-18, 1e-22])
def test_both_algorithms_are_accepted_for_many_rows(offset: float, scale: float) -> None:
    a, b = points(offset * scale, scale)
    assert follow(torch.cdist, a, b).generic == ()
    ((value, bound),) = outputs_of(torch.cdist, a, b)
    for kernel in (by_product, by_difference):
        assert_accepted(kernel(a.numpy(), b.numpy()), value, bound, "float32")
    assert bool(bound.isfinite().all())


def test_the_values_are_the_distances() -> None:
    a, b = points(10.0)
    ((value, _),) = outputs_of(torch.cdist, a, b)
    for i, j in ((0, 0), (1, 1), (4, 4), (7, 30)):
        with mpmath.workdps(50):
            squares = [
                (mpmath.mpf(x) - mpmath.mpf(y)) ** 2 for x, y in zip(a[i].tolist(), b[j].tolist(), strict=True)
            ]
            assert value[i, j].item() == pytest.approx(float(mpmath.sqrt(mpmath.fsum(squares))), rel=1e-9)


def test_wrong_kernels_are_rejected() -> None:
    a, b = points(0.0)
    ((value, bound),) = outputs_of(torch.cdist, a, b)
    narrow = [x.bfloat16().float().numpy() for x in (a, b)]
    for wrong in (
        by_product(*narrow),
        by_product(a.numpy()[:, :-1], b.numpy()[:, :-1]),
        by_product(b.numpy(), a.numpy()),
    ):
        assert is_rejected(wrong, value, bound, "float32")


def test_few_rows_are_held_to_their_differences() -> None:
    """So torch computes up to 25 rows: its product route would lose 0.1 of a distance of 4e-4 here."""
    a, b = (x[:5] for x in points(10.0))
    ((value, bound),) = outputs_of(torch.cdist, a, b)
    assert_accepted(by_difference(a.numpy(), b.numpy()), value, bound, "float32")
    assert is_rejected(by_product(a.numpy(), b.numpy()), value, bound, "float32")


def test_errors_of_the_operands_move_a_distance_by_their_length() -> None:
    a, b = points(0.0)
    exact = bound_of(torch.cdist, a, b)
    moved = bound_of(lambda a, b: torch.cdist(a * 1024.1 - a * 1023.1, b), a, b)
    far = slice(5, None)
    expected = 2 * U * 1024.1 * torch.linalg.vector_norm(a.double(), dim=-1)[far, None]
    assert bool((moved[far, far] - exact[far, far] >= 0.5 * expected).all())
    assert bool((moved[far, far] - exact[far, far] <= 4 * expected + 1e-3 * expected.max()).all())


def test_batches_overflow_and_what_is_not_finite() -> None:
    a, b = points(0.0)
    a, b = a.repeat(2, 1, 1), b[:30].expand(2, 30, LENGTH).clone()
    a[0, 0, 0], a[1, 1, 1], b[1, 2, 3] = math.nan, math.inf, 1e20
    ((value, bound),) = outputs_of(torch.cdist, a, b)
    assert value.shape == (2, ROWS, 30)
    assert bool(value[0, 0].isnan().all())
    assert bool((value[1, 1] == math.inf).all())
    assert bool(bound[1, [0, 2, 3], 2].isinf().all())  # the square overflows
    assert bool(bound[0, 1:].isfinite().all())
    unknown = bound_of(lambda a, b: torch.cdist(a, b * b), a[1], b[1])  # where the square is unknown
    assert unknown[0].isinf().tolist() == [j == 2 for j in range(30)]
    assert bool(unknown[1, 2].isinf())
