"""What a kernel's arguments become: the types that Triton's compiler would give them.

Source: `triton/runtime/jit.py` (KernelParam, create_function_from_signature) and the specialisation rules it
calls: int32, or int64 or uint64 where the value needs it; float is float32; bool is int1; an integer 1 is a
compile-time constant unless `do_not_specialize` names the parameter; an annotation overrides the type.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import KernelParam, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from gpuemu.candidates.triton_types import Handle, get_numpy_dtype
from gpuemu.errors import UsageError


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    is_constexpr: bool
    annotation_type: str  # Triton's spelling, e.g. "i64", or "" if not annotated with a type
    is_specialised: bool


def read_parameters(function: Any, do_not_specialize: Sequence[int | str]) -> tuple[Parameter, ...]:
    """The parameters of a kernel's Python function."""
    parameters = []
    for index, item in enumerate(inspect.signature(function).parameters.values()):
        skipped = index in do_not_specialize or item.name in do_not_specialize
        known = KernelParam(index, item, skipped, False)
        parameters.append(Parameter(item.name, known.is_constexpr, known.annotation_type, not skipped))
    return tuple(parameters)


@functools.cache
def _launch_options() -> frozenset[str]:
    """Keywords of a launch that are the compiler's options, not the kernel's parameters."""
    from triton.backends.amd.compiler import HIPOptions
    from triton.backends.nvidia.compiler import CUDAOptions

    fields = {*CUDAOptions.__dataclass_fields__, *HIPOptions.__dataclass_fields__}
    return frozenset(fields | {"debug", "stream", "device", "device_type"})


def bind(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, defaults included; launch options are dropped.

    Raises:
        KeyError: a keyword is neither a parameter nor a launch option, as in a compiled launch.
        TypeError: an argument is missing or given twice.
    """
    signature = inspect.signature(function)
    own = {}
    for name, value in kwargs.items():
        if name in signature.parameters:
            own[name] = value
        elif name not in _launch_options():
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    bound = signature.bind(*args, **own)
    bound.apply_defaults()
    return dict(bound.arguments)


def _scalar(value: Any, type_name: str) -> Any:
    dtype = tl.str_to_ty(type_name, None)
    data = np.array([value]).astype(get_numpy_dtype(dtype))
    return tl.tensor(Handle(data, dtype), dtype)


def _pointer(value: Any, type_name: str) -> Any:
    tensor = getattr(value, "base", value)
    device = getattr(tensor, "device", None)
    if device is not None and device.type != "cpu":
        raise UsageError(f"an interpreted kernel takes CPU tensors; an argument lies on {device}: use .cpu()")
    dtype = tl.str_to_ty(type_name, None)
    return tl.tensor(Handle(np.array([value.data_ptr()], np.uint64), dtype), dtype)


def convert(parameter: Parameter, value: Any) -> Any:
    """The value that the kernel's Python sees for one argument."""
    value = value.value if isinstance(value, tl.constexpr) else value
    if parameter.is_constexpr or value is None:
        return value
    if isinstance(value, TensorDescriptor):
        return interpreter._implicit_cvt(value)
    if isinstance(value, tuple):
        items = [convert(parameter, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    annotated = parameter.annotation_type
    if hasattr(value, "data_ptr"):
        return _pointer(value, annotated or mangle_type(value))
    if isinstance(value, bool):
        return _scalar(value, annotated or "u1")
    if isinstance(value, int):
        if value == 1 and parameter.is_specialised and not annotated:
            return 1
        return _scalar(value, annotated or mangle_type(value))
    if isinstance(value, float):
        return _scalar(value, annotated or "fp32")
    return value
