"""What the catalogue states, and that it refuses a wrong corpus.toml."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gpuemu.corpus.catalogue import BUG_CLASSES, find_kernel, load_catalogue, read_catalogue
from gpuemu.errors import ConfigurationError, UsageError

# PUBLISHED.md, "Corpus": op -> (controls, twins).
PUBLISHED = {
    "softmax": ({"softmax_numpy", "softmax_triton"}, {"softmax_llm_buggy", "softmax_triton_buggy"}),
    "layernorm": ({"layernorm_numpy"}, set()),
    "matmul": ({"matmul_numpy", "matmul_triton"}, {"matmul_triton_buggy"}),
    "gelu": ({"gelu_triton"}, {"gelu_triton_buggy"}),
    "silu": ({"silu_triton"}, {"silu_triton_buggy"}),
    "rmsnorm": ({"rmsnorm_triton"}, {"rmsnorm_triton_buggy"}),
    "l2norm": ({"l2norm_triton"}, {"l2norm_triton_buggy"}),
    "relu": ({"relu_triton"}, set()),
    "sigmoid": ({"sigmoid_triton"}, set()),
    "tanh": ({"tanh_triton"}, set()),
    "elu": ({"elu_triton"}, set()),
    "leaky_relu": ({"leaky_relu_triton"}, {"leaky_relu_triton_buggy"}),
    "attention": ({"attention_triton"}, {"attention_triton_buggy"}),
    "flash_attention": ({"flash_attention_triton"}, {"flash_attention_triton_buggy"}),
}
CONTROL = """op = "square"

[[kernels]]
name = "square"
file = "square.py"
function = "square"
role = "control"
kind = "numpy"
"""
TWIN = """
[[kernels]]
name = "square_buggy"
file = "square.py"
function = "square"
role = "buggy"
kind = "numpy"
control = "square"
bug_class = "S: Wrong constant, eps, scale"
bug = "Cubes."
"""


def write_corpus(folder: Path, text: str) -> Path:
    op_folder = folder / "square"
    op_folder.mkdir()
    (op_folder / "square.py").write_text("def square(x): return x * x\n")
    (op_folder / "corpus.toml").write_text(text)
    return folder


def test_the_corpus_is_the_published_one() -> None:
    found: dict[str, tuple[set[str], set[str]]] = {op: (set(), set()) for op in PUBLISHED}
    for kernel in load_catalogue():
        found[kernel.op][kernel.role == "buggy"].add(kernel.name)
    assert found == PUBLISHED


def test_every_entry_points_at_a_function_of_its_file() -> None:
    for kernel in load_catalogue():
        tree = ast.parse(kernel.path.read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert kernel.function in functions
        imported = {name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in _names(node)}
        assert (kernel.kind == "triton") == ("triton" in imported)


def _names(node: ast.Import) -> set[str]:
    return {alias.name for alias in node.names}


def test_every_kernel_file_is_declared() -> None:
    declared = {kernel.path for kernel in load_catalogue()}
    folder = next(iter(declared)).parent.parent
    assert declared == {path for path in folder.glob("*/*.py") if path.parent.name != "population"}


def test_every_twin_states_its_fault_and_its_control() -> None:
    for kernel in load_catalogue():
        if kernel.role == "control":
            assert (kernel.control, kernel.bug_class, kernel.bug) == (None, None, None)
        else:
            assert kernel.control is not None
            assert find_kernel(kernel.control).role == "control"
            assert kernel.bug is not None
            assert kernel.bug.endswith(".")
            assert kernel.bug_class is not None
            letter, _, name = kernel.bug_class.partition(": ")
            assert BUG_CLASSES[letter] == name


def test_find_kernel_names_the_nearest() -> None:
    assert find_kernel("tanh_triton").op == "tanh"
    with pytest.raises(UsageError, match="did you mean softmax_triton"):
        find_kernel("softmx_triton")
    with pytest.raises(UsageError, match="it holds attention_triton, "):
        find_kernel("zzzzzz")


def test_reading_the_catalogue_imports_neither_torch_nor_triton() -> None:
    code = (
        "import sys; from gpuemu.corpus.catalogue import load_catalogue; load_catalogue();"
        "print({'torch', 'triton', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_folder_of_its_own_is_read(tmp_path: Path) -> None:
    control, twin = read_catalogue(write_corpus(tmp_path, CONTROL + TWIN))
    assert (control.name, control.op, control.path.name) == ("square", "square", "square.py")
    assert (twin.role, twin.control, twin.bug) == ("buggy", "square", "Cubes.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op = ", "not TOML"),
        (CONTROL + 'rol = "control"\n', "unknown key 'rol'; did you mean 'role'"),
        (CONTROL + 'control = "square"\n', "unknown key 'control'"),
        (CONTROL.replace('kind = "numpy"\n', ""), "'kind' is missing"),
        (CONTROL.replace('function = "square"\n', ""), "'function' is missing"),
        (CONTROL.replace('role = "control"', 'role = "contrl"'), "role is 'contrl'"),
        (CONTROL.replace('file = "square.py"', 'file = "cube.py"'), "there is no file"),
        (CONTROL.replace('function = "square"', "function = 3"), "function must be text"),
        (CONTROL + CONTROL.removeprefix('op = "square"\n'), "declared twice"),
        (CONTROL.replace('role = "control"\n', ""), "role is None"),
        (CONTROL + TWIN.replace('control = "square"', 'control = "cube"'), "'cube' is no control"),
        (CONTROL + TWIN.replace('control = "square"', 'control = "square_buggy"'), "is no control"),
        (CONTROL + TWIN.replace('bug = "Cubes."\n', ""), "'bug' is missing"),
        (CONTROL + TWIN.replace("S: Wrong", "T: Wrong"), "bug_class is"),
        ('op = "square"\nkernels = 3\n', r"\[\[kernels\]\]"),
        ('colour = "red"\n' + CONTROL, "unknown key 'colour'"),
    ],
)
def test_a_wrong_corpus_file_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_catalogue(write_corpus(tmp_path, text))
