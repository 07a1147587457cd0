"""What the running error bound costs beside one plain float64 evaluation of the same reference.

    python benchmarks/bound_cost.py [--json] [--device cpu|cuda] [--threads N] [--rounds N] [OP ...]

Every op of the library (or those named) at two sizes: tiny, and about 10^6 elements in the largest tensor (or
in the scores of attention). The plain evaluation runs the same torch code on float64 copies of the same inputs,
on the same device, with as many threads. The two take turns within one process; the ratio is the median of the
rounds' ratios, so that it survives a busy machine better than either time does. The bound's time starts from
float32 inputs, as a campaign calls it, and includes their conversion.

"calls" are aten calls that do work (no views), "syncs" are waits of the host for numbers from the tensors
(those read one after another count once: a device sends them together), in plain/bounded evaluation. They are
counted at the tiny size, and no machine changes them: on a device, where nothing is cut into pieces, they are
the launches of the large size too, and decide its cost while a launch takes as long as its work.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode

from gpuemu.inputs import fill
from gpuemu.model.case import Case
from gpuemu.model.op import Op
from gpuemu.ops.registry import get_op, load_ops
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.evaluate import evaluate

# Sizes per dim; those that are missing start from `OTHER`. The large ones are then halved or doubled, batch
# dims first, until the largest tensor has about 10^6 elements.
TINY = {"B": 4, "S": 1, "H": 8, "M": 4, "N": 4, "K": 8, "D": 8, "T": 4, "V": 8, "R": 4, "Q": 2}
LARGE = {"B": 10, "S": 100, "H": 1000, "M": 1000, "N": 1000, "K": 1000, "D": 64, "T": 1000, "V": 1000, "R": 32}
OTHER = {"tiny": 4, "large": 32}
ELEMENTS = 1_000_000
GOALS = {"large_median_ratio": 8.0, "large_layernorm_ratio": 20.0}
# What only describes a tensor anew, without work on the device.
VIEWS = frozenset({
    "view", "detach", "t", "transpose", "permute", "expand", "slice", "select", "split", "unsqueeze", "squeeze",
    "alias", "as_strided", "_unsafe_view", "_reshape_alias", "lift_fresh", "unbind", "split_with_sizes",
    "empty", "empty_like", "empty_strided", "new_empty", "diagonal", "unfold",
    "narrow", "reshape", "to", "item", "detach_",
})  # fmt: skip

# What hands numbers to the host; `tolist` resolves conjugates first.
READS = frozenset({"_local_scalar_dense", "is_nonzero", "equal", "resolve_conj", "resolve_neg"})


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts calls and syncs, those of the rules for bounded tensors included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = self.syncs = 0
        self.reading = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, Bounded) for kind in types):  # followed: the rule's own calls count
            with self:
                return Bounded.__torch_dispatch__(func, types, args, kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in READS:
            self.syncs += not self.reading
            self.reading = True
        elif name not in VIEWS:
            self.calls += 1
            self.reading = False
        return func(*args, **(kwargs or {}))


def choose_dims(op: Op, size: str) -> dict[str, int]:
    """Sizes of an op's dims, within their domains and the op's constraints as far as these are about sizes."""
    wanted = TINY if size == "tiny" else LARGE
    dims = {name: wanted.get(name, OTHER[size]) for name in op.domains}
    if {"M", "N", "D"} == dims.keys():  # attention: the scores count
        return dims
    dims = {name: _fit(op, name, number) for name, number in dims.items()}
    if size == "tiny":
        return dims
    order = sorted(dims, key=lambda name: (not op.domains[name].batch, -op.domains[name].high))
    for _ in range(40):
        count = max(math.prod(op.shape_of(name, dims)) for name in op.inputs)
        if ELEMENTS / 1.5 <= count <= ELEMENTS * 1.5:
            break
        factor = 2.0 if count < ELEMENTS else 0.5
        for name in order:
            changed = _fit(op, name, max(1, int(dims[name] * factor)))
            if changed != dims[name]:
                dims[name] = changed
                break
    return dims


def _fit(op: Op, name: str, number: int) -> int:
    """The nearest size that a dim's domain has."""
    domain = op.domains[name]
    if domain.candidates:
        return int(min(domain.candidates, key=lambda candidate: abs(candidate - number)))
    step = domain.multiple_of
    lowest, highest = -(-domain.low // step) * step, domain.high // step * step
    return int(min(max(round(number / step) * step, lowest), highest))


def make_case(op: Op, size: str) -> Case:
    """The case that is measured: contiguous, bell-shaped values where the op takes them, first parameters."""
    dims, classes = choose_dims(op, size), {}
    for name, tensor in op.tensors.items():
        allowed = tensor.value_classes or op.value_classes
        classes[name] = "bell" if not allowed or "bell" in allowed else allowed[0]
    params = {name: values[0] for name, values in op.params.items()}
    return Case(op.name, dims, op.dtypes[0], dict.fromkeys(op.inputs, "contiguous"), classes, params, 1)


def widen(inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The plain evaluation's arguments."""
    return [x.double() if x.is_floating_point() else x for x in inputs.values()]


def time_rounds(
    functions: list[Callable[[], Any]], rounds: int, synchronise: Callable[[], None]
) -> list[list[float]]:
    """Seconds of one call of each function in each round, in which they take turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for i, function in enumerate(functions):
            synchronise()
            start = time.perf_counter()
            function()
            synchronise()
            times[i].append(time.perf_counter() - start)
    return times


def measure(op: Op, size: str, rounds: int, device: str) -> dict[str, Any]:
    """Times of one op at one size in us and their ratio; at the tiny one counts of calls and syncs."""
    case = make_case(op, size)
    inputs = fill.to_device(fill.make_inputs(op, case), device)
    wide = widen(inputs)
    reference = op.reference
    if reference is None:
        raise ValueError(f"{op.name} has no reference")

    def plain() -> None:
        with torch.no_grad():
            reference(*wide, **case.params)

    profile = op.contract.profile_for(case.dtype)

    def bounded() -> None:
        problem = evaluate(op, case, inputs, profile).problem
        if problem is not None:
            raise RuntimeError(f"{op.name}: {problem}")

    synchronise = torch.cuda.synchronize if device != "cpu" else lambda: None
    time_rounds([plain, bounded], 3, synchronise)  # warm up
    plain_s, bounded_s = time_rounds([plain, bounded], rounds, synchronise)
    result = {
        "dims": dict(case.dims),
        "plain_us": statistics.median(plain_s) * 1e6,
        "bounded_us": statistics.median(bounded_s) * 1e6,
        "ratio": statistics.median(b / p for p, b in zip(plain_s, bounded_s, strict=True)),
    }
    if size != "tiny":
        return result
    for name, function in (("plain", plain), ("bounded", bounded)):
        with Counter() as counter:
            function()
        result[f"{name}_calls"], result[f"{name}_syncs"] = counter.calls, counter.syncs
    return result


def run(names: list[str], rounds: int, device: str) -> dict[str, Any]:
    """Every op at both sizes, and the figures that the goals are about."""
    result: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads(), "device": device}
    if device != "cpu":
        result["device"] = torch.cuda.get_device_name(device)
    result["ops"], result["unmeasured"] = {}, {}
    for name in names:
        op = get_op(name)
        if op.reference is None or op.recovered:
            result["unmeasured"][name] = (
                "no reference" if op.reference is None else "needs a kernel's decisions"
            )
            continue
        result["ops"][name] = {
            size: measure(op, size, times * rounds, device) for size, times in (("tiny", 20), ("large", 1))
        }
    ratios = {name: sizes["large"]["ratio"] for name, sizes in result["ops"].items()}
    tiny = [sizes["tiny"] for sizes in result["ops"].values()]
    result["tiny_median_us"] = statistics.median(op["bounded_us"] for op in tiny)
    result["tiny_median_ratio"] = statistics.median(op["ratio"] for op in tiny)
    result["median_calls"] = statistics.median(op["bounded_calls"] for op in tiny)
    result["median_calls_ratio"] = statistics.median(op["bounded_calls"] / op["plain_calls"] for op in tiny)
    result["median_syncs"] = statistics.median(op["bounded_syncs"] for op in tiny)
    result["large_median_ratio"] = statistics.median(ratios.values())
    result["large_worst"] = max(ratios, key=lambda name: ratios[name])
    result["large_worst_ratio"] = max(ratios.values())
    result["large_layernorm_ratio"] = ratios.get("layernorm")
    result["goals"] = GOALS
    return result


def to_table(result: dict[str, Any]) -> Table:
    """The figures for people."""
    table = Table(
        title=f"Cost of the bound, torch {result['torch']}, {result['threads']} threads, {result['device']}",
        box=None,
    )
    headings = ("op", "tiny plain us", "bounded us", "calls", "syncs", "10^6 plain ms", "bounded ms", "ratio")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "op" else "right")
    for name, sizes in result["ops"].items():
        tiny, large = sizes["tiny"], sizes["large"]
        table.add_row(
            name,
            f"{tiny['plain_us']:.0f}",
            f"{tiny['bounded_us']:.0f}",
            f"{tiny['plain_calls']}/{tiny['bounded_calls']}",
            f"{tiny['plain_syncs']}/{tiny['bounded_syncs']}",
            f"{large['plain_us'] / 1e3:.2f}",
            f"{large['bounded_us'] / 1e3:.2f}",
            f"{large['ratio']:.1f}",
        )
    table.add_row(
        "median",
        "",
        f"{result['tiny_median_us']:.0f}",
        f"{result['median_calls']:.0f}",
        f"{result['median_syncs']:.0f}",
        "",
        "",
        f"{result['large_median_ratio']:.1f}",
    )
    ratios = (f"{result[name]:.1f}" for name in ("tiny_median_ratio", "median_calls_ratio"))
    table.add_row("median ratio", "", *ratios)
    table.add_row(f"worst: {result['large_worst']}", *[""] * 6, f"{result['large_worst_ratio']:.1f}")
    for name, reason in result["unmeasured"].items():
        table.add_row(f"{name}: {reason}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", metavar="OP", help="default: every op of the library")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, help="torch's CPU threads")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    result = run(options.ops or list(load_ops()), options.rounds, options.device)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        Console(width=112).print(to_table(result))


if __name__ == "__main__":
    main()
