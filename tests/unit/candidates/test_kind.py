"""What a candidate is written with."""

from __future__ import annotations

import functools
import inspect

import torch
import triton
import triton.language as tl

from gpuemu.candidates.kind import find_kind, reaches_triton


@triton.jit
def _kernel(x_ptr: tl.tensor, n: int) -> None:
    tl.store(x_ptr, tl.load(x_ptr) + n)


def _launcher(x: torch.Tensor) -> None:
    _kernel[(1,)](x, 1)


def _wrapper(x: torch.Tensor) -> torch.Tensor:
    _launcher(x)
    return x


@functools.lru_cache
def _decorated(x: torch.Tensor) -> torch.Tensor:
    return _wrapper(x)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return _wrapper(x)


def _ping(x: torch.Tensor) -> torch.Tensor:
    return _pong(x)


def _pong(x: torch.Tensor) -> torch.Tensor:
    return _ping(torch.nn.functional.relu(x))


def test_a_kernel_is_reached_through_the_functions_that_lead_to_it() -> None:
    for function in (_launcher, _wrapper, _decorated, _Function, functools.partial(_wrapper)):
        assert reaches_triton(function), function


def test_code_without_a_kernel_reaches_none_also_if_it_goes_in_circles() -> None:
    assert not reaches_triton(_ping)
    assert not reaches_triton(torch.nn.functional.relu)
    assert not reaches_triton(print)


def test_a_wrapper_in_a_file_without_triton_is_of_kind_triton() -> None:
    source = inspect.getsource(_wrapper).encode()
    assert find_kind(_wrapper, source) == "triton"
    assert find_kind(_ping, inspect.getsource(_ping).encode()) == "torch"
    assert find_kind(_ping, b"import numpy, torch") == "numpy"
    assert find_kind(_ping, b"") == "python"
