"""The backward of an op, as an op: its inputs and upstream gradients in, gradients by its float inputs out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch

from gpuemu.dtypes import get_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.model.contract import DEFAULT_LAYOUTS
from gpuemu.model.op import Op, Tensor
from gpuemu.ops.output_shapes import find_output_shapes

SUFFIX = ".backward"
UPSTREAM = "upstream"
# Random ones of several kinds, and ones: what is wrong only for ones hides behind nothing else (BUGS.md B9).
UPSTREAM_VALUE_CLASSES = ("bell", "ones", "uniform", "log_uniform", "small_integers", "impulse")

Vjp = Callable[..., tuple[torch.Tensor, ...]]


def backward_of(op: Op) -> Op:
    """The op "NAME.backward", whose reference is the vector-Jacobian product of the op's reference.

    Inputs: those of the op, then one upstream gradient per float output: "upstream", or "upstream0",
    "upstream1", … Outputs: the gradient by each differentiable float input, in their order, shape and
    dtype. Contract and profile are those of the op; a gradient may share memory with an upstream one (that of
    a sum is it).

    Raises:
        OpDefinitionError: the op has no reference, random decisions, or nothing to differentiate.
    """
    if op.reference is None or op.recovered:
        what = "no reference" if op.reference is None else "random decisions"
        raise OpDefinitionError(f"op {op.name!r} has {what}, so its backward cannot be derived; declare it")
    wanted = differentiable_inputs(op)
    upstreams = _upstreams(op)
    if not wanted or not upstreams:
        raise OpDefinitionError(
            f"op {op.name!r} has no float {'output' if wanted else 'input'} to differentiate"
        )
    clash = upstreams.keys() & op.inputs.keys()
    if clash:
        raise OpDefinitionError(
            f"op {op.name!r}: its backward has inputs {sorted(clash)} of its own; rename them"
        )
    # What a masked row or a batch promises of values says nothing of gradients: weights sum over the batch.
    contract = replace(
        op.contract,
        aliases=(*op.contract.aliases, *upstreams),
        masked_value=None,
        batch_invariant=(),
    )
    return replace(
        op,
        name=op.name + SUFFIX,
        inputs={**op.inputs, **upstreams},
        reference=make_vjp(op),
        contract=contract,
        output_dtypes=tuple(op.tensors[name].dtype for name in wanted),
        outputs=tuple(op.tensors[name].shape for name in wanted),
        relations=(),
        doc=f"the gradients of {op.name} by {', '.join(wanted)}, for given gradients of its outputs",
    )


def differentiable_inputs(op: Op) -> tuple[str, ...]:
    """Names of the inputs that a backward pass owes a gradient of: floats that do not say otherwise."""
    return tuple(
        name
        for name, tensor in op.tensors.items()
        if tensor.differentiable and (tensor.dtype is None or get_dtype(tensor.dtype).is_float)
    )


def _upstreams(op: Op) -> dict[str, Tensor]:
    """The upstream gradient of each float output, by name."""
    layouts = op.contract.layouts or DEFAULT_LAYOUTS
    shapes = find_output_shapes(op)
    dtypes = [*op.output_dtypes, *(None,) * len(shapes)]
    floats = [(shape, dtypes[i]) for i, shape in enumerate(shapes) if shape.is_float]
    upstreams = {}
    for i, (shape, dtype) in enumerate(floats):
        upstreams[UPSTREAM if len(floats) == 1 else f"{UPSTREAM}{i}"] = Tensor(
            shape.shape,
            dtype=dtype,
            layouts=tuple(dict.fromkeys((*layouts, "expanded"))),
            value_classes=UPSTREAM_VALUE_CLASSES,
            variants=shape.variants,
        )
    return upstreams


def make_vjp(op: Op) -> Vjp:
    """The reference of an op's backward: `vjp(*inputs, *upstreams, **params)` by torch's autograd.

    At a kink the reference's convention counts: torch's derivative of relu is 0 at 0.
    """
    reference: Any = op.reference
    wanted, count = differentiable_inputs(op), len(op.inputs)
    positions = [i for i, name in enumerate(op.inputs) if name in wanted]

    # Wrapped, so that the backward op's digest is made of the reference's source text.
    @functools.wraps(reference)
    def vjp(*arguments: Any, **params: Any) -> tuple[torch.Tensor, ...]:
        return differentiate(reference, arguments[:count], arguments[count:], positions, params)

    return vjp


def differentiate(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    upstreams: Sequence[torch.Tensor],
    positions: Sequence[int],
    params: Mapping[str, Any],
) -> tuple[torch.Tensor, ...]:
    """The gradients of sum(upstream * output) by the inputs at these positions; zeros where there is none."""
    leaves = list(inputs)
    for position in positions:
        leaves[position] = inputs[position].detach().requires_grad_()
    outputs: tuple[Any, ...] = ()

    def read(saved: torch.Tensor) -> torch.Tensor:
        return _as_stored(saved) if any(_is_same(saved, output) for output in outputs) else saved

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, read):
        result = function(*leaves, **params)
        outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        floats = [output for output in outputs if output.is_floating_point()]
        pairs = [(o, u) for o, u in zip(floats, upstreams, strict=True) if o.requires_grad]
    differentiated, above = [output for output, _ in pairs], [upstream for _, upstream in pairs]
    with _derivative(differentiated, above):
        return torch.autograd.grad(
            differentiated,
            [leaves[position] for position in positions],
            above,
            allow_unused=True,
            materialize_grads=True,
        )


def _is_same(saved: torch.Tensor, output: Any) -> bool:
    """Whether a tensor that the graph kept is (a view of) an output."""
    return _base_of(saved) is _base_of(output)


def _derivative(outputs: Sequence[Any], upstreams: Sequence[Any]) -> AbstractContextManager[None]:
    """Followed tensors are told that their derivatives are worked out, and by which upstream gradients."""
    evaluation = getattr(next(iter(upstreams), None), "evaluation", None)
    return nullcontext() if evaluation is None else evaluation.derivative(outputs, upstreams)


def _base_of(tensor: Any) -> Any:
    """The tensor that a followed one is a view of, else itself."""
    base = getattr(tensor, "base", None)
    return tensor if base is None else base


def _as_stored(output: torch.Tensor) -> torch.Tensor:
    """An output as the backward pass reads it: a followed one knows how its storage may have rounded it."""
    evaluation = getattr(output, "evaluation", None)
    return output if evaluation is None else evaluation.as_stored(output)
