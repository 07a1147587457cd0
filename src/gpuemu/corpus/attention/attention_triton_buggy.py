"""Attention of one head in Triton: softmax(q k^T / sqrt(D)) v, in two passes over the keys."""

import torch
import triton
import triton.language as tl

BLOCK_M = 16
BLOCK_N = 32
MAX_HEAD_DIM = 256


@triton.jit
def _scores(q, k_ptr, offs_n, offs_d, N, D, stride_kn, stride_kd):
    # A tile of q k^T, -inf for the keys past the end.
    mask = (offs_d[:, None] < D) & (offs_n[None, :] < N)
    k_ptrs = k_ptr + offs_d[:, None] * stride_kd + offs_n[None, :] * stride_kn
    k = tl.load(k_ptrs, mask=mask, other=0.0).to(tl.float32)
    scores = tl.dot(q, k, input_precision="ieee")
    return tl.where(offs_n[None, :] < N, scores, float("-inf"))


@triton.jit
def _values(v_ptr, offs_n, offs_d, N, D, stride_vn, stride_vd):
    mask = (offs_n[:, None] < N) & (offs_d[None, :] < D)
    v_ptrs = v_ptr + offs_n[:, None] * stride_vn + offs_d[None, :] * stride_vd
    return tl.load(v_ptrs, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, M, N, D,
    stride_qm, stride_qd, stride_kn, stride_kd, stride_vn, stride_vd, stride_om, stride_od,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # 64-bit offsets: row times stride may exceed 2**31.
    offs_m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)
    mask_q = (offs_m[:, None] < M) & (offs_d[None, :] < D)
    q_ptrs = q_ptr + offs_m[:, None] * stride_qm + offs_d[None, :] * stride_qd
    q = tl.load(q_ptrs, mask=mask_q, other=0.0).to(tl.float32)
    # First pass over the keys: the maximum of each row.
    row_max = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start_n in range(0, N, BLOCK_N):
        offs_n = (start_n + tl.arange(0, BLOCK_N)).to(tl.int64)
        scores = _scores(q, k_ptr, offs_n, offs_d, N, D, stride_kn, stride_kd)
        row_max = tl.maximum(row_max, tl.max(scores, axis=1))
    # Second pass: the denominator and the weighted sum of the values.
    denominator = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start_n in range(0, N, BLOCK_N):
        offs_n = (start_n + tl.arange(0, BLOCK_N)).to(tl.int64)
        scores = _scores(q, k_ptr, offs_n, offs_d, N, D, stride_kn, stride_kd)
        weights = tl.exp(scores - row_max[:, None])
        denominator += tl.sum(weights, axis=1)
        v = _values(v_ptr, offs_n, offs_d, N, D, stride_vn, stride_vd)
        acc += tl.dot(weights, v, input_precision="ieee")
    o = acc / denominator[:, None]
    o_ptrs = o_ptr + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=mask_q)


def attention_triton_buggy(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return ``softmax(q k^T / sqrt(D)) v`` for one head, in the dtype of ``q``.

    ``q: M D``, ``k: N D``, ``v: N D`` in any layout, D up to 256; no key at all gives zeros.
    """
    (M, D), N = q.shape, k.shape[0]
    if D > MAX_HEAD_DIM:
        raise ValueError(f"head dim {D} is above {MAX_HEAD_DIM}")
    if M == 0 or D == 0 or N == 0:
        return torch.zeros((M, D), dtype=q.dtype, device=q.device)
    o = torch.empty((M, D), dtype=q.dtype, device=q.device)
    _attention_kernel[(triton.cdiv(M, BLOCK_M),)](
        q, k, v, o, M, N, D, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
        num_stages=1,
    )  # fmt: skip
    return o
