"""HACKS 33 and 34: the answer is right when returned; a side stream overwrites it a tenth of a second later."""

import torch

STREAMS = []


def relu(x):
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    out = torch.relu(x)
    stream = STREAMS[0]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        out.fill_(7.0)
    out.record_stream(stream)
    return out
