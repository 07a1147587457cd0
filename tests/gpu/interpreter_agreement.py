"""Runs small kernels compiled on the device and interpreted on the CPU, and prints every case that differs.

Run without TRITON_INTERPRET, so that the kernels are compiled first; `install()` then interprets the same ones.
Operations whose result a device may round or order differently (division, transcendental functions, sums that
are not exact) are left out or fed with exact values: what is left must agree bit for bit, NaN for NaN.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "candidates"))
import triton_kernels as kernels

BLOCK = 4096
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
UNARY = ("neg", "abs", "copy", "square", "add_one", "half", "where", "full", "zeros", "clamp")
BINARY = ("add", "sub", "mul", "minimum", "maximum", "maximum_nan", "select")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
CASTS = (
    (torch.float32, torch.bfloat16),
    (torch.float32, torch.float16),
    (torch.float64, torch.bfloat16),
    (torch.float64, torch.float16),
    (torch.bfloat16, torch.float32),
    (torch.bfloat16, torch.float16),
    (torch.float16, torch.bfloat16),
    (torch.float32, torch.float8_e4m3fn),
    (torch.float32, torch.float8_e5m2),
    (torch.bfloat16, torch.float8_e4m3fn),
    (torch.float16, torch.float8_e5m2),
    (torch.float8_e4m3fn, torch.bfloat16),
    (torch.float8_e5m2, torch.float32),
    *itertools.product(
        (torch.float32, torch.bfloat16, torch.float64), (torch.int8, torch.int16, torch.int32, torch.int64)
    ),
    *itertools.product(
        (torch.float32, torch.bfloat16), (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
    ),
    *itertools.product((torch.int32, torch.int64), (torch.bfloat16, torch.float16, torch.float32)),
)
# torch compares few unsigned integers; their patterns do as well.
_UNSIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
Case = tuple[str, Callable[[str], list[torch.Tensor]]]


def patterns(dtype: torch.dtype, seed: int, count: int = 16 * BLOCK) -> torch.Tensor:
    """Random bit patterns, the 16-bit ones exhaustively."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.empty(0, dtype=dtype).element_size()
    if size == 2:
        return torch.randperm(65536, generator=generator).to(torch.int32).to(torch.int16).view(dtype)
    data = torch.randint(0, 256, (count * size,), dtype=torch.uint8, generator=generator)
    if dtype in (torch.float32, torch.float64):  # mostly moderate exponents, else most casts overflow
        moderate = torch.randn(count, generator=generator, dtype=torch.float64) * 2.0 ** torch.randint(
            -20, 20, (count,), generator=generator
        )
        raw = data.view(dtype)
        return torch.where(torch.rand(count, generator=generator) < 0.3, raw, moderate.to(dtype))
    return data.view(dtype)


def blockwise(
    kernel: object, inputs: list[torch.Tensor], dtype: torch.dtype, device: str, **options: object
) -> torch.Tensor:
    """Launch an elementwise kernel over consecutive blocks."""
    moved = [x.to(device) for x in inputs]
    out = torch.zeros(inputs[0].numel(), dtype=dtype, device=device)
    for start in range(0, out.numel(), BLOCK):
        part = slice(start, start + BLOCK)
        kernel[(1,)](*(x[part] for x in moved), out[part], BLOCK=BLOCK, **options)  # type: ignore[index]
    return out


def elementwise_cases() -> Iterator[Case]:
    for dtype in FLOATS:
        x, y, z = (patterns(dtype, seed) for seed in (1, 2, 3))
        for op in UNARY:
            yield f"{op} {dtype}", lambda d, op=op, x=x, t=dtype: [blockwise(kernels.unary, [x], t, d, OP=op)]
        for op in BINARY:
            yield (
                f"{op} {dtype}",
                lambda d, op=op, x=x, y=y, t=dtype: [blockwise(kernels.binary, [x, y], t, d, OP=op)],
            )
        for op in COMPARISONS:
            yield (
                f"{op} {dtype}",
                lambda d, op=op, x=x, y=y: [blockwise(kernels.binary, [x, y], torch.bool, d, OP=op)],
            )
        yield f"fma {dtype}", lambda d, x=x, y=y, z=z, t=dtype: [blockwise(kernels.fused, [x, y, z], t, d)]
    for source, target in CASTS:
        x = patterns(source, 4)
        yield f"{source} to {target}", lambda d, x=x, t=target: [blockwise(kernels.cast, [x], t, d)]


def block_cases() -> Iterator[Case]:
    rows, columns = 8, 64
    small = torch.randint(-8, 9, (rows, columns), generator=torch.Generator().manual_seed(5))
    for dtype in FLOATS:
        x = small.to(dtype)
        for op in ("sum", "max", "min", "argmax", "argmin", "keep_larger", "branching"):
            out = torch.int32 if op[:3] == "arg" else torch.float32
            yield f"{op} {dtype}", lambda d, op=op, x=x, o=out: [reduced(op, x, o, d)]
        nan = x.clone()
        nan[1], nan[2, 5] = float("nan"), float("nan")
        for op in ("max", "min"):
            yield f"{op} with NaN {dtype}", lambda d, op=op, x=nan: [reduced(op, x, torch.float32, d)]
        for op in ("cumsum", "cumsum_reverse", "sort", "flip"):
            yield f"{op} {dtype}", lambda d, op=op, x=x: [scanned(op, x, d)]
        signs = (torch.sign(x) * 2 ** (small % 2).to(dtype))[:, :8].contiguous()
        yield f"scan affine {dtype}", lambda d, x=signs: [scanned("affine", x, d)]
        yield f"dot {dtype}", lambda d, x=x: [dot(x, d)]
        yield f"atomic add {dtype}", lambda d, t=dtype: atomics(t, d)


def reduced(op: str, x: torch.Tensor, dtype: torch.dtype, device: str) -> torch.Tensor:
    y = torch.zeros(x.shape[0], dtype=dtype, device=device)
    kernels.reduce_rows[(1,)](x.to(device), y, OP=op, R=x.shape[0], C=x.shape[1])
    return y


def scanned(op: str, x: torch.Tensor, device: str) -> torch.Tensor:
    y = torch.zeros(x.shape, dtype=x.dtype, device=device)
    kernels.scan_rows[(1,)](x.to(device), y, OP=op, R=x.shape[0], C=x.shape[1])
    return y


def dot(x: torch.Tensor, device: str) -> torch.Tensor:
    a, b = x.repeat(2, 1).to(device), x.repeat(8, 1)[:, :32].contiguous().to(device)
    c = torch.zeros(16, 32, device=device)
    kernels.dot[(1,)](a, b, c, 16, 32, 64)
    return c


def atomics(dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    x = torch.tensor([0.5, 0.25, 4.0, 1.0, 1.0, 3.0, 2.0, 7.0], dtype=dtype, device=device)
    targets = torch.tensor([0, 0, 1, 1, 1, 2, 3, 2], dtype=torch.int32, device=device)
    y = torch.zeros(4, dtype=dtype, device=device)
    kernels.atomic[(1,)](x, targets, y, torch.zeros(8, dtype=dtype, device=device), 7, OP="add", BLOCK=8)
    return [y]


def difference(device: torch.Tensor, here: torch.Tensor) -> str | None:
    """None if equal; else how many elements differ, and the first."""
    a, b = device.cpu().flatten(), here.flatten()
    if a.dtype in _UNSIGNED:
        a, b = a.view(_UNSIGNED[a.dtype]), b.view(_UNSIGNED[a.dtype])
    wide = (a.double(), b.double()) if a.dtype.is_floating_point else (a, b)
    equal = wide[0] == wide[1]
    if a.dtype.is_floating_point:
        equal = (equal & (torch.signbit(wide[0]) == torch.signbit(wide[1]))) | (
            wide[0].isnan() & wide[1].isnan()
        )
    if bool(equal.all()):
        return None
    first = int((~equal).nonzero()[0])
    return f"{int((~equal).sum())} of {a.numel()} differ; first at {first}: device {a[first]}, here {b[first]}"


def main() -> int:
    cases = [*elementwise_cases(), *block_cases()]
    compiled: dict[str, list[torch.Tensor] | Exception] = {}
    for name, run in cases:
        try:
            compiled[name] = [x.cpu() for x in run("cuda")]
        except Exception as error:
            compiled[name] = error
    from gpuemu.candidates import triton_interpreter

    triton_interpreter.install()
    failures = 0
    for name, run in cases:
        truth = compiled[name]
        if isinstance(truth, Exception):
            print(f"{name}: did not run on the device: {str(truth).splitlines()[-1][:200]}")  # noqa: T201
            continue
        try:
            found = [difference(a, b) for a, b in zip(truth, run("cpu"), strict=True)]
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        for text in filter(None, found):
            failures += 1
            print(f"{name}: {text}")  # noqa: T201
    print(f"{len(cases)} cases, {failures} differ")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
