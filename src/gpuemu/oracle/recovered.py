"""Random decisions of a kernel, read off its outputs and tested for their rate (ORACLE.md section 2.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpuemu.errors import OpDefinitionError
from gpuemu.model.case import Case
from gpuemu.model.expression import evaluate_number
from gpuemu.model.op import Op, Recovered
from gpuemu.oracle.frequencies import choice_objection, rate_objection

Inputs = Mapping[str, torch.Tensor]


def read(
    op: Op, case: Case, inputs: Inputs, outputs: Sequence[torch.Tensor]
) -> tuple[dict[str, torch.Tensor], str]:
    """The decisions by the reference's keywords, and what is wrong with them ("" if nothing is).

    Args:
        outputs: what the candidate returned, of the shapes and dtypes that the op declares.

    Raises:
        OpDefinitionError: the op's own functions give no tensor, or raise.
    """
    decisions: dict[str, torch.Tensor] = {}
    objection = ""
    for name, decision in op.recovered.items():
        given = inputs, tuple(outputs), case.params
        found = _call(op, name, decision.recover, given)
        decisions[name] = found
        objection = objection or _objection(op, case, name, decision, found, given)
    return decisions, objection


def _objection(op: Op, case: Case, name: str, decision: Recovered, found: torch.Tensor, given: Any) -> str:
    if decision.rate is not None:
        rate = float(evaluate_number(decision.rate, {**case.dims, **case.params}))
        among = None if decision.among is None else _call(op, name, decision.among, given).bool()
        objection = rate_objection(found.bool(), among, rate, name)
        if objection:
            return objection
    if decision.probabilities is not None:
        return choice_objection(found, _call(op, name, decision.probabilities, given), name)
    return ""


def _call(op: Op, name: str, function: Any, given: Any) -> torch.Tensor:
    try:
        with torch.no_grad():
            found = function(*given)
    except Exception as error:
        text = " ".join(str(error).split())
        raise OpDefinitionError(
            f"op {op.name!r}: reading {name!r} off the outputs raised {type(error).__name__}: {text}"
        ) from error
    if not isinstance(found, torch.Tensor):
        raise OpDefinitionError(
            f"op {op.name!r}: recovered[{name!r}] gives a {type(found).__name__}, not a tensor"
        )
    return found
