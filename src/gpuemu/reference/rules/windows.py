"""Which element of a pooling window is the largest, where roundings or ties leave a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional

Tensor = torch.Tensor


class Windows(NamedTuple):
    """Options of a two-dimensional pooling, a number per spatial axis."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def spread(self, x: Tensor, places: Sequence[int], fill: float) -> Tensor:
        """The elements of every window: (images, kernel elements, windows), `fill` beyond the borders."""
        image = x.reshape(-1, 1, *x.shape[-2:])
        padded = functional.pad(image, self._margins(x, places), value=fill)
        return functional.unfold(padded, self.kernel, self.dilation, 0, self.stride)

    def gather(self, parts: Tensor, x: Tensor, places: Sequence[int]) -> Tensor:
        """The sum, for each element of x, of what the windows that hold it give to it; inverse of `spread`."""
        left, right, top, bottom = self._margins(x, places)
        height, width = x.shape[-2:]
        size = (height + top + bottom, width + left + right)
        folded = functional.fold(parts, size, self.kernel, self.dilation, 0, self.stride)
        return folded[..., top : top + height, left : left + width].reshape(x.shape)

    def _margins(self, x: Tensor, places: Sequence[int]) -> list[int]:
        """Left, right, top and bottom margin with which the windows lie at exactly these places."""
        margins: list[int] = []
        for axis in (1, 0):
            reach = (places[axis] - 1) * self.stride[axis] + self.dilation[axis] * (self.kernel[axis] - 1) + 1
            before = self.padding[axis]
            margins += [before, max(reach - before - x.shape[axis - 2], 0)]
        return margins


def read_windows(options: Sequence[Any]) -> Windows:
    """The options of `max_pool2d_with_indices`: kernel, and stride, padding, dilation if given."""
    kernel = _pair(options[0], (1, 1))
    given = [options[i] if len(options) > i else () for i in (1, 2, 3)]
    defaults = (kernel, (0, 0), (1, 1))
    return Windows(kernel, *(_pair(each, default) for each, default in zip(given, defaults, strict=True)))


def _pair(numbers: Any, default: tuple[int, int]) -> tuple[int, int]:
    both = [numbers] if isinstance(numbers, int) else list(numbers)
    return (both[0], both[-1]) if both else default


def has_rival(windows: Windows, value: Tensor, error: Tensor | None, result: Tensor) -> Tensor:
    """Whether another element of a window may be its largest: a tie, or within both elements' errors (bool)."""
    places = result.shape[-2:]
    parts = windows.spread(value, places, -torch.inf)
    chosen = parts.argmax(1, keepdim=True)
    lowest, highest = parts, parts
    if error is not None:
        reach = windows.spread(error, places, 0.0)
        lowest, highest = parts - reach, parts + reach
    others = highest.scatter(1, chosen, -torch.inf).amax(1)
    rival = ~(others < lowest.gather(1, chosen).squeeze(1))  # NaN has one
    return (rival & (others > -torch.inf)).reshape(result.shape)


def spread_doubt(options: Sequence[Any], gradient: Tensor, doubtful: Tensor, like: Tensor) -> Tensor:
    """How far off a gradient by x may be where the largest of a window is in doubt: by all of the window's."""
    windows, places = read_windows(options), gradient.shape[-2:]
    size = torch.where(doubtful, gradient.abs(), 0.0).reshape(-1, 1, places.numel())
    parts = size.expand(-1, windows.kernel[0] * windows.kernel[1], -1)
    return windows.gather(parts, like, places)
