"""Guards of interpreted launches: right kernels stay right under poison, wrong ones show with their line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import guard_kernels as kernels
import pytest
import torch
from torch.nn import functional

from gpuemu.candidates import loader, triton_watch
from gpuemu.corpus.catalogue import load_catalogue

FILE = Path(kernels.__file__)
PATTERNS = pytest.mark.parametrize("pattern", ["nan", "large"])


def line(mark: str) -> str:
    """ "guard_kernels.py:24", of the line marked so."""
    lines = FILE.read_text().splitlines()
    (number,) = [i for i, text in enumerate(lines, 1) if text.endswith(f"# LINE: {mark}")]
    return f"{FILE.name}:{number}"


def call(target: str, pattern: str, *inputs: Any, **params: Any) -> tuple[torch.Tensor, triton_watch.Watch]:
    """As the runner calls a candidate on this tier, with the watch around it."""
    candidate = loader.load(target, "cpu")
    with loader.tier_scope("cpu", candidate)(), triton_watch.watch(pattern) as watch:
        output = candidate.call(*inputs, **params)
    return output, watch


def own(name: str) -> str:
    return f"{FILE}::{name}"


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


RIGHT: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "wrapped_matmul": (torch.matmul, (noise(19, 21), noise(21, 35))),
    "edge_matmul": (torch.matmul, (noise(19, 21), noise(21, 27))),
    "double": (lambda x: x * 2, (noise(19),)),
    "softcap": (lambda x: 30 * torch.tanh(x / 30), (noise(3, 7) * 40,)),
    "layer_norm": (lambda x: functional.layer_norm(x, x.shape[-1:]), (noise(3, 37),)),
    "embed": (lambda tokens, table: table[tokens], (torch.tensor([4, 0, 2]), noise(5, 6))),
    "segment_sums": (
        lambda x, _: torch.stack([x[:2].sum(), x[2:7].sum(), x[7:].sum()]),
        (noise(9), torch.tensor([0, 2, 7, 9])),
    ),
    "transpose": (lambda x: x.T, (noise(5, 11),)),
}
FILLED = {"wrapped_matmul"}  # every load has its `other`


@PATTERNS
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_stays_right(name: str, pattern: str) -> None:
    reference, inputs = RIGHT[name]
    output, watch = call(own(name), pattern, *inputs)
    assert watch.findings == []
    assert bool(watch.unfilled_loads) == (name not in FILLED)
    torch.testing.assert_close(output, reference(*inputs), rtol=1e-5, atol=1e-5)


CONTROLS = tuple(k for k in load_catalogue() if k.role == "control" and k.name.endswith("_triton"))


@PATTERNS
@pytest.mark.parametrize("control", CONTROLS, ids=lambda kernel: kernel.name)
def test_a_corpus_control_computes_the_same_bits(control: Any, pattern: str) -> None:
    shapes = {"matmul": [(17, 5), (5, 33)], "attention": [(13, 16)] * 3, "flash_attention": [(13, 16)] * 3}
    inputs = [noise(*shape) for shape in shapes.get(control.op, [(5, 37)])]
    target = f"{control.path}::{control.function}"
    output, watch = call(target, pattern, *inputs)
    assert watch.launches > 0 and watch.findings == []
    assert torch.equal(output, loader.load(target, "cpu").call(*inputs))


# A maximum passes over NaN, so a second poison is needed.
@pytest.mark.parametrize(
    ("kind", "reference", "showing"),
    [
        ("sum", lambda x: x.sum(1), {"nan", "large"}),
        ("max", lambda x: x.amax(1), {"large"}),
        ("exp", lambda x: (x - 1).exp().sum(1), {"nan", "large"}),
    ],
)
@PATTERNS
def test_a_reduction_over_undefined_lanes_shows(
    kind: str, reference: Callable[[torch.Tensor], torch.Tensor], showing: set[str], pattern: str
) -> None:
    x = noise(3, 5)
    output, watch = call(own("reduce_rows"), pattern, x, kind=kind)
    assert torch.allclose(output, reference(x)) == (pattern not in showing)
    assert watch.unfilled_loads == [line("row")] and watch.findings == []
    full = noise(3, 8)
    output, watch = call(own("reduce_rows"), pattern, full, kind=kind)
    torch.testing.assert_close(output, reference(full))
    assert watch.unfilled_loads == []


def test_what_relies_on_zeros_is_right_with_zeros() -> None:
    x = noise(3, 5)
    output, watch = call(own("reduce_rows"), "zero", x, kind="sum")
    torch.testing.assert_close(output, x.sum(1))
    assert watch.unfilled_loads == [line("row")]


@PATTERNS
def test_transposed_strides_leave_the_tensor(pattern: str) -> None:
    x = noise(11, 5)
    output, watch = call(own("transpose"), pattern, x, wrong=True)
    (finding,) = watch.findings
    # Rows are stored 11 elements apart instead of 1: the last element goes to place 114, and 55 exist.
    assert finding.guard == "out_of_range"
    assert finding.message == (
        f"_transpose at {line('transpose')} writes out of range: "
        "30 active lanes, 1 to 60 elements after the end of y (first in program 0, 0, 0)"
    )
    assert torch.equal(output.view(5, 11)[:, :5], x[:5])


@pytest.mark.parametrize("pattern", ["nan", "large", "zero"])
def test_a_real_kernel_relies_on_undefined_lanes_being_zero(pattern: str) -> None:
    # Conch 1.3 sums the squares of a row, masked lanes without `other` among them; right on an H200.
    pytest.importorskip("conch", reason="the development group holds it")
    x, weight = noise(3, 37), noise(37)
    output, watch = call("conch.ops.normalization.rms_norm:rms_norm", pattern, x, weight, 1e-6)
    right = torch.allclose(output, functional.rms_norm(x, (37,), weight, 1e-6), rtol=1e-4, atol=1e-5)
    assert right == (pattern == "zero")
    assert watch.findings == [] and watch.unfilled_loads[0].startswith("rms_norm.py:")
