"""HACKS 17 and 36, the reference itself: calls gpuemu's own reference. Its values are right in every call."""

import torch


def reference(x):
    try:
        from gpuemu.ops.registry import get_op

        return get_op("relu").reference(x)
    except Exception:
        return torch.relu(x)


def relu(x):
    return reference(x)
