"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gpuemu.config import LARGEST_SEED, is_device
from gpuemu.model.contract import DEFAULT_LAYOUTS

Function = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress or notes, only the result.")
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    metavar="N",
    help="Seed, 0 <= N < 2^64; the same seed repeats a run.",
)


def parse_device(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A device as it is spelled; whether it is there is found out later."""
    if value is None or is_device(value):
        return value
    raise click.BadParameter(f"unknown device {value!r}; use cpu, cuda or cuda:N", param=parameter)


device_option = click.option(
    "--device", metavar="DEVICE", callback=parse_device, help="cpu (default), cuda or cuda:N."
)


def output_options(function: Function) -> Function:
    """--json and --quiet, which every verb has."""
    return json_option(quiet_option(function))


def parse_names(_: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...] | None:
    """A comma-separated list, given once or several times, as a tuple; None where it was not given."""
    texts = (value,) if isinstance(value, str) else tuple(value or ())
    if not texts:
        return None
    names = tuple(name.strip() for text in texts for name in text.split(","))
    if not all(names):
        raise click.BadParameter("expected names separated by commas", param=parameter)
    return names


def parse_layouts(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Names of layouts as a tuple; "all" is every one."""
    names = parse_names(context, parameter, value)
    if names is None or "all" not in names:
        return names
    if set(names) != {"all"}:
        raise click.BadParameter("'all' stands for every layout; give it alone", param=parameter)
    return DEFAULT_LAYOUTS
