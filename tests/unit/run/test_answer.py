"""An answer survives the way, and a forged one is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuemu.model.observation import CandidateException, GuardFinding
from gpuemu.run import answer
from gpuemu.run.calling import Returned
from gpuemu.run.channel import MalformedMessageError

DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float64, torch.int64, torch.bool,
    torch.uint8, torch.complex64,
)  # fmt: skip


def carried(returned: Returned, size: int = 1 << 16) -> Returned:
    memory = torch.zeros(size, dtype=torch.uint8)
    message = json.loads(json.dumps(answer.write(returned, memory)))
    return answer.read(message, memory, "cpu", ["x", "w"])


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_come_over_bit_by_bit(dtype: torch.dtype) -> None:
    outputs = (
        torch.arange(24).reshape(2, 3, 4).to(dtype).transpose(0, 2),
        torch.empty(0, 5, dtype=dtype),
        torch.ones((), dtype=dtype),
        torch.ones(1, dtype=dtype).expand(3, 4),
    )
    read = carried(Returned(outputs)).outputs
    assert [(o.shape, o.dtype) for o in read] == [(o.shape, o.dtype) for o in outputs]
    for sent, came in zip(outputs, read, strict=True):
        assert torch.equal(as_bytes(sent), as_bytes(came))


def test_everything_else_comes_over_too() -> None:
    returned = Returned(
        malformed="m", exception=CandidateException("T", "text", "k.py:3", refused=True),
        aliases=((1, "x"),), findings=(GuardFinding("poison", "p"),), unfilled_loads=("k.py:4",), launches=2,
        duration_s=0.25, notes=("n",),
    )  # fmt: skip
    assert carried(returned) == returned


def test_outputs_that_do_not_fit_are_not_written() -> None:
    crash = carried(Returned((torch.ones(1).expand(1 << 40),))).crash
    assert crash is not None
    assert (crash.kind, "4398046511104 bytes; 65536 are allowed" in crash.message) == ("output_size", True)


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"outputs": {}},
        {"outputs": [["float32", [4], 0, "cpu"]] * 65},
        {"outputs": [["float32", [4], 0]]},
        {"outputs": [["object", [4], 0, "cpu"]]},
        {"outputs": [["float32", [-4], 0, "cpu"]]},
        {"outputs": [["float32", [True], 0, "cpu"]]},
        {"outputs": [["float32", [1.0], 0, "cpu"]]},
        {"outputs": [["float32", [1 << 47, 1 << 47], 0, "cpu"]]},
        {"outputs": [["float32", [1024], 1 << 16, "cpu"]]},
        {"outputs": [["float32", [4], 3, "cpu"]]},
        {"outputs": [["float32", [4], -64, "cpu"]]},
        {"outputs": [["float32", [4], 0, "meta"]]},
        {"outputs": [], "aliases": [[0, "y"]]},
        {"outputs": [], "findings": [["mutation", "text"]]},
        {"outputs": [], "exception": "text"},
        {"outputs": [], "exception": {"type": 3}},
        {"outputs": [], "malformed": 3},
        {"outputs": [], "notes": "text"},
        {"outputs": [], "launches": -1},
        {"crash": ["hang", "text"]},
        {"crash": "text"},
    ],
)
def test_a_forged_answer_is_refused(forged: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessageError):
        answer.read(forged, torch.zeros(1 << 16, dtype=torch.uint8), "cpu", ["x"])


def test_texts_are_cut_and_made_printable() -> None:
    forged = {"outputs": [], "malformed": "\x1b[2J" + "a" * 5000}
    malformed = answer.read(forged, torch.zeros(64, dtype=torch.uint8), "cpu", []).malformed
    assert malformed == " [2J" + "a" * (answer.TEXT_LENGTH - 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=5,
)
FIELDS = (
    "outputs",
    "crash",
    "exception",
    "malformed",
    "aliases",
    "findings",
    "notes",
    "launches",
    "duration_s",
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)))
def test_no_answer_ends_the_judge(message: dict[str, Any]) -> None:
    try:
        answer.read(message, torch.zeros(1 << 10, dtype=torch.uint8), "cpu", ["x"])
    except MalformedMessageError:
        return
