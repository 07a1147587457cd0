"""Cutting large tensors changes nothing but the memory that is used."""

from __future__ import annotations

import pytest
import torch
from input_regimes import ALL, draw
from reference_cases import bound_of, follow
from test_native import REFERENCES, SHAPE
from torch.nn import functional

from gpuemu.reference import pieces as pieces_module
from gpuemu.reference.pieces import cut, in_pieces, pieces


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "PIECE_ELEMENTS", 1 << 12)
    monkeypatch.setattr(pieces_module, "MOST_THREADS", 1)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("shape", [(40000,), (3, 20000), (400, 100), (2, 3, 7000), (5, 1, 90, 90)])
def test_pieces_cover_every_element_once(shape: tuple[int, ...]) -> None:
    seen = torch.zeros(shape)
    cuts = pieces(seen)
    assert cuts is not None
    for piece in cuts:
        seen.narrow(*piece).add_(1.0)
    assert bool((seen == 1).all())


def test_small_tensors_are_not_cut() -> None:
    assert pieces(torch.zeros(1000)) is None
    assert pieces(torch.zeros(1, 100000), whole=(1,)) is None


@pytest.mark.usefixtures("small_pieces")
def test_reduced_dims_are_not_cut() -> None:
    cuts = pieces(torch.zeros(50, 2000), whole=(1,))
    assert cuts is not None
    assert {dim for dim, _, _ in cuts} == {0}


def test_broadcast_operands_stay_whole() -> None:
    piece = (1, 2, 3)
    assert cut(torch.zeros(4, 9), 2, piece).shape == (4, 3)
    assert cut(torch.zeros(9), 2, piece).shape == (3,)
    assert cut(torch.zeros(4, 1), 2, piece).shape == (4, 1)
    assert cut(torch.zeros(()), 2, piece).shape == ()
    assert cut(2.5, 2, piece) == 2.5
    assert cut(None, 2, piece) is None


@pytest.mark.usefixtures("small_pieces")
def test_results_are_put_together_in_place() -> None:
    x = draw("normal", (300, 200), 0).double()
    assert torch.equal(in_pieces(lambda t: t.sum(1, keepdim=True), x, (1,), x), x.sum(1, keepdim=True))


@pytest.mark.parametrize("regime", ["normal", "mixed", "integers", "near_overflow"])
def test_bounds_do_not_depend_on_the_cutting(regime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = functional.silu(x) * w
        return (
            y,
            functional.softmax(y, -1),
            functional.layer_norm(x, (64,), w, w),
            functional.log_softmax(x, -1),
        )

    x, w = draw(regime, (12, 64), 0), draw("normal", (64,), 1)
    for output in range(4):
        whole = bound_of(lambda x, w, i=output: reference(x, w)[i], x, w)
        monkeypatch.setattr(pieces_module, "PIECE_ELEMENTS", 100)
        in_parts = bound_of(lambda x, w, i=output: reference(x, w)[i], x, w)
        monkeypatch.undo()
        # A piece without anything unusual takes the fast path, whose closed forms differ in the second order.
        torch.testing.assert_close(in_parts, whole, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("exact_first", [True, False])
def test_exact_and_inexact_pieces_are_put_together(exact_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, real = torch.full((2, 20000), 3.0), draw("normal", (2, 20000), 0)
    x = torch.cat((whole, real) if exact_first else (real, whole))
    expected = torch.where((x == 3.0) | ((x.double() ** 2).float() == x.double() ** 2), 0.0, 1.0)
    monkeypatch.setattr(torch, "empty_like", lambda t: torch.full_like(t, torch.nan))  # memory is never clean
    bound = bound_of(lambda x: x * x, x)
    assert torch.equal((bound > 0).double(), expected.double())
    assert bool((bound < 1e-5).all())


@pytest.mark.parametrize("name", REFERENCES)
def test_few_calls_and_few_elements_give_the_same_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where calls cost more than elements do, fewer are made."""
    for seed, regime in enumerate(ALL):
        x = draw(regime, SHAPE, seed)
        for dtype in (torch.float32, torch.bfloat16):
            few_calls = follow(REFERENCES[name], x.to(dtype), profile="P1")
            with monkeypatch.context() as patch:
                patch.setattr(pieces_module, "FEW_ELEMENTS", 0)
                few_elements = follow(REFERENCES[name], x.to(dtype), profile="P1")
            for mine, other in zip(few_calls.outputs, few_elements.outputs, strict=True):
                torch.testing.assert_close(mine.bound, other.bound, rtol=1e-12, atol=0.0)
