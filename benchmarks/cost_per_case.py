"""What a case costs, as ratios measured side by side in one run (CPU, torch candidate, float32).

Side by side: a bare loop (draw with torch, run the kernel and a float64 reference, allclose); gpuemu inline
without guards, records in batches; the same for a second candidate on the same plan, whose expected values are
cached; gpuemu's default path (guards, a commit per record); and the published design (a fresh `python`
with NumPy per reference, arrays as base64 in JSON). Rounds are interleaved, so that load hits all alike.

    python benchmarks/cost_per_case.py [--json] [--rounds 5]
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch_kernels

from gpuemu import environment
from gpuemu.campaign import Campaign, Judged, Shared
from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.inputs import fill
from gpuemu.model.case import Case
from gpuemu.model.op import Op
from gpuemu.model.record import Run
from gpuemu.ops.registry import get_op
from gpuemu.oracle import bounds
from gpuemu.reference import evaluate
from gpuemu.store.sqlite import Store

SIZES = {"tiny": ({"B": 1, "S": 4, "H": 8}, 60), "million": ({"B": 1, "S": 1000, "H": 1000}, 4)}
OPS = ("softmax", "silu", "layernorm")
GOALS = {"tiny": 15.0, "million": 8.0}
SECOND_GOAL, PUBLISHED_GOAL = 3.0, 50.0

PUBLISHED_REFERENCE = """
import base64, json, sys
import numpy as np
job = json.load(sys.stdin)
x = np.frombuffer(base64.b64decode(job["x"]), np.float32).reshape(job["shape"]).astype(np.float64)
if job["op"] == "softmax":
    e = np.exp(x - x.max(-1, keepdims=True)); y = e / e.sum(-1, keepdims=True)
elif job["op"] == "silu":
    y = x / (1 + np.exp(-x))
else:
    d = x - x.mean(-1, keepdims=True); y = d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)
json.dump({"y": base64.b64encode(y.astype(np.float32).tobytes()).decode()}, sys.stdout)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rows = [measure(op, size, arguments.rounds) for size in SIZES for op in OPS]
    document = {"environment": dict(environment.describe()), "threads": torch.get_num_threads(), "rows": rows}
    if arguments.json:
        print(json.dumps(document, indent=1))
    else:
        print_table(rows)


def measure(op_name: str, size: str, rounds: int) -> dict[str, Any]:
    """One op at one size: median microseconds per case of each way, and the ratios to the bare loop."""
    op = get_op(op_name)
    dims, count = SIZES[size]
    shape = op.shape_of("x", dims)
    with tempfile.TemporaryDirectory() as folder:
        ways = _ways(op, dims, shape, count, Path(folder))
        for way in ways.values():
            way()  # warm-up: imports, caches of torch, files
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                started = time.perf_counter()
                repeats = way()
                times[name].append((time.perf_counter() - started) / repeats)
    cost_us = {name: 1e6 * statistics.median(values) for name, values in times.items()}
    bare = cost_us["bare"]
    return {
        "op": op_name,
        "size": size,
        "elements": int(torch.Size(shape).numel()),
        "us_per_case": {name: round(value, 1) for name, value in cost_us.items()},
        "ratio_first": cost_us["first"] / bare,
        "ratio_second": cost_us["second"] / bare,
        "ratio_default": cost_us["default"] / bare,
        "published_over_first": cost_us["published"] / cost_us["first"],
        "stages_us": _stages(op, dims, count),
    }


def _cases(op: Op, dims: dict[str, int], count: int, first_seed: int) -> list[Case]:
    plain = {"layouts": {"x": "contiguous"}, "value_classes": {"x": "uniform"}, "params": {}}
    return [Case(op.name, dims, "float32", seed=first_seed + i, **plain) for i in range(count)]


def _ways(
    op: Op, dims: dict[str, int], shape: Sequence[int], count: int, folder: Path
) -> dict[str, Callable[[], int]]:
    kernel: Callable[..., torch.Tensor] = getattr(torch_kernels, op.name)
    candidate = loader.from_callable(kernel)
    fresh_seed = iter(range(10**6, 10**9, 1000))

    def bare() -> int:
        for _ in range(count):
            x = torch.randn(shape)
            torch.allclose(kernel(x).double(), op.reference(x.double()), rtol=1e-4, atol=1e-4)
        return count

    def run(campaign: Campaign, cases: Sequence[Case], batch: int) -> int:
        with Store(folder / f"store{batch}", batch=batch) as store:
            run_id = f"run{time.perf_counter_ns()}"
            store.open_run(Run(run_id, "t", op.name, op.name, op.digest, "p", "s", 0, "cpu", None, "now"))
            for index, case in enumerate(cases):
                store.append(run_id, campaign.run_case(case, index))
        return len(cases)

    shared = Shared()
    known = _cases(op, dims, count, 0)

    def first() -> int:
        return run(
            make_campaign(op, candidate, "cpu", guards=()), _cases(op, dims, count, next(fresh_seed)), 1000
        )

    def second() -> int:
        campaign = make_campaign(op, candidate, "cpu", guards=())
        campaign.shared = shared
        return run(campaign, known, 1000)

    def default() -> int:
        return run(make_campaign(op, candidate, "cpu"), _cases(op, dims, count, next(fresh_seed)), 1)

    def published() -> int:
        x = torch.randn(tuple(shape))
        job = {"op": op.name, "shape": list(shape), "x": base64.b64encode(x.numpy().tobytes()).decode()}
        command = [sys.executable, "-c", PUBLISHED_REFERENCE]
        done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=True)
        y = torch.frombuffer(bytearray(base64.b64decode(json.loads(done.stdout)["y"])), dtype=torch.float32)
        torch.allclose(kernel(x), y.reshape(tuple(shape)), atol=1e-4)
        return 1

    return {"bare": bare, "first": first, "second": second, "default": default, "published": published}


def _stages(op: Op, dims: dict[str, int], count: int) -> dict[str, float]:
    """Microseconds per case of each stage, the stages called one by one."""
    kernel = getattr(torch_kernels, op.name)
    campaign = make_campaign(op, loader.from_callable(kernel), "cpu", guards=())
    spent: dict[str, float] = {}

    def timed(stage: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = call()
        spent[stage] = spent.get(stage, 0.0) + time.perf_counter() - started
        return result

    for case in _cases(op, dims, count, 5000):
        inputs = timed("inputs", lambda case=case: fill.make_inputs(op, case))
        timed("inputs digest", lambda inputs=inputs: fill.inputs_digest(inputs))
        campaign.prepare(case)
        seen = timed("run", lambda case=case: campaign.observe(case))
        profile = op.contract.profile_for(case.dtype)
        expected = timed(
            "reference and bound",
            lambda case=case, inputs=inputs, profile=profile: evaluate.evaluate(op, case, inputs, profile),
        )
        acceptance = timed("acceptance", lambda expected=expected: bounds.accept(expected))
        judged = Judged(expected, acceptance)
        timed("judge", lambda case=case, seen=seen, judged=judged: campaign.judge(case, seen, judged))
        timed("outputs digest", lambda seen=seen: fill.tensors_digest(seen.outputs))
    return {stage: round(1e6 * seconds / count, 1) for stage, seconds in spent.items()}


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Ratios with their goals, then the breakdown by stage."""
    print("cost per case, ratios to the bare loop (goal)")
    for row in rows:
        goal = GOALS[row["size"]]
        print(
            f"  {row['op']:<10}{row['size']:<9}bare {row['us_per_case']['bare']:>9.0f} us"
            f"  first {row['ratio_first']:6.1f}x (<= {goal:.0f}x)"
            f"  second {row['ratio_second']:5.1f}x (<= {SECOND_GOAL:.0f}x)"
            f"  default path {row['ratio_default']:6.1f}x"
            f"  published over first {row['published_over_first']:6.1f}x (>= {PUBLISHED_GOAL:.0f}x, tiny)"
        )
    print("stages, microseconds per case")
    for row in rows:
        print(
            f"  {row['op']:<10}{row['size']:<9}"
            + "  ".join(f"{k} {v:.0f}" for k, v in row["stages_us"].items())
        )


if __name__ == "__main__":
    main()
