"""Rule 9: ops without a rule of their own."""

from __future__ import annotations

import torch
from input_regimes import draw
from reference_cases import OMEGA_SMALL, U, bound_of, follow
from torch.nn import functional

from gpuemu.reference.registry import RULES


def identity(x: torch.Tensor, degree: int = 1) -> torch.Tensor:
    """T_1(x) = x, by an op that has no rule."""
    return torch.special.chebyshev_polynomial_t(x, degree)


def test_generic_ops_are_named() -> None:
    expected = follow(lambda x: torch.special.airy_ai(identity(x)), torch.rand(2, 3))
    assert expected.generic == ("special_chebyshev_polynomial_t", "special_airy_ai")


def test_the_deviation_of_a_linear_function_is_found() -> None:
    """Of the identity: |deviation| <= 2u|x|, times 4, plus 8u|x|."""
    x = draw("normal", (1, 1, 20, 20), 0)
    size = x.double().abs()
    bound = bound_of(identity, x)
    assert bool((bound <= 16 * U * size + OMEGA_SMALL).all())
    assert bool((bound >= 8 * U * size).all())
    assert bound.mean() > 12 * U * size.mean()  # eight draws come close to the ends


def test_operand_errors_are_drawn_from() -> None:
    x = draw("normal", (1, 1, 20, 20), 0)
    wide = bound_of(lambda x: identity((x + 1000.0) - 1000.0), x)
    assert wide.mean() > 2 * 1000 * U


def test_unknown_operands_give_unknown_results() -> None:
    bound = bound_of(lambda x: identity(x * x), torch.tensor([[1e30, 1.0], [1.0, 1.0]]))
    assert bool(bound.isinf().all())


def test_overflow_and_infinities_follow_rule_7() -> None:
    assert bool(bound_of(lambda x: identity(x, 2), torch.tensor([1.0, 1e30]))[1].isinf())
    assert bound_of(identity, torch.tensor([float("inf"), 1.0]))[0] == 0.0


def test_native_results_are_accepted() -> None:
    for name, reference in {
        "special_hermite_polynomial_h": lambda x: torch.special.hermite_polynomial_h(x, 3),
        "_upsample_bilinear2d_aa": lambda x: functional.interpolate(
            x[None, None], scale_factor=2, mode="bilinear", antialias=True
        ),
    }.items():
        x = draw("normal", (6, 8), 0)
        expected = follow(reference, x)
        assert name in expected.generic
        (output,) = expected.outputs
        assert bool(((reference(x).double() - output.value).abs() <= output.bound).all())


def test_ops_with_a_rule_are_never_generic() -> None:
    for name in ("mm", "_softmax", "native_layer_norm", "gelu", "topk", "cat", "nll_loss_forward"):
        packet = getattr(torch.ops.aten, name)
        assert any(getattr(packet, overload) in RULES for overload in packet.overloads())
