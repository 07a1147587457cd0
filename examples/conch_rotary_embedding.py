"""conch-triton-kernels' rotary embedding, called as the op `conch.rotary_embedding` calls it.

    gpuemu check examples/conch_rotary_embedding.py::rotary_embedding --op conch.rotary_embedding

The package takes the head size between its tensors; here it is the width of the table of cosines and sines.
"""

from __future__ import annotations

import torch
from conch.ops.embedding.rotary_embedding import rotary_embedding as conch_rotary_embedding


def rotary_embedding(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, cos_sin_cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """positions: T; query: T Q*D; key: T K*D; cos_sin_cache: P D, cosines before sines. Works in place."""
    return conch_rotary_embedding(positions, query, key, cos_sin_cache.shape[-1], cos_sin_cache)
