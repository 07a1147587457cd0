"""The flow of one case and of a whole plan: the only file that knows the order of the stages.

case → inputs → observe candidate → expected (float64, bound) → verdict → record
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuemu.inputs import fill
from gpuemu.model.candidate import Candidate
from gpuemu.model.case import Case, Plan
from gpuemu.model.expected import Expected
from gpuemu.model.observation import Observation
from gpuemu.model.op import Op
from gpuemu.model.record import Record
from gpuemu.model.verdict import Status, Verdict
from gpuemu.oracle import adequacy, bounds, compare
from gpuemu.reference import evaluate
from gpuemu.reference.cache import ExpectedCache
from gpuemu.run import inline
from gpuemu.run.guards import GUARDS

if TYPE_CHECKING:
    import torch

Scope = Callable[[], AbstractContextManager[Any]]
Confirm = Callable[["Campaign", Case, Observation, Verdict], Verdict]


@dataclass(frozen=True)
class Settings:
    """How cases of a run are executed.

    profile None: what the op's contract says for the case's dtype. confirm: what a first failure must survive
    (`gpuemu.confirmation.confirm`); None takes the first verdict as it is.
    """

    device: str = "cpu"
    profile: str | None = None
    guards: Sequence[str] = GUARDS
    scope: Scope = nullcontext
    confirm: Confirm | None = None


@dataclass
class Campaign:
    """Runs cases of one op against one candidate. `cache` may be shared between campaigns of the same op."""

    op: Op
    candidate: Candidate
    settings: Settings = Settings()
    cache: ExpectedCache[Judged] = field(default_factory=ExpectedCache)
    accepted_layouts: bool = False
    _unrejected: tuple[str, ...] = adequacy.PREDICTORS

    def make_inputs(self, case: Case) -> dict[str, torch.Tensor]:
        """Fresh inputs of a case on the device under test."""
        inputs = fill.make_inputs(self.op, case)
        return inputs if self.settings.device == "cpu" else fill.to_device(inputs, self.settings.device)

    def observe(self, case: Case, inputs: Mapping[str, torch.Tensor]) -> Observation:
        """Call the candidate. Inputs that it may overwrite are handed over as copies."""
        given = fill.clone(inputs) if self.op.contract.mutates else inputs
        settings = self.settings
        return inline.observe(
            self.candidate, given, case.params, self.op.contract, settings.guards, settings.scope
        )

    def expect(self, case: Case, inputs: Mapping[str, torch.Tensor], profile: str | None = None) -> Judged:
        """The float64 answer with its bound under a profile, and what the oracle accepts; cached."""
        profile = profile or self.settings.profile or self.op.contract.profile_for(case.dtype)
        key = (self.op.digest, case.id, profile, self.settings.device)
        judged = self.cache.get(key)
        if judged is None:
            expected = evaluate.evaluate(self.op, case, inputs, profile)
            judged = Judged(expected, bounds.accept(expected))
            self.cache.put(key, judged, judged.size_bytes)
        return judged

    def judge(self, observation: Observation, judged: Judged) -> Verdict:
        """The oracle's decision, before any confirmation."""
        return compare.judge(observation, judged.expected, judged.acceptance, self.op.contract)

    def run_case(self, case: Case, index: int = 0) -> Record:
        """One case from inputs to record."""
        started = time.perf_counter()
        inputs = self.make_inputs(case)
        inputs_sha256 = fill.inputs_digest(inputs)
        if "mutation" not in self.settings.guards:
            self.expect(case, inputs)  # nothing would tell that the candidate damaged them
        observation = self.observe(case, inputs)
        if any(finding.guard == "mutation" for finding in observation.findings):
            inputs = self.make_inputs(case)
        judged = self.expect(case, inputs)
        verdict = self.judge(observation, judged)
        unfavourable = verdict.status in (Status.FAIL, Status.ERROR, Status.UNSUPPORTED)
        if unfavourable and self.settings.confirm is not None:
            verdict = self.settings.confirm(self, case, observation, verdict)
        if verdict.status in (Status.PASS, Status.FAIL):
            self.accepted_layouts = True
        return Record(
            index=index,
            case=case,
            verdict=self._with_adequacy(verdict, inputs, judged),
            inputs_sha256=inputs_sha256,
            outputs_sha256=fill.tensors_digest(observation.outputs) if observation.outputs else None,
            duration_s=time.perf_counter() - started,
        )

    def _with_adequacy(self, verdict: Verdict, inputs: Mapping[str, torch.Tensor], judged: Judged) -> Verdict:
        """Add which trivial predictors this case rejects; each is tried until a case of the run rejects it."""
        if not self._unrejected or judged.expected.problem:
            return verdict
        rejected, exempt = adequacy.rejected(inputs, judged.expected, judged.acceptance, self._unrejected)
        self._unrejected = tuple(name for name in self._unrejected if name not in rejected)
        return replace(verdict, rejected_predictors=rejected, exempt_predictors=exempt)

    def run(self, plan: Plan) -> Iterator[Record]:
        """The plan's cases in order, each recorded as soon as it is judged."""
        for index, case in enumerate(plan.cases):
            yield self.run_case(case, index)


@dataclass(frozen=True)
class Judged:
    """An `Expected` with what the oracle made of it, kept together in the cache."""

    expected: Expected
    acceptance: bounds.Acceptance

    @property
    def size_bytes(self) -> int:
        """Memory held: value and bound in float64 and the two ends of the interval."""
        return sum(32 * output.value.numel() + 4096 for output in self.expected.outputs)
