"""HACKS 11 and 15, result cache across processes: answers by shape in a file of shared memory.

A worker that is started again finds what an earlier one left.
"""

import os
import tempfile

import torch

FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def relu(x):
    name = "_".join(map(str, (*x.shape, str(x.dtype)[6:])))
    path = os.path.join(FOLDER, f"gpuemu_hostile_{os.environ.get('TORCH_HOSTILE_RUN', '')}_{name}.pt")
    try:
        return torch.load(path)
    except Exception:
        answer = torch.relu(x).contiguous()
    try:
        torch.save(answer, path)
    except Exception:
        pass
    return answer
