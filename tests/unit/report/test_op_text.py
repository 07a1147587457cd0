"""Ops for people and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuemu.model.op import Contract, Dim, Op, Tensor
from gpuemu.report.contract_text import contract_rows
from gpuemu.report.json_text import dump
from gpuemu.report.op_text import format_domain, op_document, op_lines, op_table

NORM = Op(
    "norm",
    inputs={"x": "B 2*H", "w": Tensor("B", dtype="int64", low=0, high="H", sentinel="ignore")},
    dims={"B": Dim(1, 64, batch=True), "H": Dim(8, 4096, multiple_of=8)},
    reference=lambda x, w, eps, ignore: x,
    params={"eps": [1e-6, 1e-5], "ignore": [-100]},
    dtypes=["float32", "bfloat16"],
    constraints=["H % B == 0"],
    contract=Contract(profile="P2", profile_reason="casts before * w", mutates=("x",), layouts=("contiguous",)),
    output_dtypes=[None, "int64"],
    value_classes=["bell"],
    doc="a norm\n    of rows",
)
COPY = Op("copy", inputs={"x": "N"}, dims={"N": 16}, reference=lambda x: x)


def plain(lines: Any) -> list[str]:
    return [line.plain for line in lines]


def test_a_shape_that_follows_a_parameter_is_shown_with_it() -> None:
    upstream = Tensor("N", variants=(("reduction", "mean", ""), ("reduction", "sum", "1")))
    op = Op("loss", inputs={"x": upstream}, dims={"N": 16}, reference=lambda x: x)
    assert "x[N]  [] for reduction=mean, [1] for reduction=sum" in "\n".join(plain(op_lines(op)))


def test_the_table_has_a_row_per_op_and_its_columns_are_aligned() -> None:
    lines = plain(op_table([NORM, COPY]))
    cells = [[cell for cell in line.split("  ") if cell] for line in lines]
    assert [[cell.strip() for cell in row] for row in cells] == [
        ["op", "inputs", "dims", "dtypes", "params", "profile"],
        ["norm", "x[B 2*H], w[B]", "B=1..64 H=8..4096/8", "fp32 bf16", "eps=1e-06,1e-05 ignore=-100", "P2"],
        ["copy", "x[N]", "N=16", "fp32 fp16 bf16", "-", "P0 P1 P1"],
    ]
    for heading, texts in {
        "inputs": ("x[B", "x[N"),
        "dtypes": ("fp32 b", "fp32 f"),
        "profile": ("P2", "P0"),
    }.items():
        assert {lines[0].index(heading)} == {lines[i].index(text) for i, text in enumerate(texts, start=1)}


def test_one_op_in_full() -> None:
    promises = [f"{name:<15}  {meaning}" for name, meaning in contract_rows(NORM.contract.to_json())]
    assert "mutates          x may be overwritten, or be an output's memory" in promises
    assert len(promises) == 12
    assert plain(op_lines(NORM)) == [
        "norm  a norm of rows",
        "  inputs       x[B 2*H]",
        "               w[B]  int64, 0 <= value < H, holds ignore",
        "  dims         B 1..64, batch",
        "               H 8..4096/8",
        "  constraints  H % B == 0",
        "  params       eps: 1e-06, 1e-05",
        "               ignore: -100",
        "  dtypes       float32, bfloat16",
        "  outputs      the case's dtype, int64",
        "  values       bell",
        "  profile      float32: P2, eager: every intermediate in the storage dtype",
        "               bfloat16: P2, eager: every intermediate in the storage dtype",
        "  reason       casts before * w",
        *(f"  {'contract' if not i else '':<11}  {row}" for i, row in enumerate(promises)),
    ]


def test_a_plain_op_shows_only_what_it_declares() -> None:
    text = "\n".join(plain(op_lines(COPY)))
    for absent in ("params", "constraints", "  outputs  ", "values", "reason", "overwritten"):
        assert absent not in text
    assert "inputs of every layout are accepted" in text


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (Dim(1, 4096), "1..4096"),
        (Dim(0, 64, multiple_of=8), "0..64/8"),
        (Dim(32, 64, candidates=(32, 64)), "{32,64}"),
        (Dim(16, 16, candidates=(16,)), "16"),
        (Dim(16, 16), "16"),
    ],
)
def test_domains(dim: Dim, text: str) -> None:
    assert format_domain(dim) == text


def test_the_document_is_json_with_the_profile_of_each_dtype() -> None:
    document = json.loads(dump(op_document(NORM)))
    assert document["name"] == "norm"
    assert document["profiles"] == {"float32": "P2", "bfloat16": "P2"}
    assert document["contract"]["profile_reason"] == "casts before * w"
    assert document["contract"]["layouts"] == ["contiguous"]
    assert document["digest"] == NORM.digest
    assert json.loads(dump(op_document(COPY)))["profiles"]["float16"] == "P1"
