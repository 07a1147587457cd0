"""Ops for people: a table of all, or one in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpuemu.model.op import Dim, Op
from gpuemu.model.profile import PROFILES
from gpuemu.report.contract_text import contract_rows
from gpuemu.report.text import FAINT_STYLE, LABEL_STYLE, Line, columns, make_line

_SHORT_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


def op_table(ops: Iterable[Op]) -> Iterator[Line]:
    """A line per op: name, inputs, dims with their domains, dtypes, parameters, profiles."""
    rows = [("op", "inputs", "dims", "dtypes", "params", "profile")]
    for op in ops:
        rows.append(
            (
                op.name,
                ", ".join(f"{name}[{tensor.shape}]" for name, tensor in op.tensors.items()),
                " ".join(f"{name}={format_domain(dim)}" for name, dim in op.domains.items()),
                " ".join(_SHORT_DTYPES.get(dtype, dtype) for dtype in op.dtypes),
                " ".join(f"{name}={','.join(map(str, values))}" for name, values in op.params.items()) or "-",
                _profiles(op),
            )
        )
    yield from columns(rows)


def op_lines(op: Op) -> Iterator[Line]:
    """One op in full, with its contract and why its profile is what it is."""
    yield make_line((op.name, LABEL_STYLE), f"  {' '.join(op.doc.split())}".rstrip())
    rows: list[tuple[str, str]] = []
    for name, tensor in op.tensors.items():
        rows.append(("inputs", f"{name}[{tensor.shape}]{_describe_values(tensor)}"))
    for name, dim in op.domains.items():
        rows.append(("dims", f"{name} {format_domain(dim)}{', batch' if dim.batch else ''}"))
    rows += [("constraints", text) for text in op.constraints]
    rows += [("params", f"{name}: {_join(values)}") for name, values in op.params.items()]
    rows.append(("dtypes", _join(op.dtypes)))
    if any(op.output_dtypes):
        rows.append(("outputs", _join(dtype or "the case's dtype" for dtype in op.output_dtypes)))
    if op.value_classes is not None:
        rows.append(("values", _join(op.value_classes)))
    for dtype in op.dtypes:
        profile = PROFILES[op.contract.profile_for(dtype)]
        rows.append(("profile", f"{dtype}: {profile.name}, {profile.meaning}"))
    if op.contract.profile_reason:
        rows.append(("reason", op.contract.profile_reason))
    promises = contract_rows(op.contract.to_json())
    width = max(len(name) for name, _ in promises)
    rows += [("contract", f"{name:<{width}}  {meaning}") for name, meaning in promises]
    previous = ""
    for label, text in rows:
        yield make_line((f"  {'' if label == previous else label:<11}", FAINT_STYLE), f"  {text}")
        previous = label


def op_document(op: Op) -> dict[str, Any]:
    """An op as plain JSON values: its schema, contract, profile per dtype, and digest."""
    contract = op.contract
    return {
        **op.schema,
        "doc": op.doc,
        "profiles": {dtype: contract.profile_for(dtype) for dtype in op.dtypes},
        "contract": contract.to_json(),
        "digest": op.digest,
    }


def format_domain(dim: Dim) -> str:
    """ "1..4096", "8..4096/8" for multiples of 8, "{32,64}" for a list, "16" for one size."""
    if dim.candidates:
        sizes = ",".join(map(str, dim.candidates))
        return sizes if len(dim.candidates) == 1 else f"{{{sizes}}}"
    step = f"/{dim.multiple_of}" if dim.multiple_of > 1 else ""
    return f"{dim.low}..{dim.high}{step}" if dim.low != dim.high else str(dim.low)


def _profiles(op: Op) -> str:
    """One name where all dtypes share it, else one per dtype in the order of the dtypes."""
    names = [op.contract.profile_for(dtype) for dtype in op.dtypes]
    return names[0] if len(set(names)) == 1 else " ".join(names)


def _describe_values(tensor: Any) -> str:
    parts = [tensor.dtype] if tensor.dtype else []
    if tensor.low is not None or tensor.high is not None:
        parts.append(f"{tensor.low} <= value < {tensor.high}")
    if tensor.sentinel:
        parts.append(f"holds {tensor.sentinel}")
    parts += [f"[{shape}] for {parameter}={value}" for parameter, value, shape in tensor.variants]
    return f"  {', '.join(parts)}" if parts else ""


def _join(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))
