"""The gradient that liger-kernel's cross-entropy writes over its logits, as the op of that name calls for it.

gpuemu check examples/liger_cross_entropy_gradient.py::gradient --op liger.cross_entropy_gradient
"""

from __future__ import annotations

from typing import Any

import torch
from liger_kernel.transformers.functional import liger_cross_entropy


def gradient(logits: torch.Tensor, target: torch.Tensor, **params: Any) -> torch.Tensor:
    """logits: N V; target: N. The derivative of the loss by the logits, N V; the logits are overwritten."""
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        (derivative,) = torch.autograd.grad(liger_cross_entropy(leaf, target, **params), leaf)
    return derivative
