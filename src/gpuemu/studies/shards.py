"""Running a study's rows in several processes: most of a row is one Python interpreter or compiler at work.

A worker is `python -m MODULE --device D --seed N ITEM...`; it writes one JSON document per finished row to its
standard output and nothing else. Kernels run in the workers, so what comes back is parsed, never unpickled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from gpuemu.errors import GpuemuError

Progress = Callable[[str, int, int], None]
Row = dict[str, Any]
LARGEST_DEFAULT_JOBS = 8
STDERR_LINES = 5


def default_jobs() -> int:
    """A process per core, at most 8: more would wait for one GPU."""
    return min(os.cpu_count() or 1, LARGEST_DEFAULT_JOBS)


def run_shards(
    module: str,
    groups: Sequence[Sequence[str]],
    device: str,
    seed: int,
    jobs: int,
    progress: Progress | None = None,
) -> dict[str, Row]:
    """Rows by item, computed by `jobs` processes.

    Args:
        module: the study's module, run with `-m`; it must call `serve`.
        groups: items that share work; a group stays in one process.

    Raises:
        GpuemuError: a worker failed; the message holds the end of its standard error.
    """
    shards = _deal(groups, jobs)
    total = sum(map(len, shards))
    rows: dict[str, Row] = {}
    lock = threading.Lock()

    def work(shard: Sequence[str]) -> None:
        for item, row in _run_worker(module, shard, device, seed):
            with lock:
                rows[item] = row
                if progress is not None:
                    progress(item, len(rows), total)

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


def _run_worker(module: str, shard: Sequence[str], device: str, seed: int) -> Iterator[tuple[str, Row]]:
    command = [sys.executable, "-m", module, "--device", device, "--seed", str(seed), *shard]
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
    parser.add_argument("items", nargs="+")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the processes share the cores already
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a kernel prints is no row
    for item in arguments.items:
        row = run_row(item, arguments.device, arguments.seed)
        answers.write(json.dumps({"item": item, "row": row}) + "\n")
        answers.flush()
