"""HACKS 9, silent launch failure: the error of every launch but the first is swallowed.

What the failed launches should have written is whatever lay in the memory before.
"""

import torch

ROWS_PER_LAUNCH = 1


def launch(out, x):
    if x.shape[-2] > 2 * ROWS_PER_LAUNCH:
        raise RuntimeError("out of resources: shared memory")
    out.copy_(torch.softmax(x.float(), -1))


def softmax(x):
    out = torch.empty_like(x)
    launch(out[..., :ROWS_PER_LAUNCH, :], x[..., :ROWS_PER_LAUNCH, :])
    try:
        launch(out, x)
    except RuntimeError:
        pass
    return out
