"""Makes Triton kernels run soundly without a GPU, through a repaired form of Triton's own interpreter.

`install()` replaces, in this process and until `uninstall()`:

- the interpreter's numbers, so that bfloat16 and fp8 compute and convert as on a device (`triton_numbers`,
  `triton_types`, `triton_builder`, `triton_memory`), its reductions and scans (`triton_reduction`) and
  libdevice (`triton_libdevice`);
- how a kernel's Python is read, so that masks, conditions and loops mean what the compiler makes of them
  (`triton_source`), and its arguments, so that scalars have the types of a compiled launch
  (`triton_arguments`);
- the launch (`triton_launch`): programs are counted, the language is patched once a launch
  (`triton_language`);
- `@triton.autotune`, which takes its first configuration that survives pruning instead of timing them.

Kernels are interpreted whether or not TRITON_INTERPRET was set when they were decorated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from gpuemu import environment
from gpuemu.candidates.replaced import ReplacedAttributes
from gpuemu.errors import UnsupportedEnvironmentError

OLDEST = (3, 6)
NEWEST = (3, 9)
_replaced = ReplacedAttributes()


def check_version() -> None:
    """Raise UnsupportedEnvironmentError unless a Triton that this repair was tested with is installed."""
    version = environment.get_package_version("triton")
    wanted = f"triton>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
    if version is None:
        raise UnsupportedEnvironmentError(f"Triton is not installed: pip install '{wanted}'")
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        raise UnsupportedEnvironmentError(
            f"Triton {version} is installed, but its interpreter is repaired for 3.6 to 3.9 only: "
            f"pip install '{wanted}'"
        )


def is_installed() -> bool:
    """Whether the repair is in place in this process."""
    return bool(_replaced)


def install() -> None:
    """Put the repair in place; a second call does nothing.

    Raises:
        UnsupportedEnvironmentError: Triton is missing, or of a version other than 3.6 to 3.9.
    """
    if is_installed():
        return
    check_version()
    for target, name, value in _changes():
        _replaced.replace(target, name, value)


def uninstall() -> None:
    """Take the repair back: Triton is as it was before `install()`."""
    _replaced.restore()


@contextmanager
def installed() -> Iterator[None]:
    """The repair in place for a block, and as it was before on leaving it."""
    before = is_installed()
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


def _changes() -> list[tuple[Any, str, Any]]:
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from gpuemu.candidates import triton_builder, triton_launch, triton_types

    changes: list[tuple[Any, str, Any]] = [
        (interpreter, "_get_np_dtype", triton_types.get_numpy_dtype),
        (interpreter, "_convert_float", triton_types.convert_to_bits),
        (interpreter, "interpreter_builder", triton_builder.BUILDER),
        (interpreter, "interpreter_semantic", triton_builder.SEMANTIC),
        (Autotuner, "run", _run_first_configuration),
    ]
    if hasattr(interpreter, "_mxfp_value_handle_to_float32"):
        changes.append((interpreter, "_mxfp_value_handle_to_float32", triton_types.to_scaled_operand))
    for kind in (interpreter.InterpretedFunction, JITFunction):
        changes.append((kind, "run", _run))
        changes.append((kind, "__call__", triton_launch.run_device_function))
    return changes


def _run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    from gpuemu.candidates import triton_launch

    if not warmup:
        triton_launch.run_kernel(self, grid, self.pre_run_hooks, args, kwargs)


def _run_first_configuration(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`Autotuner.run` without timing: what a launch does once its first configuration is in the cache."""
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    configurations = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs
    chosen = self.best_config = configurations[0]
    if chosen.pre_hook is not None:
        chosen.pre_hook({**self.nargs, **kwargs, **chosen.all_kwargs()})
    result = self.fn.run(*args, **kwargs, **chosen.all_kwargs())
    self.nargs = None
    return result


def interpreter_faults() -> tuple[str, ...]:
    """What the interpreter still gets wrong on this machine, a line each; empty means sound.

    Raises:
        UnsupportedEnvironmentError: as `install`.
    """
    with installed():
        from gpuemu.candidates import triton_selfcheck

        return triton_selfcheck.find_faults()


def program_count() -> int:
    """Triton programs that were interpreted in this process so far."""
    from gpuemu.candidates import triton_launch

    return triton_launch.program_count()


def count_programs() -> AbstractContextManager[Any]:
    """Context manager: a `triton_launch.ProgramCount` of the launches made within the block."""
    from gpuemu.candidates import triton_launch

    return triton_launch.count_programs()


@contextmanager
def masked_lane_fill(fill: Callable[[Any, tuple[int, ...]], Any]) -> Iterator[None]:
    """Within the block, masked lanes of a load that gives no `other` read `fill(numpy dtype, shape)`.

    On a device those lanes are undefined. Without this block they read 0, as in Triton's interpreter.
    """
    from gpuemu.candidates.triton_builder import BUILDER

    before = BUILDER.fill_masked
    BUILDER.fill_masked = fill
    try:
        yield
    finally:
        BUILDER.fill_masked = before


def ensure_interpretable(module: ModuleType) -> tuple[str, ...]:
    """Names in `module` of kernels decorated without TRITON_INTERPRET; afterwards they are interpreted.

    `install()` alone achieves this, for all modules: a launch or a device call goes through the class
    `JITFunction`, whose `run` and `__call__` it replaces, so references held elsewhere (autotuners, heuristics,
    `from module import kernel`, tensor methods) need no rebinding. The kernel's Python function is intact in
    its attribute `fn`.
    """
    install()
    from triton.runtime.jit import JITFunction

    return tuple(sorted(name for name, value in vars(module).items() if _is_kernel(value, JITFunction)))


def _is_kernel(value: Any, kind: type) -> bool:
    # Autotuner and Heuristics wrap the function that they tune in `fn`.
    while type(value).__module__.startswith("triton.runtime") and not isinstance(value, kind):
        value = getattr(value, "fn", None)
    return isinstance(value, kind)
