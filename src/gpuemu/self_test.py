"""The oracle's test of itself on every built-in op: is it blind anywhere? (ORACLE.md section 12.4)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from gpuemu.inputs import fill
from gpuemu.model.op import Op
from gpuemu.model.value_class import VALUE_CLASSES
from gpuemu.oracle import blindness, bounds
from gpuemu.planning.limits import many_case_limits
from gpuemu.planning.plan import make_plan
from gpuemu.reference import evaluate

SHOWN = 3


@dataclass(frozen=True)
class SelfTest:
    """The self-test of one op.

    cases, judged, elements: evaluated cases, and how many of their elements can be judged. probes: stored
    values that the oracle was asked about; failures: its wrong answers. visible: the median of (delta + half an
    ulp) / |r|. note: why there is nothing to test, if so.
    """

    op: str
    cases: int = 0
    probes: int = 0
    judged: int = 0
    elements: int = 0
    visible: float | None = None
    failures: tuple[str, ...] = ()
    generic: tuple[str, ...] = ()
    note: str = ""

    @property
    def passed(self) -> bool:
        return not self.failures


def self_test(
    op: Op, budget: int, seed: int = 0, device: str = "cpu", dtypes: Sequence[str] | None = None
) -> SelfTest:
    """Probe the oracle on a plan over every value class of an op.

    Args:
        budget: cases per dtype.
    """
    if op.residual is not None:
        return SelfTest(op.name, note="judged by residuals, not by a bound")
    if op.recovered:
        return SelfTest(op.name, note="its answer follows from the kernel's own decisions")
    found = SelfTest(op.name)
    visible: list[float] = []
    for dtype in dtypes or op.dtypes:
        plan = make_plan(
            op, budget=budget, seed=seed, device=device, dtypes=[dtype],
            value_classes=tuple(op.value_classes or VALUE_CLASSES),
            limits=many_case_limits(device),
        )  # fmt: skip
        for case in plan.cases:
            inputs = fill.make_inputs(op, case)
            if device != "cpu":
                inputs = fill.to_device(inputs, device)
            expected = evaluate.evaluate(op, case, inputs, op.contract.profile_for(dtype))
            if expected.problem is not None:
                found = _add(found, failures=(f"{case.summary()}: {expected.problem}",))
                continue
            acceptance = bounds.accept(expected, op.contract)
            result = blindness.examine(expected, acceptance)
            visible += result.visible
            found = _add(
                found,
                cases=1,
                probes=result.probes,
                judged=sum(output.judged for output in acceptance.outputs),
                elements=sum(output.elements for output in acceptance.outputs),
                failures=tuple(f"{case.summary()}: {failure}" for failure in result.failures),
                generic=expected.generic,
            )
    middle = median(visible) if visible else None
    return _add(found, visible=middle)


def _add(found: SelfTest, visible: float | None = None, **more: Any) -> SelfTest:
    fields: dict[str, Any] = {**vars(found)}
    for name, value in more.items():
        fields[name] = fields[name] + value
    fields["generic"] = tuple(dict.fromkeys(fields["generic"]))
    fields["visible"] = visible
    return SelfTest(**fields)
