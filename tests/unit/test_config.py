"""Configuration comes from the nearest file, and every mistake in it is named with its key, value and file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu.config import Configuration, load_configuration
from gpuemu.errors import ConfigurationError
from gpuemu.model.contract import DEFAULT_LAYOUTS

EVERYTHING = """
seed = 18446744073709551615
budget = 7
device = "cuda:1"
dtypes = ["bfloat16", "float32"]
layouts = ["contiguous", "row_gap"]
values = ["bell", "adversarial"]
profile = "P2"
strategy = "covering"
strict = true
store = "runs"
"""


def write(folder: Path, text: str, name: str = "gpuemu.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_every_key_is_read(tmp_path: Path) -> None:
    source = write(tmp_path, EVERYTHING)
    assert load_configuration(tmp_path) == Configuration(
        seed=2**64 - 1,
        budget=7,
        device="cuda:1",
        dtypes=("bfloat16", "float32"),
        layouts=("contiguous", "row_gap"),
        values=("bell", "adversarial"),
        profile="P2",
        strategy="covering",
        strict=True,
        store=tmp_path / "runs",
        source=source,
    )


def test_pyproject_table_means_the_same(tmp_path: Path) -> None:
    write(tmp_path / "a", EVERYTHING)
    write(tmp_path / "b", "[project]\nname = 'x'\n[tool.gpuemu]\n" + EVERYTHING, "pyproject.toml")
    a, b = (vars(load_configuration(tmp_path / name)) for name in "ab")
    differing = {key for key in a if a[key] != b[key]}
    assert differing == {"source", "store"}


def test_the_nearest_file_wins_and_a_pyproject_without_our_table_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "budget = 1\n")
    write(tmp_path / "a", "[tool.gpuemu]\nbudget = 2\n", "pyproject.toml")
    write(tmp_path / "a" / "b", "[tool.ruff]\n", "pyproject.toml")
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir()
    assert load_configuration(inner).budget == 2
    assert load_configuration(tmp_path).budget == 1


def test_files_are_not_merged(tmp_path: Path) -> None:
    write(tmp_path, "budget = 1\nseed = 3\n")
    write(tmp_path / "a", "budget = 2\n")
    assert load_configuration(tmp_path / "a").seed is None


def test_no_file_sets_nothing(tmp_path: Path) -> None:
    assert load_configuration(tmp_path) == Configuration()


def test_two_files_in_one_folder_are_rejected(tmp_path: Path) -> None:
    write(tmp_path, "budget = 1\n")
    write(tmp_path, "[tool.gpuemu]\n", "pyproject.toml")
    with pytest.raises(ConfigurationError, match="keep one"):
        load_configuration(tmp_path)


def test_all_layouts(tmp_path: Path) -> None:
    write(tmp_path, 'layouts = "all"\n')
    assert load_configuration(tmp_path).layouts == DEFAULT_LAYOUTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bugdet = 3", "unknown key 'bugdet'; did you mean 'budget'?"),
        ("dtype = ['float32']", "unknown key 'dtype'; did you mean 'dtypes'?"),
        ("colour = 1", "unknown key 'colour'; known keys: seed, budget"),
        ("budget = 'many'", "budget = 'many' is not an integer of at least 1"),
        ("budget = 0", "budget = 0 is not an integer"),
        ("budget = true", "budget = True is not an integer"),
        ("budget = 4.0", "budget = 4.0 is not an integer"),
        ("seed = -1", "seed = -1 is not an integer from 0 to 2"),
        ("seed = 18446744073709551616", "seed = 18446744073709551616 is not"),
        ("device = 'rocm'", "device = 'rocm' is not \"cpu\""),
        ("device = 'cuda:x'", "device = 'cuda:x' is not"),
        ("device = 'cuda:\u0663'", "device = "),  # a digit, but not one that torch reads
        ("device = 'cuda\\n'", "device = "),
        ("dtypes = 'float32'", "dtypes = 'float32' is not a list"),
        ("dtypes = []", r"dtypes = \[\] is not a list"),
        ("dtypes = ['fp32']", "is not a list of names from float64, float32"),
        ("dtypes = [1]", r"dtypes = \[1\] is not"),
        ("dtypes = [['float32']]", "is not a list of names"),
        ("layouts = 'contiguous'", "layouts = 'contiguous' is not \"all\" or a list"),
        ("layouts = ['column']", 'is not "all" or a list of names from contiguous'),
        ("values = ['bel']", "is not a list of names from uniform, bell"),
        ("profile = 'p2'", "profile = 'p2' is not one of P0, P1, PF, PT, P8, P2"),
        ("profile = ['P2']", r"profile = \['P2'\] is not one of"),
        ("strategy = 3", "strategy = 3 is not the name"),
        ("strict = 'yes'", "strict = 'yes' is not true or false"),
        ("store = ''", "store = '' is not the path"),
        ("budget = ", "not TOML"),
    ],
)
@pytest.mark.parametrize("name", ["gpuemu.toml", "pyproject.toml"])
def test_mistakes_name_key_value_and_file(tmp_path: Path, name: str, text: str, message: str) -> None:
    source = write(tmp_path, text if name == "gpuemu.toml" else f"[tool.gpuemu]\n{text}", name)
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_configuration(tmp_path)
    assert str(source) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["tool = {gpuemu = 3}", "tool = {gpuemu = []}"])
def test_our_table_must_be_a_table(tmp_path: Path, text: str) -> None:
    write(tmp_path, text, "pyproject.toml")
    with pytest.raises(ConfigurationError, match="not a table"):
        load_configuration(tmp_path)


def test_a_file_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "gpuemu.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not TOML"):
        load_configuration(tmp_path)


def test_store_path_environment_then_file_then_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUEMU_STORE", raising=False)
    assert Configuration().store_path == Path(".gpuemu")
    assert Configuration(store=tmp_path).store_path == tmp_path
    monkeypatch.setenv("GPUEMU_STORE", "elsewhere")
    assert Configuration(store=tmp_path).store_path == Path("elsewhere")


def test_an_absolute_store_stays(tmp_path: Path) -> None:
    write(tmp_path, "store = '/var/runs'\n")
    assert load_configuration(tmp_path).store == Path("/var/runs")
