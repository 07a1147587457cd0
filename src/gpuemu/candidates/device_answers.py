"""What the CPU tier answers when a host wrapper asks about the device.

The device that is described is a real one of compute capability 8.0 with few multiprocessors, so that wrappers
which launch one program per multiprocessor stay small: NVIDIA A30. Sources: NVIDIA A30 datasheet (memory, bus);
CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", column 8.0 (the limits).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn

import torch

from gpuemu.errors import CandidateRefusedError

CAPABILITY = (8, 0)
DEVICE_NAME = "NVIDIA A30"
CUDA_VERSION = "12.8"
MULTIPROCESSORS = 56
MEMORY_BYTES = 24 * 1024**3
SHARED_MEMORY_BYTES = 166_912  # per block, opted in: 163 KiB

Note = Callable[[str], None]


def refuse(name: str) -> NoReturn:
    """Say in one line that `name` cannot be answered without a device."""
    raise CandidateRefusedError(f"{name} is not available on the CPU tier")


def refusal(name: str) -> Callable[..., NoReturn]:
    """A function that stands for `name` and refuses to be called."""

    def refused(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG001
        refuse(name)

    return refused


def device_properties() -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` returns, as far as wrappers read it."""
    return SimpleNamespace(
        name=DEVICE_NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=MEMORY_BYTES,
        multi_processor_count=MULTIPROCESSORS,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=SHARED_MEMORY_BYTES,
        shared_memory_per_multiprocessor=167_936,
        warp_size=32,
        L2_cache_size=24 * 1024**2,
        is_integrated=0,
        is_multi_gpu_board=0,
    )


class NullStream(AbstractContextManager["NullStream"]):
    """A stream on a tier where every operation has finished when its call returns."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        return None

    def synchronize(self) -> None:
        """Nothing is pending."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing is pending on the other stream either."""

    def wait_event(self, event: Any) -> None:
        """Every event has happened."""

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or NullEvent()

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True


class NullEvent:
    """An event on this tier: it has always happened; it measures no time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing is pending."""

    def query(self) -> bool:
        """Whether the event has happened: always."""
        return True

    def elapsed_time(self, other: Any) -> NoReturn:  # noqa: ARG002
        """Times of a device cannot be had here."""
        refuse("torch.cuda.Event.elapsed_time")


class NullDevice(nullcontext[None]):
    """The context managers `torch.cuda.device`, `device_of` and `stream`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.idx = 0


def _nothing(*args: Any, **kwargs: Any) -> None:  # noqa: ARG001
    return None


def cuda_answers(note: Note) -> dict[str, Any]:
    """Values for the names of `torch.cuda` that this tier can answer.

    `note` is told of every answer that describes a device that is not there.
    """

    def noted(name: str, answer: Callable[[], Any], text: str) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
            note(f"torch.cuda.{name} answered {text} (CPU tier)")
            return answer()

        return function

    described = f"the properties of an {DEVICE_NAME}"
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _nothing,
        "synchronize": _nothing,
        "empty_cache": _nothing,
        "ipc_collect": _nothing,
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "reset_peak_memory_stats": _nothing,
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda *_: False,
        "device": NullDevice,
        "device_of": NullDevice,
        "stream": NullDevice,
        "StreamContext": NullDevice,
        "Stream": NullStream,
        "ExternalStream": NullStream,
        "Event": NullEvent,
        "current_stream": lambda device=None: NullStream(),  # noqa: ARG005
        "default_stream": lambda device=None: NullStream(),  # noqa: ARG005
        "set_stream": _nothing,
        "is_bf16_supported": noted("is_bf16_supported", lambda: True, "True"),
        "is_tf32_supported": noted("is_tf32_supported", lambda: True, "True"),
        "get_device_capability": noted("get_device_capability", lambda: CAPABILITY, str(CAPABILITY)),
        "get_device_name": noted("get_device_name", lambda: DEVICE_NAME, repr(DEVICE_NAME)),
        "get_device_properties": noted("get_device_properties", device_properties, described),
        "get_arch_list": noted("get_arch_list", lambda: ["sm_80"], "['sm_80']"),
        "mem_get_info": noted("mem_get_info", lambda: (MEMORY_BYTES, MEMORY_BYTES), "all memory free"),
    }


def accelerator_answers() -> dict[str, Any]:
    """Values for the names of `torch.accelerator`."""
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),  # noqa: ARG005
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": _nothing,
        "set_device_idx": _nothing,
        "current_stream": lambda device=None: NullStream(),  # noqa: ARG005
        "set_stream": _nothing,
        "synchronize": _nothing,
        "empty_cache": _nothing,
        "device_index": NullDevice,
    }


class NullDriver:
    """`triton.runtime.driver.active` on this tier."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self.utils = SimpleNamespace(get_device_properties=self._get_device_properties)

    def _get_device_properties(self, device: int = 0) -> dict[str, int]:  # noqa: ARG002
        self._note(f"Triton's driver answered the properties of an {DEVICE_NAME} (CPU tier)")
        return {
            "max_shared_mem": SHARED_MEMORY_BYTES,
            "max_num_regs": 65536,
            "multiprocessor_count": MULTIPROCESSORS,
            "warpSize": 32,
            "sm_clock_rate": 1_440_000,  # kHz
            "mem_clock_rate": 1_215_000,  # kHz
            "mem_bus_width": 3072,  # bits
        }

    def get_current_target(self) -> Any:
        """The target that wrappers branch on."""
        from triton.backends.compiler import GPUTarget

        self._note(f"Triton's driver answered target cuda:{CAPABILITY[0]}{CAPABILITY[1]} (CPU tier)")
        return GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], 32)

    def get_current_device(self) -> int:
        """The one device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int = 0) -> int:  # noqa: ARG002
        """The null stream."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Where tensors live, as the candidate sees it."""
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """`torch.cuda`, itself redirected."""
        return torch.cuda

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"triton.runtime.driver.active.{name}")
