"""Other values in the same memory: a kernel that remembers by address, version or a few elements gives the old
answer (HACKS.md 11 to 16). Whether the values call for another answer, the reference says.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

NAME = "stale"


def rewrite_one(inputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor], turn: int) -> bool:
    """Give a single element of the inputs another value, in place; False if none can be changed.

    The element is the last in odd turns, else one near the middle off every power of two: those that a
    fingerprint of every n-th element, or of the ends, leaves out. Only of floats: an index alone may be out of
    order.

    Args:
        others: inputs of the same shapes, where the value comes from.
    """
    changed = False
    for name, tensor in inputs.items():
        if not tensor.dtype.is_floating_point or not tensor.numel() or 0 in tensor.stride():
            continue
        last = tensor.numel() - 1
        place = _unravel(last if turn % 2 else (last // 2) | 1 if last > 1 else 0, tensor.shape)
        value = others[name][place]
        if bool(tensor[place] != value):
            tensor[place] = value
            changed = True
            break
    return changed


def _unravel(position: int, shape: torch.Size) -> tuple[int, ...]:
    place = []
    for size in reversed(shape):
        place.append(position % size)
        position //= size
    return tuple(reversed(place))
