"""Kernels whose masked lanes are undefined: right ones, where nothing comes of it, and wrong ones.

The right ones are shaped after reports that were no faults of a kernel; tests find lines by `LINE:` comments.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _wrapped_matmul(a, b, c, M, N, K, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    inner = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        left = a + (rows % M)[:, None] * K + (k + inner)[None, :]
        right = b + (k + inner)[:, None] * N + (columns % N)[None, :]
        x = tl.load(left, mask=(k + inner)[None, :] < K, other=0.0)
        y = tl.load(right, mask=(k + inner)[:, None] < K, other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=inside)


def wrapped_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Rows past the end are wrapped, so the tile repeats the first ones (triton-lang/triton#9839)."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N)
    _wrapped_matmul[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, c, M, N, K, B=16)
    return c


@triton.jit
def _edge_matmul(a, b, c, M, N, K, B: tl.constexpr):
    rows, inner = tl.arange(0, B), tl.arange(0, B)
    left_mask = (rows < M)[:, None] & (inner < K)[None, :]
    right_mask = (inner < K)[:, None] & (rows < N)[None, :]
    x = tl.load(a + rows[:, None] * K + inner[None, :], mask=left_mask)
    y = tl.load(b + inner[:, None] * N + rows[None, :], mask=right_mask)
    x = tl.where((inner < K)[None, :], x, 0.0)
    y = tl.where((inner < K)[:, None], y, 0.0)
    product = tl.dot(x, y, input_precision="ieee")
    tl.store(c + rows[:, None] * N + rows[None, :], product, mask=(rows < M)[:, None] & (rows < N)[None, :])


def edge_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Undefined rows and columns feed only rows and columns that are not stored."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N)
    _edge_matmul[(1,)](a, b, c, M, N, K, B=32)
    return c


@triton.jit
def _double(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask) * 2, mask=mask)


def double(x: torch.Tensor) -> torch.Tensor:
    """Undefined values flow only to a store under the same mask (triton-lang/triton#10448)."""
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 8),)](x, y, x.numel(), BLOCK=8)
    return y


@triton.jit
def _softcap(x, y, n, cap, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    grown = tl.exp(2 * (tl.load(x + offsets, mask=mask).to(tl.float32) / cap))
    tl.store(y + offsets, (grown - 1) / (grown + 1) * cap, mask=mask)


def softcap(x: torch.Tensor) -> torch.Tensor:
    """A cap on logits, element by element (sgl-project/sglang#27074)."""
    y = torch.empty_like(x)
    _softcap[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), 30.0, BLOCK=16)
    return y


@triton.jit
def _layer_norm(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * n + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n
    value = tl.load(x + offsets, mask=mask)
    mean = tl.sum(tl.where(mask, value, 0.0)) / n
    centred = tl.where(mask, value - mean, 0.0)
    variance = tl.sum(centred * centred) / n
    tl.store(y + offsets, centred / tl.sqrt(variance + 1e-5), mask=mask)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """A row must fit into the block, and the host says so (facebookresearch/xformers#785)."""
    assert x.shape[1] <= 64
    y = torch.empty_like(x)
    _layer_norm[(x.shape[0],)](x, y, x.shape[1], BLOCK=64)
    return y


@triton.jit
def _embed(tokens, table, y, n, width, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    places, columns = tl.arange(0, BLOCK), tl.arange(0, WIDE)
    token = tl.load(tokens + places, mask=places < n)
    mask = (places < n)[:, None] & (columns < width)[None, :]
    row = tl.load(table + token[:, None] * width + columns[None, :], mask=mask)
    tl.store(y + places[:, None] * width + columns[None, :], row, mask=mask)


def embed(tokens: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Undefined indices feed only addresses of masked lanes."""
    y = torch.empty(tokens.numel(), table.shape[1])
    _embed[(1,)](tokens, table, y, tokens.numel(), table.shape[1], BLOCK=16, WIDE=8)
    return y


@triton.jit
def _segment_sums(x, starts, y, count, BLOCK: tl.constexpr):
    segment = tl.program_id(0)
    start = tl.load(starts + segment, mask=segment < count)
    end = tl.load(starts + segment + 1, mask=segment < count)
    offsets = tl.arange(0, BLOCK)
    mask = (start + offsets < end) & (segment < count)
    tl.store(y + segment, tl.sum(tl.load(x + start + offsets, mask=mask, other=0.0)), mask=segment < count)


def segment_sums(x: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Programs beyond the last segment read undefined bounds, and neither load nor store by them."""
    count = starts.numel() - 1
    y = torch.empty(count)
    _segment_sums[(count + 2,)](x, starts, y, count, BLOCK=8)
    return y


@triton.jit
def _row(x, y, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * n + offsets, mask=offsets < n)  # LINE: row
    if KIND == "sum":
        result = tl.sum(value)
    elif KIND == "max":
        result = tl.max(value)
    else:
        result = tl.sum(tl.exp(value - 1))
    tl.store(y + tl.program_id(0), result)


def reduce_rows(x: torch.Tensor, kind: str) -> torch.Tensor:
    """Wrong: masked lanes without `other` take part in a reduction."""
    y = torch.empty(x.shape[0])
    _row[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), KIND=kind)
    return y


@triton.jit
def _transpose(x, y, M, N, row, column, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    mask = (rows < M) & (columns < N)
    value = tl.load(x + rows * N + columns, mask=mask)
    tl.store(y + rows * row + columns * column, value, mask=mask)  # LINE: transpose


def transpose(x: torch.Tensor, wrong: bool = False) -> torch.Tensor:
    """A copy as (N, M); `wrong` steps over rows by the height, as over the columns of the output."""
    M, N = x.shape
    y = torch.zeros(N, M)
    _transpose[(1,)](x, y, M, N, *((M, 1) if wrong else (1, M)), BLOCK=16)
    return y
