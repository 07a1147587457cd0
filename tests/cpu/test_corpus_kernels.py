"""The corpus kernels in Triton's interpreter: controls against float64 torch, twins against their controls.

tests/conftest.py sets TRITON_INTERPRET before anything imports Triton.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch.nn import functional

from gpuemu.candidates import triton_interpreter
from gpuemu.corpus.catalogue import CorpusKernel, find_kernel, load_catalogue

UNIT = 2.0**-24  # unit roundoff of float32, the arithmetic inside every kernel
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CONTROLS = tuple(kernel for kernel in load_catalogue() if kernel.role == "control")
TWINS = tuple(kernel for kernel in load_catalogue() if kernel.role == "buggy")


@pytest.fixture(autouse=True, scope="module")
def repaired_interpreter() -> Iterator[None]:
    with triton_interpreter.installed():
        yield


@cache
def load_function(kernel: CorpusKernel) -> Callable[..., torch.Tensor]:
    spec = importlib.util.spec_from_file_location(f"corpus_{kernel.name}", kernel.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., torch.Tensor] = getattr(module, kernel.function)
    return function


def run(name: str, *inputs: torch.Tensor) -> torch.Tensor:
    return load_function(find_kernel(name))(*inputs)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.T / math.sqrt(q.shape[1]), dim=-1) @ v


REFERENCES: dict[str, Callable[..., torch.Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layernorm": lambda x: functional.layer_norm(x, x.shape[-1:], eps=1e-5),
    "matmul": torch.matmul,
    "gelu": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "rmsnorm": lambda x: functional.rms_norm(x, x.shape[-1:], eps=1e-5),
    "l2norm": lambda x: x / torch.sqrt(x.square().sum(-1, keepdim=True) + 1e-12),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "elu": functional.elu,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.01),
    "attention": attend,
    "flash_attention": attend,
}

# Error of a right float32 kernel in units of 2**-24, from the condition of the formula: exp(x) turns a relative
# error of x into |x| times as much; tanh, elu and gelu subtract from 1; a dot product has the sum of the
# magnitudes of its terms.
ERROR_UNITS: dict[str, Callable[..., torch.Tensor]] = {
    "softmax": lambda y, x: 8 * y * (1 + (x - x.amax(-1, keepdim=True)).abs()),
    "layernorm": lambda y, x: 8 * (1 + y.abs() + x.abs().amax() / (x.std(-1, keepdim=True) + 1e-5)),
    "matmul": lambda _, a, b: 8 * (a.abs() @ b.abs()),
    "gelu": lambda _, x: 8 * x.abs(),
    "silu": lambda y, x: 8 * y.abs() * (1 + x.abs()),
    "rmsnorm": lambda y, _: 8 * y.abs(),
    "l2norm": lambda y, _: 8 * y.abs(),
    "relu": lambda y, _: torch.zeros_like(y),
    "sigmoid": lambda y, x: 8 * y * (1 + x.abs()),
    "tanh": lambda y, _: 8 * torch.ones_like(y),
    "elu": lambda y, x: 4 * (x < 0).to(y),
    "leaky_relu": lambda y, _: 2 * y.abs(),
    "attention": lambda _, q, k, v: 8 * (1 + (q.abs() @ k.abs().T).amax()) * attend(q, k, v.abs()),
}
ERROR_UNITS["flash_attention"] = ERROR_UNITS["attention"]


def rounding(dtype: torch.dtype, exact: torch.Tensor) -> torch.Tensor:
    """Half a unit in the last place: eps/2 of the value, and the smallest number, generously."""
    info = torch.finfo(dtype)
    return exact.abs() * info.eps / 2 + info.smallest_normal * info.eps


def normal(seed: int, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def operands(op: str, case: int, seed: int = 7) -> tuple[torch.Tensor, ...]:
    """Inputs at one of three awkward sizes: below a tile, just past one, several tiles."""
    if op == "matmul":
        m, k, n = ((2, 3, 15), (7, 33, 65), (65, 70, 3))[case]
        return normal(seed, m, k), normal(seed + 1, k, n)
    if op in ("attention", "flash_attention"):
        m, n, d = ((1, 1, 1), (3, 33, 8), (17, 70, 20))[case]
        return normal(seed, m, d, scale=2.0), normal(seed + 1, n, d, scale=2.0), normal(seed + 2, n, d)
    return (normal(seed, *((7,), (2, 1, 3), (2, 3, 257))[case], scale=4.0),)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kernel", CONTROLS, ids=lambda kernel: kernel.name)
def test_a_control_matches_float64_torch(kernel: CorpusKernel, dtype: torch.dtype) -> None:
    for case in range(3):
        inputs = tuple(x.to(dtype) for x in operands(kernel.op, case))
        kept = tuple(x.clone() for x in inputs)
        actual = load_function(kernel)(*inputs)
        exact = REFERENCES[kernel.op](*(x.double() for x in inputs))
        assert actual.dtype == dtype
        assert actual.shape == exact.shape
        bound = UNIT * ERROR_UNITS[kernel.op](exact, *(x.double() for x in inputs)) + rounding(dtype, exact)
        excess = ((actual.double() - exact).abs() / bound).nan_to_num(nan=0.0).max().item()
        assert bool(((actual.double() - exact).abs() <= bound).all()), f"case {case}: {excess:.2f} x the bound"
        assert all(torch.equal(before, after) for before, after in zip(kept, inputs, strict=True))


@pytest.mark.parametrize("kernel", CONTROLS, ids=lambda kernel: kernel.name)
def test_a_control_does_not_depend_on_the_layout(kernel: CorpusKernel) -> None:
    inputs = operands(kernel.op, 1)
    function = load_function(kernel)
    expected = function(*inputs)
    transposed = tuple(x.mT.contiguous().mT for x in inputs)
    every_second = tuple(torch.repeat_interleave(x, 2, dim=-1)[..., ::2] for x in inputs)
    # BLAS chooses its order of additions by layout, so equal bits are too much to ask of a product.
    torch.testing.assert_close(function(*transposed), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(function(*every_second), expected, rtol=1e-5, atol=1e-5)
    repeated = tuple(x[:1].expand(x.shape) for x in inputs)
    dense = function(*(x.contiguous() for x in repeated))
    torch.testing.assert_close(function(*repeated), dense, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", CONTROLS, ids=lambda kernel: kernel.name)
def test_a_control_returns_the_right_empty_result(kernel: CorpusKernel) -> None:
    if kernel.op == "matmul":
        shapes = (((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)))
    elif kernel.op in ("attention", "flash_attention"):
        shapes = (((0, 4), (3, 4), (3, 4)), ((2, 4), (0, 4), (0, 4)))
    else:
        shapes = (((0,),), ((2, 0, 3),), ((2, 3, 0),))
    for case in shapes:
        inputs = tuple(torch.ones(shape, dtype=torch.float16) for shape in case)
        actual = load_function(kernel)(*inputs)
        expected = REFERENCES[kernel.op](*(x.float() for x in inputs))
        assert actual.dtype == torch.float16
        assert torch.equal(actual.float(), expected), case


@pytest.mark.parametrize("kernel", CONTROLS, ids=lambda kernel: kernel.name)
def test_a_control_treats_nan_and_infinity_as_torch_does(kernel: CorpusKernel) -> None:
    for special in (math.nan, math.inf, -math.inf):
        inputs = operands(kernel.op, 1)
        inputs[0].view(-1)[0] = special
        actual = load_function(kernel)(*inputs)
        expected = REFERENCES[kernel.op](*inputs)
        if kernel.name == "relu_triton" and math.isnan(special):
            expected = expected.nan_to_num(nan=0.0)  # its documented difference: tl.maximum drops NaN
        assert torch.equal(actual.isnan(), expected.isnan()), special
        assert torch.equal(actual.isposinf(), expected.isposinf()), special
        assert torch.equal(actual.isneginf(), expected.isneginf()), special


@pytest.mark.parametrize("name", ["tanh_triton", "gelu_triton", "sigmoid_triton", "silu_triton", "elu_triton"])
def test_an_activation_saturates_at_the_ends_of_the_range(name: str) -> None:
    op = find_kernel(name).op
    largest = torch.finfo(torch.float32).max
    x = torch.tensor([0.0, 1e-30, 20.0, 88.0, 89.0, 104.0, 1e4, 1e13, largest, math.inf])
    x = torch.cat([x, -x[:-1]])
    exact = REFERENCES[op](x.double())
    actual = run(name, x).double()
    # Below 2**-126 times |x| a result may be flushed: exp(-x) is inf there, and its reciprocal 0.
    flushed = 2.0**-120 * (1 + x.double().abs().clamp(max=1e4))
    bound = UNIT * ERROR_UNITS[op](exact, x.double()) + rounding(torch.float32, exact) + flushed
    ordinary = exact.isfinite()
    assert bool(((actual - exact).abs() <= bound)[ordinary].all())
    assert torch.equal(actual[~ordinary], exact[~ordinary])


def test_softmax_is_right_far_from_zero() -> None:
    x = normal(3, 4, 65) - 1e4
    for name in ("softmax_triton", "softmax_numpy"):
        assert torch.allclose(run(name, x).double(), torch.softmax(x.double(), -1), rtol=1e-5, atol=0.0)


def test_flash_attention_survives_a_first_tile_without_weight() -> None:
    # The first 40 keys score -inf: the first tile of 32 holds nothing, and the running maximum stays -inf.
    q, v = torch.ones(2, 1), normal(5, 48, 3)
    k = torch.cat([torch.full((40, 1), -math.inf), normal(6, 8, 1)])
    q, k = q.expand(2, 3).contiguous(), k.expand(48, 3).contiguous()
    exact = attend(q.double(), k.double(), v.double())
    assert bool(exact.isfinite().all())
    for name in ("flash_attention_triton", "attention_triton"):
        assert torch.allclose(run(name, q, k, v).double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["attention_triton", "flash_attention_triton"])
def test_attention_refuses_a_head_dim_that_it_cannot_hold(name: str) -> None:
    x = torch.zeros(1, 257)
    with pytest.raises(ValueError, match="257"):
        run(name, x, x, x)


def rows(*shape: int) -> tuple[torch.Tensor, ...]:
    return (normal(11, *shape),)


def heads(m: int, n: int, d: int) -> tuple[torch.Tensor, ...]:
    return normal(11, m, d), normal(12, n, d), normal(13, n, d)


# By twin: inputs that show its fault, and inputs on which it is bitwise the control.
TWIN_INPUTS: dict[str, tuple[Any, Any]] = {
    "softmax_triton_buggy": (rows(2, 3), rows(2, 256)),
    "softmax_llm_buggy": (rows(2, 1025), rows(2, 256)),
    "matmul_triton_buggy": ((normal(1, 2, 33), normal(2, 33, 2)), (normal(1, 2, 32), normal(2, 32, 2))),
    "gelu_triton_buggy": (rows(5), (torch.zeros(5),)),
    "silu_triton_buggy": (rows(5), (torch.tensor([0.0, 40.0, 1e4]),)),
    "rmsnorm_triton_buggy": (rows(2, 8), (torch.zeros(2, 8),)),
    "l2norm_triton_buggy": (rows(2, 8), (torch.eye(4),)),
    "leaky_relu_triton_buggy": (rows(5), (normal(3, 5).abs(),)),
    "attention_triton_buggy": (heads(2, 5, 8), heads(2, 5, 1)),
    "flash_attention_triton_buggy": (heads(2, 64, 8), heads(2, 32, 8)),
}


@pytest.mark.parametrize("twin", TWINS, ids=lambda kernel: kernel.name)
def test_a_twin_differs_from_its_control_only_where_its_fault_shows(twin: CorpusKernel) -> None:
    assert twin.control is not None
    shows, hides = TWIN_INPUTS[twin.name]
    wrong, right = run(twin.name, *shows).double(), run(twin.control, *shows).double()
    assert (wrong - right).abs().max() > 1e-3 * right.abs().max()
    assert torch.equal(run(twin.name, *hides), run(twin.control, *hides))


@pytest.mark.parametrize("twin", TWINS, ids=lambda kernel: kernel.name)
def test_a_twin_is_its_control_but_for_a_few_lines(twin: CorpusKernel) -> None:
    assert twin.control is not None
    control = find_kernel(twin.control)

    def lines(kernel: CorpusKernel) -> set[str]:
        return {line.replace(kernel.function, "f") for line in kernel.path.read_text().splitlines()}

    assert 1 <= len(lines(control) - lines(twin)) <= 8
