"""Evaluating an op's reference in float64 together with what a legitimate kernel may lose."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from gpuemu.dtypes import dtype_name
from gpuemu.errors import OpDefinitionError
from gpuemu.model.case import Case
from gpuemu.model.expected import Expected, ExpectedOutput, Selection
from gpuemu.model.op import Op
from gpuemu.reference.arithmetic import Arithmetic, make_arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.calling import call_reference
from gpuemu.reference.dispatch import Evaluation, FollowingMode
from gpuemu.reference.extent import is_finite, mark, survey
from gpuemu.reference.functions import ReplacingMode

# ORACLE.md section 3, NaN taint: infinities become 1 and magnitudes are clamped to this.
TAINT_CLAMP = 1e3

Inputs = Mapping[str, torch.Tensor]
NO_DECISIONS: Mapping[str, torch.Tensor] = MappingProxyType({})


def evaluate(
    op: Op,
    case: Case,
    inputs: Inputs,
    profile: str,
    unit_roundoff: float | None = None,
    rigorous: bool = False,
    decisions: Mapping[str, torch.Tensor] = NO_DECISIONS,
) -> Expected:
    """The expected outputs of a case and the bound per element.

    Args:
        inputs: name to tensor in the storage dtype, on the CPU or a device, in the op's order; left untouched.
        profile: name of the arithmetic profile.
        unit_roundoff: 2^-53 gives the error of the float64 evaluation itself (ORACLE.md section 12.7).
        rigorous: bounds that hold for every sequence of roundings.
        decisions: random decisions of the candidate, which the reference takes by keyword (`Recovered`).

    Returns:
        The outputs; or, if the reference raises or cannot be followed, none and the `problem` in one line.

    Raises:
        UsageError: no such profile.
    """
    arithmetic = make_arithmetic(profile, case.dtype, unit_roundoff, op.contract.accumulate, rigorous)
    extents, infinite = survey(inputs.values())
    evaluation = Evaluation(arithmetic, infinite, extents)
    try:
        results = run_reference(op, case, inputs, evaluation, decisions)
        selections = evaluation.selections.attach(results)
        pairs = zip(results, selections, strict=True)
        outputs = tuple(_to_output(op, case, i, *pair) for i, pair in enumerate(pairs))
        outputs = _mark_nan(op, case, inputs, outputs, arithmetic, decisions)
    except (Exception, SystemExit) as error:  # whatever user code raises
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return Expected((), profile, infinite_input=infinite, problem=problem)
    return Expected(
        outputs, profile, tuple(evaluation.generic), infinite, permissions=tuple(evaluation.permissions)
    )


def run_reference(
    op: Op,
    case: Case,
    inputs: Inputs,
    evaluation: Evaluation,
    decisions: Mapping[str, torch.Tensor] = NO_DECISIONS,
) -> Sequence[Any]:
    """The reference's results, one per output, followed by `evaluation`.

    Raises:
        OpDefinitionError: the op has none.
    """
    if op.reference is None:
        raise OpDefinitionError(f"op {op.name!r} has no reference")
    arguments = [_wrap(evaluation, x) for x in inputs.values()]
    decided = {name: _wrap(evaluation, x) for name, x in decisions.items()}
    device = next(iter(inputs.values())).device
    # Tensors that the reference makes itself belong beside its inputs.
    placed: Any = torch.device(device) if device.type != "cpu" else contextlib.nullcontext()
    with torch.no_grad(), placed, ReplacingMode(), FollowingMode(evaluation):
        return call_reference(op.reference, arguments, {**case.params, **decided}, evaluation)


def _wrap(evaluation: Evaluation, x: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        wide = x.to(torch.float64)
        if wide is x or wide.requires_grad:  # what is noted of it is not noted of the input
            wide = wide.detach()
        mark(wide, None, evaluation.extents.get(id(x)))
        return evaluation.make(wide, None, raw=True)
    return x.clone()  # a reference that writes in place must not reach the input


def _to_output(
    op: Op, case: Case, index: int, result: Any, selection: Selection | None = None
) -> ExpectedOutput:
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"the reference's output {index} is a {type(result).__name__}, not a tensor")
    value, error = (result.value, result.error) if type(result) is Bounded else (result, None)
    declared = op.output_dtypes[index] if index < len(op.output_dtypes) else None
    vars(value).pop("known_size", None)  # as much memory again, and of no more use
    if value.is_floating_point():
        value, dtype = value.double(), declared or case.dtype
    else:
        dtype = declared or dtype_name(value.dtype)
    if error is None:
        bound = torch.zeros(value.shape, dtype=torch.float64, device=value.device)
    else:
        bound = error.to(torch.float64)
    return ExpectedOutput(value, bound, dtype, selection=selection)


def _mark_nan(
    op: Op,
    case: Case,
    inputs: Inputs,
    outputs: tuple[ExpectedOutput, ...],
    arithmetic: Arithmetic,
    decisions: Mapping[str, torch.Tensor],
) -> tuple[ExpectedOutput, ...]:
    """Tell NaN that is due from NaN that infinities and large numbers made (section 3).

    Due is what tame inputs give as well. Where the contract names a value for NaN of the reference's own making
    (0/0, a row that a mask empties), only NaN from an input NaN is.
    """
    nan = [_has_nan(output.value) for output in outputs]
    selects_nan = [o.selection is not None and _has_nan(o.selection.scores) for o in outputs]
    if not any(nan + selects_nan):
        return outputs
    tame = {name: _tame(x) if x.is_floating_point() else x for name, x in inputs.items()}
    evaluation = Evaluation(arithmetic)
    results = run_reference(op, case, tame, evaluation, decisions)
    marked = [
        replace(output, expects_nan=_is_nan(result) & output.value.isnan()) if has_nan else output
        for output, has_nan, result in zip(outputs, nan, results, strict=True)
    ]
    if op.contract.masked_value is not None:
        clean = {name: x.nan_to_num(nan=1.0) if x.is_floating_point() else x for name, x in tame.items()}
        own = run_reference(op, case, clean, Evaluation(arithmetic), decisions)
        has_nan_input = any(_has_nan(x) for x in inputs.values())
        marked = [_except_own(*pair, has_nan_input) for pair in zip(marked, own, strict=True)]
    if any(selects_nan):
        selections = evaluation.selections.attach(results)
        marked = [_mark_scores(*pair) for pair in zip(marked, selections, strict=True)]
    return tuple(marked)


def _except_own(output: ExpectedOutput, own: torch.Tensor, has_nan_input: bool) -> ExpectedOutput:
    """An output without the NaN marked that the reference makes of clean inputs too.

    Beside an input NaN, which may have reached the same element, such an element is not judged.
    """
    if output.expects_nan is None:
        return output
    made = output.expects_nan & _is_nan(own)
    bound = torch.where(made, torch.inf, output.bound) if has_nan_input else output.bound
    return replace(output, expects_nan=output.expects_nan & ~made, bound=bound)


def _mark_scores(output: ExpectedOutput, tame: Selection | None) -> ExpectedOutput:
    """An output of indices with the scores marked that are NaN because of an input NaN."""
    if output.selection is None or not _has_nan(output.selection.scores):
        return output
    nan = output.selection.scores.isnan()
    known = tame is not None and tame.scores.shape == nan.shape
    expects = nan & tame.scores.isnan() if known and tame is not None else torch.zeros_like(nan)
    return replace(output, selection=replace(output.selection, expects_nan=expects))


def _has_nan(x: torch.Tensor) -> bool:
    if not x.is_floating_point() or x.numel() == 0 or is_finite(x):
        return False
    return math.isnan(float(torch.aminmax(x)[0]))


def _is_nan(result: torch.Tensor) -> torch.Tensor:
    return (result.value if type(result) is Bounded else result).isnan()


def _tame(x: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.float64)
    return torch.where(wide.isinf(), 1.0, wide.clamp(-TAINT_CLAMP, TAINT_CLAMP))
