"""JAX references: the traced program (jaxpr) is carried out with torch on bounded tensors.

Each primitive of `jax.lax` is one torch expression, so that the rules for aten ops give its error. Loops and
branches whose trip count or predicate is exact are carried out; a primitive without a counterpart ends the
attempt with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.dispatch import Evaluation
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.jax_primitives import PRIMITIVES

Tensor = torch.Tensor


def follow_jax(
    reference: Callable[..., Any],
    arguments: Sequence[Tensor],
    keywords: Mapping[str, Any],
    evaluation: Evaluation,
) -> list[Tensor]:
    """What the reference returns, as tensors that carry their error.

    The program is traced for float64 arguments, so that no cast to float32 is put in.

    Raises:
        UnsupportedReferenceError: a primitive that cannot be followed.
    """
    import jax

    with jax.enable_x64(True):
        shapes = [
            jax.ShapeDtypeStruct(tuple(a.shape), np.dtype(_name(a)))  # type: ignore[no-untyped-call]
            for a in arguments
        ]
        closed = jax.make_jaxpr(lambda *xs: reference(*xs, **keywords))(*shapes)
    constants = [_to_tensor(constant, evaluation, arguments) for constant in closed.consts]
    return _run(closed.jaxpr, constants, list(arguments), evaluation)


def call_jax(
    reference: Callable[..., Any], keywords: Mapping[str, Any], arrays: Sequence[Any]
) -> Sequence[Any]:
    """A JAX reference on plain arrays in float64; its outputs as NumPy arrays."""
    import jax

    with jax.enable_x64(True):
        result = reference(*map(jax.numpy.asarray, arrays), **keywords)
    return [np.asarray(part) for part in (result if isinstance(result, (tuple, list)) else (result,))]


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _to_tensor(constant: Any, evaluation: Evaluation, arguments: Sequence[Tensor]) -> Tensor:
    """A constant of the program; float ones are literals, held in the kernel's arithmetic."""
    value = torch.as_tensor(np.array(constant)).to(arguments[0].device)
    if not value.is_floating_point():
        return value
    value = value.double()
    if value.numel() != 1:
        return evaluation.make(value)
    error = evaluation.arithmetic.constant_error(float(value))
    return evaluation.make(value, torch.full_like(value, error) if error else None)


def _run(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any], evaluation: Evaluation) -> list[Any]:
    """Carry out the equations of a jaxpr in order."""
    values: dict[Any, Any] = {}
    values.update(zip(jaxpr.constvars, constants, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return _literal(atom) if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        outputs = _apply(equation, inputs, evaluation)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [_as_tensor(read(atom), atom, arguments) for atom in jaxpr.outvars]


def _literal(atom: Any) -> Any:
    return np.asarray(atom.val).item()


def _as_tensor(value: Any, atom: Any, arguments: Sequence[Any]) -> Any:
    """A number as the tensor of its variable's shape; the shapes of a program are static."""
    if isinstance(value, Tensor):
        return value
    device = next((a.device for a in arguments if isinstance(a, Tensor)), torch.device("cpu"))
    dtype = torch.float64 if isinstance(value, float) else None
    return torch.full(tuple(atom.aval.shape), value, dtype=dtype, device=device)


def _apply(equation: Any, inputs: list[Any], evaluation: Evaluation) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    inner = _inner_program(name, params)
    if inner is not None:
        return _run(inner.jaxpr, [_constant(c) for c in inner.consts], inputs, evaluation)
    if name == "while":
        return _while(params, inputs, evaluation)
    if name == "scan":
        return _scan(params, inputs, evaluation)
    if name == "cond":
        return _cond(params, inputs, evaluation)
    function = PRIMITIVES.get(name)
    if function is None:
        raise UnsupportedReferenceError(
            f"jax primitive {name!r} cannot be followed; write the reference in torch"
        )
    tensors = [_as_tensor(v, a, inputs) for v, a in zip(inputs, equation.invars, strict=True)]
    result = function(*tensors, **params)
    return list(result) if equation.primitive.multiple_results else [result]


def _inner_program(name: str, params: Mapping[str, Any]) -> Any:
    """The program that a call-like primitive runs: jit, custom derivatives, checkpoints."""
    if name in ("while", "scan", "cond"):
        return None
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = params.get(key)
        if inner is not None:
            return inner if hasattr(inner, "jaxpr") else _closed(inner)
    return None


def _closed(jaxpr: Any) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(jaxpr=jaxpr, consts=())


def _constant(constant: Any) -> Tensor:
    value = torch.as_tensor(np.array(constant))
    return value.double() if value.is_floating_point() else value


def _exact(value: Any, what: str) -> int:
    """A number that decides which equations run: it must not depend on rounding."""
    if type(value) is Bounded:
        if value.error is not None and bool((value.error != 0).any()):
            raise UnsupportedReferenceError(f"the JAX reference branches on {what} that rounding may change")
        value = value.value
    return int(value)


def _split(values: list[Any], *counts: int) -> list[list[Any]]:
    parts, start = [], 0
    for count in counts:
        parts.append(values[start : start + count])
        start += count
    return [*parts, values[start:]]


def _while(params: Mapping[str, Any], inputs: list[Any], evaluation: Evaluation) -> list[Any]:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    of_condition, of_body, carry = _split(inputs, params["cond_nconsts"], params["body_nconsts"])
    while True:
        constants = [_constant(c) for c in condition.consts]
        (again,) = _run(condition.jaxpr, constants, [*of_condition, *carry], evaluation)
        if not _exact(again, "a loop's condition"):
            return carry
        carry = _run(body.jaxpr, [_constant(c) for c in body.consts], [*of_body, *carry], evaluation)


def _scan(params: Mapping[str, Any], inputs: list[Any], evaluation: Evaluation) -> list[Any]:
    body, length = params["jaxpr"], params["length"]
    constants, carry, sequences = _split(inputs, params["num_consts"], params["num_carry"])
    collected: list[list[Any]] = []
    steps = range(length - 1, -1, -1) if params["reverse"] else range(length)
    for step in steps:
        slices = [sequence[step] for sequence in sequences]
        captured = [_constant(c) for c in body.consts]
        results = _run(body.jaxpr, captured, [*constants, *carry, *slices], evaluation)
        carry, outputs = results[: params["num_carry"]], results[params["num_carry"] :]
        collected.append(outputs)
    if params["reverse"]:
        collected.reverse()
    return [*carry, *(torch.stack(list(column)) for column in zip(*collected, strict=True))]


def _cond(params: Mapping[str, Any], inputs: list[Any], evaluation: Evaluation) -> list[Any]:
    index, *operands = inputs
    branches = params["branches"]
    branch = branches[min(max(_exact(index, "a predicate"), 0), len(branches) - 1)]
    return _run(branch.jaxpr, [_constant(c) for c in branch.consts], operands, evaluation)
