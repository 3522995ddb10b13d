"""Oracles of unit 06: right results and their error bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.criteria import EPS32, roundings
from course_lib.exercise import ErrorBudget


def near(magnitude: Callable[..., torch.Tensor], steps: float = 8) -> ErrorBudget:
    """Make the error bound roundings(expected) + steps eps32 magnitude: a few roundings in float32, and one of the result."""

    def budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
        return roundings(expected, dtype) + steps * EPS32 * magnitude(**arguments)

    return budget


def softmax_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound relative to the row's largest probability: roundings, and (2 sqrt(N) + max |x|) eps32."""
    x = arguments["x"].double()
    largest = torch.where(x.isinf(), 0, x).abs().amax(1, keepdim=True)
    top = expected.amax(1, keepdim=True)
    return roundings(top, dtype) + (2 * math.sqrt(x.shape[1]) + largest) * EPS32 * top


def loss_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound of a cross-entropy: a difference of two numbers as large as the logits, and a sum of V terms in a
    logarithm."""
    x = arguments["logits"].double()
    largest = torch.where(x.isinf(), 0, x).abs().amax(1)
    return (4 * expected.abs() + 4 * largest + 2 * math.sqrt(x.shape[1])) * EPS32


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Compute RMSNorm of each row in float64."""
    x = x.double()
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + eps) * weight.double()


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple:
    """Compute RMSNorm of x + residual, and that sum, in float64."""
    h = x.double() + residual.double()
    return rms_norm(h, weight, eps), h


def norm_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound of RMSNorm: x times a root of a sum of N squares, so relative errors alone, as x itself is exact; of a sum x +
    residual that of the rounded summands."""
    N = arguments["x"].shape[1]
    budget = roundings(expected, dtype) + 2 * math.sqrt(N) * EPS32 * expected.abs()
    if "residual" in arguments:
        scale = arguments["x"].double().abs() + arguments["residual"].double().abs()
        size = expected.abs() / (arguments["x"].double() + arguments["residual"].double()).abs().clamp_min(1e-30)
        budget = budget + 2 * EPS32 * scale * size
    return budget
