"""Vendor libraries behind torch, as controls on a device: cuBLAS with tf32 and fp8, and the backends of SDPA.

Each documents an arithmetic of its own, hence a profile. What a library does not take, it refuses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpuemu.corpus.population.implementation import Function, Implementation, coarse

Tensor = torch.Tensor
_NOT_16_BITS = ("cuda/float16", "cuda/bfloat16")
# SDPA: flash and cuDNN take no float32. The efficient backend does, but multiplies by tf32 tensor cores: an
# infinity gives NaN where float32 has none (tests/gpu/test_torch_attention.py). So it is no control there.
_NOT_32_BITS = ("cuda/float32",)
FP8_MULTIPLE = 16  # cuBLASLt takes 8-bit matrices whose inner and outer sizes are multiples of 16
HEAD_MULTIPLE = 8  # and the backends of SDPA, head dims that are multiples of 8


def product_tf32(a: Tensor, b: Tensor) -> Tensor:
    """cuBLAS with tf32 operands, as `allow_tf32` permits."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return torch.matmul(a, b)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def product_fp8(fast: bool) -> Function:
    """cuBLASLt's product of 8-bit floats, `a: M K` and `b: N K`, with unit scales; fast: fewer promotions.

    Zeros fill the sizes up to what it takes.
    """

    def call(a: Tensor, b: Tensor) -> Tensor:
        if not a.numel() or not b.numel():
            raise NotImplementedError("cuBLASLt takes no empty matrix")
        one = torch.ones((), device=a.device)
        rows, columns = a.shape[0], b.shape[0]
        a, b = (_filled(matrix, FP8_MULTIPLE, FP8_MULTIPLE) for matrix in (a, b))
        scaled: Any = torch._scaled_mm
        try:
            result: Tensor = scaled(
                a,
                b.T,
                scale_a=one,
                scale_b=one,
                out_dtype=torch.bfloat16,
                use_fast_accum=fast,
            )
        except RuntimeError as error:
            if "NOT_SUPPORTED" in str(error):
                raise NotImplementedError("cuBLASLt takes no such sizes") from error
            raise
        return result[:rows, :columns]

    return call


def _filled(matrix: Tensor, rows: int, columns: int) -> Tensor:
    """A copy with zeros below and to the right, of sizes that are multiples of those given."""
    sizes = (-(-size // unit) * unit for size, unit in zip(matrix.shape, (rows, columns), strict=True))
    filled = torch.zeros(*sizes, dtype=matrix.dtype, device=matrix.device)
    filled[: matrix.shape[0], : matrix.shape[1]] = matrix
    return filled


def product_of_8_bits(a: Tensor, b: Tensor) -> Tensor:
    """float32 products and sums."""
    return (a.float() @ b.float().T).bfloat16()


def product_in_blocks(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[0], device=a.device)
    for start in range(0, a.shape[1], 32):
        total = total + a[:, start : start + 32].float() @ b[:, start : start + 32].float().T
    return total.bfloat16()


def product_accumulated_coarsely(a: Tensor, b: Tensor) -> Tensor:
    """The accumulator is of bfloat16."""
    total = torch.zeros(a.shape[0], b.shape[0], device=a.device, dtype=torch.bfloat16)
    for start in range(0, a.shape[1], 16):
        total = total + (a[:, start : start + 16].float() @ b[:, start : start + 16].float().T).bfloat16()
    return total


def product_without_last(a: Tensor, b: Tensor) -> Tensor:
    kept = max(a.shape[1] - 1, 1)
    return product_of_8_bits(a[:, :kept], b[:, :kept])


def attention_by(backend: str) -> Any:
    """`scaled_dot_product_attention` by one backend; what that does not take is refused.

    Zeros fill the head dim up to what every backend takes, which changes no score and no output.
    """

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        # Copies, since the backends load 16 bytes at a time: an input at another address ends the process's
        # CUDA context with a misaligned access (seen on an H200, torch 2.11).
        query, key, value = (_filled(rows, 1, HEAD_MULTIPLE)[None, None] for rows in (q, k, v))
        try:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                result = functional.scaled_dot_product_attention(query, key, value, scale=q.shape[1] ** -0.5)
                return result[0, 0, :, : v.shape[1]]
        except RuntimeError as error:
            if "No available kernel" in str(error) or "no kernel found" in str(error):
                raise NotImplementedError(f"{backend} takes no such inputs") from error
            raise

    return call


def _attention(op: str) -> tuple[Implementation, ...]:
    return (
        Implementation(op, "sdpa_math", attention_by("MATH"), devices=("cuda",)),
        *(
            Implementation(
                op,
                f"sdpa_{name}",
                attention_by(backend),
                devices=("cuda",),
                excluded=_NOT_32_BITS,
            )
            for name, backend in (
                ("flash", "FLASH_ATTENTION"),
                ("efficient", "EFFICIENT_ATTENTION"),
                ("cudnn", "CUDNN_ATTENTION"),
            )
        ),
    )


def _cublas_fp8(name: str, fast: bool) -> Implementation:
    reason = "tensor cores accumulate 8-bit products in 13 fractional bits"
    return Implementation(
        "matmul_fp8", name, product_fp8(fast), profiles={"bfloat16": "P8"}, reason=reason, devices=("cuda",)
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        "matmul",
        "cublas_tf32",
        product_tf32,
        profiles={"float32": "PT"},
        reason="operands are truncated to tf32",
        devices=("cuda",),
        excluded=_NOT_16_BITS,
    ),
    *_attention("attention"),
    *_attention("flash_attention"),
    _cublas_fp8("cublas", fast=False),
    _cublas_fp8("cublas_fast", fast=True),
    Implementation("matmul_fp8", "float32", product_of_8_bits),
    Implementation("matmul_fp8", "blocks", product_in_blocks),
    Implementation(
        "matmul_fp8", "dropped_inner", product_without_last, "mutant",
        bug="the last term of each sum is left out", bug_class="A",
    ),
    coarse("matmul_fp8", "bfloat16_sum", product_accumulated_coarsely, "accumulated in bfloat16"),
)  # fmt: skip
