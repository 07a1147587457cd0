"""`gpuemu ops [NAME]`: the built-in ops, or one in full; `--corpus`: the kernels that gpuemu ships."""

from __future__ import annotations

from typing import Any

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.errors import EXIT_INTERNAL, EXIT_PASSED

SELF_TEST_BUDGET = 12


@click.command("ops")
@click.argument("name", required=False)
@click.option("--corpus", is_flag=True, help="List the kernels of the corpus instead, each a TARGET for check.")
@click.option("--self-test", is_flag=True, help="Test the oracle on the op, or on all: is it blind anywhere?")
@click.option("--budget", type=click.IntRange(1), default=SELF_TEST_BUDGET, show_default=True, metavar="N",
              help="Cases per dtype of the self-test.")  # fmt: skip
@options.device_option
@options.output_options
def command(
    name: str | None,
    corpus: bool,
    self_test: bool,
    budget: int,
    device: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """List the built-in ops; with NAME (a built-in op or file.py::op) show one in full.

    NAME.backward is the backward of an op: upstream gradients among its inputs, gradients as its outputs.

    Dims are shown with their domain: 1..4096, /8 for multiples of 8, {a,b} for a list. --quiet gives only
    the names.

    --self-test asks the oracle about stored values whose fate is known, on cases of every value class: values 4
    bounds away must be rejected, values within half a bound accepted (exit code 3 otherwise).
    """
    if corpus:
        if name is not None:
            raise click.UsageError("give NAME or --corpus, not both")
        _show_corpus(as_json, quiet)
    elif self_test:
        return _test_oracle(name, budget, device or "cpu", as_json, quiet)
    elif name is None:
        _show_ops(as_json, quiet)
    else:
        _show_op(name, as_json)
    return EXIT_PASSED


def _test_oracle(name: str | None, budget: int, device: str, as_json: bool, quiet: bool) -> int:
    """Exit code 3 where our own oracle is blind: that is no fault of the user's."""
    from gpuemu.checking import require_device
    from gpuemu.ops.registry import load_ops
    from gpuemu.report.self_test import self_test_lines
    from gpuemu.self_test import self_test

    require_device(device)
    ops = list(load_ops().values()) if name is None else [_find_op(name)]
    results = []
    with consoles.working("self-test", quiet) as advance:
        for position, op in enumerate(ops, start=1):
            results.append(self_test(op, budget, device=device))
            advance(position, len(ops), op.name)
    if as_json:
        print_json({"ops": [vars(result) for result in results]})
    else:
        _print(self_test_lines(results, quiet))
    return EXIT_PASSED if all(result.passed for result in results) else EXIT_INTERNAL


def _show_ops(as_json: bool, quiet: bool) -> None:
    from gpuemu.ops.registry import load_ops
    from gpuemu.report import op_text

    ops = load_ops()
    if as_json:
        print_json({"ops": [op_text.op_document(op) for op in ops.values()]})
    elif quiet:
        click.echo("\n".join(ops))
    else:
        _print(op_text.op_table(ops.values()))


def _show_op(name: str, as_json: bool) -> None:
    from gpuemu.report import op_text

    op = _find_op(name)
    if as_json:
        print_json(op_text.op_document(op))
    else:
        _print(op_text.op_lines(op))


def _find_op(name: str) -> Any:
    from gpuemu.subject import find_op

    with consoles.working("importing", quiet=True):
        return find_op(name)[0]


def _show_corpus(as_json: bool, quiet: bool) -> None:
    from gpuemu.corpus.catalogue import load_catalogue
    from gpuemu.report.text import columns

    kernels = load_catalogue()
    if as_json:
        print_json({"kernels": [{**vars(kernel), "path": str(kernel.path)} for kernel in kernels]})
    elif quiet:
        click.echo("\n".join(kernel.name for kernel in kernels))
    else:
        rows = [("kernel", "op", "role", "kind", "bug")]
        rows += [(k.name, k.op, k.role, k.kind, k.bug or "-") for k in kernels]
        _print(columns(rows))


def _print(lines: Any) -> None:
    from gpuemu.report.terminal import print_lines

    print_lines(lines, consoles.make_console())
