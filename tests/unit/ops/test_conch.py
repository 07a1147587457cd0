"""Conch's ops: references against closed forms, contracts against what the package documents."""

from __future__ import annotations

import pytest
import torch
from third_party import angles, close, draw, gelu_tanh, rms_rows, silu, turn

from gpuemu.ops.registry import get_op

NAMES = ("rms_norm", "fused_add_rms_norm", "silu_and_mul", "gelu_tanh_and_mul", "rotary_embedding")


def test_rms_norm_is_its_closed_form() -> None:
    x, weight = draw(3, 5), draw(5, seed=1)
    expected = [[v * u for v, u in zip(r, weight.tolist(), strict=True)] for r in rms_rows(x.tolist(), 0.5)]
    close(get_op("conch.rms_norm").reference(x, weight, epsilon=0.5), expected)


def test_gemma_rms_norm_adds_one_to_its_weight() -> None:
    x, weight = draw(3, 5), draw(5, seed=1)
    rows = rms_rows(x.tolist(), 0.5)
    expected = [[v * (1 + u) for v, u in zip(row, weight.tolist(), strict=True)] for row in rows]
    close(get_op("conch.gemma_rms_norm").reference(x, weight, variance_epsilon=0.5), expected)


def test_fused_add_rms_norm_normalises_the_sum_and_returns_it() -> None:
    x, residual, weight = draw(2, 4), draw(2, 4, seed=1), draw(4, seed=2)
    y, total = get_op("conch.fused_add_rms_norm").reference(x, residual, weight, epsilon=1e-6)
    close(total, (x + residual).tolist())
    rows = rms_rows(total.tolist(), 1e-6)
    close(y, [[v * u for v, u in zip(row, weight.tolist(), strict=True)] for row in rows])


@pytest.mark.parametrize(("name", "gate"), [("silu_and_mul", silu), ("gelu_tanh_and_mul", gelu_tanh)])
def test_a_gated_activation_takes_its_gate_from_the_first_half(name: str, gate: object) -> None:
    x = draw(2, 6)
    expected = [[gate(row[i]) * row[i + 3] for i in range(3)] for row in x.tolist()]  # type: ignore[operator]
    close(get_op(f"conch.{name}").reference(x), expected)


def test_rotary_embedding_takes_each_token_by_its_position() -> None:
    positions, query, key = torch.tensor([4, 0, 4]), draw(3, 2 * 6), draw(3, 6, seed=1)
    cos, sin = angles(5, 3)
    turned = get_op("conch.rotary_embedding").reference(positions, query, key, torch.cat((cos, sin), -1))
    for before, after in zip((query, key), turned, strict=True):
        assert after.shape == before.shape
        for token, position in enumerate(positions.tolist()):
            row = before[token].tolist()
            heads = [row[start : start + 6] for start in range(0, len(row), 6)]
            expected = [turn(head, cos[position].tolist(), sin[position].tolist()) for head in heads]
            close(after[token], [number for head in expected for number in head])


@pytest.mark.parametrize("name", NAMES)
def test_documented_casts_give_profile_p2_in_16_bits_with_a_reason(name: str) -> None:
    contract = get_op(f"conch.{name}").contract
    profiles = [contract.profile_for(dtype) for dtype in ("float32", "float16", "bfloat16")]
    assert profiles == ["P0", "P2", "P2"]
    assert contract.profile_reason


def test_gemma_rms_norm_computes_in_float32() -> None:
    assert get_op("conch.gemma_rms_norm").contract.profile_for("bfloat16") == "P1"


def test_in_place_kernels_may_overwrite_what_they_return() -> None:
    mutates = {name: get_op(f"conch.{name}").contract.mutates for name in (*NAMES, "gemma_rms_norm")}
    assert mutates == {
        "rms_norm": (),
        "fused_add_rms_norm": ("x", "residual"),
        "silu_and_mul": (),
        "gelu_tanh_and_mul": (),
        "rotary_embedding": ("query", "key"),
        "gemma_rms_norm": ("x",),
    }
