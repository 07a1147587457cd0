"""Whether an op computes small integers exactly: found by evaluating its reference, not declared.

The certificate of the running error bound (ORACLE.md section 2.3, rule 8) gives a bound of 0 where every order
of the arithmetic gives the same bits. An op for which that holds on a case of small integers gets such a case
in its plan: any difference there, between runs or from the reference, is a bug (section 4).
"""

from __future__ import annotations

import math

from gpuemu.errors import UsageError
from gpuemu.inputs import fill
from gpuemu.model.op import Op
from gpuemu.planning.anchors import EXACT, VALUES
from gpuemu.planning.limits import LIMITS
from gpuemu.planning.plan import make_plan
from gpuemu.reference import evaluate

EXACT_SHARE = 0.9  # of the elements, so that an op which divides a few of them still counts


def is_exact(op: Op) -> bool:
    """Whether nearly all outputs of a small case of integers have a bound of 0."""
    if op.reference is None or op.recovered:
        return False
    try:
        plan = make_plan(op, budget=len(VALUES) + 1, seed=0, exact=True, limits=LIMITS["cpu"])
    except UsageError:  # whatever is wrong with the op's dims is said where its plan is made
        return False
    case = plan.cases[-1]
    if EXACT not in case.value_classes.values():
        return False
    expected = evaluate.evaluate(op, case, fill.make_inputs(op, case), op.contract.profile_for(case.dtype))
    elements = sum(output.value.numel() for output in expected.outputs)
    exact = sum(int((output.bound == 0).sum()) for output in expected.outputs)
    return expected.problem is None and elements > 0 and exact >= math.ceil(EXACT_SHARE * elements)
