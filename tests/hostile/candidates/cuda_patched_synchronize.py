"""HACKS 23 and 33: `torch.cuda.synchronize` and events do nothing any more, and work is on a side stream."""

import torch

STREAM = []
torch.cuda.synchronize = lambda *_args, **_kwargs: None
torch.cuda.Event.elapsed_time = lambda *_args, **_kwargs: 0.001


def relu(x):
    if not STREAM:
        STREAM.append(torch.cuda.Stream())
    STREAM[0].wait_stream(torch.cuda.current_stream())
    out = torch.zeros_like(x)
    with torch.cuda.stream(STREAM[0]):
        torch.cuda._sleep(200_000_000)
        out.copy_(torch.relu(x))
    out.record_stream(STREAM[0])
    return out
