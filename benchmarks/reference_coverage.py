"""How much of torch's own op database a reference may use: followed by rules, generic, refused, or broken.

    python benchmarks/reference_coverage.py [--list] [NAME...]

Each op's first sample inputs (float64, as `torch.testing` makes them) are wrapped with errors of 2^-24 of their
size, and the op is evaluated as a reference would evaluate it. "sound" compares a float32 evaluation with the
bound: an op whose float32 result lies outside has a wrong rule (or a float32 kernel of more than 1e3 u).
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from gpuemu.reference.arithmetic import make_arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.dispatch import Evaluation, FollowingMode
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.functions import ReplacingMode

SAMPLES = 4


def classify(info: Any) -> tuple[str, str]:
    """(outcome, detail) of an op over its first samples."""
    if torch.float64 not in info.dtypes:
        return "no float64", ""
    outcomes: Counter[str] = Counter()
    detail = ""
    for number, sample in enumerate(info.sample_inputs("cpu", torch.float64, requires_grad=False)):
        if number >= SAMPLES:
            break
        outcome, found = _evaluate(info, sample)
        outcomes[outcome] += 1
        detail = detail or found
    for outcome in ("broken", "unsound", "refused", "generic", "followed"):
        if outcomes[outcome]:
            return outcome, detail
    return "no samples", ""


def _evaluate(info: Any, sample: Any) -> tuple[str, str]:
    evaluation = Evaluation(make_arithmetic("P0", "float32"))
    narrow = tree_map(_to_float32, (sample.input, sample.args, sample.kwargs))
    try:
        torch.manual_seed(0)
        native = tree_flatten(info.op(narrow[0], *narrow[1], **narrow[2]))[0]
    except Exception:  # a sample that float32 does not take says nothing about us
        native = None
    if any(isinstance(x, torch.Tensor) and x.layout is not torch.strided for x in tree_flatten(narrow)[0]):
        return "refused", "a sparse tensor"
    wrapped = tree_map(lambda x: _wrap(evaluation, x), narrow)
    try:
        with torch.no_grad(), ReplacingMode(), FollowingMode(evaluation):
            result = info.op(wrapped[0], *wrapped[1], **wrapped[2])
    except UnsupportedReferenceError as error:
        return "refused", str(error)[:90]
    except Exception as error:  # whatever: that is the finding
        return "broken", f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
    if evaluation.generic:
        return "generic", ", ".join(evaluation.generic)
    problem = _compare(tree_flatten(result)[0], native)
    return ("unsound", problem) if problem else ("followed", "")


def _to_float32(x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.float64 else x


def _wrap(evaluation: Evaluation, x: Any) -> Any:
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        return evaluation.make(x.double(), None, raw=True)
    return x


def _compare(results: list[Any], native: list[Any] | None) -> str:
    for number, result in enumerate(results):
        if type(result) is not Bounded or native is None or not result.value.is_floating_point():
            continue
        there = native[number]
        if not isinstance(there, torch.Tensor) or there.shape != result.shape:
            return f"output {number} has shape {tuple(result.shape)}"
        error = torch.zeros_like(result.value) if result.error is None else result.error
        room = error + result.value.abs() * 2.0**-24 + 2.0**-149
        off = (there.double() - result.value).abs()
        wrong = result.value.isfinite() & there.isfinite() & (off > room)
        if bool(wrong.any()):
            ratio = float((off / room)[wrong].max())
            return f"output {number} is {ratio:.3g} bounds off"
    return ""


def main() -> None:
    """Print the counts and, on request, a line per op."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="a line per op that is not followed")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    counts: Counter[str] = Counter()
    for info in op_db:
        if arguments.names and info.name not in arguments.names:
            continue
        outcome, detail = classify(info)
        counts[outcome] += 1
        if (arguments.list or arguments.names) and (outcome != "followed" or arguments.names):
            name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
            print(f"{outcome:<10} {name:<50} {detail}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))


if __name__ == "__main__":
    main()
