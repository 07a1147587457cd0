"""Known wrong kernels leave the bound (the bug classes of PUBLISHED.md and ORACLE.md section 4)."""

from __future__ import annotations

import legitimate_kernels as kernels
import numpy as np
import pytest
import torch
from input_regimes import draw
from reference_cases import is_rejected, outputs_of
from torch.nn import functional

from gpuemu.rounding import round_to

F32 = np.float32
ADD = kernels.sum_pairwise


def rejects(result: np.ndarray | torch.Tensor, reference: object, *inputs: torch.Tensor, dtype: str) -> bool:
    ((value, bound),) = outputs_of(
        reference, *inputs, profile="P0" if dtype == "float32" else "P1", dtype=dtype
    )
    actual = torch.as_tensor(result).double()
    assert bool((bound < torch.inf).all())
    return is_rejected(round_to(actual, dtype), value, bound, dtype)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return functional.softmax(x, -1)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return softmax(q @ k.mT * q.shape[-1] ** -0.5) @ v


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_forgotten_root_is_rejected(dtype: str) -> None:
    x = draw("normal", (4, 64), 0, getattr(torch, dtype))
    loaded = x.float().numpy()
    wrong = loaded / (ADD(loaded * loaded) / F32(64) + F32(1e-6))[:, None]
    assert rejects(wrong, lambda x: functional.rms_norm(x, (64,), eps=1e-6), x, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_another_eps_is_rejected_at_small_scale(dtype: str) -> None:
    x = (draw("normal", (4, 64), 0) * 1e-3).to(getattr(torch, dtype))
    wrong = kernels.layer_norm_two_pass(x.float().numpy(), 1e-6, ADD)
    assert rejects(wrong, lambda x: functional.layer_norm(x, (64,), eps=1e-5), x, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_accumulation_in_16_bits_is_rejected(dtype: str) -> None:
    a, b = torch.rand(4, 1024).to(getattr(torch, dtype)), torch.rand(1024, 4).to(getattr(torch, dtype))
    total = torch.zeros(4, 4, dtype=torch.float64)
    for k in range(1024):
        total = round_to(total + a[:, k, None].double() * b[k].double(), dtype).double()
    assert rejects(total, torch.matmul, a, b, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_other_gelu_is_rejected(dtype: str) -> None:
    x = draw("normal", (8, 64), 0, getattr(torch, dtype))
    assert rejects(kernels.gelu_tanh(x.float().numpy()), functional.gelu, x, dtype=dtype)
    wrong = kernels.gelu_erf(x.float().numpy())
    assert rejects(wrong, lambda x: functional.gelu(x, approximate="tanh"), x, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_missing_scale_is_rejected(dtype: str) -> None:
    q, k, v = (draw("normal", (n, 16), n, getattr(torch, dtype)) for n in (5, 9, 9))
    scores = kernels.matmul(q.float().numpy(), k.float().numpy().T, ADD)
    wrong = kernels.matmul(kernels.softmax_three_pass(scores, ADD), v.float().numpy(), ADD)
    assert rejects(wrong, attention, q, k, v, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_padding_in_the_denominator_is_rejected(dtype: str) -> None:
    x = draw("normal", (4, 100), 0, getattr(torch, dtype))
    padded = np.pad(x.float().numpy(), ((0, 0), (0, 28)))  # with 0 instead of -inf
    assert rejects(kernels.softmax_three_pass(padded, ADD)[:, :100], softmax, x, dtype=dtype)


def test_a_one_pass_variance_is_rejected_far_from_zero() -> None:
    x = draw("offset", (4, 256), 0)
    loaded = x.numpy()
    mean = (ADD(loaded) / F32(256))[:, None]
    variance = (ADD(loaded * loaded) / F32(256))[:, None] - mean * mean
    wrong = (loaded - mean) / np.sqrt(np.maximum(variance, 0) + F32(1e-5))
    assert rejects(wrong, lambda x: functional.layer_norm(x, (256,)), x, dtype="float32")


def test_a_lost_rescaling_of_online_softmax_is_rejected() -> None:
    x = torch.arange(64.0).repeat(2, 1)  # the running maximum changes in every block
    loaded, total, highest = x.numpy(), np.zeros(2, F32), np.full(2, -np.inf, F32)
    for i in range(0, 64, 8):
        highest = np.maximum(highest, loaded[:, i : i + 8].max(-1))
        total = total + ADD(np.exp(loaded[:, i : i + 8] - highest[:, None]))
    assert rejects(np.exp(loaded - highest[:, None]) / total[:, None], softmax, x, dtype="float32")


def test_tf32_operands_are_rejected_under_p0_and_accepted_under_pt() -> None:
    a, b = draw("normal", (8, 64), 0), draw("normal", (64, 8), 1)

    def truncated(x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32).double()

    actual = (truncated(a) @ truncated(b)).float()
    ((value, bound),) = outputs_of(torch.matmul, a, b)
    assert is_rejected(actual, value, bound, "float32")
    ((value, bound),) = outputs_of(torch.matmul, a, b, profile="PT")
    assert not is_rejected(actual, value, bound, "float32")


def test_a_cast_before_the_weight_is_rejected_under_p1_and_accepted_under_p2() -> None:
    """The RMS norm of many libraries rounds to the storage dtype before the weight (section 12.2)."""
    x, weight = draw("normal", (4, 64), 0, torch.float16), draw("normal", (64,), 1, torch.float16)

    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (64,), w, 1e-6)

    normalised = torch.from_numpy(kernels.rms_norm(x.float().numpy(), 1e-6, ADD))
    actual = normalised.half() * weight
    ((value, bound),) = outputs_of(reference, x, weight, profile="P1")
    assert is_rejected(actual, value, bound, "float16")
    ((value, bound),) = outputs_of(reference, x, weight, profile="P2")
    assert not is_rejected(actual, value, bound, "float16")


def test_a_single_element_slightly_off_is_rejected() -> None:
    x = draw("uniform", (4, 33), 0)
    right = torch.softmax(x.double(), -1)
    wrong = right.clone()
    wrong[2, 32] *= 1 + 2.0**-7
    assert not rejects(right, softmax, x, dtype="float32")
    assert rejects(wrong, softmax, x, dtype="float32")


def test_a_logit_that_leads_by_more_than_its_error_has_all_of_the_share() -> None:
    """However large both are: q k^T near the largest float32, in error by 1e30, leads by 1e35."""
    q, k, v = torch.tensor([[3e37, -7e36]]), draw("normal", (49, 2), 0), draw("normal", (49, 3), 1)
    scores = (q @ k.T).double()[0]
    first = int(scores[:32].argmax())
    k = torch.cat([k, 1.5 * k[first : first + 1]])  # a later tile raises the maximum
    v = torch.cat([v, v[first : first + 1] + 2.0])
    assert not rejects(v[-1:].clone(), attention, q, k, v, dtype="float32")
    assert rejects(v[first : first + 1] + v[-1:], attention, q, k, v, dtype="float32")  # nothing rescaled


@pytest.mark.parametrize("scale", [1e5, 1e6, 3e7, 1e9, 1e30])
def test_the_bound_of_wide_softmax_holds_whatever_its_logits_are_off_by(scale: float) -> None:
    x = draw("normal", (64, 9), 2) * scale
    x[:32, 1] = x[:32, 0] * (1.0 + 3e-7)  # as good as a tie
    ((value, bound),) = outputs_of(softmax, x, profile="P0", dtype="float32")
    off = 2.0 * 2.0**-24 * x.double().abs()
    for seed in range(20):
        signs = draw("normal", (64, 9), 3 + seed).double().sign()
        assert bool(((torch.softmax(x.double() + signs * off, -1) - value).abs() <= bound).all())
    assert bool((bound <= 1.0).all())


@pytest.mark.parametrize("eps", [-0.5, -1e-3])
def test_a_layer_norm_with_an_eps_below_zero_is_followed(eps: float) -> None:
    """torch takes it, and its op database draws one."""
    x = draw("normal", (6, 32), 4) * 3.0
    right = torch.nn.functional.layer_norm(x.double(), (32,), eps=eps).float()

    def norm(t: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(t, (32,), eps=eps)

    assert not rejects(right, norm, x, dtype="float32")
    assert rejects(right * (1.0 + 2.0**-12), norm, x, dtype="float32")
