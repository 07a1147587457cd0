"""At which size a kernel with 16-bit accumulators is rejected where float32 is declared.

    python benchmarks/low_precision_accumulation.py [--seeds N] [--ops matmul,row_sum] > FILE.md

Simulated kernels of a matrix product and a row sum round their accumulator to float16 or bfloat16 after every
term ("fma"), after every 16 terms, summed exactly ("blocks of 16", as a tensor core does), or add neighbours
level by level ("pairwise"). A cell is the smallest K of the ladder at which the oracle rejects every seed, and
the share of all runs at that K and the larger ones that it rejects. The last line says how many of all runs
pass where the same kernels are declared as they are, with `Contract(accumulate=...)`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gpuemu.dtypes import torch_dtype
from gpuemu.inputs.fill import make_inputs
from gpuemu.model.case import Case
from gpuemu.model.op import Contract, Dim, Op
from gpuemu.oracle.bounds import accept
from gpuemu.reference.evaluate import evaluate
from gpuemu.rounding import round_to

NOTES = """\
A cell: the smallest K at which the oracle (profile P0 for float32, P1 for 16-bit storage) rejects every
seed, and the share of all runs at that K and at larger ones that it rejects. A product has 8 x 8 outputs, a
sum 8. Integers from -2 to 2 have sums that float16 holds exactly, so that there is nothing to reject; around
100 both results overflow in float16 storage from some K on, and there is nothing to see."""
LADDER = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096)
STORAGE = ("float32", "float16", "bfloat16")
ACCUMULATORS = ("float16", "bfloat16")
VALUE_CLASSES = ("uniform", "bell", "offset", "negative", "log_uniform", "small_integers", "all_equal")
ROWS = 8  # outputs: 8 x 8 of the product, 8 sums

Tensor = torch.Tensor
Accumulate = Callable[[Tensor, str], Tensor]


def fma(terms: Tensor, dtype: str) -> Tensor:
    """The accumulator is rounded after every term; terms: (..., K), float64."""
    total = torch.zeros(terms.shape[:-1], dtype=torch.float64)
    for term in terms.unbind(-1):
        total = round_to(total + term, dtype).double()
    return total


def blocks_of_16(terms: Tensor, dtype: str) -> Tensor:
    """As `fma`, after every 16 terms."""
    return fma(torch.stack([part.sum(-1) for part in terms.split(16, dim=-1)], dim=-1), dtype)


def pairwise(terms: Tensor, dtype: str) -> Tensor:
    """Neighbours are added, each sum rounded, until one is left."""
    terms = round_to(terms, dtype).double()
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = torch.nn.functional.pad(terms, (0, 1))
        terms = round_to(terms[..., ::2] + terms[..., 1::2], dtype).double()
    return terms[..., 0]


SCHEMES: dict[str, Accumulate] = {"fma": fma, "blocks of 16": blocks_of_16, "pairwise": pairwise}


@dataclass(frozen=True)
class Subject:
    """An op and its terms: `products(inputs)` has the K terms of every output along the last axis."""

    op: Op
    products: Callable[[dict[str, Tensor]], Tensor]


def _product_terms(inputs: dict[str, Tensor]) -> Tensor:
    return inputs["a"].double()[:, None, :] * inputs["b"].double().t()[None, :, :]


SUBJECTS = {
    "matmul": Subject(
        Op("matmul", {"a": "M K", "b": "K N"}, {"M": ROWS, "K": Dim(1, 4096), "N": ROWS}, torch.matmul),
        _product_terms,
    ),
    "row_sum": Subject(
        Op("row_sum", {"x": "M K"}, {"M": ROWS, "K": Dim(1, 4096)}, lambda x: x.sum(-1)),
        lambda inputs: inputs["x"].double(),
    ),
}


def is_accepted(
    subject: Subject, scheme: str, accumulator: str, dtype: str, value_class: str, size: int, seed: int,
    declared: str = "float32",
) -> bool:  # fmt: skip
    """Whether the oracle accepts one run of a simulated kernel under the declared accumulator."""
    op = subject.op
    dims = {name: size if name == "K" else ROWS for name in op.dims}
    names = dict.fromkeys(op.inputs, value_class)
    case = Case(op.name, dims, dtype, dict.fromkeys(op.inputs, "contiguous"), names, {}, seed)
    inputs = make_inputs(op, case)
    total = SCHEMES[scheme](subject.products(inputs), accumulator)
    actual = round_to(total, dtype).to(torch_dtype(dtype))
    contract = Contract(accumulate=declared)
    held = Op(op.name, op.inputs, op.dims, op.reference, contract=contract)
    expected = evaluate(held, case, inputs, contract.profile_for(dtype))
    return bool(accept(expected, contract).outputs[0].contains(actual).all())


def find_rejection(
    subject: Subject, scheme: str, accumulator: str, dtype: str, value_class: str, seeds: int
) -> tuple[int | None, float]:
    """The smallest K at which every seed is rejected, and the share of runs rejected from there on."""
    rejected = {
        size: sum(
            not is_accepted(subject, scheme, accumulator, dtype, value_class, size, seed)
            for seed in range(seeds)
        )
        for size in LADDER
    }
    first = next((size for size in LADDER if rejected[size] == seeds), None)
    counts = [count for size, count in rejected.items() if first is not None and size >= first]
    return first, sum(counts) / (seeds * len(counts)) if counts else 0.0


def rows(ops: list[str], seeds: int) -> Iterator[tuple[str, ...]]:
    """The table's rows, heading first."""
    yield ("op", "accumulator", "scheme", "storage", *VALUE_CLASSES)
    for name in ops:
        schemes = ("fma", "blocks of 16") if name == "matmul" else ("fma", "pairwise")
        for accumulator in ACCUMULATORS:
            for scheme in schemes:
                for dtype in STORAGE:
                    cells = []
                    for value_class in VALUE_CLASSES:
                        size, share = find_rejection(
                            SUBJECTS[name], scheme, accumulator, dtype, value_class, seeds
                        )
                        cells.append("never" if size is None else f"{size} ({share:.0%})")
                    yield (name, accumulator, scheme, dtype, *cells)


def count_accepted(ops: list[str], seeds: int) -> tuple[int, int]:
    """Runs that pass where the accumulator is declared as it is, and all runs."""
    passed = total = 0
    for name in ops:
        for accumulator in ACCUMULATORS:
            for scheme in SCHEMES:
                for dtype in STORAGE:
                    for value_class in VALUE_CLASSES:
                        for size in LADDER[::3]:
                            for seed in range(seeds):
                                passed += is_accepted(
                                    SUBJECTS[name],
                                    scheme,
                                    accumulator,
                                    dtype,
                                    value_class,
                                    size,
                                    seed,
                                    accumulator,
                                )
                                total += 1
    return passed, total


def main() -> None:
    """Print the table and how many runs pass under the true declaration."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--ops", default=",".join(SUBJECTS))
    arguments = parser.parse_args()
    ops = arguments.ops.split(",")
    print(f"# 16-bit accumulators where float32 is declared\n\n{NOTES}\n")
    print(f"{arguments.seeds} seeds a cell; torch {torch.__version__}; K from {LADDER[0]} to {LADDER[-1]}.\n")
    for position, row in enumerate(rows(ops, arguments.seeds)):
        print("| " + " | ".join(row) + " |", flush=True)
        if position == 0:
            print("|" + " --- |" * len(row))
    passed, total = count_accepted(ops, 1)
    print(f"\nDeclared as they are, with `Contract(accumulate=...)`: {passed} of {total} runs accepted.")


if __name__ == "__main__":
    main()
