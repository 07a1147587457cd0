"""Large tensors are worked on piece by piece, so that temporaries stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

# Elements of a piece per thread: 256 KiB of float64, so that a piece and its temporaries fit the second-level
# cache, and torch, which starts no second thread below 2^15 elements, uses all of its threads.
PIECE_ELEMENTS = 1 << 15
# Beyond this many threads a piece does not grow: the caches that they share would overflow.
MOST_THREADS = 16

# Up to this many elements a call costs more than the work that it does.
FEW_ELEMENTS = 1 << 12

# A dim, where the piece starts along it, and its length.
Piece = tuple[int, int, int]


def is_call_bound(like: torch.Tensor) -> bool:
    """Whether the number of calls decides what work on a tensor costs, as it does on a device."""
    return like.is_cuda or like.numel() <= FEW_ELEMENTS


def pieces(like: torch.Tensor, whole: Collection[int] = ()) -> Iterator[Piece] | None:
    """How to cut a tensor along one dim; None if it is small or on a device.

    Args:
        whole: dims (not negative) that must not be cut, since they are reduced over.
    """
    count = like.numel() // (PIECE_ELEMENTS * min(torch.get_num_threads(), MOST_THREADS))
    if count < 2 or like.is_cuda:
        return None
    candidates = [d for d in range(like.dim()) if d not in whole and like.shape[d] > 1]
    if not candidates:
        return None
    enough = [d for d in candidates if like.shape[d] >= count]
    dim = enough[0] if enough else max(candidates, key=lambda d: like.shape[d])
    size = like.shape[dim]
    length = -(-size // count)  # rounded up: a piece may have up to twice the elements
    return ((dim, start, min(length, size - start)) for start in range(0, size, length))


def cut(argument: Any, dims: int, piece: Piece) -> Any:
    """The part of an operand that belongs to a piece of a result of `dims` dims; broadcast ones stay whole."""
    if not isinstance(argument, torch.Tensor):
        return argument
    dim, start, length = piece
    own = dim - (dims - argument.dim())
    if own < 0 or argument.shape[own] == 1:
        return argument
    return argument.narrow(own, start, length)


def in_pieces(
    function: Callable[..., torch.Tensor], like: torch.Tensor, whole: Collection[int], *operands: Any
) -> torch.Tensor:
    """`function(*operands)`, worked out in pieces of `like`.

    Args:
        whole: dims that the function reduces; its result keeps them, with any size.
        operands: tensors that broadcast to `like`, numbers, None.
    """
    cuts = pieces(like, whole)
    if cuts is None:
        return function(*operands)
    total: torch.Tensor | None = None
    for piece in cuts:
        part = function(*(cut(operand, like.dim(), piece) for operand in operands))
        if total is None:
            shape = list(part.shape)
            shape[piece[0]] = like.shape[piece[0]]
            total = part.new_empty(shape)
        total.narrow(*piece).copy_(part)
    if total is None:
        raise ValueError("a tensor that is cut has at least two pieces")
    return total
