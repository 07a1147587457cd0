"""HACKS 33: computes on a stream of its own, which nobody waits for, behind a long kernel."""

import torch

STREAMS = []


def relu(x):
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    stream = STREAMS[0]
    stream.wait_stream(torch.cuda.current_stream())
    out = torch.zeros_like(x)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        out.copy_(torch.relu(x))
    out.record_stream(stream)
    return out
