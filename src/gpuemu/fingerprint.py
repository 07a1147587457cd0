"""The arithmetic fingerprint: the tightest profile that a kernel passes in every benign case (ORACLE.md 2.4).

A contract permits more than most kernels use: an attention may round its probabilities, but one that does not
shows under P0 far better what it loses elsewhere. So a passing run says which profile would have sufficed, and
the kernel can be held to it from then on (`--profile`, or the op's contract).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuemu.model.profile import LADDER, PROFILES
from gpuemu.model.verdict import Fingerprint, Status

if TYPE_CHECKING:
    from gpuemu.campaign import Campaign
    from gpuemu.model.case import Case
    from gpuemu.model.observation import Observation
    from gpuemu.model.verdict import Verdict

# Value classes that a kernel meets in use; others may break a tight profile for their own reasons.
BENIGN = ("uniform", "bell", "negative", "log_uniform", "small_integers", "impulse", "all_equal", "ones")
CASES_PER_DTYPE = 16  # of those for which a tighter profile has to be evaluated
# A kernel that passes a tighter profile in more than this share of its cases, but not in all, is suspicious
# (ORACLE.md section 8).
SUSPICIOUS_SHARE = 0.9


class FingerprintObserver:
    """Collects, per dtype and profile, in how many benign cases the outputs pass; an observer of a campaign."""

    def __init__(self) -> None:
        self._passed: dict[str, dict[str, list[bool]]] = {}
        self._judged: dict[str, str] = {}

    def __call__(self, campaign: Campaign, case: Case, observation: Observation, verdict: Verdict) -> None:
        if verdict.status is not Status.PASS or not set(case.value_classes.values()) <= set(BENIGN):
            return
        if verdict.generic or not observation.outputs:
            return
        self._judged[case.dtype] = verdict.profile
        permissions = campaign.expect(case).expected.permissions
        if not permissions and not PROFILES[verdict.profile].changes_arithmetic:
            return  # nothing that the profile permits was made use of: every tighter one gives the same
        of_dtype = self._passed.setdefault(case.dtype, {})
        for name in tighter_profiles(verdict.profile, case.dtype):
            results = of_dtype.setdefault(name, [])
            if len(results) < CASES_PER_DTYPE:
                tighter = campaign.judge(case, observation, campaign.expect(case, name))
                results.append(tighter.status is Status.PASS)

    def summarise(self) -> Mapping[str, Fingerprint]:
        """The fingerprint per dtype of which some benign case passed."""
        return {dtype: self._summarise(dtype, judged) for dtype, judged in self._judged.items()}

    def _summarise(self, dtype: str, judged: str) -> Fingerprint:
        tightest = [name for name in tighter_profiles(judged, dtype) if dtype not in self._passed]
        profile, departures = (tightest or [judged])[0], 0
        cases = max((len(results) for results in self._passed.get(dtype, {}).values()), default=0)
        for name in reversed(tighter_profiles(judged, dtype)):
            results = self._passed.get(dtype, {}).get(name, [])
            if results and all(results):
                profile = name
            elif results and sum(results) > SUSPICIOUS_SHARE * len(results):
                departures = results.count(False)
        return Fingerprint(profile, judged, cases, departures)


def tighter_profiles(profile: str, dtype: str) -> list[str]:
    """Profiles of the ladder before this one that permit less than it does, tightest first."""
    rung = PROFILES[profile]
    return [
        name
        for name in LADDER[: LADDER.index(profile)]
        if PROFILES[name].is_within(rung) and not (PROFILES[name].tf32 and dtype != "float32")
    ]
