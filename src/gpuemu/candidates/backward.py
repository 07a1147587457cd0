"""A candidate of an op as one of the op's backward: its autograd is called with the upstream gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpuemu.errors import CandidateRefusedError
from gpuemu.model.candidate import Candidate


def adapt(candidate: Candidate, inputs: Sequence[str], wanted: Sequence[str]) -> Candidate:
    """The backward of a candidate: `call(*inputs, *upstreams, **params)` gives the gradients by `wanted`.

    Args:
        candidate: a kernel that torch's autograd can differentiate: of torch ops, or wrapped in a
            `torch.autograd.Function`.
        inputs: the names of its op's inputs. wanted: those whose gradients are due, in the op's order.
    """
    return replace(candidate, call=Backward(candidate, tuple(inputs), tuple(wanted)))


class Backward:
    """The call of an adapted candidate. notes: what the last call left out, for the verdict."""

    def __init__(self, candidate: Candidate, inputs: Sequence[str], wanted: Sequence[str]) -> None:
        self._candidate, self._inputs, self._wanted = candidate, inputs, wanted
        self.notes: tuple[str, ...] = ()

    def __call__(self, *arguments: Any, **params: Any) -> tuple[Any, ...]:
        """The gradients; zeros, and a note, where autograd gives none.

        Raises:
            CandidateRefusedError: no output carries a gradient.
        """
        import torch

        self.notes = ()
        upstreams = arguments[len(self._inputs) :]
        inputs = dict(zip(self._inputs, arguments, strict=False))
        for name in self._wanted:
            inputs[name] = inputs[name].detach().requires_grad_()
        leaves = [inputs[name] for name in self._wanted]
        with torch.enable_grad():
            outputs = _float_outputs(self._candidate.call(*inputs.values(), **params), upstreams)
            pairs = [(o, u) for o, u in zip(outputs, upstreams, strict=True) if o.requires_grad]
            if not pairs:
                raise CandidateRefusedError(
                    "its output carries no gradient: wrap it in a torch.autograd.Function"
                )
            gradients = torch.autograd.grad(
                [output for output, _ in pairs], leaves, [upstream for _, upstream in pairs], allow_unused=True
            )
        missing = [n for n, gradient in zip(self._wanted, gradients, strict=True) if gradient is None]
        self.notes = tuple(f"it gives no gradient of {name}" for name in missing)
        if len(pairs) < len(outputs):
            cut = [i for i, output in enumerate(outputs) if not output.requires_grad]
            self.notes += tuple(f"its float output {i} carries no gradient" for i in cut)
        return tuple(
            torch.zeros_like(leaf) if gradient is None else gradient.detach()
            for leaf, gradient in zip(leaves, gradients, strict=True)
        )


def _float_outputs(returned: Any, upstreams: Sequence[Any]) -> list[Any]:
    """The outputs that upstream gradients belong to.

    Raises:
        ValueError: their number or a shape is not that of the op's outputs.
    """
    import torch

    parts = returned if isinstance(returned, (tuple, list)) else (returned,)
    outputs = [p for p in parts if isinstance(p, torch.Tensor) and p.is_floating_point()]
    shapes, due = ([list(tensor.shape) for tensor in tensors] for tensors in (outputs, upstreams))
    if shapes != due:
        raise ValueError(f"its float outputs have the shapes {shapes}, those of the op {due}")
    return outputs
