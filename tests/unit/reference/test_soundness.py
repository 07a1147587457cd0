"""No false alarms: legitimate float32 kernels in many orders and formulas stay within the bound."""

from __future__ import annotations

import legitimate_kernels as kernels
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from input_regimes import ALL, ORDINARY, draw
from reference_cases import assert_accepted, outputs_of
from torch.nn import functional

from gpuemu.dtypes import torch_dtype
from gpuemu.rounding import round_to

REGIMES = st.sampled_from(sorted(ORDINARY))
ANY_REGIMES = st.sampled_from(sorted(ALL))
DTYPES = st.sampled_from(["float32", "float16", "bfloat16"])
SEEDS = st.integers(0, 2**31)
LENGTHS = st.sampled_from([1, 2, 3, 17, 64, 257])
SUMS = st.sampled_from(sorted(kernels.SUMS))
few = settings(max_examples=25, deadline=None)
pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")


def stored(x: torch.Tensor) -> np.ndarray:
    """The float32 numbers that a kernel loads."""
    return x.float().numpy()


def judge(
    result: np.ndarray, reference: object, *inputs: torch.Tensor, dtype: str, profile: str = "P0"
) -> None:
    """Store the kernel's float32 result in the dtype and compare."""
    ((value, bound),) = outputs_of(reference, *inputs, profile=profile, dtype=dtype)
    actual = round_to(torch.from_numpy(np.asarray(result)).double(), dtype)
    assert_accepted(actual, value, bound, dtype)


@few
@given(ANY_REGIMES, DTYPES, SEEDS, LENGTHS, SUMS)
def test_sums_in_any_order_are_accepted(regime: str, dtype: str, seed: int, n: int, order: str) -> None:
    x = draw(regime, (5, n), seed, torch_dtype(dtype))
    judge(kernels.SUMS[order](stored(x)), lambda x: x.sum(-1), x, dtype=dtype)


@few
@given(REGIMES, DTYPES, SEEDS, LENGTHS, SUMS)
def test_matrix_products_in_any_order_are_accepted(
    regime: str, dtype: str, seed: int, n: int, order: str
) -> None:
    a, b = draw(regime, (4, n), seed, torch_dtype(dtype)), draw(regime, (n, 3), seed + 1, torch_dtype(dtype))
    result = kernels.matmul(stored(a), stored(b), kernels.SUMS[order])
    judge(result, torch.matmul, a, b, dtype=dtype)


@few
@given(REGIMES, st.sampled_from(["float16", "bfloat16"]), SEEDS, st.sampled_from([16, 64, 257, 1024]))
def test_truncating_tensor_cores_are_accepted(regime: str, dtype: str, seed: int, n: int) -> None:
    a, b = draw(regime, (4, n), seed, torch_dtype(dtype)), draw(regime, (n, 3), seed + 1, torch_dtype(dtype))
    judge(kernels.truncating_matmul(stored(a), stored(b)), torch.matmul, a, b, dtype=dtype)


@few
@given(REGIMES, DTYPES, SEEDS, LENGTHS, SUMS, st.sampled_from(sorted(kernels.SOFTMAXES)))
def test_softmax_formulas_are_accepted(
    regime: str, dtype: str, seed: int, n: int, order: str, formula: str
) -> None:
    x = draw(regime, (5, n), seed, torch_dtype(dtype))
    result = kernels.SOFTMAXES[formula](stored(x), kernels.SUMS[order])
    judge(result, lambda x: functional.softmax(x, -1), x, dtype=dtype)


@few
@given(REGIMES, DTYPES, SEEDS, LENGTHS, SUMS)
def test_two_pass_layer_norms_are_accepted(regime: str, dtype: str, seed: int, n: int, order: str) -> None:
    x = draw(regime, (5, n), seed, torch_dtype(dtype))
    result = kernels.layer_norm_two_pass(stored(x), 1e-5, kernels.SUMS[order])
    judge(result, lambda x: functional.layer_norm(x, x.shape[-1:]), x, dtype=dtype)


@few
@given(REGIMES, DTYPES, SEEDS, LENGTHS)
def test_running_layer_norms_are_accepted(regime: str, dtype: str, seed: int, n: int) -> None:
    x = draw(regime, (5, n), seed, torch_dtype(dtype))
    result = kernels.layer_norm_welford(stored(x), 1e-5)
    judge(result, lambda x: functional.layer_norm(x, x.shape[-1:]), x, dtype=dtype)


@few
@given(REGIMES, DTYPES, SEEDS, LENGTHS, SUMS)
def test_rms_norms_are_accepted(regime: str, dtype: str, seed: int, n: int, order: str) -> None:
    x = draw(regime, (5, n), seed, torch_dtype(dtype))
    result = kernels.rms_norm(stored(x), 1e-6, kernels.SUMS[order])
    judge(result, lambda x: functional.rms_norm(x, x.shape[-1:], eps=1e-6), x, dtype=dtype)


@few
@given(ANY_REGIMES, DTYPES, SEEDS)
def test_gelu_formulas_are_accepted(regime: str, dtype: str, seed: int) -> None:
    x = draw(regime, (6, 50), seed, torch_dtype(dtype))
    for kernel in (kernels.gelu_tanh, kernels.gelu_sigmoid):
        judge(kernel(stored(x)), lambda x: functional.gelu(x, approximate="tanh"), x, dtype=dtype)
    judge(kernels.gelu_erf(stored(x)), functional.gelu, x, dtype=dtype)


@few
@given(ANY_REGIMES, DTYPES, SEEDS)
def test_silu_formulas_are_accepted(regime: str, dtype: str, seed: int) -> None:
    x = draw(regime, (6, 50), seed, torch_dtype(dtype))
    for kernel in (kernels.silu_divide, kernels.silu_exp2):
        judge(kernel(stored(x)), functional.silu, x, dtype=dtype)


@few
@given(REGIMES, DTYPES, SEEDS, LENGTHS, SUMS)
def test_cross_entropies_are_accepted(regime: str, dtype: str, seed: int, n: int, order: str) -> None:
    x = draw(regime, (5, n), seed, torch_dtype(dtype))
    target = torch.randint(0, n, (5,), generator=torch.Generator().manual_seed(seed))
    for kernel in (kernels.cross_entropy, kernels.cross_entropy_exp2):
        result = kernel(stored(x), target.numpy(), kernels.SUMS[order])
        judge(result, lambda x, t: functional.cross_entropy(x, t, reduction="none"), x, target, dtype=dtype)


@few
@given(REGIMES, DTYPES, SEEDS)
def test_rotary_embeddings_are_accepted(regime: str, dtype: str, seed: int) -> None:
    x = draw(regime, (5, 16), seed, torch_dtype(dtype))
    angle = draw("uniform", (5, 8), seed + 1).double()
    cos, sin = (f(angle).to(torch_dtype(dtype)) for f in (torch.cos, torch.sin))

    def reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    judge(kernels.rope(stored(x), stored(cos), stored(sin)), reference, x, cos, sin, dtype=dtype)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v


@few
@given(st.sampled_from(["normal", "uniform", "small", "constant"]), DTYPES, SEEDS, SUMS)
def test_attention_is_accepted(regime: str, dtype: str, seed: int, order: str) -> None:
    q, k, v = (draw(regime, (n, 8), seed + n, torch_dtype(dtype)) for n in (5, 17, 17))
    loaded = [stored(x) for x in (q, k, v)]
    judge(kernels.attention(*loaded, kernels.SUMS[order]), attention, q, k, v, dtype=dtype)
    judge(kernels.flash_attention(*loaded), attention, q, k, v, dtype=dtype)


@few
@given(st.sampled_from(["normal", "uniform", "small"]), SEEDS)
def test_shares_cast_to_storage_are_accepted_under_p1(regime: str, seed: int) -> None:
    q, k, v = (draw(regime, (n, 8), seed + n, torch.float16) for n in (5, 17, 17))
    result = kernels.attention(*(stored(x) for x in (q, k, v)), kernels.sum_sequential, storage=np.float16)
    judge(result, attention, q, k, v, dtype="float16", profile="P1")
