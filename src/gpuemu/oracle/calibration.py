"""Statistics of scores: what a number of correct runs says about the next one (ORACLE.md section 6).

A score is an error in units of its bound, so it is comparable over shapes and magnitudes, which a largest
absolute error is not. Calibration may only raise the constant that bounds are multiplied by, never lower it: a
tight threshold always leaks under another input distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpuemu.model.calibration import Calibration, Drift
from gpuemu.model.op import Op
from gpuemu.model.record import Record
from gpuemu.model.verdict import Status

CONFIDENCE = 0.95
HEADROOM = 2.0  # a healthy rule leaves this factor above the worst control
RULE_SET_SCORE = 0.5  # a control above it is a bug report against the rules
PUBLISHED_VALUES = ("uniform", "bell")  # what the published tolerances were fitted on (PUBLISHED.md, P2)


def raised_constant(largest_score: float) -> float:
    """c = max(1, 2 x the largest score of known-correct kernels)."""
    return max(1.0, HEADROOM * largest_score)


def conformal_rate(runs: int) -> float:
    """1/(n + 1): the chance that the next of exchangeable correct runs exceeds the largest score of n."""
    return 1.0 / (runs + 1)


def wilks_runs(rate: float, confidence: float = CONFIDENCE) -> int:
    """Correct runs needed to bound the rate of exceeding their maximum: n = ln(1 - confidence) / ln(1 - rate).

    Wilks, "Determination of sample sizes for setting tolerance limits", Ann. Math. Stat. 12 (1941): 59 for
    95/95, 299 for 95/99, 2,995 for 95/99.9.
    """
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-rate))


def published_threshold(max_absolute: Sequence[float]) -> float:
    """The published tolerance (study P2): 1.5 times the 95th percentile of the largest absolute errors.

    The percentile interpolates linearly between order statistics, as NumPy's does.
    """
    ordered = sorted(max_absolute)
    position = 0.95 * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return 1.5 * (ordered[below] + (position - below) * (ordered[above] - ordered[below]))


def false_alarm_bound(runs: int, alarms: int = 0, confidence: float = CONFIDENCE) -> float:
    """The largest rate of alarms that is compatible with these runs, at a confidence.

    Clopper and Pearson's upper limit (Biometrika 26, 1934): the p with P(at most `alarms` of `runs`) = 1 -
    confidence, by bisection; for no alarm 1 - (1 - confidence)^(1/n), about 3/n (the rule of three). It holds
    for runs drawn as these were.
    """
    if runs == 0:
        return 1.0
    if alarms == 0:
        return float(1.0 - (1.0 - confidence) ** (1.0 / runs))
    low, high = alarms / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _at_most(alarms, runs, middle) > 1.0 - confidence else (low, middle)
    return high


def _at_most(alarms: int, runs: int, rate: float) -> float:
    """P(at most `alarms`) of a binomial distribution."""
    if rate >= 1.0:
        return 1.0 if alarms >= runs else 0.0
    logs = (
        math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
        + k * math.log(rate) + (runs - k) * math.log1p(-rate)
        for k in range(alarms + 1)
    )  # fmt: skip
    return float(math.fsum(math.exp(value) for value in logs))


def find_constants(calibration: Calibration, op: Op, profile: str | None = None) -> dict[str, float]:
    """The constants above 1 per dtype of an op; profile None takes the contract's."""
    entries = (calibration.find(op.family, profile or op.contract.profile_for(d), d) for d in op.dtypes)
    return {entry.dtype: entry.constant for entry in entries if entry is not None and entry.constant > 1.0}


def find_drift(records: Iterable[Record], calibration: Calibration, op: Op) -> tuple[Drift, ...]:
    """Dtypes in which a passing kernel comes nearer to its bound than any control did.

    By exchangeability a correct run does so with probability 1/(n + 1) (`conformal_rate`), so over the cases of
    one check it is rare, and no failure: errors have grown against what is known to be possible.
    """
    largest: dict[tuple[str, str], float] = {}
    for record in records:
        verdict = record.verdict
        if verdict.status is Status.PASS and verdict.errors is not None:
            key = (verdict.profile, record.case.dtype)
            largest[key] = max(largest.get(key, 0.0), verdict.errors.max_bound_units)
    drifts = []
    for (profile, dtype), score in largest.items():
        entry = calibration.find(op.family, profile, dtype)
        if entry is not None and score * entry.constant > entry.largest:
            drifts.append(Drift(dtype, profile, score * entry.constant, entry.largest, entry.runs))
    return tuple(drifts)
