"""How much of torch's own op database a reference may use: followed by rules, generic, refused, or broken.

    python benchmarks/reference_coverage.py [--list] [--samples N] [NAME...]

Every sample input (float64, as `torch.testing` makes them) is used twice: rounded to float32 and exact, and
with an error of 2^-12 of its size, almost all of which, up or down, the kernel's input is off. That is far
above the rounding of the output, so that a rule that forgets an operand's error is seen. The op is evaluated on
both as a reference would evaluate it, and its own float32 result is compared with the bound: an op whose result
lies outside ("unsound") has a wrong rule (or a float32 kernel that is). "not compared" are ops that were
followed, but of which no element was compared: no result in float32, or nothing but unknown ones.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections import Counter
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from gpuemu.reference.arithmetic import make_arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.dispatch import Evaluation, FollowingMode
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.functions import ReplacingMode

U = 2.0**-24
OFF = 2.0**-12  # the relative error of an input that is not exact
# From the worst to the best that a sample may come to.
OUTCOMES = ("broken", "unsound", "refused", "generic", "followed", "not compared")


class Found(NamedTuple):
    """What one sample, or an op, came to, with one line that says why."""

    outcome: str
    detail: str = ""


def name_of(info: Any) -> str:
    """The op's name in the database, with its variant."""
    return info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")


def classify(info: Any, samples: int | None = None) -> Found:
    """What an op comes to: the worst of its samples; "followed" if at least one of them was compared."""
    if torch.float64 not in info.dtypes:
        return Found("no float64")
    worst: dict[str, str] = {}
    torch.manual_seed(0)
    for sample in itertools.islice(info.sample_inputs("cpu", torch.float64, requires_grad=False), samples):
        for exact in (True, False):
            outcome, detail = _evaluate(info, (sample.input, sample.args, sample.kwargs), exact)
            worst.setdefault(outcome, detail)
    return next(
        (Found(outcome, worst[outcome]) for outcome in OUTCOMES if outcome in worst), Found("no samples")
    )


def _evaluate(info: Any, arguments: Any, exact: bool) -> Found:
    evaluation = Evaluation(make_arithmetic("P0", "float32"))
    narrow = tree_map(lambda x: _narrow(x, exact), arguments)
    native, failure = _call(info, narrow)
    if any(
        isinstance(x, torch.Tensor) and x.layout is not torch.strided for x in tree_flatten((narrow, native))[0]
    ):
        return Found("refused", "a sparse tensor")
    wrapped = tree_map(lambda x: _wrap(evaluation, x), narrow if exact else arguments)
    try:
        with torch.no_grad(), ReplacingMode(), FollowingMode(evaluation):
            result = info.op(wrapped[0], *wrapped[1], **wrapped[2])
    except UnsupportedReferenceError as error:
        return Found("refused", str(error)[:90])
    except Exception as error:  # whatever: that is the finding
        if failure is not None and _call(info, arguments)[1] is not None:
            return Found("not compared", failure)
        return Found("broken", f"{type(error).__name__}: {' '.join(str(error).split())[:90]}")
    if evaluation.generic:
        return Found("generic", ", ".join(evaluation.generic))
    if failure is not None:
        return Found("not compared", failure)
    return _compare(tree_flatten(result)[0], tree_flatten(native)[0])


def _call(info: Any, arguments: Any) -> tuple[Any, str | None]:
    """The op's own result, or why it has none."""
    copied = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, arguments)
    try:
        torch.manual_seed(0)
        return info.op(copied[0], *copied[1], **copied[2]), None
    except Exception as error:
        return None, f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"


def _narrow(x: Any, exact: bool) -> Any:
    """What the float32 kernel is given."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float64:
        return x
    if exact or x.layout is not torch.strided:
        return x.float()
    signs = torch.randint(0, 2, x.shape, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    return torch.where(x.isfinite(), x + x * signs * (OFF * 0.999), x).float()


def _wrap(evaluation: Evaluation, x: Any) -> Any:
    """An argument as a reference would have it: float32 ones are exact, float64 ones computed."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x.clone() if isinstance(x, torch.Tensor) else x
    if x.dtype == torch.float64:
        error = torch.where(x.isfinite(), x.abs() * OFF + 2.0**-149, 0.0)
        return evaluation.make(x.detach().clone(), error)
    return evaluation.make(x.double(), None, raw=True)


def _compare(results: list[Any], native: list[Any]) -> Found:
    compared = 0
    for number, (result, there) in enumerate(itertools.zip_longest(results, native)):
        if not isinstance(result, torch.Tensor) or not isinstance(there, torch.Tensor):
            continue
        if there.shape != result.shape:
            return Found(
                "unsound", f"output {number} has shape {tuple(result.shape)}, not {tuple(there.shape)}"
            )
        value = result.value if type(result) is Bounded else result
        error = result.error if type(result) is Bounded else None
        if value.is_complex() or there.is_complex():
            continue
        value, actual = value.double(), there.double()
        bound = torch.zeros_like(value) if error is None else error.double()
        if not (result.is_floating_point() or error is None):  # an integer or bool that may be another one
            bound = torch.where(bound > 0, torch.inf, 0.0)
        room = bound + value.abs() * U + 2.0**-149
        judged = bound.isfinite() & value.isfinite()
        compared += int(judged.sum())
        wrong = judged & ~((actual - value).abs() <= room)
        if bool(wrong.any()):
            ratio = float(((actual - value).abs() / room)[wrong].max())
            return Found("unsound", f"output {number} is {ratio:.3g} bounds off")
    return Found("followed") if compared else Found("not compared", "nothing to compare")


def main() -> None:
    """Print the counts and, on request, a line per op."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="of ops, with or without a variant")
    parser.add_argument("--list", action="store_true", help="a line per op that is not followed")
    parser.add_argument("--samples", type=int, help="at most so many samples of an op (default: all)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    counts: Counter[str] = Counter()
    for info in op_db:
        name = name_of(info)
        if arguments.names and not {name, info.name} & set(arguments.names):
            continue
        outcome, detail = classify(info, arguments.samples)
        counts[outcome] += 1
        if arguments.names or (arguments.list and outcome != "followed"):
            print(f"{outcome:<12} {name:<50} {detail}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))


if __name__ == "__main__":
    main()
