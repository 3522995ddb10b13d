"""Products in plain Triton whose tiles are moved by descriptors, and what is done to them before they are stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import GATES, CostCriterion, Launches, Rereads, Traffic, accesses, correct, sum_budget
from course_lib.exercise import Case, Effort, Exercise, Finding, Trial
from course_lib.exercises.cases import BF16, FP16
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.tiling.cases import factors
from course_lib.exercises.tiling.oracles import in_float32, moved, product
from course_lib.mistakes import on_exception, on_fault


@dataclass
class ByDescriptors(CostCriterion):
    """Criterion: kernels move everything as tiles of tensor descriptors: on Hopper TMA does it, and no thread computes an address."""

    missed = say("sm.by_descriptors.missed")
    points: float
    title: str = say("sm.by_descriptors.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        found = [access for op in ("load", "store", "atomic") for access in accesses(group, op)]
        by_hand = {
            say("criteria.traffic.line", line=a.line, source=a.source): None
            for a in found
            if a.described_bytes < a.bytes
        }
        moved = sum(a.bytes for a in found)
        if not by_hand:
            return self.earned(say("sm.by_descriptors.holds", bytes=moved))
        return self.lost(say("sm.by_descriptors.by_hand", lines=[*by_hand]), expected=say("sm.by_descriptors.expected"))


TILE = 64  # with tiles of this side or larger, all points can be had

descriptor_matmul = Exercise(
    id="sm.descriptor_matmul",
    signature="descriptor_matmul(a: (M, K), b: (K, N), contiguous halves, K and N multiples of 8) -> (M, N)",
    effort=Effort(minutes=25, lines=22, difficulty=3),
    cases=[
        Case("128 x 128 x 64, float16", "plain", factors(128, 128, 64, FP16)),
        Case("1 x 8 x 8, float16", "ragged", factors(1, 8, 8, FP16)),
        Case("130 x 72 x 40, whole numbers, float16", "ragged", factors(130, 72, 40, FP16, whole=True)),
        Case("77 x 200 x 104, bfloat16", "ragged", factors(77, 200, 104, BF16)),
        Case("30 x 24 x 1000, float16", "long", factors(30, 24, 1000, FP16)),
        Case("33 x 40 x 712 around 3, bfloat16", "long", factors(33, 40, 712, BF16, mean=3.0)),
        Case("2048 x 1024 x 64, float16", "performance", factors(2048, 1024, 64, FP16)),
        Case("256 x 320 x 128, bfloat16", "performance", factors(256, 320, 128, BF16)),
        Case("384 x 512 x 256, float16", "performance", factors(384, 512, 256, FP16)),
    ],
    oracle=product,
    budget=in_float32,
    gates=GATES,
    criteria=[
        *correct("sm.descriptor_matmul", {"ragged": 1, "long": 1}),
        ByDescriptors(2),
        Rereads("a", lambda a, b: math.ceil(b.shape[-1] / TILE), 0.5, say("sm.descriptor_matmul.title_rereads_a")),
        Rereads("b", lambda a, b: math.ceil(a.shape[-2] / TILE), 0.5, say("sm.descriptor_matmul.title_rereads_b")),
    ],
    mistakes=[
        on_exception("strides must be 16-byte aligned", say("sm.descriptor_matmul.rows_padded_to_3")),
        Misconception(
            lambda a, b: (
                product(a[:, : a.shape[1] // 32 * 32], b[: a.shape[1] // 32 * 32]) if a.shape[1] % 32 else None
            ),
            say("sm.descriptor_matmul.whole_steps_alone"),
            product,
        ),
        on_fault("race", say("sm.descriptor_matmul.tiles_by_number")),
    ],
)

# ------------------------------------------------------------------------------------------------ an epilogue


def layer(
    M: int,
    N: int,
    K: int,
    dtype: torch.dtype = FP16,
    *,
    apart: float = 0.0,
    low: float = 0.0,
    scale: float = 1.0,
    whole=False,
):
    """Return a function that draws x (M, K), w (K, N) and bias (N,).

    apart   so far the product lies above 0, and the bias below;  low  so far their sum lies below 0, by the bias
    whole   of whole numbers from -2 to 2, whose products halves hold
    """

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        shapes, place = ((M, K), (K, N), (N,)), {"generator": g, "device": g.device}
        x, w, bias = (
            torch.randint(-2, 3, shape, **place).float() if whole else torch.randn(*shape, **place) * scale
            for shape in shapes
        )
        if apart:
            x[:, 0], w[0] = 1.0, apart
            bias = bias - apart
        return {"x": x.to(dtype), "w": w.to(dtype), "bias": (bias - low).to(dtype)}

    return draw


def silu(y: torch.Tensor) -> torch.Tensor:
    """Compute y * sigmoid(y)."""
    return y * torch.sigmoid(y)


def steepness(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A bound on the factor by which silu magnifies an error of its argument."""
    y = x.double() @ w.double() + bias.double()
    part = torch.sigmoid(y)
    return 1.1 * (part * (1 + y * (1 - part))).abs() + 1e-9 + part * 0.1


def linear(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute silu(x @ w + bias) in float64."""
    return silu(x.double() @ w.double() + bias.double())


def _another(made: Callable[..., torch.Tensor | None]) -> Callable[..., torch.Tensor | None]:
    """Make a wrong result of y = x @ w and the bias, both in float64; None where a mistake makes none."""
    return lambda x, w, bias: made(x.double() @ w.double(), bias.double())


def _in_each_step(block: int) -> Callable[..., torch.Tensor | None]:
    """Make the wrong result with the bias added in each step of `block` along K; None where there is one step."""

    def wrong(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor | None:
        steps = math.ceil(x.shape[1] / block)
        return silu(x.double() @ w.double() + steps * bias.double()) if steps > 1 else None

    return wrong


def layer_traffic(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> int:
    """Count the bytes of the product in tiles of 64 x 64, of the result once, and of the bias once for each row of tiles."""
    (M, K), N = x.shape, w.shape[1]
    return x.element_size() * (M * N + moved(M, N, K, TILE, TILE) + math.ceil(M / TILE) * N)


linear_silu = Exercise(
    id="sm.linear_silu",
    signature="linear_silu(x: (M, K), w: (K, N), bias: (N,), contiguous halves, K and N multiples of 8) -> (M, N)",
    effort=Effort(minutes=15, lines=24, difficulty=3),
    cases=[
        Case("128 x 128 x 64, float16", "plain", layer(128, 128, 64, whole=True)),
        Case("1 x 8 x 8, float16", "ragged", layer(1, 8, 8, whole=True)),
        Case("130 x 72 x 40, bfloat16", "ragged", layer(130, 72, 40, BF16, whole=True)),
        Case("77 x 200 x 104, float16", "ragged", layer(77, 200, 104, whole=True)),
        Case("64 x 96 x 48, sums that the bias takes away", "precision", layer(64, 96, 48, apart=512.0, scale=0.25)),
        Case("40 x 64 x 72, the same in bfloat16", "precision", layer(40, 64, 72, BF16, apart=256.0, scale=0.25)),
        Case("64 x 96 x 48 around -20, bfloat16", "precision", layer(64, 96, 48, BF16, low=20.0, scale=0.25)),
        Case("2048 x 1024 x 64, float16", "performance", layer(2048, 1024, 64, whole=True)),
        Case("256 x 320 x 128, bfloat16", "performance", layer(256, 320, 128, BF16, whole=True)),
        Case("384 x 512 x 256, float16", "performance", layer(384, 512, 256, whole=True)),
    ],
    oracle=linear,
    budget=sum_budget(
        lambda x, w, bias: steepness(x, w, bias) * (x.double().abs() @ w.double().abs() + bias.double().abs()),
        lambda x, **_: x.shape[1] + 1,
    ),
    gates=GATES,
    criteria=[
        *correct("sm.linear_silu", {"ragged": 1, "precision": 1}),
        Launches(1, 1),
        Traffic(layer_traffic, 2, title=say("sm.linear_silu.title_traffic")),
    ],
    mistakes=[
        Misconception(_another(lambda y, bias: silu(y)), say("sm.linear_silu.no_bias"), linear),
        Misconception(
            _another(lambda y, bias: silu(y + bias[:, None]) if y.shape[0] == y.shape[1] else None),
            say("sm.linear_silu.bias_of_the_rows"),
            linear,
        ),
        Misconception(_another(lambda y, bias: silu(y) + bias), say("sm.linear_silu.bias_last"), linear),
        Misconception(
            _another(lambda y, bias: torch.sigmoid(y + bias)), say("sm.linear_silu.the_sigmoid_alone"), linear
        ),
        Misconception([_in_each_step(block) for block in (16, 32, 64, 128)], say("sm.linear_silu.bias_in_each_step")),
        Misconception(
            _another(lambda y, bias: (y + bias) * torch.sigmoid(y)),
            say("sm.linear_silu.sigmoid_without_the_bias"),
            linear,
        ),
        Misconception(
            _another(lambda y, bias: (y + bias) * torch.sigmoid(-y - bias)), say("sm.linear_silu.other_sign"), linear
        ),
        Misconception(_another(lambda y, bias: torch.relu(y + bias)), say("sm.linear_silu.a_relu"), linear),
        Misconception(_another(lambda y, bias: y + bias), say("sm.linear_silu.no_activation"), linear),
        lambda trials: _rounded_first(trials),
    ],
)


def _rounded_first(trials: Any) -> str:
    """Say so if the product was rounded to the result's dtype before the bias was added, or before silu."""
    for trial in trials:
        for call, out in trial.calls:
            right = linear(**call)
            if trial.case.group != "precision" or not isinstance(out, torch.Tensor) or out.shape != right.shape:
                continue
            y, bias = call["x"].double() @ call["w"].double(), call["bias"].double()
            guesses = {"bias": y.to(out.dtype).double() + bias, "silu": (y + bias).to(out.dtype).double()}
            for where, guess in guesses.items():
                if (out.double() - silu(guess)).norm() < 0.3 * (out.double() - right).norm():
                    return say(f"sm.linear_silu.rounded_before_the_{where}")
    return ""


EXERCISES = (descriptor_matmul, linear_silu)
