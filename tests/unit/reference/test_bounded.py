"""Views and in-place writes: values and errors go where torch's aliasing says (rule 1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from input_regimes import draw
from reference_cases import bound_of, follow, outputs_of

INEXACT = 0.1  # no float32 number: a product with it has an error


def write_into_a_slice(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(4, 8, dtype=x.dtype)
    y[:, :4] = x[:, :4] * INEXACT
    return y


def write_through_a_view_of_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.T[2:4].view(2, 2, 2)[0].mul_(INEXACT)
    return y


def write_to_the_base_seen_by_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    rows = y[1:3]
    y[2] = x[0] * INEXACT
    return rows.clone()


def write_after_an_exact_write(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    part = y[0]
    part.fill_(2.0)
    y[1] = y[0] * INEXACT
    part += y[1]
    return y


def write_by_mask_and_index(x: torch.Tensor) -> torch.Tensor:
    y = x * INEXACT
    y[x > 0] = 1.0
    y[torch.tensor([0, 2]), torch.tensor([1, 3])] = x[0, :2]
    y.index_copy_(0, torch.tensor([3]), x[:1])
    return y


def write_select_and_diagonal(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.select(0, 1).add_(INEXACT)
    y.diagonal().zero_()
    for row in y.unbind(0)[2:]:
        row.mul_(INEXACT)
    first, _ = y.chunk(2, dim=1)
    first.neg_()
    return y


def write_to_one_copy_only(x: torch.Tensor) -> torch.Tensor:
    y = (x * INEXACT).float()  # a cast that changes nothing must still be a copy
    z = y.to(torch.float64).clone()
    y.zero_()
    return torch.cat((y, z))


def write_expanded_scalar(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    y.copy_(x[0, 0] * INEXACT)
    y[:, 1:].copy_(x[:, :1])
    return y


def write_to_what_was_shared_before(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 2.0
    z = y.float()  # shares y's memory until one of the two is written
    y.mul_(INEXACT)
    return torch.cat((y, z))


def write_to_what_was_taken_over(x: torch.Tensor) -> torch.Tensor:
    """A whole result's memory is taken over, and must not be written while others hold it."""
    y = x * 3.3
    z = y.clone()
    z.mul_(1.1)
    row = z[0]
    z.add_(y)
    row.mul_(0.7)
    w = z
    z.neg_()
    y[1] = 2.0
    return torch.cat((y, z, w, row.reshape(1, -1)))


WRITES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    write_into_a_slice,
    write_through_a_view_of_a_view,
    write_to_the_base_seen_by_a_view,
    write_after_an_exact_write,
    write_by_mask_and_index,
    write_select_and_diagonal,
    write_to_one_copy_only,
    write_expanded_scalar,
    write_to_what_was_shared_before,
    write_to_what_was_taken_over,
]


@pytest.mark.parametrize("reference", WRITES)
def test_in_place_writes_give_torchs_values(reference: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = draw("normal", (4, 8), 0)
    ((value, _),) = outputs_of(reference, x)
    plain = reference(x.double())
    # float64 throughout: `.float()` in a reference is ignored, so the plain run rounds where ours does not.
    torch.testing.assert_close(value, plain.double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("reference", WRITES)
def test_errors_stand_exactly_where_computed_values_do(
    reference: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """An element is exact iff it was copied from the input or is a constant."""
    x = draw("normal", (4, 8), 0)
    ((value, bound),) = outputs_of(reference, x)
    inputs = torch.cat((x.double().flatten(), -x.double().flatten(), torch.tensor([0.0, 1.0, 2.0, -2.0])))
    copied = torch.isin(value, inputs)
    assert torch.equal(bound <= 2.0**-126, copied)  # 0 times a constant may be a flushed result
    assert bool((bound[~copied] < 1e-6 * value[~copied].abs()).all())


def test_views_of_inputs_do_not_write_to_inputs() -> None:
    x = draw("normal", (4, 8), 0).double()
    before = x.clone()
    outputs_of(lambda x: x.T[0].mul_(3.0), x)
    assert torch.equal(x, before)


def test_in_place_results_must_fit() -> None:
    x = draw("normal", (4, 8), 0)
    assert "shape" in str(follow(lambda x: x[0].clone().add_(x), x).problem)
    assert follow(lambda x: (x > 0).add_(x), x).problem is not None


def test_writes_to_tensors_from_outside_are_refused() -> None:
    outside = torch.zeros(3, dtype=torch.int64)
    problem = follow(lambda x: outside.copy_(x * INEXACT), torch.ones(3)).problem
    assert problem is not None
    assert "plain tensor" in problem


def test_a_tensor_from_outside_is_exact() -> None:
    weight = torch.tensor([1.5, 2.5])
    ((value, bound),) = outputs_of(lambda x: x + weight, torch.tensor([2.0, 4.0]))
    assert value.tolist() == [3.5, 6.5]
    assert bound.tolist() == [0.0, 0.0]
    assert weight.tolist() == [1.5, 2.5]


def test_movement_moves_errors() -> None:
    x = draw("normal", (4, 6), 0)
    moved: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda t: t.T.reshape(3, 8).flip(1),
        lambda t: t[torch.tensor([3, 0])][:, 1::2],
        lambda t: t.gather(1, torch.tensor([[0], [5], [2], [2]])),
        lambda t: torch.stack((t[0], t[1]), -1).flatten(),
        lambda t: torch.nn.functional.pad(t, (1, 2), value=3.0),
        lambda t: t.roll(2, 1).tril().repeat(2, 1),
        lambda t: torch.nn.functional.embedding(torch.tensor([1, 1, 3]), t),
        lambda t: t.unfold(1, 3, 2).transpose(1, 2),
        lambda t: torch.cat(t.split([1, 5], dim=1)[::-1], 1),
        lambda t: t.unsqueeze(0).expand(3, -1, -1).permute(2, 0, 1).squeeze(),
        lambda t: t.repeat_interleave(torch.tensor([1, 2, 0, 1]), 0),
    ]
    error = bound_of(lambda x: x * INEXACT, x)
    for move in moved:
        actual = bound_of(lambda x, move=move: move(x * INEXACT), x)
        expected = move(error)
        padding = expected == 3.0
        assert torch.equal(actual, torch.where(padding, 0.0, expected))


def test_a_written_tensor_is_no_longer_one_of_storage_numbers() -> None:
    """Under P1 a computed operand may be rounded to float16, an untouched input may not."""

    def reference(x: torch.Tensor, factor: float) -> torch.Tensor:
        y = x.clone()
        view = y[:2]
        view.mul_(factor)
        return y @ x.T

    x = draw("normal", (4, 8), 0, torch.float16)
    for factor, is_looser in ((INEXACT, True), (1.0, False)):
        strict, loose = (bound_of(reference, x, params={"factor": factor}, profile=p) for p in ("P0", "P1"))
        assert bool((loose[:2] > 10 * strict[:2]).all()) == is_looser
