"""The hostile corpus against the CLI: the right verdict, the run completes, nothing is left, nothing is lost.

Each candidate costs a fresh `gpuemu check` in a folder of its own, hence the slow tier.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import corpus
import project
import pytest

from gpuemu.model.verdict import Kind, Status

ON_CPU = [hostile for hostile in corpus.HOSTILE if hostile.device == "cpu"]
ON_CUDA = [hostile for hostile in corpus.HOSTILE if hostile.device == "cuda"]
# HACKS.md's others are about time alone; gpuemu measures none.
TIME_ALONE = {22, 35, 38}


@functools.cache
def has_worker() -> bool:
    """Whether this gpuemu has the options of the blind worker."""
    command = [sys.executable, "-m", "gpuemu", "check", "--help"]
    return "--runner" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, removed afterwards: some candidates fill theirs."""
    yield tmp_path / "project"
    project.remove(tmp_path / "project")


def test_every_candidate_has_a_row_and_every_row_a_candidate() -> None:
    files = {path.stem for path in corpus.CANDIDATES.glob("*.py")}
    names = [hostile.name for hostile in corpus.HOSTILE]
    assert sorted(names) == sorted(files)


@pytest.mark.parametrize("hostile", corpus.HOSTILE, ids=lambda hostile: hostile.name)
def test_a_row_says_what_its_candidate_says(hostile: corpus.Hostile) -> None:
    text = hostile.path.read_text()
    assert re.search(rf"^def {hostile.op}\(", text, re.MULTILINE), "its function has the op's name"
    told = {int(number) for number in re.findall(r"\d+", hostile.tries.split(",")[0].split(":")[0])}
    assert told <= set(hostile.hacks), "its docstring begins with its number in HACKS.md"
    assert set(hostile.statuses) <= {*map(str, Status), corpus.REFUSED}
    plain = {*map(str, Kind), "crash", "hang", "memory", "output_size", "protocol", "exception"}
    assert all(kind in plain or kind.startswith("guard:") for kind in hostile.kinds)
    assert hostile.kinds or {corpus.PASS, corpus.REFUSED} & set(hostile.statuses)
    assert hostile.unprotected in corpus.UNPROTECTED
    assert hostile.naive in ("", "first", "after", "both")


def test_the_corpus_covers_every_way_that_is_not_about_time() -> None:
    covered = {number for hostile in corpus.HOSTILE for number in hostile.hacks}
    assert covered == set(range(1, 39)) - TIME_ALONE


@pytest.mark.slow
@pytest.mark.parametrize("hostile", ON_CPU, ids=lambda hostile: hostile.name)
def test_the_verdict_is_right_and_nothing_is_left(hostile: corpus.Hostile, folder: Path) -> None:
    assert_right(hostile, folder)


@pytest.mark.gpu
@pytest.mark.parametrize("hostile", ON_CUDA, ids=lambda hostile: hostile.name)
def test_the_verdict_is_right_on_a_device(hostile: corpus.Hostile, folder: Path) -> None:
    assert_right(hostile, folder)


@pytest.mark.slow
@pytest.mark.parametrize("hostile", ON_CPU, ids=lambda hostile: hostile.name)
def test_the_naive_judge_is_taken_in_as_the_table_says(hostile: corpus.Hostile, folder: Path) -> None:
    for order in ("first", "after"):
        said = project.judge_naively(hostile.name, hostile.op, folder / order, order)
        assert (said == "accepts") == (hostile.naive in (order, "both")), (order, said)


def assert_right(hostile: corpus.Hostile, folder: Path) -> None:
    """Check a candidate with protections active, and compare with its row."""
    if not has_worker():
        pytest.skip("this gpuemu has no worker yet")
    options = ("--runner", "worker", "--timeout", str(hostile.call_timeout_s))
    outcome = project.check(hostile.name, hostile.op, folder, options, hostile.device, timeout_s=300)
    said = f"{outcome.status} {outcome.kinds} exit {outcome.exit_code}\n{outcome.stderr[-1000:]}"
    assert not outcome.timed_out, said
    assert hostile.is_right(outcome.status, outcome.kinds, outcome.exit_code), said
    assert not outcome.harm, (outcome.harm, said)
