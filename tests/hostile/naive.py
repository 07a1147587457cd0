"""A naive judge, as many harnesses are: one process, one call, one shape, allclose, exit status 0 if correct.

    python naive.py FILE::FUNCTION --op OP [--order first|after] [--seed 42] [--device cpu|cuda]

It draws positive values with `torch.rand` from a known seed, keeps a copy of the reference's result (as those
do that move it to the host), lets NaN agree with NaN, reads its tolerance from the project's own folder, and
computes the reference before the candidate is called ("first") or afterwards from the same inputs ("after").
It exists to show that each hostile candidate is worth catching.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SEED = 42


def make_inputs(op: str, device: str, seed: int) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """Tensors and parameters of an op's one test case."""
    torch.manual_seed(seed)
    if op == "matmul":
        tensors = [torch.rand(256, 256), torch.rand(256, 256)]
    elif op == "rms_norm":
        tensors = [torch.rand(4, 8, 128), torch.ones(128)]
    elif op == "dropout":
        tensors = [torch.rand(64, 1024)]
    else:
        tensors = [torch.rand(4, 8, 1000 if op == "softmax" else 128)]
    params = {"rms_norm": {"eps": 1e-6}, "dropout": {"p": 0.5, "seed": 0}}
    return [tensor.to(device) for tensor in tensors], params.get(op, {})


REFERENCES: dict[str, Callable[..., torch.Tensor]] = {
    "relu": lambda x: torch.relu(x),  # noqa: PLW0108 - looked up at the call, as a reference module does
    "softmax": lambda x: torch.softmax(x, -1),
    "matmul": lambda a, b: a @ b,
    "rms_norm": lambda x, w, eps: torch.nn.functional.rms_norm(x, x.shape[-1:], w, eps),
    "dropout": lambda x, p, seed: x / (1 - p),
}


def compare(op: str, output: torch.Tensor, expected: torch.Tensor, folder: Path) -> bool:
    """Whether they agree; of dropout, whether the right share was kept and what was kept is right."""
    tolerance = float((folder / "tolerance.txt").read_text() if (folder / "tolerance.txt").exists() else 1e-2)
    output, expected = output.cpu(), expected.cpu()
    if op == "dropout":
        kept = output != 0
        share = float(kept.float().mean())
        return abs(share - 0.5) < 0.05 and torch.allclose(output[kept], expected[kept])
    return torch.allclose(output, expected, atol=tolerance, rtol=tolerance, equal_nan=True)


def main() -> None:
    """Judge; exit status 1 says that the outputs differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--op", required=True)
    parser.add_argument("--order", choices=("first", "after"), default="first")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    file, _, name = arguments.target.partition("::")
    spec = importlib.util.spec_from_file_location("candidate", file)
    if spec is None or spec.loader is None:
        raise SystemExit(2)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tensors, params = make_inputs(arguments.op, arguments.device, arguments.seed)
    reference = REFERENCES[arguments.op]
    expected = reference(*tensors, **params).clone() if arguments.order == "first" else None
    output = getattr(module, name)(*tensors, **params)
    if expected is None:
        expected = reference(*tensors, **params)
    assert compare(arguments.op, output, expected, Path(file).parent), "the outputs differ"
    sys.stdout.write("PASS\n")


if __name__ == "__main__":
    main()
