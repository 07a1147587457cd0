"""What is installed on this machine, which tiers work, and how to mend what does not."""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from gpuemu import environment
from gpuemu.config import load_configuration
from gpuemu.errors import GpuemuError

TRITON_MEND = "pip install 'gpuemu[triton]'"
TORCH_MEND = "pip install 'torch>=2.6'"
CUDA_TORCH_MEND = "install a CUDA build of torch: https://pytorch.org/get-started/locally"
PROTECTIONS_MEND = "permit user namespaces and Landlock here; until then trust no kernel that you would not run"
CHILD_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Item:
    """One line of the diagnosis. "absent" is a thing that nothing here needs; a "problem" has a mend."""

    name: str
    state: Literal["ok", "absent", "problem"]
    detail: str
    mend: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """Every item, in the order of reading, and whether the CPU tier works."""

    items: tuple[Item, ...]
    cpu_tier_works: bool


def diagnose(folder: Path) -> Diagnosis:
    """Look at this machine from a working folder; takes seconds, since each tier is tried."""
    torch_item = check_package("torch", "2.6", TORCH_MEND)
    arrays = [check_package(name, "", f"pip install {name}") for name in ("numpy", "ml_dtypes")]
    interpreter = check_interpreter()
    cuda = check_cuda(torch_item)
    cpu_tier = check_cpu_tier([torch_item, *arrays])
    items = (
        Item("python", "ok", f"{platform.python_version()} ({sys.executable})"),
        torch_item,
        *arrays,
        check_triton(),
        cuda,
        check_program("nvcc"),
        check_ptxas(),
        check_sanitizer(),
        check_matplotlib(),
        check_configuration(folder),
        check_store(folder),
        check_protections(),
        cpu_tier,
        interpreter,
        check_cuda_tier(cuda),
    )
    return Diagnosis(items, cpu_tier.state == "ok")


def check_package(name: str, oldest: str, mend: str) -> Item:
    """A package that must be importable: an installed one may still be broken."""
    version = environment.get_package_version(name)
    if version is None:
        return Item(name, "problem", "not installed", mend)
    if oldest and _parse_version(version) < _parse_version(oldest):
        return Item(name, "problem", f"{version} is older than {oldest}", mend)
    try:
        import_module(name)
    except Exception as error:
        return Item(name, "problem", f"{version} cannot be imported: {_one_line(error)}", f"{mend} again")
    return Item(name, "ok", version)


def _parse_version(text: str) -> tuple[int, ...]:
    numbers = text.partition("+")[0].split(".")[:2]
    return tuple(int("".join(filter(str.isdigit, number)) or 0) for number in numbers)


def check_triton() -> Item:
    """Whether a Triton of the supported range is installed; only Triton kernels need one."""
    from gpuemu.candidates.triton_interpreter import check_version

    version = environment.get_package_version("triton")
    if version is None:
        return Item("triton", "problem", "not installed", TRITON_MEND)
    try:
        check_version()
    except GpuemuError:
        return Item("triton", "problem", f"{version} is outside the supported 3.6 to 3.9", TRITON_MEND)
    return Item("triton", "ok", version)


def check_interpreter() -> Item:
    """Whether Triton kernels run soundly without a GPU."""
    from gpuemu.candidates.triton_interpreter import interpreter_faults

    name = "triton on CPU"
    try:
        faults = interpreter_faults()
    except GpuemuError:
        return Item(name, "problem", "does not work without a supported Triton", TRITON_MEND)
    except Exception as error:
        return Item(name, "problem", f"does not work: {_one_line(error)}", "please report this")
    if faults:
        return Item(name, "problem", f"unsound: {'; '.join(faults)}", "please report this")
    return Item(name, "ok", "works: the interpreter passed its self-check")


def check_cuda(torch_item: Item) -> Item:
    """The CUDA device that torch sees, or why it sees none."""
    if torch_item.state != "ok":
        return Item("cuda", "absent", "unknown without torch")
    import torch

    seen = _query_driver()
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        count = torch.cuda.device_count()
        more = f" and {count - 1} more" if count > 1 else ""
        driver = f", driver {seen[1]}" if seen else ""
        name = torch.cuda.get_device_name()
        return Item("cuda", "ok", f"{name}{more}, sm_{major}{minor}, CUDA {torch.version.cuda}{driver}")
    build = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
    if not seen:
        return Item("cuda", "absent", f"no NVIDIA device or driver; this torch is {build}")
    mend = "update the NVIDIA driver" if torch.version.cuda else CUDA_TORCH_MEND
    return Item("cuda", "problem", f"{seen[0]} (driver {seen[1]}) is there, but torch is {build}", mend)


def _query_driver() -> tuple[str, str] | None:
    """Name and driver version of the first NVIDIA device, as its own tool reports them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    name, _, driver = next(iter(done.stdout.splitlines()), "").partition(",")
    return (name.strip(), driver.strip()) if driver else None


def check_program(name: str) -> Item:
    """A program that only later tiers use."""
    path = shutil.which(name)
    return Item(name, "ok", path) if path else Item(name, "absent", "not found; nothing here needs it")


def check_ptxas() -> Item:
    """The assembler on the path, else the one that Triton brings along."""
    item = check_program("ptxas")
    if item.state == "ok" or environment.get_package_version("triton") is None:
        return item
    from importlib.util import find_spec

    spec = find_spec("triton")
    bundled = Path(spec.origin).parent / "backends/nvidia/bin/ptxas" if spec and spec.origin else Path()
    return Item("ptxas", "ok", f"Triton's own, {bundled}") if bundled.is_file() else item


def check_sanitizer() -> Item:
    """Whether `gpuemu sanitize` has a program; whether that works is tried on each case anew."""
    from gpuemu.sanitizer import tools

    path = tools.find_program()
    return Item(tools.PROGRAM, *(("ok", path) if path else ("absent", "not found; `gpuemu sanitize` needs it")))


def check_matplotlib() -> Item:
    """Optional: draws the studies' plots."""
    version = environment.get_package_version("matplotlib")
    if version is None:
        return Item(
            "matplotlib", "absent", "not installed; studies go without plots", "pip install 'gpuemu[plots]'"
        )
    return Item("matplotlib", "ok", version)


def check_configuration(folder: Path) -> Item:
    """The configuration file that holds here."""
    try:
        source = load_configuration(folder).source
    except GpuemuError as error:
        return Item("configuration", "problem", str(error), "correct the file")
    return Item("configuration", "ok", str(source) if source else "no file; built-in defaults")


def check_store(folder: Path) -> Item:
    """Whether records can be kept: the folder's nearest existing parent is written to."""
    import tempfile

    try:
        store = load_configuration(folder).store_path
    except GpuemuError:
        store = environment.get_store_path()
    place = store if store.is_absolute() else folder / store
    existing = next(path for path in (place, *place.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        mend = "set GPUEMU_STORE to a folder that you can write to, or use --no-store"
        return Item("store", "problem", f"{place} cannot be written: {error.strerror}", mend)
    return Item("store", "ok", str(place))


def check_protections() -> Item:
    """What would keep an untrusted kernel from the judge here, each tried, and why the rest would not."""
    from gpuemu.run.sandbox import probe

    report = probe()
    active = ", ".join(report.active) or "none"
    if not report.missing:
        return Item("worker protections", "ok", active)
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.missing.items():
        by_reason.setdefault(reason, []).append(name)
    missing = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return Item("worker protections", "problem", f"active: {active}; missing: {missing}", PROTECTIONS_MEND)


def check_cpu_tier(needed: list[Item]) -> Item:
    """Run the main job once on a kernel known to be right."""
    missing = [item.name for item in needed if item.state != "ok"]
    if missing:
        return Item("CPU tier", "problem", f"does not work without {', '.join(missing)}", "see above")
    return _try("CPU tier", _check_relu)


def _check_relu() -> str:
    import torch

    from gpuemu import checking

    report = checking.check(torch.relu, "relu", budget=4, seed=0, store=False)
    if report.failures:
        raise AssertionError(f"torch.relu was judged {report.status}: {report.message}")
    return f"works: checked torch.relu on {len(report.records)} cases"


def check_cuda_tier(cuda: Item) -> Item:
    """Check a kernel known to be right on the device, in a process of its own: its tier is chosen at import."""
    if cuda.state != "ok":
        return Item("CUDA tier", "absent", "no device that torch can use")
    return _try("CUDA tier", _check_relu_on_device)


def _check_relu_on_device() -> str:
    arguments = "check relu_triton --device cuda --budget 4 --seed 0 --no-store --json"
    done = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-m", "gpuemu", *arguments.split()],
        capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(_what_failed(done.stdout) or done.stderr.strip().rpartition("\n")[2])
    return "works: checked relu_triton on 4 cases"


def _what_failed(document: str) -> str:
    """Of a report in JSON: the first verdict that is not a pass."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        verdicts = [record["verdict"] for record in json.loads(document)["records"]]
        failed = next(verdict for verdict in verdicts if verdict["status"] != "pass")
        return f"relu_triton was judged {failed['status']} ({failed.get('kind')}): {failed.get('message')}"
    return ""


def _try(name: str, attempt: Callable[[], str]) -> Item:
    try:
        return Item(name, "ok", attempt())
    except Exception as error:
        return Item(name, "problem", f"does not work: {_one_line(error)}", "please report this")


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
