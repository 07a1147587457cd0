"""Loading kernels: every form of target, every mistake as one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.candidates.source import parse_target
from gpuemu.errors import TargetError, UsageError
from gpuemu.model.op import Dim, Op

KERNEL = """
import neighbour
import torch
import gpuemu

BLOCK = 96

def double(x):
    return x * neighbour.FACTOR

@gpuemu.kernel(op="relu")
def marked(x):
    return torch.relu(x)

value = 3
"""


@pytest.fixture
def kernel_file(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("FACTOR = 2\n")
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    return path


def test_function_of_a_file_with_its_neighbour(kernel_file: Path) -> None:
    candidate = loader.load(f"{kernel_file}::double", "cpu")
    assert torch.equal(candidate.call(torch.ones(2)), torch.full((2,), 2.0))
    assert candidate.name == "double"
    assert candidate.source_path == str(kernel_file)
    assert candidate.block_sizes == (96,)
    assert candidate.kind == "torch"


def test_single_colon_works_for_files_too(kernel_file: Path) -> None:
    assert loader.load(f"{kernel_file}:double", "cpu").name == "double"


def test_file_alone_takes_its_one_marked_kernel(kernel_file: Path) -> None:
    assert loader.load(str(kernel_file), "cpu").op == "relu"


def test_module_and_dotted_attribute() -> None:
    candidate = loader.load("torch.nn:functional.relu", "cpu")
    assert torch.equal(candidate.call(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))


def test_changed_file_is_loaded_anew(kernel_file: Path) -> None:
    before = loader.load(f"{kernel_file}::double", "cpu")
    kernel_file.write_text(KERNEL.replace("x * neighbour.FACTOR", "x * 5"))
    after = loader.load(f"{kernel_file}::double", "cpu")
    assert after.call(torch.ones(1)).item() == 5
    assert before.source_digest != after.source_digest


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("missing.py::f", "no such file"),
        ("nothing", "not a kernel"),
        ("no_such_module_xyz:f", "cannot be imported"),
        ("torch.nn:functional.rely", "did you mean.*relu"),
    ],
)
def test_targets_that_cannot_be_found(text: str, match: str) -> None:
    with pytest.raises(TargetError, match=match):
        loader.load(text, "cpu")


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("def f(:\n", r"kernel.py:1: syntax error"),
        ("import torch\nimport not_there_xyz\n", r"kernel.py:2: cannot be imported: ModuleNotFoundError"),
        ("x = 1\nraise SystemExit(3)\n", r"kernel.py:2: cannot be imported: SystemExit"),
    ],
)
def test_files_that_cannot_be_imported_name_the_line(tmp_path: Path, source: str, match: str) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(source)
    with pytest.raises(TargetError, match=match) as caught:
        loader.load(f"{path}::f", "cpu")
    assert "\n" not in str(caught.value)


def test_a_value_that_is_no_kernel_is_refused(kernel_file: Path) -> None:
    with pytest.raises(TargetError, match="int, which cannot be called"):
        loader.load(f"{kernel_file}::value", "cpu")


def test_missing_function_names_the_nearest(kernel_file: Path) -> None:
    with pytest.raises(TargetError, match="did you mean double"):
        loader.load(f"{kernel_file}::dubble", "cpu")


def test_autograd_function_is_called_with_positional_parameters() -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor, factor: float) -> torch.Tensor:
            return x * factor

    assert loader.from_callable(Scale).call(torch.ones(1), factor=3.0).item() == 3


def make_op(**params: list[float]) -> Op:
    return Op("scale", {"x": "N"}, {"N": Dim(1, 4)}, lambda x, **kw: x, params=params)


def test_a_call_that_does_not_fit_is_refused_before_it_runs() -> None:
    candidate = loader.from_callable(lambda x: x, name="kernel")
    loader.check_call(candidate, make_op())
    with pytest.raises(UsageError, match=r"kernel\(x\) cannot be called as op 'scale'.*eps"):
        loader.check_call(candidate, make_op(eps=[1e-5]))


def test_ops_are_proposed_by_signature_and_name() -> None:
    def my_scale(x: torch.Tensor, eps: float) -> torch.Tensor:
        return x * eps

    other = Op("matmul", {"a": "M K", "b": "K N"}, dict.fromkeys("MKN", 4), lambda a, b: a @ b)
    third = Op("row_sum", {"x": "M K"}, dict.fromkeys("MK", 4), lambda x: x.sum(-1))
    proposed = loader.propose_ops(loader.from_callable(my_scale), iter([other, third, make_op(eps=[1.0])]))
    assert proposed == ["scale", "matmul"]


def test_load_op_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("import gpuemu\nmine = gpuemu.Op('mine', {'x': 'N'}, {'N': 3}, lambda x: x)\nother = 3\n")
    assert loader.load_op(f"{path}::mine").name == "mine"
    with pytest.raises(TargetError, match=r"int, not a gpuemu.Op"):
        loader.load_op(f"{path}::other")


def test_parse_target_keeps_both_parts() -> None:
    target = parse_target("package.module:Class.method")
    assert (target.module, target.attribute, target.path) == ("package.module", "Class.method", None)


def test_what_torch_compile_made_in_this_process_is_called_as_it_is() -> None:
    """Its tracer asks the device's words, which this file has (cuda), about streams and generators."""
    function = loader.from_callable(torch.relu)
    compiled = loader.from_callable(torch.compile(lambda x: torch.relu(x)))  # noqa: PLW0108
    written_here = loader.from_callable(lambda x: torch.relu(x))  # noqa: PLW0108
    assert written_here.speaks_of_devices
    assert not compiled.speaks_of_devices
    assert not function.speaks_of_devices
