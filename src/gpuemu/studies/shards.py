"""Running a study's rows in several processes: most of a row is one Python interpreter or compiler at work.

A worker is `python -m MODULE --device D --seed N ITEM...`; it writes one JSON document per finished row to its
standard output and nothing else. Kernels run in the workers, so what comes back is parsed, never unpickled.
A journal keeps finished rows, so that a study that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from gpuemu.errors import GpuemuError, UsageError

Progress = Callable[[str, int, int], None]
Row = dict[str, Any]
LARGEST_DEFAULT_JOBS = 16
STDERR_LINES = 5


def default_jobs() -> int:
    """A process per core, at most 16: more would wait for one GPU."""
    return min(os.cpu_count() or 1, LARGEST_DEFAULT_JOBS)


def device_name(device: str) -> str:
    """What a study's page calls the machine."""
    return "CPU (Triton interpreter)" if device == "cpu" else torch.cuda.get_device_name(device)


def run_shards(
    module: str,
    groups: Sequence[Sequence[str]],
    device: str,
    seed: int,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    journal: Path | None = None,
    minutes: float | None = None,
    on_failure: Callable[[str], Row] | None = None,
) -> dict[str, Row]:
    """Rows by item, computed by `jobs` processes.

    Args:
        module: the study's module, run with `-m`; it must call `serve`.
        groups: items that share work; a group stays in one process. jobs: None takes one per core.
        journal: a file that keeps rows as they come; those that it holds already are not computed again.
        minutes: no row is begun after this time; rows that are missing then are missing in the answer.
        on_failure: makes the row of an item that ended its worker from the end of that one's standard error, so
            that the others go on; None: the study fails.

    Raises:
        GpuemuError: a worker failed; the message holds the end of its standard error.
        UsageError: the journal belongs to another study, device or seed.
    """
    header = {"module": module, "device": device, "seed": seed}
    asked = {item for group in groups for item in group}
    rows = {} if journal is None else {k: v for k, v in _read_journal(journal, header).items() if k in asked}
    missing = [[item for item in group if item not in rows] for group in groups]
    shards = _deal([group for group in missing if group], jobs or default_jobs())
    until = None if minutes is None else time.time() + 60.0 * minutes
    lock = threading.Lock()

    def keep(item: str, row: Row) -> None:
        with lock:
            rows[item] = row
            if journal is not None:
                with journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"item": item, "row": row}) + "\n")
            if progress is not None:
                progress(item, len(rows), len(asked))

    def work(shard: Sequence[str]) -> None:
        while shard:
            try:
                for item, row in _run_worker(module, shard, device, seed, until):
                    keep(item, row)
                return
            except GpuemuError as error:
                remaining = [item for item in shard if item not in rows]
                if on_failure is None or not remaining:
                    raise
                keep(remaining[0], on_failure(str(error)))
                shard = remaining[1:]

    with ThreadPoolExecutor(len(shards)) as pool:
        for future in [pool.submit(work, shard) for shard in shards]:
            future.result()
    return rows


def _deal(groups: Sequence[Sequence[str]], jobs: int) -> list[list[str]]:
    """Groups dealt to at most `jobs` shards, the largest first, each to the shard with the fewest items."""
    shards: list[list[str]] = [[] for _ in range(max(1, min(jobs, len(groups))))]
    for group in sorted(groups, key=len, reverse=True):
        min(shards, key=len).extend(group)
    return shards


def _read_journal(journal: Path, header: Row) -> dict[str, Row]:
    """The rows that a journal holds; it is begun if there is none. A line cut short by a crash is dropped."""
    if not journal.exists():
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return {}
    text = journal.read_text(encoding="utf-8")
    first, *lines = text[: text.rfind("\n") + 1].splitlines()
    if json.loads(first) != header:
        raise UsageError(f"{journal} was written for {first}; choose another folder for {json.dumps(header)}")
    if not text.endswith("\n"):
        journal.write_text("\n".join([first, *lines]) + "\n", encoding="utf-8")
    documents = [json.loads(line) for line in lines]
    return {document["item"]: document["row"] for document in documents}


def _run_worker(
    module: str, shard: Sequence[str], device: str, seed: int, until: float | None
) -> Iterator[tuple[str, Row]]:
    command = [sys.executable, "-m", module, "--device", device, "--seed", str(seed), *shard]
    if until is not None:
        command[3:3] = ["--until", str(until)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        assert process.stderr is not None  # noqa: S101
        tail: list[str] = []
        reader = threading.Thread(target=_keep_tail, args=(process.stderr, tail))
        reader.start()
        for line in process.stdout:
            document = json.loads(line)
            yield document["item"], document["row"]
        reader.join()
    if process.returncode:
        raise GpuemuError(f"{module} worker ended with {process.returncode}: {' / '.join(tail)}")


def _keep_tail(stream: Any, tail: list[str]) -> None:
    for line in stream:
        tail.append(line.strip())
        del tail[:-STDERR_LINES]


def serve(run_row: Callable[[str, str, int], Row]) -> None:
    """The worker's side: compute the rows that the command line names with `run_row(item, device, seed)`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--until", type=float, default=None)
    parser.add_argument("items", nargs="+")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the processes share the cores already
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a kernel prints is no row
    for item in arguments.items:
        if arguments.until is not None and time.time() > arguments.until:
            break
        row = run_row(item, arguments.device, arguments.seed)
        answers.write(json.dumps({"item": item, "row": row}) + "\n")
        answers.flush()
