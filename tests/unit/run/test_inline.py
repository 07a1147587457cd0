"""Observing a candidate: what each misbehaviour looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuemu.model.candidate import Candidate
from gpuemu.model.observation import Observation
from gpuemu.model.op import Contract
from gpuemu.run.guards import GUARDS
from gpuemu.run.inline import InlineCaller, observe
from gpuemu.run.observing import Observer

PLAIN = Contract()
WATCHED = tuple(guard for guard in GUARDS if guard != "poison")  # which calls twice more where calls differ


def look(
    call: Callable[..., Any], contract: Contract = PLAIN, guards: tuple[str, ...] = WATCHED, **options: Any
) -> Observation:
    inputs = {"x": torch.arange(6.0).reshape(2, 3), "w": torch.ones(3)}
    candidate = Candidate("k", "t", "torch", call, source_path=__file__)
    return observe(candidate, inputs, {"scale": 2.0}, contract, guards, **options)


def test_outputs_come_back_in_order() -> None:
    seen = look(lambda x, w, scale: (x * w * scale, x.sum()))
    assert [output.shape for output in seen.outputs] == [(2, 3), ()]
    assert torch.equal(seen.outputs[0], 2 * torch.arange(6.0).reshape(2, 3))
    assert not seen.findings
    assert seen.duration_s > 0


@pytest.mark.parametrize("value", [None, 3.0, [1.0], {"y": torch.ones(2)}])
def test_anything_but_tensors_is_malformed(value: object) -> None:
    assert "not a torch.Tensor" in (look(lambda x, w, scale: value).malformed or "")


def test_a_tensor_subclass_is_malformed() -> None:
    class Lazy(torch.Tensor):
        pass

    assert "Lazy" in (look(lambda x, w, scale: x.as_subclass(Lazy)).malformed or "")


@pytest.mark.parametrize(
    ("make_output", "what"),
    [
        (lambda x: x.to_sparse(), "layout"),
        (lambda x: x.to("meta"), "meta"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "quantised"),
    ],
)
def test_outputs_that_cannot_be_read_are_malformed(make_output: Callable[..., Any], what: str) -> None:
    assert what in (look(lambda x, w, scale: make_output(x)).malformed or "")


def test_an_output_without_its_storage_is_malformed() -> None:
    def kernel(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        y = x.clone()
        y.untyped_storage().resize_(0)
        return y

    assert "smaller" in (look(kernel).malformed or "")


def test_lazy_signs_are_materialised() -> None:
    seen = look(lambda x, w, scale: torch._neg_view(x.clone()))
    assert torch.equal(seen.outputs[0], -torch.arange(6.0).reshape(2, 3))
    assert not seen.findings


def test_an_exception_without_a_readable_message_is_still_described() -> None:
    class UnreadableError(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    def kernel(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        raise UnreadableError

    exception = look(kernel).exception
    assert exception is not None
    assert (exception.type, exception.message) == (
        "UnreadableError",
        "(its message cannot be read: ValueError)",
    )


def test_an_exception_is_described_with_its_place() -> None:
    def kernel(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        return x @ torch.ones(7)

    exception = look(kernel).exception
    assert exception is not None
    assert exception.type == "RuntimeError"
    assert exception.location.startswith("test_inline.py:")
    assert not exception.refused


def test_an_explicit_raise_may_be_a_refusal() -> None:
    def kernel(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        if x.shape[0] == 2:
            raise ValueError("only contiguous inputs\nsecond line")
        return x

    exception = look(kernel).exception
    assert exception is not None
    assert exception.refused
    assert exception.message == "only contiguous inputs"


def test_an_exception_without_a_message_is_quoted_by_its_line() -> None:
    def kernel(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        raise ValueError

    exception = look(kernel).exception
    assert exception is not None
    assert exception.refused
    assert exception.message == "raise ValueError"


def test_a_kernel_that_triton_cannot_run_is_no_refusal_and_is_named_by_its_own_error() -> None:
    triton_errors = pytest.importorskip("triton.runtime.errors")

    def tanh(inner: object) -> object:
        return {}[inner]  # type: ignore[index]

    def kernel(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        try:
            tanh("fp16")
        except KeyError as error:
            raise triton_errors.InterpreterError(repr(error)) from error
        return x

    exception = look(kernel).exception
    assert exception is not None
    assert (exception.type, exception.message, exception.refused) == ("KeyError", "'fp16'", False)
    line = tanh.__code__.co_firstlineno + 1
    assert exception.location == f"test_inline.py:{line}"


def test_system_exit_is_contained_and_interrupt_is_not() -> None:
    def leave(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        raise SystemExit(0)

    def interrupt(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        raise KeyboardInterrupt

    exception = look(leave).exception
    assert exception is not None
    assert exception.type == "SystemExit"
    with pytest.raises(KeyboardInterrupt):
        look(interrupt)


def names(seen: Observation) -> list[str]:
    return [finding.guard for finding in seen.findings]


def test_overwritten_input_fires_mutation() -> None:
    seen = look(lambda x, w, scale: x.mul_(2).clone())
    assert names(seen) == ["mutation"]
    assert not seen.repeats  # each call finds the inputs as they were made


def test_write_outside_the_view_fires_mutation() -> None:
    def kernel(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        torch.empty(0).set_(w.untyped_storage())[-1] = 9.0
        return torch.zeros(2, 3)

    assert names(look(kernel)) == ["mutation"]


def test_returned_view_of_an_input_fires_alias() -> None:
    assert names(look(lambda x, w, scale: x.view(3, 2))) == ["alias"]
    assert names(look(lambda x, w, scale: x.mul_(2), Contract(mutates=("x",)))) == []


def test_an_output_may_share_memory_with_an_input_that_the_contract_names_and_not_write_it() -> None:
    view = Contract(aliases=("x",))
    assert names(look(lambda x, w, scale: x.view(3, 2), view)) == []
    assert names(look(lambda x, w, scale: w.view(3), view)) == ["alias"]
    assert names(look(lambda x, w, scale: x.mul_(2), view)) == ["mutation"]


def counting(kernel: Callable[[torch.Tensor, int], torch.Tensor]) -> tuple[Callable[..., Any], list[int]]:
    """A kernel of x and the number of the call, and the list of the calls."""
    calls: list[int] = []

    def call(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
        calls.append(len(calls) + 1)
        return kernel(x, calls[-1])

    return call, calls


def test_a_further_call_that_differs_is_handed_over_with_its_number() -> None:
    kernel, calls = counting(lambda x, number: x + (number == 3))
    seen = look(kernel, calls=4)
    assert calls == [1, 2, 3, 4]
    assert (seen.calls, list(seen.repeats), names(seen)) == (4, [3], [])
    assert torch.equal(seen.repeats[3][0], seen.outputs[0] + 1)


def test_calls_that_agree_hand_nothing_over() -> None:
    kernel, calls = counting(
        lambda x, number: x.log() if number else x
    )  # log(0) - and NaN of log(-1) - are equal
    seen = look(kernel)
    assert calls == [1, 2]
    assert (seen.calls, dict(seen.repeats)) == (2, {})


def test_a_negative_zero_is_not_the_same_bits() -> None:
    kernel, _ = counting(lambda x, number: x * 0.0 * (-1) ** number)
    assert list(look(kernel).repeats) == [2]


@pytest.mark.parametrize(
    ("make_output", "what"),
    [
        (lambda x, number: x if number == 1 else (x, x), "the first call gave 1 outputs, call 2 gave 2"),
        (lambda x, number: x + 1 if number == 1 else x.double(), "output 0 has dtype torch.float32"),
        (lambda x, number: x[:number] + 1, "output 0 has shape (1, 3) in the first call, (2, 3) in call 2"),
        (lambda x, number: x + 1 if number == 1 else None, "call 2: the result is a NoneType"),
    ],
)
def test_a_further_call_of_another_form_fires_repeat(make_output: Callable[..., Any], what: str) -> None:
    kernel, _ = counting(make_output)
    findings = [finding for finding in look(kernel).findings if finding.guard == "repeat"]
    assert len(findings) == 1
    assert what in findings[0].message


def test_an_output_buffer_that_is_reused_is_compared_with_its_first_content() -> None:
    buffer = torch.zeros(2, 3)
    seen = look(lambda x, w, scale: buffer.add_(1), calls=3)
    assert [int(outputs[0][0, 0]) for outputs in (seen.outputs, *seen.repeats.values())] == [1, 2, 3]


def test_a_kernel_that_overwrites_its_input_is_repeated_on_the_same_values() -> None:
    contract = Contract(mutates=("x",))
    kernel, calls = counting(lambda x, number: x.mul_(2))
    seen = look(kernel, contract, calls=3)
    assert calls == [1, 2, 3]
    assert dict(seen.repeats) == {}
    assert torch.equal(seen.outputs[0], 2 * torch.arange(6.0).reshape(2, 3))
    racy, _ = counting(lambda x, number: x.mul_(number))
    assert list(look(racy, contract, calls=3).repeats) == [2, 3]


def test_further_calls_are_added_to_what_was_observed() -> None:
    kernel, calls = counting(lambda x, number: x + (number == 3))
    candidate = Candidate("k", "t", "torch", kernel, source_path=__file__)
    inputs = {"x": torch.ones(2, 3), "w": torch.ones(3)}
    observer = Observer(InlineCaller(candidate), inputs, {"scale": 2.0}, PLAIN, GUARDS)
    seen = observer.observe()
    assert dict(seen.repeats) == {}
    more = observer.repeat(seen, 3)
    assert (calls, more.calls, list(more.repeats)) == ([1, 2, 3], 3, [3])
    assert observer.repeat(more, 3) == more
    too_few = Observer(InlineCaller(candidate), {"x": torch.ones(2)}, {"scale": 2.0}, PLAIN, GUARDS)
    failed = too_few.repeat(more, 4)
    assert failed.exception is not None
    assert failed.exception.type == "TypeError"


def test_without_the_guard_nothing_is_repeated() -> None:
    kernel, calls = counting(lambda x, number: x)
    look(kernel, guards=("mutation",), calls=5)
    assert calls == [1]


def test_without_guards_the_candidate_is_called_once() -> None:
    calls: list[int] = []
    seen = look(lambda x, w, scale: calls.append(1) or x.mul_(2), guards=())
    assert calls == [1]
    assert not seen.findings
