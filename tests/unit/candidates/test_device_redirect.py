"""Host wrappers written for a device run on the CPU tier, and leave no trace."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from gpuemu.candidates import device_answers, device_redirect
from gpuemu.candidates.device_redirect import redirect_to_cpu
from gpuemu.errors import CandidateRefusedError


def _state() -> list[object]:
    return [
        *vars(torch.cuda).items(),
        *vars(torch.accelerator).items(),
        torch.version.cuda,
        torch.compile,
        torch.set_default_device,
        torch.amp.autocast_mode.autocast.__init__,
        dict(vars(triton.runtime.driver)),
        list(sys.meta_path),
        torch.ones(1).is_cuda,
        torch.ones(1).device,
    ]


def test_everything_is_restored_also_after_an_exception_and_nested() -> None:
    before = _state()
    with redirect_to_cpu(), redirect_to_cpu():
        assert torch.cuda.is_available()
    assert _state() == before
    with pytest.raises(ZeroDivisionError), redirect_to_cpu():
        raise ZeroDivisionError
    assert _state() == before


def test_leaving_an_inner_block_keeps_the_outer_one() -> None:
    with redirect_to_cpu() as outer:
        with redirect_to_cpu() as inner:
            torch.cuda.get_device_name()
        assert torch.cuda.is_available() and torch.ones(1).is_cuda
        torch.cuda.get_device_capability()
    assert [n.split(" answered")[0] for n in inner.notes] == ["torch.cuda.get_device_name"]
    assert [n.split(" answered")[0] for n in outer.notes] == ["torch.cuda.get_device_capability"]


FACTORIES = [
    lambda d: torch.empty(3, device=d),
    lambda d: torch.zeros((2, 2), device=d, dtype=torch.float16),
    lambda d: torch.tensor([1.0, 2.0], device=d),
    lambda d: torch.arange(4, device=d),
    lambda d: torch.full((2,), 7.0, device=d),
    lambda d: torch.randn(2, device=d),
    lambda d: torch.empty_strided((2, 2), (2, 1), device=d),
    lambda d: torch.empty_like(torch.ones(2), device=d),
    lambda d: torch.ones(2).new_empty(3, device=d),
    lambda d: torch.ones(2).to(d),
    lambda d: torch.ones(2).to(device=d, dtype=torch.bfloat16),
    lambda d: torch.ones(2).to(d, torch.float64, non_blocking=True),
    lambda d: torch.nn.Linear(2, 2, device=d).weight.detach(),
    lambda d: torch.nn.Linear(2, 2).to(d).weight.detach(),
]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0)])
@pytest.mark.parametrize("index", range(len(FACTORIES)))
def test_device_words_give_cpu_tensors(index: int, device: Any) -> None:
    with redirect_to_cpu():
        made = FACTORIES[index](device)
        assert made.is_cuda and made.device == torch.device("cuda", 0)
    assert made.device == torch.device("cpu") and not made.is_cuda


def test_the_default_device_context_is_redirected() -> None:
    with redirect_to_cpu(), torch.device("cuda"):
        made = torch.zeros(2)
    assert made.device.type == "cpu"


def test_a_tensor_moved_to_the_device_is_itself_and_one_moved_to_the_host_is_a_copy() -> None:
    x = torch.arange(4.0)
    with redirect_to_cpu():
        assert x.cuda() is x and x.to("cuda") is x and x.to(0) is x and x.pin_memory() is x
        for copy in (x.cpu(), x.to("cpu"), x.to(torch.device("cpu"))):
            copy[0] = 9.0
        assert x.to(torch.float32) is x and x.to(torch.float16).dtype == torch.float16
        assert x.to(torch.zeros(1, dtype=torch.float64)).dtype == torch.float64
    assert x[0] == 0.0


def test_values_and_gradients_are_those_of_plain_torch() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with redirect_to_cpu():
        y = torch.nn.functional.layer_norm(x, (4,)).softmax(-1).square().sum()
        y.backward()
    got = x.grad
    x.grad = None
    expected = torch.nn.functional.layer_norm(x, (4,)).softmax(-1).square().sum()
    expected.backward()
    assert torch.equal(y, expected) and got is not None and torch.equal(got, x.grad)


def test_streams_events_and_devices_are_null() -> None:
    with redirect_to_cpu():
        stream = torch.cuda.Stream()
        with torch.cuda.device(0), torch.cuda.stream(stream), torch.cuda.device_of(torch.ones(1)):
            torch.cuda.synchronize()
            torch.cuda.current_stream().wait_stream(stream)
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        event.synchronize()
        assert event.query() and stream.query() and torch.cuda.current_stream().cuda_stream == 0
        assert torch.cuda.current_device() == 0 and torch.cuda.device_count() == 1
        with pytest.raises(CandidateRefusedError, match=r"torch\.cuda\.Event\.elapsed_time is not available"):
            event.elapsed_time(event)


def test_capability_queries_are_answered_and_noted() -> None:
    with redirect_to_cpu() as redirection:
        for _ in range(2):
            assert torch.cuda.get_device_capability() == (8, 0)
        properties = torch.cuda.get_device_properties(0)
        target = triton.runtime.driver.active.get_current_target()
        memory = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
    assert (properties.major, properties.multi_processor_count) == (8, device_answers.MULTIPROCESSORS)
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 80, 32)
    assert memory == 163 * 1024
    assert redirection.notes == [
        "torch.cuda.get_device_capability answered (8, 0) (CPU tier)",
        "torch.cuda.get_device_properties answered the properties of an NVIDIA A30 (CPU tier)",
        "Triton's driver answered target cuda:80 (CPU tier)",
        "Triton's driver answered the properties of an NVIDIA A30 (CPU tier)",
    ]


@pytest.mark.parametrize("name", ["memory_allocated", "get_rng_state", "utilization", "memory_stats"])
def test_what_cannot_be_answered_is_named_in_one_line(name: str) -> None:
    with redirect_to_cpu(), pytest.raises(CandidateRefusedError) as caught:
        getattr(torch.cuda, name)()
    assert str(caught.value) == f"torch.cuda.{name} is not available on the CPU tier"


def test_an_unknown_question_to_tritons_driver_is_named() -> None:
    with (
        redirect_to_cpu(),
        pytest.raises(CandidateRefusedError, match=r"driver\.active\.get_benchmarker is not"),
    ):
        triton.runtime.driver.active.get_benchmarker()


def test_autocast_for_the_device_is_the_cpus() -> None:
    x = torch.randn(4, 4)
    with redirect_to_cpu() as redirection:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            inside = (x @ x).dtype
        with torch.autocast(device_type="cuda", enabled=False):
            outside = (x @ x).dtype
    assert (inside, outside) == (torch.bfloat16, torch.float32)
    assert redirection.notes == ["torch.autocast('cuda') acted as torch.autocast('cpu') (CPU tier)"]


class _Scale(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        assert gradient.is_cuda
        return gradient * 2


def test_autograd_functions_with_custom_fwd() -> None:
    x = torch.ones(3, requires_grad=True)
    with redirect_to_cpu():
        _Scale.apply(x).sum().backward()
        (gradient,) = torch.autograd.grad(_Scale.apply(x).sum(), x)
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0] and torch.equal(gradient, x.grad)


def test_compiled_functions_run_eagerly() -> None:
    with redirect_to_cpu() as redirection:

        @torch.compile(mode="max-autotune")
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        assert twice(torch.ones(1)).item() == 2.0
        assert torch.compile(abs) is abs
    assert redirection.notes == ["torch.compile was left out: the function runs eagerly (CPU tier)"]


@triton.jit
def _double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def _wrapper(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda and x.device.type == "cuda"
    x = x.cuda().contiguous()
    y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count
    with torch.cuda.device(x.device):
        _double[lambda meta: (min(processors, triton.cdiv(x.numel(), meta["BLOCK"])),)](
            x, y, x.numel(), BLOCK=16
        )
    torch.cuda.synchronize()
    return y


def test_a_wrapper_with_a_kernel(interpreted: None) -> None:
    x = torch.arange(40.0)
    with redirect_to_cpu():
        y = _wrapper(x)
    assert torch.equal(y, x * 2) and y.device.type == "cpu"


def test_a_module_is_imported_within_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wants_a_gpu_xyz.py").write_text(
        "import torch\n"
        "if not torch.cuda.is_available():\n    raise RuntimeError('needs a GPU')\n"
        "from torch.cuda import get_device_capability\n"
        "DEVICE = torch.device('cuda', torch.cuda.current_device())\n"
        "TABLE = torch.arange(8, device=DEVICE)\n"
        "BIG = get_device_capability()[0] >= 8\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with redirect_to_cpu():
        module = importlib.import_module("wants_a_gpu_xyz")
    assert module.TABLE.device.type == "cpu" and module.BIG


def test_some_modules_are_imported_with_the_truth_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # torch._dynamo builds a table of torch's functions when it is imported and keeps it; this one does too.
    (tmp_path / "looks_up_torch_xyz.py").write_text("import torch\nSEEN = torch.cuda.synchronize\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(device_redirect, "TRUTHFUL_IMPORTS", ("looks_up_torch_xyz",))
    real = torch.cuda.synchronize
    with redirect_to_cpu():
        module = importlib.import_module("looks_up_torch_xyz")
        assert torch.cuda.synchronize is not real
    assert module.SEEN is real and torch.cuda.synchronize is real


def test_a_generator_for_the_device_draws_on_the_cpu() -> None:
    with redirect_to_cpu():
        x = torch.zeros(4, device="cuda")
        random = torch.Generator(device=x.device).manual_seed(3)
        drawn = torch.rand(4, generator=random, device=x.device)
        assert isinstance(random, torch.Generator)
    assert torch.equal(drawn, torch.rand(4, generator=torch.Generator().manual_seed(3)))
    assert type(torch.Generator()) is torch._C.Generator
