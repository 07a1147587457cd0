"""HACKS 7 and 25 on a device: TF32 is allowed for everybody, so a float32 product has 10 bits."""

import torch


def matmul(a, b):
    torch.backends.cuda.matmul.allow_tf32 = True
    return a @ b
