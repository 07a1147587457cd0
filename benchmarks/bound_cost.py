"""What the running error bound costs beside one plain float64 evaluation of the same reference.

    python benchmarks/bound_cost.py [--json] [--device cpu] [--threads N] [--rounds N] [OP ...]


Plain evaluation and `evaluate` take turns within one process, and the least of several rounds counts, so that
the ratio survives a busy machine better than either time does. The plain evaluation starts from float64 inputs;
that of the bound starts from float32 inputs, as a campaign calls it, and includes their conversion.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from gpuemu.model.case import Case
from gpuemu.model.op import Op
from gpuemu.ops.registry import get_op
from gpuemu.reference.evaluate import evaluate

OPS = (
    "softmax", "layernorm", "matmul", "gelu", "silu", "rmsnorm", "l2norm", "relu", "sigmoid", "tanh", "elu",
    "leaky_relu", "attention", "flash_attention",
)  # fmt: skip
# Dims in the op's order. Tiny: 32 elements a tensor. Large: 10^6 elements in the result or, for attention, in
# the scores.
TINY = {"rows": (4, 1, 8), "matmul": (4, 8, 4), "attention": (4, 4, 8)}
LARGE = {"rows": (10, 100, 1000), "matmul": (1000, 1000, 1000), "attention": (1000, 1000, 64)}
GOALS = {"tiny_us": 600.0, "large_median_ratio": 12.0, "large_layernorm_ratio": 20.0}


def dims_of(op: Op, sizes: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """Dim sizes for an op by its family."""
    family = "matmul" if op.name == "matmul" else "attention" if "attention" in op.name else "rows"
    return dict(zip(op.domains, sizes[family], strict=True))


def least_s(
    functions: list[Callable[[], Any]], calls: int, rounds: int, synchronise: Callable[[], None]
) -> list[float]:
    """Seconds per call of each function: the least over rounds in which they take turns."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            synchronise()
            start = time.perf_counter()
            for _ in range(calls):
                function()
            synchronise()
            best[i] = min(best[i], (time.perf_counter() - start) / calls)
    return best


def measure(
    name: str, sizes: dict[str, tuple[int, ...]], calls: int, rounds: int, device: str
) -> dict[str, float]:
    """Times of one op at one size, in microseconds, and their ratio."""
    op = get_op(name)
    dims = dims_of(op, sizes)
    generator = torch.Generator().manual_seed(0)
    inputs = {n: torch.randn(op.shape_of(n, dims), generator=generator).to(device) for n in op.inputs}
    wide = [x.double() for x in inputs.values()]
    case = Case(name, dims, "float32", {}, {}, {}, 0)

    def plain() -> None:
        with torch.no_grad():
            op.reference(*wide)

    def bounded() -> None:
        problem = evaluate(op, case, inputs, "P0").problem
        if problem is not None:
            raise RuntimeError(f"{name}: {problem}")

    synchronise = torch.cuda.synchronize if device != "cpu" else lambda: None
    least_s([plain, bounded], 1, 2, synchronise)  # warm up
    plain_s, bounded_s = least_s([plain, bounded], calls, rounds, synchronise)
    return {"plain_us": plain_s * 1e6, "bounded_us": bounded_s * 1e6, "ratio": bounded_s / plain_s}


def run(names: list[str], rounds: int, device: str) -> dict[str, Any]:
    """Every op at both sizes, and the figures that the goals are about."""
    result: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads(), "device": device}
    result["ops"] = {
        name: {
            "tiny": measure(name, TINY, 20, rounds, device),
            "large": measure(name, LARGE, 1, rounds, device),
        }
        for name in names
    }
    ratios = {name: sizes["large"]["ratio"] for name, sizes in result["ops"].items()}
    result["tiny_median_us"] = statistics.median(
        sizes["tiny"]["bounded_us"] for sizes in result["ops"].values()
    )
    result["large_median_ratio"] = statistics.median(ratios.values())
    result["large_layernorm_ratio"] = ratios.get("layernorm")
    result["goals"] = GOALS
    return result


def to_table(result: dict[str, Any]) -> Table:
    """The figures for people."""
    table = Table(
        title=f"Cost of the bound, torch {result['torch']}, {result['threads']} threads, {result['device']}"
    )
    for heading in ("op", "4x8 plain us", "bounded us", "10^6 plain ms", "bounded ms", "ratio"):
        table.add_column(heading, justify="left" if heading == "op" else "right")
    for name, sizes in result["ops"].items():
        tiny, large = sizes["tiny"], sizes["large"]
        table.add_row(
            name,
            f"{tiny['plain_us']:.0f}",
            f"{tiny['bounded_us']:.0f}",
            f"{large['plain_us'] / 1e3:.2f}",
            f"{large['bounded_us'] / 1e3:.2f}",
            f"{large['ratio']:.1f}",
        )
    table.add_row(
        "median", "", f"{result['tiny_median_us']:.0f}", "", "", f"{result['large_median_ratio']:.1f}"
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", default=list(OPS), metavar="OP")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, help="torch's CPU threads")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    result = run(options.ops, options.rounds, options.device)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        Console().print(to_table(result))


if __name__ == "__main__":
    main()
