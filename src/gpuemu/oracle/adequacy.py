"""Whether a plan could tell a kernel from trivial predictors: zeros, the input, the mean, a constant.

Adequacy belongs to the plan (ORACLE.md section 12.5): every predictor that differs from the op must be rejected
by at least one case, else the run establishes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from gpuemu.dtypes import DType, torch_dtype
from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.verdict import Adequacy, Status, Verdict
from gpuemu.oracle.bounds import Acceptance, OutputAcceptance, comparable, convicting
from gpuemu.oracle.distortions import DISTORTIONS
from gpuemu.rounding import round_to

PREDICTORS = ("zeros", "input", "mean", "constant")


def rejected(
    inputs: Mapping[str, torch.Tensor],
    expected: Expected,
    acceptance: Acceptance,
    predictors: Sequence[str] = PREDICTORS,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of the named predictors this case rejects, and from which it is exempt.

    A predictor stands in for every output at once; it is rejected when one output refuses it, and exempt when
    it has no answer, or the op's own answer, for every output. Empty outputs exempt from all.

    Raises:
        ValueError: an unknown predictor name.
    """
    refused: list[str] = []
    exempt: list[str] = []
    if expected.problem is not None:
        return (), ()
    acceptance = convicting(expected, acceptance)  # only what would fail a kernel counts
    for name in predictors:
        pairs = list(zip(expected.outputs, acceptance.outputs, strict=True))
        predictions = [_predict(name, inputs, output, accepted) for output, accepted in pairs]
        if all(prediction is None for prediction in predictions):
            exempt.append(name)
        elif any(
            prediction is not None and not bool(accepted.contains(prediction).all())
            for prediction, (_, accepted) in zip(predictions, pairs, strict=True)
        ):
            refused.append(name)
    return tuple(refused), tuple(exempt)


def summarise(verdicts: Iterable[Verdict], dtypes: Iterable[str] = ()) -> Adequacy:
    """Which predictors a whole run rejected, from the names that its verdicts carry.

    A predictor is rejected when one case rejected it; exempt when it was exempt in every case that could tell;
    else accepted. `zeros` is never exempt, so a run of empty outputs is insufficient, and `input` is exempt
    only if `zeros` was rejected: a run that rejects nothing cannot vouch for an op that copies.

    Args:
        dtypes: of the verdicts' cases, for the smallest error seen per dtype.
    """
    verdicts = list(verdicts)
    bits: dict[str, int] = {}
    for verdict, dtype in zip(verdicts, dtypes, strict=False):
        if verdict.visible_bits is not None:
            bits[dtype] = max(bits.get(dtype, 0), verdict.visible_bits)
    distorted = {name for verdict in verdicts for name in verdict.rejected_distortions}
    verdicts = [v for v in verdicts if v.status in (Status.PASS, Status.FAIL, Status.INCONCLUSIVE)]
    refused = {name for verdict in verdicts for name in verdict.rejected_predictors}
    # A failing case may have been left without an assessment; it then says nothing.
    assessed = [
        v for v in verdicts if v.status is not Status.FAIL or v.rejected_predictors or v.exempt_predictors
    ]
    exempt = {
        name
        for name in PREDICTORS
        if name not in refused and assessed and all(name in v.exempt_predictors for v in assessed)
    }
    exempt.discard("zeros")
    if "zeros" not in refused:
        exempt.discard("input")
    return Adequacy(
        rejected=tuple(name for name in PREDICTORS if name in refused),
        accepted=tuple(name for name in PREDICTORS if name not in refused and name not in exempt),
        exempt=tuple(name for name in PREDICTORS if name in exempt),
        rejected_distortions=tuple(name for name in DISTORTIONS if name in distorted),
        accepted_distortions=tuple(name for name in DISTORTIONS if name not in distorted) if bits else (),
        visible_bits=bits,
    )


def _predict(
    name: str, inputs: Mapping[str, torch.Tensor], output: ExpectedOutput, accepted: OutputAcceptance
) -> torch.Tensor | None:
    """The predictor's answer for one output; None where it has none, or the op's own."""
    if accepted.elements == 0:
        return None
    if name == "zeros":
        return torch.zeros_like(accepted.rounded)
    if name == "input":
        return _input(inputs, accepted)
    value = output.value.double()
    if name == "mean":
        prediction = _mean(value)
    elif name == "constant":
        prediction = _first(value)
    else:
        raise ValueError(f"unknown predictor {name!r}; known: {', '.join(PREDICTORS)}")
    return None if prediction is None else _store(prediction, accepted.dtype).expand_as(accepted.rounded)


def _input(inputs: Mapping[str, torch.Tensor], accepted: OutputAcceptance) -> torch.Tensor | None:
    """The first float input of the output's shape, unless it is the correctly rounded answer bit by bit."""
    for tensor in inputs.values():
        if tensor.is_floating_point() and tensor.shape == accepted.rounded.shape:
            prediction = comparable(tensor.to(torch_dtype(accepted.dtype.name)))
            same = (prediction == accepted.rounded) | (prediction.isnan() & accepted.rounded.isnan())
            return None if bool(same.all()) else prediction
    return None


def _mean(value: torch.Tensor) -> torch.Tensor | None:
    """The mean of the finite elements over the last axis, which must have two elements at least."""
    if value.dim() == 0 or value.shape[-1] < 2:
        return None
    finite = value.isfinite()
    total = torch.where(finite, value, 0.0).sum(dim=-1, keepdim=True)
    return total / finite.sum(dim=-1, keepdim=True).clamp(min=1)


def _first(value: torch.Tensor) -> torch.Tensor | None:
    """The first element (the first finite one, if any); there must be two at least."""
    if value.numel() < 2:
        return None
    flat = value.reshape(-1)
    return flat[flat.isfinite().to(torch.uint8).argmax()]


def _store(value: torch.Tensor, dtype: DType) -> torch.Tensor:
    """A float64 tensor rounded to a storage dtype."""
    if dtype.is_float:
        return comparable(round_to(value, dtype.name))
    return value.nan_to_num(nan=0.0).round().to(torch_dtype(dtype.name))
