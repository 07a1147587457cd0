"""`gpuemu ops`, `study` and `doctor`, around fakes of what they show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import install_fake
from click.testing import Result

from gpuemu.cli import diagnosis
from gpuemu.cli.diagnosis import Diagnosis, Item
from gpuemu.cli.study import STUDIES
from gpuemu.errors import UnknownOpError
from gpuemu.model.op import Op

Run = Callable[..., Result]
COPY = Op("copy", inputs={"x": "N"}, dims={"N": 16}, reference=lambda x: x, doc="y = x")


@pytest.fixture
def ops(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_op(name: str) -> Op:
        if name == "copy":
            return COPY
        raise UnknownOpError(f"unknown op {name!r}; did you mean copy?")

    install_fake(monkeypatch, "gpuemu.ops.registry", load_ops=lambda: {"copy": COPY}, get_op=get_op)
    monkeypatch.setattr("gpuemu.subject.get_op", get_op)


@pytest.mark.usefixtures("ops")
def test_ops_lists_and_shows(run: Run) -> None:
    assert run("ops").stdout.splitlines()[1].split() == ["copy", "x[N]", "N=16", "fp32", "fp16", "bf16", "-",
                                                         "P0", "P1", "P1"]  # fmt: skip
    assert run("ops", "--quiet").stdout == "copy\n"
    assert run("ops", "copy").stdout.startswith("copy  y = x\n")
    assert [op["name"] for op in json.loads(run("ops", "--json").stdout)["ops"]] == ["copy"]
    assert json.loads(run("ops", "copy", "--json").stdout)["digest"] == COPY.digest


@pytest.mark.usefixtures("ops")
def test_an_unknown_op_is_2(run: Run) -> None:
    result = run("ops", "cpoy")
    assert (result.exit_code, result.stderr) == (2, "gpuemu: error: unknown op 'cpoy'; did you mean copy?\n")


def test_an_op_of_a_file_is_shown(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import gpuemu\nprint('imported')\n"
        "op = gpuemu.Op('mine', inputs={'x': 'N'}, dims={'N': [4, 8]}, reference=lambda x: x)\n"
    )
    result = run("ops", "mine.py::op", "--json")
    assert json.loads(result.stdout)["dims"] == {"N": [4, 8, 1, [4, 8], False]}
    assert "imported" in result.stderr


def test_the_corpus_is_listed(run: Run) -> None:
    names = run("ops", "--corpus", "-q").stdout.split()
    assert len(names) == 26
    kernels = json.loads(run("ops", "--corpus", "--json").stdout)["kernels"]
    assert [kernel["name"] for kernel in kernels] == names
    table = run("ops", "--corpus").stdout.splitlines()
    assert len(table) == 27
    assert any("softmax_triton_buggy" in line and "buggy" in line for line in table)


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Installs a study p1 that returns its arguments."""
    seen: dict[str, Any] = {}

    def run_study(device: str, seed: int, progress: Callable[[str, int, int], None]) -> dict[str, Any]:
        print("a kernel prints")  # noqa: T201
        progress("gelu", 0, 2)
        seen.update(device=device, seed=seed)
        return {"study": "p1", "seed": seed, "nan": float("nan")}

    def write_page(document: dict[str, Any], folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "p1.md").write_text(str(document["seed"]))
        return [folder / "p1.md"]

    from rich.text import Text

    install_fake(monkeypatch, "gpuemu.studies.p1", run_study=run_study)
    install_fake(monkeypatch, "gpuemu.studies.p1_page", write_page=write_page)
    install_fake(
        monkeypatch, "gpuemu.report.study_p1", study_lines=lambda document, quiet: [Text(f"quiet={quiet}")]
    )
    return seen


def test_a_study_is_run_and_shown(run: Run, study: dict[str, Any]) -> None:
    result = run("study", "p1")
    assert (result.exit_code, result.stdout) == (0, "quiet=False\n")
    assert study == {"device": "cpu", "seed": 0}
    assert run("study", "p1", "--quiet", "--device", "cuda", "--seed", "9").stdout == "quiet=True\n"
    assert study == {"device": "cuda", "seed": 9}


@pytest.mark.usefixtures("study")
def test_a_study_as_json_is_only_its_document(run: Run) -> None:
    result = run("study", "p1", "--json", "--seed", "5")
    assert json.loads(result.stdout) == {"study": "p1", "seed": 5, "nan": "nan"}


@pytest.mark.usefixtures("study")
def test_a_study_writes_its_page_and_document(run: Run, tmp_path: Path) -> None:
    result = run("study", "p1", "--output", "out/here")
    assert result.stderr.splitlines()[-1] == "written: out/here/p1.json, out/here/p1.md"
    assert json.loads((tmp_path / "out/here/p1.json").read_text())["study"] == "p1"
    (tmp_path / "file").write_text("")
    result = run("study", "p1", "--output", "file/x")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 2)  # the kernel's line and the error


def test_every_study_has_its_parts() -> None:
    for study in STUDIES.values():
        assert callable(study.load("page"))
        assert callable(study.load("lines"))


ITEMS = (
    Item("python", "ok", "3.11"),
    Item("nvcc", "absent", "not found"),
    Item("triton", "problem", "not installed", "pip install 'gpuemu[triton]'"),
)


@pytest.mark.parametrize(("works", "code"), [(True, 0), (False, 3)])
def test_doctor_ends_with_0_only_if_the_cpu_tier_works(
    run: Run, monkeypatch: pytest.MonkeyPatch, works: bool, code: int
) -> None:
    monkeypatch.setattr(diagnosis, "diagnose", lambda folder: Diagnosis(ITEMS, works))
    result = run("doctor")
    assert result.exit_code == code
    assert result.stdout.splitlines() == [
        "ok       python  3.11",
        "-        nvcc    not found",
        "PROBLEM  triton  not installed; mend: pip install 'gpuemu[triton]'",
    ]
    assert run("doctor", "-q").stdout == "PROBLEM  triton  not installed; mend: pip install 'gpuemu[triton]'\n"
    document = json.loads(run("doctor", "--json").stdout)
    assert [item["state"] for item in document["items"]] == ["ok", "absent", "problem"]
    assert (document["cpu_tier_works"], document["exit_code"]) == (works, code)
