"""Arguments have the types that a compiled launch would give them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError

from gpuemu.candidates import triton_arguments
from gpuemu.errors import UsageError

pytestmark = pytest.mark.usefixtures("interpreted")


@triton.jit
def report_type(y, value, EXPECTED: tl.constexpr):
    tl.static_assert(value.dtype == EXPECTED)
    tl.store(y, value.to(tl.float64))


@triton.jit
def report_pointer(y, EXPECTED: tl.constexpr):
    tl.static_assert(y.dtype.element_ty == EXPECTED)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0, tl.int32),
        (2, tl.int32),
        (-1, tl.int32),
        (2**31 - 1, tl.int32),
        (2**31, tl.int64),
        (2**32 - 1, tl.int64),
        (-(2**31) - 1, tl.int64),
        (2**63, tl.uint64),
        (0.5, tl.float32),
        (1.0, tl.float32),
        (True, tl.int1),
        (False, tl.int1),
    ],
)
def test_scalars_are_typed_by_value(value: float, dtype: tl.dtype) -> None:
    y = torch.zeros(1, dtype=torch.float64)
    report_type[(1,)](y, value, EXPECTED=dtype)
    assert y.item() == float(value)


def test_a_float_is_rounded_to_float32() -> None:
    y = torch.zeros(1, dtype=torch.float64)
    report_type[(1,)](y, 0.1, EXPECTED=tl.float32)
    assert y.item() == torch.tensor(0.1).double().item()


@triton.jit
def multiply(y, n, m):
    tl.store(y, n * m)


def test_32_bit_products_wrap_and_64_bit_ones_do_not() -> None:
    y = torch.zeros(1, dtype=torch.int64)
    multiply[(1,)](y, 600_000, 4096)
    assert y.item() == -1_837_367_296  # BUGS.md section 4
    multiply[(1,)](y, 2**32 - 1, 3)  # Triton's interpreter keeps 2**31..2**32 as uint32 and wraps
    assert y.item() == 3 * (2**32 - 1)


@triton.jit
def uses_one(y, stride, OP: tl.constexpr):
    if OP == "constant":
        tl.static_assert(stride == 1)
        tl.store(y, -stride // 2)
    elif OP == "method":
        tl.store(y, stride.to(tl.int64))
    else:
        tl.store(y, tl.program_id(0) * stride + stride)


@triton.jit(do_not_specialize=["stride"])
def unspecialised(y, stride):
    tl.store(y, stride.to(tl.int64))


def test_an_integer_1_is_a_compile_time_constant() -> None:
    y = torch.zeros(1, dtype=torch.int64)
    uses_one[(1,)](y, 1, OP="arithmetic")
    assert y.item() == 1
    uses_one[(1,)](y, 1, OP="constant")
    assert y.item() == -1  # Python's floor division, as for every constexpr; at run time it truncates
    with pytest.raises(InterpreterError, match="'int' object has no attribute 'to'"):
        uses_one[(1,)](y, 1, OP="method")  # the compiler's own answer, see its CodeGenerator.get_Attribute
    unspecialised[(1,)](y, 1)
    assert y.item() == 1


@triton.jit
def annotated(y, n: tl.int64, eps: tl.float64, BLOCK: tl.constexpr):
    tl.static_assert(n.dtype == tl.int64)
    tl.static_assert(eps.dtype == tl.float64)
    tl.store(y, n.to(tl.float64) + eps)


def test_an_annotation_overrides_the_type() -> None:
    y = torch.zeros(1, dtype=torch.float64)
    annotated[(1,)](y, 1, 0.1, BLOCK=4)
    assert y.item() == 1 + 0.1


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.bfloat16, tl.bfloat16), (torch.float16, tl.float16), (torch.int8, tl.int8), (torch.bool, tl.int1)],
)
def test_a_tensor_is_a_pointer_of_its_dtype(dtype: torch.dtype, expected: tl.dtype) -> None:
    report_pointer[(1,)](torch.zeros(2, dtype=dtype), EXPECTED=expected)


@triton.jit
def takes_tuple(y, sizes, maybe):
    if maybe is None:
        tl.store(y, sizes[0] * sizes[1])


def test_tuples_and_none_pass() -> None:
    y = torch.zeros(1, dtype=torch.int32)
    takes_tuple[(1,)](y, (6, 7), None)
    assert y.item() == 42


def test_an_unknown_keyword_is_an_error_and_a_launch_option_is_not() -> None:
    y = torch.zeros(1, dtype=torch.int64)
    multiply[(1,)](y, 2, 3, num_warps=4, num_stages=2)
    assert y.item() == 6
    with pytest.raises(KeyError, match="Keyword argument BLCOK was specified but unrecognised"):
        multiply[(1,)](y, 2, 3, BLCOK=4)
    with pytest.raises(TypeError, match="missing a required argument: 'm'"):
        multiply[(1,)](y, 2)


def test_a_tensor_that_is_not_on_the_cpu_is_refused() -> None:
    with pytest.raises(UsageError, match="an argument lies on meta"):
        multiply[(1,)](torch.zeros(1, device="meta"), 2, 3)


def test_parameters_are_read_from_the_signature() -> None:
    names = [p.name for p in triton_arguments.read_parameters(annotated.fn, ("n",))]
    assert names == ["y", "n", "eps", "BLOCK"]
    y, n, eps, block = triton_arguments.read_parameters(annotated.fn, ("n",))
    assert (y.annotation_type, n.annotation_type, eps.annotation_type) == ("", "i64", "fp64")
    assert block.is_constexpr and not n.is_specialised and y.is_specialised
