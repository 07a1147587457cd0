"""Finding an op by name."""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import cache
from importlib import import_module

from gpuemu.errors import OpDefinitionError, UnknownOpError
from gpuemu.model.op import Op
from gpuemu.ops.backward import SUFFIX, backward_of

FAMILIES = (
    "activations",
    "normalisation",
    "linear",
    "attention",
    "losses",
    "embedding",
    "decisions",
    "quantisation",
    "factorisations",
    "liger",
    "conch",
)


@cache
def load_ops() -> dict[str, Op]:
    """Every built-in op by name, in family order.

    Raises:
        OpDefinitionError: two ops share a name.
    """
    ops: dict[str, Op] = {}
    for family in FAMILIES:
        for op in import_module(f"gpuemu.ops.{family}").OPS:
            if op.name in ops:
                raise OpDefinitionError(f"op {op.name!r} is defined twice (second time in {family})")
            ops[op.name] = op if op.family else replace(op, family=family)
    return ops


@cache
def _get_backward(name: str) -> Op:
    return backward_of(get_op(name))


def get_op(name: str) -> Op:
    """The built-in op of that name; "NAME.backward" derives the backward of one.

    Raises:
        UnknownOpError: there is none; the message names the nearest.
    """
    ops = load_ops()
    if name in ops:
        return ops[name]
    if name.endswith(SUFFIX):
        return _get_backward(name.removesuffix(SUFFIX))
    near = difflib.get_close_matches(name, ops, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "`gpuemu ops` lists them"
    raise UnknownOpError(f"unknown op {name!r}; {hint}")
