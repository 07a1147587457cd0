"""Which ops the rules answer, and what becomes of those without one."""

from __future__ import annotations

import pytest
import torch
from reference_cases import bound_of, follow, outputs_of

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import RULES, overloads


def test_rules_answer_functional_overloads() -> None:
    assert len(RULES) > 200
    for name in ("add", "index_put", "clamp", "exp"):
        found = list(overloads(name))
        assert found
        assert all(not overload._schema.is_mutable and overload in RULES for overload in found)


def test_unknown_names_are_no_error() -> None:
    assert list(overloads("an_op_of_the_future")) == []
    assert list(overloads("add.NoSuchOverload")) == []
    assert [o._overloadname for o in overloads("add.Tensor")] == ["Tensor"]
    assert torch.ops.aten.exp.out not in set(overloads("exp"))


def test_factories_make_float64_whatever_is_asked_for() -> None:
    """A float32 angle would be 3e-8 off: the reference's angles must be those of real numbers."""

    def reference(x: torch.Tensor) -> torch.Tensor:
        frequency = 1.0 / 10000 ** (torch.arange(0, 8, 2, dtype=torch.float32) / 8)
        return x * torch.cos(torch.arange(3)[:, None] * frequency).to(x.dtype)

    x = torch.ones(3, 4)
    ((value, bound),) = outputs_of(reference, x)
    frequency = 1.0 / 10000 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    truth = torch.cos(torch.arange(3)[:, None] * frequency)
    torch.testing.assert_close(value, truth, rtol=1e-15, atol=0)
    assert bool((bound > 0)[1:].all())
    assert bool((bound < 1e-4).all())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.zeros(3),
        lambda x: torch.ones(3, dtype=torch.float16),
        lambda x: torch.full((3,), 0.25),
        lambda x: torch.arange(3.0),
        lambda x: torch.eye(3)[0],
        lambda x: torch.tensor([1.0, 2.0, 4.0]),
        lambda x: x.new_ones(3),
        torch.zeros_like,
        lambda x: torch.full_like(x, 0.5),
        lambda x: torch.where(torch.tensor([True, False, True]), 1.0, 0.5),
        lambda x: torch.arange(3) * 0.5,
        lambda x: torch.arange(3).float(),
    ],
)
def test_made_floats_are_exact_float64(make: object) -> None:
    seen: list[torch.Tensor] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        made = make(x)  # type: ignore[operator]
        seen.append(made)
        return x + made

    assert bool((bound_of(reference, torch.ones(3)) == 0).all())
    assert isinstance(seen[0], Bounded)
    assert seen[0].dtype == torch.float64


def test_made_integers_stay_integers() -> None:
    expected = follow(
        lambda x: (torch.arange(3), torch.full((2,), 7), torch.zeros(2, dtype=torch.bool)), torch.ones(1)
    )
    assert [output.dtype for output in expected.outputs] == ["int64", "int64", "bool"]


def test_division_of_integers_is_done_in_float64() -> None:
    ((value, _),) = outputs_of(lambda i: i / 3, torch.arange(5), dtype="float32")
    assert torch.equal(value, torch.arange(5, dtype=torch.float64) / 3)


def test_dtypes_that_references_ask_for_are_float64() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float64
        return x.to(torch.float32) @ x.half().float().T

    assert follow(reference, torch.ones(2, 3, dtype=torch.float16)).problem is None


def test_ops_that_torch_composes_are_followed_through() -> None:
    x = torch.rand(3, 4)
    for reference in (torch.softmax, torch.nn.functional.cosine_similarity):
        expected = follow(lambda x, f=reference: f(x, -1) if f is torch.softmax else f(x, x.flip(0)), x)
        assert expected.problem is None
        assert expected.generic == ()
