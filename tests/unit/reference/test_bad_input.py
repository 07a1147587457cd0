"""A reference that misuses an op is a problem with torch's own message, whichever family of rules answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from reference_cases import follow
from torch.nn import functional

MISUSES: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "movement": (lambda x: torch.cat((x, x[:, :2]), 0), "Sizes of tensors must match"),
    "view": (lambda x: x.view(5, 5), "invalid for input of size"),
    "gather": (lambda x: x.gather(1, torch.tensor([[99]])), "out of bounds"),
    "exact": (lambda x: torch.maximum(x, x[:, :3]), "must match the size"),
    "where": (lambda x: torch.where(torch.tensor([1.5]), x, x), "bool"),
    "clamp": (lambda x: x.clamp(), "At least one of"),
    "comparison": (lambda x: x[:, :3] > x, "must match the size"),
    "logic": (lambda x: (x > 0) & x[:, :3].bool(), "must match the size"),
    "arithmetic": (lambda x: x + x[:, :3], "must match the size"),
    "division": (lambda x: x / torch.ones(7), "must match the size"),
    "power": (lambda x: x ** torch.ones(7), "must match the size"),
    "transcendental": (lambda x: functional.gelu(x, approximate="cubic"), "approximate"),
    "contraction": (lambda x: x @ x, "cannot be multiplied"),
    "linear": (lambda x: functional.linear(x, x[:, :3]), "cannot be multiplied"),
    "convolution": (lambda x: functional.conv1d(x[None], x[None, :3]), "to have 3 channels"),
    "reduction": (lambda x: x.sum(5), "Dimension out of range"),
    "mean": (lambda x: (x > 0).mean(), "could not infer output dtype"),
    "extreme": (lambda x: x.amax(5), "Dimension out of range"),
    "topk": (lambda x: x.topk(99), "out of range"),
    "softmax": (lambda x: functional.softmax(x, 7), "Dimension out of range"),
    "logsumexp": (lambda x: torch.logsumexp(x, 7), "Dimension out of range"),
    "normalisation": (lambda x: functional.layer_norm(x, (3,)), "normalized_shape"),
    "rms_norm": (lambda x: functional.rms_norm(x, (3,)), "normalized_shape"),
    "group_norm": (lambda x: functional.group_norm(x, 3), "divisible"),
    "attention": (lambda x: functional.scaled_dot_product_attention(x[None], x[None, :, :3], x[None]), ""),
    "dropout": (
        lambda x: functional.scaled_dot_product_attention(
            x[None, None], x[None, None], x[None, None], dropout_p=0.5
        ),
        "random",
    ),
    "loss": (lambda x: functional.cross_entropy(x, torch.tensor([1, 2, 99, 0])), ""),
    "loss_shape": (lambda x: functional.cross_entropy(x, torch.tensor([1, 2])), "batch_size"),
    "factory": (lambda x: torch.zeros(-3) + x, "negative"),
    "generic": (lambda x: torch.cdist(x, x[:, :3]), "same number of columns"),
    "python": (lambda x: x.no_such_method(), "no_such_method"),
}


@pytest.mark.parametrize("family", MISUSES)
def test_misuse_is_a_problem(family: str) -> None:
    reference, words = MISUSES[family]
    expected = follow(reference, torch.rand(4, 8))
    assert expected.outputs == ()
    assert expected.problem is not None
    assert words in expected.problem
    assert "\n" not in expected.problem
