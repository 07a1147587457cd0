"""HACKS 25, global state: precision, TF32 and determinism are set for everybody. Its values are right."""

import torch


def relu(x):
    torch.set_float32_matmul_precision("medium")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.use_deterministic_algorithms(True)
    return torch.relu(x)
