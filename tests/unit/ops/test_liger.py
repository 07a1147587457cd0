"""Liger's ops: references against closed forms, contracts against what the package documents."""

from __future__ import annotations

import math

import pytest
import torch
from third_party import angles, close, draw, gelu_tanh, rms_rows, silu, turn

from gpuemu.ops.registry import get_op

SIXTEEN_BITS = ("float16", "bfloat16")
LOGITS, TARGET = draw(5, 7) * 3, torch.tensor([2, -100, 0, 6, -100])
LOSS_PARAMS = {
    "ignore_index": -100,
    "reduction": "none",
    "label_smoothing": 0.0,
    "lse_square_scale": 0.0,
    "softcap": None,
}


@pytest.mark.parametrize("name", ["liger.rms_norm", "liger.rms_norm_gemma", "liger.rms_norm_none"])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_rms_norm_is_its_closed_form(name: str, offset: float) -> None:
    x, w = draw(3, 5), draw(5, seed=1)
    actual = get_op(name).reference(x, w, eps=0.5, offset=offset, casting_mode="llama")
    rows = rms_rows(x.tolist(), 0.5)
    close(actual, [[v * (offset + u) for v, u in zip(row, w.tolist(), strict=True)] for row in rows])


def test_fused_add_rms_norm_normalises_the_sum_and_returns_it() -> None:
    x, residual, w = draw(2, 4), draw(2, 4, seed=1), draw(4, seed=2)
    y, total = get_op("liger.fused_add_rms_norm").reference(x, residual, w, 1e-6, 0.0, "llama")
    close(total, (x + residual).tolist())
    close(y, [[v * u for v, u in zip(row, w.tolist(), strict=True)] for row in rms_rows(total.tolist(), 1e-6)])


def test_swiglu_scales_its_gate_and_its_result() -> None:
    a, b = draw(4), draw(4, seed=1)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    expected = [silu(0.5 * u) * v * 3.0 for u, v in pairs]
    close(get_op("liger.swiglu").reference(a, b, gate_multiplier=0.5, down_multiplier=3.0), expected)


def test_geglu_is_its_closed_form() -> None:
    a, b = draw(4), draw(4, seed=1)
    expected = [gelu_tanh(u) * v for u, v in zip(a.tolist(), b.tolist(), strict=True)]
    close(get_op("liger.geglu").reference(a, b), expected)


def loss_of_row(row: list[float], target: int, smoothing: float, z: float, cap: float | None) -> float:
    row = [cap * math.tanh(v / cap) for v in row] if cap else row
    total = math.log(math.fsum(math.exp(v) for v in row))
    hard, uniform = total - row[target], total - math.fsum(row) / len(row)
    return (1 - smoothing) * hard + smoothing * uniform + z * total**2


@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("z", [0.0, 0.01])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_cross_entropy_is_its_closed_form(smoothing: float, z: float, cap: float | None) -> None:
    rows = [
        0.0 if target == -100 else loss_of_row(row, target, smoothing, z, cap)
        for row, target in zip(LOGITS.tolist(), TARGET.tolist(), strict=True)
    ]
    params = {**LOSS_PARAMS, "label_smoothing": smoothing, "lse_square_scale": z, "softcap": cap}
    reference = get_op("liger.cross_entropy").reference
    close(reference(LOGITS, TARGET, **params), rows)
    close(reference(LOGITS, TARGET, **{**params, "reduction": "sum"}), math.fsum(rows))
    close(reference(LOGITS, TARGET, **{**params, "reduction": "mean"}), math.fsum(rows) / 3)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("smoothing", "z", "cap"), [(0.0, 0.0, None), (0.25, 0.01, 2.0), (0.25, 0.0, None)])
def test_the_gradient_is_the_derivative_of_the_loss(
    reduction: str, smoothing: float, z: float, cap: float | None
) -> None:
    changes = {"reduction": reduction, "label_smoothing": smoothing, "lse_square_scale": z, "softcap": cap}
    params = {**LOSS_PARAMS, **changes}
    leaf = LOGITS.clone().requires_grad_()
    (expected,) = torch.autograd.grad(get_op("liger.cross_entropy").reference(leaf, TARGET, **params), leaf)
    close(get_op("liger.cross_entropy_gradient").reference(LOGITS, TARGET, **params), expected)
    assert not expected[1].any()  # an ignored row


@pytest.mark.parametrize("width", [6, 4])
def test_rope_turns_the_first_elements_of_every_head_and_keeps_the_others(width: int) -> None:
    q, k = draw(2, 3, 5, 6), draw(2, 1, 5, 6, seed=1)
    cos, sin = angles(5, width // 2)
    turned = get_op("liger.rope").reference(q, k, torch.cat((cos, cos), -1), torch.cat((sin, sin), -1))
    for before, after in zip((q, k), turned, strict=True):
        for batch, head, s in torch.cartesian_prod(*(torch.arange(n) for n in before.shape[:3])).tolist():
            row = before[batch, head, s].tolist()
            close(after[batch, head, s], turn(row[:width], cos[s].tolist(), sin[s].tolist()) + row[width:])


def test_rope_reads_the_left_half_of_its_tables_only() -> None:
    q, cos, sin = draw(1, 1, 3, 4), draw(3, 4, seed=1), draw(3, 4, seed=2)
    reference = get_op("liger.rope").reference
    first, _ = reference(q, q, cos, sin)
    cos[:, 2:], sin[:, 2:] = 9.0, 9.0
    assert torch.equal(first, reference(q, q, cos, sin)[0])


@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_none", "fused_add_rms_norm", "swiglu", "geglu", "rope"])
def test_documented_casts_give_profile_p2_in_16_bits_with_a_reason(name: str) -> None:
    contract = get_op(f"liger.{name}").contract
    assert [contract.profile_for(dtype) for dtype in ("float32", *SIXTEEN_BITS)] == ["P0", "P2", "P2"]
    assert contract.profile_reason


@pytest.mark.parametrize("name", ["rms_norm_gemma", "layer_norm", "softmax", "cross_entropy_gradient"])
def test_kernels_that_compute_in_float32_keep_the_default_profiles(name: str) -> None:
    contract = get_op(f"liger.{name}").contract
    assert [contract.profile_for(dtype) for dtype in ("float32", *SIXTEEN_BITS)] == ["P0", "P1", "P1"]


def test_only_what_is_documented_to_be_overwritten_may_be() -> None:
    assert get_op("liger.rope").contract.mutates == ("q", "k")
    assert get_op("liger.cross_entropy").contract.mutates == ("logits",)
    assert get_op("liger.cross_entropy_gradient").contract.mutates == ("logits",)
    for name in ("cross_entropy_inference", "rms_norm", "layer_norm", "softmax", "swiglu", "geglu"):
        assert get_op(f"liger.{name}").contract.mutates == ()


def test_targets_are_valid_classes_or_the_ignore_index() -> None:
    target = get_op("liger.cross_entropy").tensors["target"]
    assert (target.dtype, target.low, target.high, target.sentinel) == ("int64", 0, "V", "ignore_index")


def test_a_rotary_width_is_even_and_fits_the_head() -> None:
    op, sizes = get_op("liger.rope"), {"B": 1, "S": 1, "Q": 1, "K": 1}
    assert op.admits({**sizes, "D": 6, "R": 4})
    assert not op.admits({**sizes, "D": 4, "R": 6})
    assert not op.admits({**sizes, "D": 6, "R": 3})
