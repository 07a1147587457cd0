"""Matrix product in NumPy, in float32."""

import numpy as np
import torch


def matmul_numpy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a @ b`` for ``a: M K`` and ``b: K N`` in any layout, in the dtype of ``a``."""
    a_MK = a.detach().cpu().to(torch.float32).numpy()
    b_KN = b.detach().cpu().to(torch.float32).numpy()
    # Infinite inputs give NaN as they should; NumPy need not warn about it.
    with np.errstate(all="ignore"):
        c_MN = np.matmul(a_MK, b_KN)
    return torch.from_numpy(c_MN).to(device=a.device, dtype=a.dtype)
