"""Metamorphic relations: what two answers of a kernel must have to do with each other (ORACLE.md section 5).

They need no reference, so they catch a fault that reference and kernel share, and judge sizes for which no
float64 evaluation can be afforded. They cannot replace it: most are blind to constants, eps and scale.
Where bounds are known, both answers may be off by theirs (2 delta); else only claims stand that hold exactly or
bring their own slack. Relations that differ only by the order of a sum are never demanded bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from gpuemu.dtypes import dtype_name
from gpuemu.model.relation import RelationResult, RelationStatus
from gpuemu.rounding import half_ulp

Tensor = torch.Tensor
Inputs = Mapping[str, Tensor]


@dataclass(frozen=True)
class Answer:
    """What a kernel returned for some inputs. slack: how far each output may be from the truth, in float64;
    None where no reference was evaluated. An infinite slack says that nothing is known of the element."""

    outputs: tuple[Tensor, ...]
    slack: tuple[Tensor, ...] | None = None

    def output(self, number: int = 0) -> Tensor:
        """An output in float64."""
        return self.outputs[number].double()

    def slack_of(self, number: int = 0) -> Tensor | None:
        return None if self.slack is None else self.slack[number]


Ask = Callable[[Inputs], Answer]


@dataclass(frozen=True)
class Claim:
    """Two float64 tensors that may differ by `slack` per element at most; slack None: nothing can be said."""

    left: Tensor
    right: Tensor
    slack: Tensor | None


@dataclass(frozen=True)
class Relation:
    """A relation that holds for every correct kernel of its ops.

    claims: `claims(ask, inputs, params)` yields what must hold; it asks the kernel for further answers, whose
    inputs it makes from the case's own. Nothing is yielded where the inputs do not lend themselves to it.
    """

    name: str
    meaning: str
    claims: Callable[[Ask, Inputs, Mapping[str, object]], Iterator[Claim]]


def answer_slack(outputs: Sequence[Tensor], bounds: Sequence[Tensor] | None) -> tuple[Tensor, ...] | None:
    """delta plus half an ulp of what was returned, per output; None without bounds."""
    if bounds is None:
        return None
    return tuple(
        bound + half_ulp(output.double(), dtype_name(output.dtype)) if output.is_floating_point() else bound
        for output, bound in zip(outputs, bounds, strict=True)
    )


def add_slack(*slacks: Tensor | None) -> Tensor | None:
    """The sum of slacks, None if one is unknown."""
    total: Tensor | None = None
    for slack in slacks:
        if slack is None:
            return None
        total = slack if total is None else total + slack
    return total


def judge_relation(
    relation: Relation, ask: Ask, inputs: Inputs, params: Mapping[str, object]
) -> RelationResult:
    """A relation's result for one case: holds, violated (with the worst claim), or not judged."""
    judged, worst, message = 0, 0.0, ""
    for claim in relation.claims(ask, inputs, params):
        count, score, text = _measure(claim)
        judged += count
        if score > worst:
            worst, message = score, text
    if not judged:
        return RelationResult(relation.name, RelationStatus.NOT_JUDGED, relation.meaning)
    if worst > 1.0:
        return RelationResult(
            relation.name, RelationStatus.VIOLATED, f"{relation.meaning}: {message}", judged, worst
        )
    return RelationResult(relation.name, RelationStatus.HOLDS, relation.meaning, judged, worst)


def _measure(claim: Claim) -> tuple[int, float, str]:
    """Elements judged, largest difference in units of the slack, and that element in words."""
    if claim.slack is None or claim.left.numel() == 0:
        return 0, 0.0, ""
    shape = (claim.left + claim.right + claim.slack).shape  # as broadcast
    left, right, slack = (column.expand(shape) for column in (claim.left, claim.right, claim.slack))
    judged = slack.isfinite() & right.isfinite()
    count = int(judged.sum())
    if not count:
        return 0, 0.0, ""
    # Sums and products of the claims themselves are done in float64.
    room = slack + (left.abs() + right.abs()) * 2.0**-44
    difference = (left - right).abs().nan_to_num(nan=torch.inf)
    score = torch.where(difference == 0, 0.0, difference / room).masked_fill(~judged, 0.0)
    at = int(score.argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(at), left.shape)]
    values = (float(column.reshape(-1)[at]) for column in (left, right, room))
    text = "at {}: {:.9g} against {:.9g}, allowed {:.3g}".format(place, *values)
    return count, float(score.reshape(-1)[at]), text
