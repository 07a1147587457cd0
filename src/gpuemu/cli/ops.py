"""`gpuemu ops [NAME]`: the built-in ops, or one in full; `--corpus`: the kernels that gpuemu ships."""

from __future__ import annotations

from typing import Any

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.errors import EXIT_PASSED


@click.command("ops")
@click.argument("name", required=False)
@click.option("--corpus", is_flag=True, help="List the kernels of the corpus instead, each a TARGET for check.")
@options.output_options
def command(name: str | None, corpus: bool, as_json: bool, quiet: bool) -> int:
    """List the built-in ops; with NAME (a built-in op or file.py::op) show one in full.

    NAME.backward is the backward of an op: upstream gradients among its inputs, gradients as its outputs.

    Dims are shown with their domain: 1..4096, /8 for multiples of 8, {a,b} for a list. --quiet gives only
    the names.
    """
    if corpus:
        if name is not None:
            raise click.UsageError("give NAME or --corpus, not both")
        _show_corpus(as_json, quiet)
    elif name is None:
        _show_ops(as_json, quiet)
    else:
        _show_op(name, as_json)
    return EXIT_PASSED


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
    from gpuemu.checking import find_op

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
