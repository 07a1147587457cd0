"""Kernels with and without planted memory faults; tests find lines by the comments that begin with `LINE:`."""

import triton
import triton.language as tl


@triton.jit
def tail_read(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets <= n, other=0.0)  # LINE: tail_read
    tl.store(y + offsets, value, mask=offsets < n)


@triton.jit
def early_read(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    before = tl.load(  # LINE: early_read
        x + offsets - 2,
        mask=offsets < n,
        other=0.0,
    )
    tl.store(y + offsets, before, mask=offsets < n)


@triton.jit
def late_write(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.store(y + offsets, value)  # LINE: late_write


@triton.jit
def load_row(x, offsets, n):
    return tl.load(x + offsets, mask=offsets < n)  # LINE: load_row


@triton.jit
def undefined_sum(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, tl.sum(load_row(x, tl.arange(0, BLOCK), n)))


@triton.jit
def unused_lanes(index, x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    place = tl.load(index + offsets, mask=mask)  # LINE: unused_index
    value = tl.load(x + place, mask=mask)  # LINE: unused_value
    tl.store(y + offsets, value * 2, mask=mask)


@triton.jit
def full_block(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < BLOCK))


@triton.jit
def late_add(x, y, old, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(old + offsets, tl.atomic_add(y + offsets, value))  # LINE: late_add


@triton.jit
def late_swap(x, y, old, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(old + offsets, tl.atomic_cas(y + offsets, value * 0, value))  # LINE: late_swap


@triton.jit
def through_table(table, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for row in range(n):
        source = tl.load(table + row).to(tl.pointer_type(tl.float32))
        tl.store(y + row * BLOCK + offsets, tl.load(source + offsets))


@triton.jit
def from_address(x: "*fp32", y, BLOCK: tl.constexpr):  # noqa: F722
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets))


@triton.jit
def through_offset(x, y, distance, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + distance + offsets))


@triton.jit
def flags(x, y, skip, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + skip + offsets).to(tl.int32))  # LINE: flags


@triton.jit
def either(x, y, z, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    source = tl.where(offsets < BLOCK // 2, x + offsets, y + offsets)
    tl.store(z + offsets, tl.load(source))


@triton.jit
def pair(tensors, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(tensors[1] + offsets, tl.load(tensors[0] + offsets))  # LINE: pair


@triton.jit
def gathered(index, x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    place = tl.load(index + offsets, mask=offsets < n)
    value = tl.gather(tl.load(x + offsets), place, 0)
    tl.store(y + offsets, value, mask=offsets < n)


@triton.jit
def last_rows(x, y, rows, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, BLOCK], [BLOCK, 1], [4, BLOCK])
    y.store([0, 0], source.load([0, 0]))  # LINE: last_rows
