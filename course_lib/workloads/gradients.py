"""Gradients for a given gradient of the output, without a third of a second for torch's symbolic shapes.

Where torch.autograd.grad, or backward, is given a gradient, torch compares shapes by a module that loads SymPy.
"""

import torch


def dotted(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """Return sum(y * dy), a scalar: its gradients are those of y where the gradient of y is dy, to the last bit."""
    return (y * dy.to(y.dtype)).sum()
