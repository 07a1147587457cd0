"""The op registry."""

from __future__ import annotations

import pytest

from gpuemu.corpus.catalogue import load_catalogue
from gpuemu.errors import UnknownOpError
from gpuemu.ops.registry import get_op, load_ops


def test_every_op_of_the_corpus_is_registered() -> None:
    assert {kernel.op for kernel in load_catalogue()} <= load_ops().keys()


def test_every_op_takes_the_three_float_dtypes_and_says_what_it_computes() -> None:
    for kernel in load_catalogue():
        op = get_op(kernel.op)
        assert tuple(op.dtypes) == ("float32", "float16", "bfloat16")
        assert op.doc


def test_an_unknown_op_names_the_nearest() -> None:
    with pytest.raises(UnknownOpError, match="did you mean rmsnorm"):
        get_op("rmsnrom")
    with pytest.raises(UnknownOpError, match="`gpuemu ops` lists them"):
        get_op("zzzzz")
