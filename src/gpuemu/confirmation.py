"""What a first failure must survive before it counts (ORACLE.md sections 12.2, 12.6 and 12.7).

In this order: the reference's own error widens the bound; the call is repeated (a pass the second time means
`nondeterministic`); the same case is tried contiguous (`layout`); looser profiles are tried (`precision`),
which misplaced elements, or a factor on every element, may fit as well. An exception that the wrapper raised on
purpose is a refusal if it accepts a plainer form of the case.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuemu import deciding
from gpuemu.model.case import Case
from gpuemu.model.expected import Expected
from gpuemu.model.observation import Observation
from gpuemu.model.profile import PROFILES, looser_profiles
from gpuemu.model.verdict import Kind, Status, Verdict
from gpuemu.oracle import bounds, hints
from gpuemu.oracle.compare import SUSPICIOUS_SCORE
from gpuemu.reference import evaluate

if TYPE_CHECKING:
    from gpuemu.campaign import Campaign

FLOAT64_ROUNDOFF = 2.0**-53
FRIENDLY_SIZES = (16, 64, 128)
# An error of this many bounds and of this many ulp, of a kernel that stays below SUSPICIOUS_SCORE on the same
# values laid out contiguously, is no other order of its sums. (In 16-bit storage one ulp is hundreds of bounds,
# and whether an error shows at all is chance.) Judgement.
LAYOUT_MARGIN = 8.0
EXACT_VALUES = "small_integers"
_VALUE_KINDS = (Kind.VALUE, Kind.NONFINITE)


def confirm(campaign: Campaign, case: Case, observation: Observation, verdict: Verdict) -> Verdict:
    """The final verdict of a case whose first verdict was not a pass."""
    if verdict.status in (Status.ERROR, Status.UNSUPPORTED):
        return _judge_refusal(campaign, case, observation, verdict)
    if verdict.kind == "guard:repeat":
        return replace(verdict, kind=Kind.NONDETERMINISTIC)
    if verdict.kind == "guard:poison" and not case.is_contiguous:
        # It read the gaps of a layout that it takes for another, if the same values are right without them.
        alone = _judge_again(campaign, make_contiguous(case)).status is Status.PASS
        return replace(verdict, kind=Kind.LAYOUT, message=_layout_message(case)) if alone else verdict
    if verdict.kind not in _VALUE_KINDS:
        return verdict
    if campaign.op.residual is not None:
        return _confirm_call(campaign, case, verdict) or verdict
    own_error = _own_error(campaign, case, observation)
    widened = _against_widened(campaign, case, observation, own_error)
    if widened.status is not Status.FAIL or widened.kind not in _VALUE_KINDS:
        return widened
    unlike = _confirm_call(campaign, case, widened)
    if unlike is not None:
        return unlike
    if _is_scaled(campaign, case, observation, widened):
        return widened  # its hint names the factor, which no arithmetic explains
    looser = _looser_profile(campaign, case, observation, own_error, widened.profile)
    if looser is not None:
        return replace(
            widened,
            kind=Kind.PRECISION,
            looser_profile=looser,
            message=f"outside {widened.profile}, within {looser} ({PROFILES[looser].meaning})",
        )
    return widened


def _own_error(campaign: Campaign, case: Case, observation: Observation) -> Expected:
    """What the float64 evaluation of the reference itself may be off by (section 12.7)."""
    if campaign.op.recovered:
        return deciding.expect(campaign, case, observation, "P0", FLOAT64_ROUNDOFF)
    inputs = campaign.prepare(case).inputs
    return evaluate.evaluate(campaign.op, case, inputs, "P0", unit_roundoff=FLOAT64_ROUNDOFF)


def _confirm_call(campaign: Campaign, case: Case, verdict: Verdict) -> Verdict | None:
    """The verdict if another call, or contiguous inputs, make the kernel right; else None."""
    if _judge_again(campaign, case).status is Status.PASS:
        return replace(
            verdict,
            kind=Kind.NONDETERMINISTIC,
            message="wrong in the first call, right in the second on the same inputs",
        )
    if not case.is_contiguous and _is_layout(campaign, case, verdict):
        return replace(verdict, kind=Kind.LAYOUT, message=_layout_message(case))
    return None


def _is_layout(campaign: Campaign, case: Case, verdict: Verdict) -> bool:
    """Whether the layout makes the difference: the same values laid out contiguously are right.

    Near the bound that may be chance, since a kernel of too little precision sums in another order there. Then
    integers decide, which every order sums alike: it must misplace those too.
    """
    twin = _judge_again(campaign, make_contiguous(case))
    if twin.status is not Status.PASS:
        return False
    error_ulp = math.inf  # residuals have no ulp
    if verdict.errors is not None and campaign.op.residual is None:
        error_ulp = verdict.errors.max_ulp
    gross = _score(verdict) >= LAYOUT_MARGIN and error_ulp >= LAYOUT_MARGIN
    clear = gross and _score(twin) <= SUSPICIOUS_SCORE
    return clear or _fails_on_integers(campaign, case)


def _score(verdict: Verdict) -> float:
    return verdict.errors.max_bound_units if verdict.errors is not None else math.inf


def _fails_on_integers(campaign: Campaign, case: Case) -> bool:
    """Whether the kernel is wrong on integers in this layout and right on the same integers contiguously."""
    op = campaign.op
    admitted = {name: tensor.value_classes or op.value_classes for name, tensor in op.tensors.items()}
    if any(classes is not None and EXACT_VALUES not in classes for classes in admitted.values()):
        return False
    exact = case.with_changes(value_classes=dict.fromkeys(case.value_classes, EXACT_VALUES))
    if _judge_again(campaign, exact).status is not Status.FAIL:
        return False
    return _judge_again(campaign, make_contiguous(exact)).status is Status.PASS


def _is_scaled(campaign: Campaign, case: Case, observation: Observation, verdict: Verdict) -> bool:
    """Whether the wrong elements of the worst output are the expected ones times one number."""
    if verdict.worst is None:
        return False
    number = verdict.worst.output
    judged = campaign.expect(case, verdict.profile, observation)
    pair = judged.expected.outputs[number], judged.acceptance.outputs[number]
    return hints.uniform_ratio(observation.outputs[number], *pair) is not None


def _against_widened(
    campaign: Campaign, case: Case, observation: Observation, own_error: Expected, profile: str | None = None
) -> Verdict:
    """The verdict with the bound widened by the reference's own float64 error (section 12.7).

    profile None: the one that the campaign judges the case under.
    """
    judged = campaign.expect(case, profile, observation)
    widened = bounds.widen(judged.expected, own_error)
    return campaign.judge(
        case,
        observation,
        replace(judged, expected=widened, acceptance=bounds.accept(widened, campaign.op.contract)),
    )


def _judge_again(campaign: Campaign, case: Case) -> Verdict:
    return campaign.judge(case, campaign.observe(case), campaign.expect(case))


def _looser_profile(
    campaign: Campaign, case: Case, observation: Observation, own_error: Expected, profile: str
) -> str | None:
    """The tightest looser profile under which the observed outputs pass and zeros would not."""
    for name in looser_profiles(profile, case.dtype):
        if _against_widened(campaign, case, observation, own_error, name).status is Status.PASS:
            judged = campaign.expect(case, name, observation)
            rejected, _ = campaign.reject_predictors(case, observation, judged, ("zeros",))
            return name if rejected else None
    return None


def make_contiguous(case: Case) -> Case:
    """The same case with every input contiguous."""
    return case.with_changes(layouts=dict.fromkeys(case.layouts, "contiguous"))


def _layout_message(case: Case) -> str:
    strided = ", ".join(f"{name} {layout}" for name, layout in case.layouts.items() if layout != "contiguous")
    return f"wrong only when inputs are not contiguous ({strided}); the same values contiguous are right"


def _judge_refusal(campaign: Campaign, case: Case, observation: Observation, verdict: Verdict) -> Verdict:
    """`unsupported` only if the wrapper raised on purpose and accepts something else of this op."""
    exception = observation.exception
    if exception is None or not exception.refused:
        return verdict
    if exception.type in ("CandidateRefusedError", "NotImplementedError"):
        return replace(verdict, status=Status.UNSUPPORTED)
    accepts_other = campaign.has_accepted or any(
        campaign.observe(other).outputs for other in _plainer_cases(campaign, case)
    )
    return replace(verdict, status=Status.UNSUPPORTED if accepts_other else Status.ERROR)


def _plainer_cases(campaign: Campaign, case: Case) -> list[Case]:
    """The case contiguous; contiguous in each other dtype of the op; contiguous at sizes that wrappers like."""
    plain = make_contiguous(case)
    others = [plain.with_changes(dtype=dtype) for dtype in campaign.op.dtypes if dtype != case.dtype]
    for size in FRIENDLY_SIZES:
        dims = {
            name: size if domain.contains(size) else case.dims[name]
            for name, domain in campaign.op.domains.items()
        }
        if dims != dict(case.dims) and campaign.op.admits(dims):
            others.append(plain.with_changes(dims=dims))
    return others if case.is_contiguous else [plain, *others]
