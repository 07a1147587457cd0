"""Extremes, order and places (rule 6 and section 2.5)."""

from __future__ import annotations

import math

import torch
from input_regimes import draw
from reference_cases import bound_of, outputs_of

X = torch.tensor([[3.0, 1.0, 3.0, 2.0], [0.3, 0.1, 0.2, 0.4]])


def test_extremes_of_exact_elements_are_exact() -> None:
    for reference in (lambda x: x.amax(-1), lambda x: x.min(), lambda x: x.max(-1)[0], lambda x: x.sort(-1)[0]):
        assert bool((bound_of(reference, X) == 0).all())


def test_extremes_inherit_the_error_of_their_element() -> None:
    x = draw("normal", (3, 9), 0)
    error = bound_of(lambda x: x * 0.1, x)
    place = (x.double() * 0.1).argmax(-1, keepdim=True)
    torch.testing.assert_close(bound_of(lambda x: (x * 0.1).amax(-1), x), error.gather(1, place)[:, 0])


def test_places_are_uncertain_among_ties_only() -> None:
    for reference in (lambda x: x.argmax(-1), lambda x: x.max(-1)[1]):
        ((value, bound),) = outputs_of(reference, X)
        assert value[1] == 3
        assert (bound > 0).tolist() == [True, False]
    assert (bound_of(lambda x: x.argmin(-1), X) > 0).tolist() == [False, False]
    assert (bound_of(lambda x: x.argmax(), X) > 0).item() is True


def test_sorted_places_are_uncertain_beside_a_rival() -> None:
    bound = bound_of(lambda x: x.sort(-1, descending=True)[1], X)
    assert (bound > 0).tolist() == [[True, True, False, False], [False] * 4]
    bound = bound_of(lambda x: x.topk(1)[1], X)
    assert (bound > 0).tolist() == [[True], [False]]
    close = torch.tensor([1.0, 1.0 + 1e-7, 5.0])
    bound = bound_of(lambda x: ((x + 0.1) - 0.1).sort()[1], close)
    assert (bound > 0).tolist() == [True, True, False]


def test_gathering_at_an_uncertain_place_is_unknown() -> None:
    bound = bound_of(lambda x: x.gather(1, x.argmax(-1, keepdim=True)), X)
    assert bound.tolist() == [[math.inf], [0.0]]  # only the first row has a tie
    bound = bound_of(lambda x: x.gather(1, x.argmax(-1, keepdim=True)), X[1:])
    assert bound.item() == 0.0
