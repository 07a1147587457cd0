"""Outputs that change after the call has returned."""

from __future__ import annotations

import threading
import time

import torch

from gpuemu.run.guards import late_work


def test_a_thread_that_goes_on_writing_is_seen() -> None:
    output = torch.zeros(3)
    first = late_work.read_first([output])

    def write() -> None:
        time.sleep(0.01)
        output.fill_(1)

    thread = threading.Thread(target=write)
    thread.start()
    finding = late_work.compare([output], first, is_busy=True)
    thread.join()
    assert finding is not None
    assert finding.message == "output 0 went on changing after the call had returned"


def test_outputs_that_stay_are_no_finding() -> None:
    outputs = [torch.ones(3), torch.tensor([float("nan")])]
    assert late_work.compare(outputs, late_work.read_first(outputs), is_busy=False) is None
