"""What the worker costs beside calling a kernel in the judge's own process, case by case, in one run.

    python benchmarks/worker_overhead.py [--device cuda] [--json]

Both run the same plan with the same guards, in turn; the ratio is of the medians per case. Goals: at most 1.3
for outputs of 1 MB and more, below 2 ms a case more for small ones.
"""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from gpuemu import environment

environment.shorten_waits()  # as the command line does, and for both alike

from gpuemu.campaign import Campaign  # noqa: E402
from gpuemu.candidates import loader  # noqa: E402
from gpuemu.checking import make_campaign  # noqa: E402
from gpuemu.model.case import Case  # noqa: E402
from gpuemu.ops.registry import get_op  # noqa: E402
from gpuemu.run.worker import Job, WorkerCaller  # noqa: E402

KERNELS = """
import torch
def softmax(x): return torch.softmax(x.float(), -1).to(x.dtype)
def silu(x): return torch.nn.functional.silu(x)
def matmul(a, b): return a @ b
"""
SIZES = {
    "softmax": [{"B": 1, "S": 4, "H": 8}, {"B": 1, "S": 256, "H": 1024}, {"B": 4, "S": 512, "H": 2048}],
    "silu": [{"B": 1, "S": 4, "H": 8}, {"B": 1, "S": 256, "H": 1024}, {"B": 4, "S": 512, "H": 2048}],
    "matmul": [{"M": 4, "N": 8, "K": 8}, {"M": 512, "N": 512, "K": 64}, {"M": 2048, "N": 2048, "K": 64}],
}
FOR_STRANGERS = ("recall",)  # only the worker's campaigns have it


def cases_of(name: str, dims: dict[str, int], seeds: range) -> list[Case]:
    op = get_op(name)
    plain = dict.fromkeys(op.inputs, "contiguous"), dict.fromkeys(op.inputs, "uniform")
    params = {name: values[0] for name, values in op.params.items()}
    return [Case(name, dims, "float32", *plain, params, seed) for seed in seeds]


def seconds_per_case(campaign: Campaign, case: Case) -> float:
    started = time.perf_counter()
    campaign.run_case(case)
    return time.perf_counter() - started


@click.command()
@click.option("--device", default="cpu")
@click.option("--json", "as_json", is_flag=True)
def main(device: str, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(KERNELS)
        for name, sizes in SIZES.items():
            target, op = f"{path}::{name}", get_op(name)
            with WorkerCaller(device) as caller:
                loaded = caller.load(Job(target, device, op.name, tuple(op.inputs), tuple(op.params)))
                inline = make_campaign(op, loader.load(target, device), device)
                worker = make_campaign(op, loaded, device, caller=caller, without_guards=FOR_STRANGERS)
                for dims in sizes:
                    rows.append(measure(name, dims, inline, worker))
    if as_json:
        print(
            json.dumps({"machine": platform.processor() or platform.machine(), "device": device, "rows": rows})
        )
        return
    table = Table("op", "output bytes", "inline ms", "worker ms", "ratio", "more ms", box=None)
    for row in rows:
        table.add_row(row["op"], str(row["output_bytes"]), f"{row['inline_s'] * 1e3:.2f}",
                      f"{row['worker_s'] * 1e3:.2f}", f"{row['ratio']:.2f}",
                      f"{(row['worker_s'] - row['inline_s']) * 1e3:.2f}")  # fmt: skip
    Console().print(table)


def measure(name: str, dims: dict[str, int], inline: Campaign, worker: Campaign) -> dict[str, Any]:
    large = dims.get("H", dims.get("N", 0)) > 256
    count = 15 if large else 200
    times: dict[str, list[float]] = {"inline": [], "worker": []}
    for case in cases_of(name, dims, range(count)):
        times["inline"].append(seconds_per_case(inline, case))
        times["worker"].append(seconds_per_case(worker, case))
    medians = {key: statistics.median(values[3:]) for key, values in times.items()}
    [output] = [worker.expect(cases_of(name, dims, range(1))[0]).expected.outputs[0].value]
    return {
        "op": name, "dims": dims, "output_bytes": output.numel() * 4, "inline_s": medians["inline"],
        "worker_s": medians["worker"], "ratio": medians["worker"] / medians["inline"],
    }  # fmt: skip


if __name__ == "__main__":
    main()
