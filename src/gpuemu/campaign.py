"""The flow of one case and of a whole plan: the only file that knows the order of the stages.

case → inputs → observe candidate → expected (float64, bound) → verdict → record
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuemu import deciding, probing
from gpuemu.inputs import fill
from gpuemu.inputs.slices import make_slices
from gpuemu.model.case import Case, Plan
from gpuemu.model.expected import Expected
from gpuemu.model.observation import REPEATS, Observation
from gpuemu.model.op import Op
from gpuemu.model.record import Record
from gpuemu.model.verdict import Status, Verdict
from gpuemu.oracle import adequacy, bounds, compare, determinism, distortions, residual
from gpuemu.reference import evaluate
from gpuemu.reference.cache import ExpectedCache
from gpuemu.run.calling import Caller
from gpuemu.run.guards import GUARDS, batch_invariance
from gpuemu.run.observing import Observer

if TYPE_CHECKING:
    import torch

EXACT_REPEATS = 3  # ORACLE.md section 7: on exact cases
Confirm = Callable[["Campaign", Case, Observation, Verdict], Verdict]
JudgeAlone = Callable[["Campaign", Case, Observation], Verdict]
Relate = Callable[["Campaign", Case, Verdict], Verdict]
CaseObserver = Callable[["Campaign", Case, Observation, Verdict], None]


@dataclass(frozen=True)
class Settings:
    """How cases of a run are executed.

    repeats: calls on the same inputs with the guard "repeat"; one more where every answer is exact.
    profile None: what the op's contract says for the case's dtype. confirm: what a first failure must survive
    (`gpuemu.confirmation.confirm`); None takes the first verdict as it is. rigorous: bounds that no sequence of
    roundings exceeds. constants: what calibration multiplies bounds by, per dtype, at least 1. observers: see
    each case with its outputs and its verdict (an audit, the arithmetic fingerprint), and change neither.
    relate: a second opinion on a pass (`gpuemu.relating.relate`). judge_alone: decides by itself, so that no
    reference is evaluated (`gpuemu.relating.judge_alone`).
    """

    device: str = "cpu"
    profile: str | None = None
    guards: Sequence[str] = GUARDS
    repeats: int = REPEATS
    confirm: Confirm | None = None
    rigorous: bool = False
    constants: Mapping[str, float] = field(default_factory=dict)
    observers: Sequence[CaseObserver] = ()
    relate: Relate | None = None
    judge_alone: JudgeAlone | None = None


@dataclass(frozen=True)
class Prepared:
    """Inputs of a case as they were made; a candidate gets copies, never these."""

    inputs: Mapping[str, torch.Tensor]
    sha256: str

    @property
    def size_bytes(self) -> int:
        """Memory held by the storages."""
        return sum(tensor.untyped_storage().nbytes() for tensor in self.inputs.values())


@dataclass(frozen=True)
class Judged:
    """An `Expected` with what the oracle made of it."""

    expected: Expected
    acceptance: bounds.Acceptance

    @property
    def size_bytes(self) -> int:
        """Memory held, about: value and bound in float64 and the two ends of the interval."""
        return sum(32 * output.value.numel() + 4096 for output in self.expected.outputs)


@dataclass(frozen=True)
class Shared:
    """What does not depend on the candidate, kept by content for the next one (op digest, case, profile)."""

    inputs: ExpectedCache[Prepared] = field(default_factory=ExpectedCache)
    expected: ExpectedCache[Judged] = field(default_factory=ExpectedCache)


@dataclass
class Campaign:
    """Runs cases of one op against one candidate, by its caller. `shared` may be handed to other campaigns."""

    op: Op
    caller: Caller
    settings: Settings = Settings()
    shared: Shared = field(default_factory=Shared)
    has_accepted: bool = False
    memory: probing.Memory = field(default_factory=probing.Memory)
    _unrejected: tuple[str, ...] = adequacy.PREDICTORS
    _undistorted: tuple[str, ...] = tuple(distortions.DISTORTIONS)
    _visible_bits: dict[str, int] = field(default_factory=dict)

    def profile_of(self, case: Case) -> str:
        """The profile that a case is judged under."""
        return self.settings.profile or self.op.contract.profile_for(case.dtype)

    def prepare(self, case: Case) -> Prepared:
        """The inputs of a case on the device under test, with their digest; kept."""
        key = (self.op.digest, case.id, self.settings.device)
        prepared = self.shared.inputs.get(key)
        if prepared is None:
            inputs = fill.make_inputs(self.op, case)
            sha256 = fill.inputs_digest(inputs)
            if self.settings.device != "cpu":
                inputs = fill.to_device(inputs, self.settings.device)
            prepared = Prepared(inputs, sha256)
            self.shared.inputs.put(key, prepared, prepared.size_bytes)
        return prepared

    def observe(self, case: Case, fresh: Mapping[str, torch.Tensor] | None = None) -> Observation:
        """Call the candidate on copies of the inputs. fresh: other values to call it with as well."""
        made, guards = self.prepare(case).inputs, self.settings.guards
        slices = make_slices(self.op, case, made) if batch_invariance.NAME in guards else ()
        idle = "decoy" in guards and not self.memory.is_launch_proven
        return self._observer(case).observe(self.settings.repeats, slices, idle, fresh)

    def observe_once(self, case: Case) -> Observation:
        """A single call."""
        return self._observer(case).observe(calls=1)

    def _observer(self, case: Case) -> Observer:
        inputs = self.prepare(case).inputs
        draws = deciding.awaits_outputs(self.op)
        return Observer(self.caller, inputs, case.params, self.op.contract, self.settings.guards, draws)

    def _repeat_exact(self, case: Case, observation: Observation, judged: Judged) -> Observation:
        """One more call where any difference between two is a failure, for a rare race to show (section 7)."""
        settings = self.settings
        if settings.repeats == 1 or "repeat" not in settings.guards or not judged.acceptance.is_exact:
            return observation
        return self._observer(case).repeat(observation, max(settings.repeats, EXACT_REPEATS))

    def expect(self, case: Case, profile: str | None = None, observation: Observation | None = None) -> Judged:
        """The float64 answer with its bound under a profile, and what the oracle accepts; kept.

        observation: what the candidate returned, for an op whose answer depends on it; without it only the
        outputs' shapes are known (`judge` then finds the rest).
        """
        profile = profile or self.profile_of(case)
        if deciding.awaits_outputs(self.op):
            return self._expect_of(case, profile, observation)
        settings = self.settings
        constant = settings.constants.get(case.dtype, 1.0)
        key = (self.op.digest, case.id, profile, settings.device, settings.rigorous, constant)
        judged = self.shared.expected.get(key)
        if judged is None:
            inputs = self.prepare(case).inputs
            expected = evaluate.evaluate(self.op, case, inputs, profile, rigorous=settings.rigorous)
            expected = bounds.scale(expected, constant)
            judged = Judged(expected, bounds.accept(expected, self.op.contract))
            self.shared.expected.put(key, judged, judged.size_bytes)
        return judged

    def _expect_of(self, case: Case, profile: str, observation: Observation | None) -> Judged:
        if observation is None or self.op.residual is not None:
            outline = deciding.outline(self.op, case, self.settings.device, profile)
            return Judged(outline, bounds.Acceptance(()))
        expected = deciding.expect(self, case, observation, profile)
        expected = bounds.scale(expected, self.settings.constants.get(case.dtype, 1.0))
        return Judged(expected, bounds.accept(expected, self.op.contract))

    def judge(self, case: Case, observation: Observation, judged: Judged) -> Verdict:
        """The oracle's decision on all calls, before any confirmation."""
        verdict = self._judge_call(case, observation, judged)
        if not observation.repeats:
            return verdict

        depends = deciding.awaits_outputs(self.op)

        def judge_call(outputs: tuple[torch.Tensor, ...]) -> Verdict:
            call = replace(observation, outputs=outputs, repeats={})
            held = self.expect(case, judged.expected.profile, call) if depends else judged
            return self._judge_call(case, call, held)

        # Calls that decide otherwise have other answers: there is no element that all must agree on.
        acceptance = bounds.Acceptance(()) if depends else judged.acceptance
        return determinism.judge(
            observation, verdict, judge_call, judged.expected, acceptance, self.op.contract
        )

    def _judge_call(self, case: Case, observation: Observation, judged: Judged) -> Verdict:
        """The decision on the first call."""
        inputs = self.prepare(case).inputs  # for the hint that an output equals an input
        if self.op.residual is not None:
            return residual.judge(self.op, case, observation, inputs, judged.expected)
        if self.op.recovered and not judged.acceptance.outputs:
            judged = self.expect(case, judged.expected.profile, observation)
        return compare.judge(observation, judged.expected, judged.acceptance, self.op.contract, inputs)

    def run_case(self, case: Case, index: int = 0) -> Record:
        """One case from inputs to record. The candidate runs before the reference: nothing of the answer is
        left in the allocator for it to find (HACKS.md 1)."""
        started = time.perf_counter()
        fresh = probing.make_fresh(self, case)
        observation = self.observe(case, fresh)
        if self.settings.judge_alone is not None:
            verdict = self.settings.judge_alone(self, case, observation)
            return self._record(case, index, observation, verdict, started)
        judged = self.expect(case, observation=observation)
        observation = self._repeat_exact(case, observation, judged)
        verdict = self.judge(case, observation, judged)
        unfavourable = verdict.status in (Status.FAIL, Status.ERROR, Status.UNSUPPORTED)
        if unfavourable and self.settings.confirm is not None:
            verdict = self.settings.confirm(self, case, observation, verdict)
        if verdict.status is Status.PASS and self.settings.relate is not None:
            verdict = self.settings.relate(self, case, verdict)
        if verdict.status is Status.PASS:
            verdict = probing.judge_fresh(self, case, observation, fresh, verdict)
        if verdict.status is Status.PASS:
            verdict = probing.judge_idle(self, observation, verdict)
        if verdict.status is Status.PASS:
            verdict = probing.recall(self, case, verdict)
        if verdict.status in (Status.PASS, Status.FAIL):
            self.has_accepted = True
        for observer in self.settings.observers:
            observer(self, case, observation, verdict)
        verdict = self._with_adequacy(verdict, case, observation, judged)
        return self._record(case, index, observation, verdict, started)

    def _record(
        self, case: Case, index: int, observation: Observation, verdict: Verdict, started: float
    ) -> Record:
        return Record(
            index=index,
            case=case,
            verdict=verdict,
            inputs_sha256=self.prepare(case).sha256,
            outputs_sha256=fill.tensors_digest(observation.outputs) if observation.outputs else None,
            duration_s=time.perf_counter() - started,
        )

    def reject_predictors(
        self, case: Case, observation: Observation, judged: Judged, names: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Which trivial predictors a case rejects, and from which it is exempt."""
        if deciding.awaits_outputs(self.op):
            return deciding.rejected(self, case, observation, judged.expected.profile, names)
        inputs = self.prepare(case).inputs
        return adequacy.rejected(inputs, judged.expected, judged.acceptance, names)

    def _with_adequacy(self, verdict: Verdict, case: Case, observation: Observation, judged: Judged) -> Verdict:
        """Add what this case would have rejected: predictors and distortions that no case has rejected yet, and
        the smallest relative error, where it beats the run's best."""
        if verdict.status not in (Status.PASS, Status.FAIL):
            return verdict  # a case that established nothing must not use up a predictor
        if self._unrejected:
            rejected, exempt = self.reject_predictors(case, observation, judged, self._unrejected)
            self._unrejected = tuple(name for name in self._unrejected if name not in rejected)
            verdict = replace(verdict, rejected_predictors=rejected, exempt_predictors=exempt)
        if deciding.awaits_outputs(self.op):
            return verdict
        refused = distortions.rejected(judged.expected, judged.acceptance, self._undistorted)
        self._undistorted = tuple(name for name in self._undistorted if name not in refused)
        best = self._visible_bits.get(case.dtype, 0)
        bits = distortions.visible_bits(judged.expected, judged.acceptance, best)
        if bits is not None:
            self._visible_bits[case.dtype] = bits
        return replace(verdict, rejected_distortions=refused, visible_bits=bits)

    def run(self, plan: Plan, skip: Container[int] = ()) -> Iterator[Record]:
        """The plan's cases in order, without those of these numbers, each recorded as soon as it is judged."""
        for index, case in enumerate(plan.cases):
            if index not in skip:
                yield self.run_case(case, index)
