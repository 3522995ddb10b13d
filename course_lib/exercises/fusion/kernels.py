"""Kernels that do in one launch what torch does in several."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.criteria import GATES, BuffersBelow, Coalesced, Correct, Launches, Speed, Traffic
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import BF16, FP16
from course_lib.exercises.fusion.cases import added, also, labelled, nbytes, normed, rows, vectors
from course_lib.exercises.fusion.mistakes import (
    CROSS_ENTROPY,
    IN_REGISTERS,
    MASKED_ZERO,
    NO_CORRECTION,
    NORMS,
    OF_X,
    SQUARED,
    all_zero,
    by_row,
    columns_add_up,
    cut_off,
    divided_by,
    divided_by_the_block,
    nan_of_exp,
    not_apart,
    overflows,
    read_times,
    scaled_rows,
    several_launches,
)
from course_lib.exercises.fusion.oracles import add_rms_norm, loss_budget, near, norm_budget, rms_norm, softmax_budget
from course_lib.exercises.misconceptions import Misconception
from course_lib.hardware import inductor


def against_copy(name: str, draw: Callable, needed: Callable) -> Speed:
    """Extra credit: full at 0.75 of the speed of a device copy of the needed bytes."""
    return Speed("copy", Case(name, "speed", draw), needed, full=0.75, none=0.4, points=2)


sin2_plus_cos2 = Exercise(
    id="fusion.sin2_plus_cos2",
    signature="sin2_plus_cos2(x: (N,), y: (N,), contiguous) -> (N,)",
    minutes=10,
    difficulty=2,
    lines=8,
    cases=[
        Case("4096", "plain", vectors(4096)),
        Case("1", "ragged", vectors(1)),
        Case("5001", "ragged", vectors(5001)),
        Case("999, float16", "half", vectors(999, FP16)),
        Case("1333 around 100, bfloat16", "half", vectors(1333, BF16, scale=100.0)),
        Case("524288", "performance", vectors(1 << 19)),
        Case("131072", "performance", vectors(1 << 17)),
        Case("65536", "performance", vectors(1 << 16)),
    ],
    oracle=lambda x, y: x.double().sin().square() + y.double().cos().square(),
    budget=near(lambda x, y: torch.ones_like(x, dtype=torch.float64)),
    gates=GATES,
    criteria=[
        Correct("ragged", 1),
        Correct("half", 1, "right in float16 and bfloat16"),
        Launches(1, 1),
        Traffic(lambda x, y: 3 * nbytes(x), 3, at_most=1.0),
    ],
    bonus=[against_copy("33554432", vectors(1 << 25), lambda x, y: 3 * nbytes(x))],
    mistakes=[several_launches],
)

bias_gelu = Exercise(
    id="fusion.bias_gelu",
    signature="bias_gelu(x: (M, N), column stride 1, bias: (N,)) -> (M, N), contiguous",
    minutes=15,
    difficulty=3,
    track="more",
    lines=12,
    cases=[
        Case("64 x 256", "plain", also(rows(64, 256), "bias")),
        Case("1 x 1", "ragged", also(rows(1, 1), "bias")),
        Case("37 x 1031", "ragged", also(rows(37, 1031, scale=3.0), "bias")),
        Case("61 x 7", "ragged", also(rows(61, 7), "bias")),
        Case("45 x 100, a window", "strided", also(rows(45, 100, window=True), "bias")),
        Case("50 x 130, float16", "half", also(rows(50, 130, FP16, scale=4.0), "bias")),
        Case("50 x 130, bfloat16", "half", also(rows(50, 130, BF16, scale=4.0), "bias")),
        Case("1024 x 512", "performance", also(rows(1024, 512), "bias")),
        Case("256 x 512", "performance", also(rows(256, 512), "bias")),
        Case("128 x 1024, bfloat16", "performance", also(rows(128, 1024, BF16), "bias")),
    ],
    oracle=lambda x, bias: F.gelu(x.double() + bias.double()),
    budget=near(lambda x, bias: x.double().abs() + bias.double().abs()),
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1, "right where rows lie apart"),
        Correct("half", 1, "right in float16 and bfloat16"),
        Launches(1, 1),
        Traffic(lambda x, bias: 2 * nbytes(x) + x.shape[0] * nbytes(bias), 2, at_most=1.0),
        Coalesced("load", 1),
    ],
    bonus=[against_copy("8192 x 8192", also(rows(8192, 8192), "bias"), lambda x, bias: 2 * nbytes(x))],
    mistakes=[
        Misconception(
            lambda x, bias: F.gelu(x.double() + bias.double(), approximate="tanh"),
            "This is the approximation of GELU by tanh. The exact GELU is 0.5 * z * (1 + erf(z / sqrt(2))).",
            each=True,
        ),
        Misconception(
            lambda x, bias: F.gelu(x.double()), "The bias is missing: add it to x before the GELU.", each=True
        ),
        Misconception(
            by_row,
            "You use one number of the bias for each row. But the bias has one number for each column, so load it at bias_ptr + cols.",
            each=True,
        ),
        several_launches,
        read_times("x", 1.9, IN_REGISTERS),
    ],
)


def softmax_bytes(x: torch.Tensor) -> int:
    """Bytes that a fused softmax moves at least: x once in, once out."""
    return 2 * nbytes(x)


softmax = Exercise(
    id="fusion.softmax",
    signature="softmax(x: (M, N), column stride 1, N up to 32768) -> (M, N), contiguous",
    minutes=20,
    difficulty=3,
    lines=10,
    cases=[
        Case("64 x 256", "plain", rows(64, 256)),
        Case("1 x 1", "ragged", rows(1, 1)),
        Case("37 x 1031", "ragged", rows(37, 1031)),
        Case("61 x 7, float16", "ragged", rows(61, 7, FP16)),
        Case("45 x 100, a window", "strided", rows(45, 100, window=True)),
        Case("20 x 777 around 1000", "hard", rows(20, 777, scale=20.0, mean=1000.0)),
        Case("20 x 500, rising by 200, float16", "hard", rows(20, 500, FP16, rising=200.0)),
        Case("20 x 300 around -300, bfloat16", "hard", rows(20, 300, BF16, scale=30.0, mean=-300.0)),
        Case("20 x 300, 150 of them -inf", "hard", rows(20, 300, scale=5.0, masked=150)),
        Case("128 x 1024", "performance", rows(128, 1024)),
        Case("64 x 4096, bfloat16", "performance", rows(64, 4096, BF16)),
    ],
    oracle=lambda x: torch.softmax(x.double(), 1),
    budget=softmax_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1, "right where rows lie apart"),
        Correct("hard", 3, "right for large, low and masked logits"),
        Launches(1, 1),
        Traffic(softmax_bytes, 3, at_most=1.0),
    ],
    bonus=[against_copy("8192 x 8192", rows(8192, 8192), softmax_bytes)],
    mistakes=[
        overflows,
        columns_add_up,
        cut_off,
        not_apart(lambda x: torch.softmax(x.double(), 1)),
        Misconception(
            divided_by(lambda x, p: x.sum(1, keepdim=True)),
            "Each row is divided by the sum of x. Divide it by the sum of p.",
            each=True,
        ),
        Misconception(
            divided_by(lambda x, p: torch.ones(())),
            "These are the exponentials p. Divide them by their sum.",
            each=True,
        ),
        scaled_rows(MASKED_ZERO),
        several_launches,
        read_times("x", 1.9, IN_REGISTERS),
    ],
)

LONG = 1_060_000  # no block is that long: Triton's largest has 2**20 elements

online_softmax = Exercise(
    id="fusion.online_softmax",
    signature="online_softmax(x: (M, N), column stride 1, any N) -> (M, N), contiguous",
    minutes=25,
    difficulty=4,
    lines=18,
    cases=[
        Case("64 x 3000", "plain", rows(64, 3000)),
        Case("1 x 1", "ragged", rows(1, 1)),
        Case("7 x 10007", "ragged", rows(7, 10007)),
        Case("30 x 999, a window, float16", "ragged", rows(30, 999, FP16, window=True)),
        Case("5 x 20011, rising by 3000", "hard", rows(5, 20011, rising=3000.0)),
        Case("5 x 20011, falling by 3000", "hard", rows(5, 20011, mean=500.0, rising=-3000.0)),
        Case("3 x 40000, 36000 of them -inf", "hard", rows(3, 40000, scale=10.0, masked=36000)),
        Case("5 x 9000 around -300, bfloat16", "hard", rows(5, 9000, BF16, scale=30.0, mean=-300.0)),
        Case(f"1 x {LONG:_}", "long", rows(1, LONG)),
        Case("64 x 4096", "performance", rows(64, 4096)),
        Case("16 x 16384", "performance", rows(16, 16384)),
        Case("8 x 16384, bfloat16", "performance", rows(8, 16384, BF16)),
    ],
    oracle=lambda x: torch.softmax(x.double(), 1),
    budget=softmax_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 3, "right for rising values and a masked start"),
        Correct("long", 2, "right for a row longer than any block"),
        Traffic(lambda x: 3 * nbytes(x), 3, at_most=1.01, title="reads at most twice, writes once"),
    ],
    bonus=[
        Speed(
            "torch.compile",
            Case("2048 x 32768", "speed", rows(2048, 32768)),
            lambda x: 2 * nbytes(x),
            full=0.9,
            none=0.6,
            points=2,
            baseline=lambda x: inductor.compiled("softmax", x),
        )
    ],
    mistakes=[
        nan_of_exp,
        not_apart(lambda x: torch.softmax(x.double(), 1)),
        scaled_rows(NO_CORRECTION),
        read_times(
            "x", 2.9, "The maximum and the sum can be found in one pass: correct the sum whenever the maximum grows."
        ),
    ],
)


def beside_rows(x: torch.Tensor, weight: torch.Tensor) -> int:
    """Bytes that a norm moves beside its rows: the weights once for each, and up to two float32 statistics, as libraries keep."""
    return x.shape[0] * (nbytes(weight) + 2 * 4)


rmsnorm = Exercise(
    id="fusion.rmsnorm",
    signature="rmsnorm(x: (M, N), column stride 1, weight: (N,), eps: float) -> (M, N), contiguous",
    minutes=15,
    difficulty=3,
    lines=11,
    cases=[
        Case("64 x 256", "plain", normed(rows(64, 256))),
        Case("1 x 1, eps 0.1", "ragged", normed(rows(1, 1), 0.1)),
        Case("37 x 1031", "ragged", normed(rows(37, 1031), 1e-5)),
        Case("61 x 7, float16", "ragged", normed(rows(61, 7, FP16))),
        Case("45 x 100, a window", "strided", normed(rows(45, 100, window=True))),
        Case("30 x 600 around 300, float16", "hard", normed(rows(30, 600, FP16, scale=100.0, mean=300.0))),
        Case("30 x 600 near 0.001, eps 0.00001", "hard", normed(rows(30, 600, scale=1e-3), 1e-5)),
        Case("30 x 3000 around 20, bfloat16", "hard", normed(rows(30, 3000, BF16, mean=20.0))),
        Case("128 x 1024", "performance", normed(rows(128, 1024))),
        Case("64 x 2048, bfloat16", "performance", normed(rows(64, 2048, BF16))),
    ],
    oracle=rms_norm,
    budget=norm_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1, "right where rows lie apart"),
        Correct("hard", 3, "right for large and tiny values"),
        Launches(1, 1),
        Traffic(lambda x, weight, eps: 2 * nbytes(x) + beside_rows(x, weight), 3, at_most=1.0),
    ],
    bonus=[against_copy("8192 x 8192", normed(rows(8192, 8192)), lambda x, weight, eps: 2 * nbytes(x))],
    mistakes=[
        divided_by_the_block,
        *NORMS,
        all_zero("hard", SQUARED),
        several_launches,
        read_times("x", 1.9, IN_REGISTERS),
    ],
)

add_rmsnorm = Exercise(
    id="fusion.add_rmsnorm",
    signature="add_rmsnorm(x: (M, N), residual: (M, N), weight: (N,), eps: float), contiguous -> (M, N) normed, (M, N) sum",
    minutes=10,
    difficulty=2,
    track="more",
    lines=13,
    cases=[
        Case("64 x 256", "plain", added(rows(64, 256))),
        Case("1 x 1, eps 0.1", "ragged", added(rows(1, 1), 0.1)),
        Case("37 x 1031", "ragged", added(rows(37, 1031), 1e-5)),
        Case("61 x 7, float16", "ragged", added(rows(61, 7, FP16))),
        Case("30 x 600 around 300, float16", "hard", added(rows(30, 600, FP16, scale=100.0, mean=300.0))),
        Case("30 x 600 near 0.001, eps 0.00001", "hard", added(rows(30, 600, scale=1e-3), 1e-5)),
        Case("30 x 3000 around 20, bfloat16", "hard", added(rows(30, 3000, BF16, mean=20.0))),
        Case("128 x 1024", "performance", added(rows(128, 1024))),
        Case("64 x 2048, bfloat16", "performance", added(rows(64, 2048, BF16))),
    ],
    oracle=add_rms_norm,
    budget=norm_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, "right for large and tiny values"),
        Launches(1, 1),
        Traffic(
            lambda x, residual, weight, eps: 4 * nbytes(x) + beside_rows(x, weight),
            3,
            at_most=1.0,
            title="reads both once, writes both once",
        ),
    ],
    bonus=[
        against_copy("8192 x 8192", added(rows(8192, 8192)), lambda x, residual, weight, eps: 4 * nbytes(x)),
    ],
    mistakes=[divided_by_the_block, OF_X, *NORMS, all_zero("hard", SQUARED), several_launches],
)

cross_entropy = Exercise(
    id="fusion.cross_entropy",
    signature="cross_entropy(logits: (M, V), column stride 1, target: (M,) int64) -> (M,) float32",
    minutes=20,
    difficulty=4,
    lines=15,
    cases=[
        Case("64 x 1000", "plain", labelled(64, 1000)),
        Case("1 x 1", "ragged", labelled(1, 1)),
        Case("17 x 10007", "ragged", labelled(17, 10007)),
        Case("9 x 50257", "ragged", labelled(9, 50257)),
        Case("30 x 999, a window", "ragged", labelled(30, 999, window=True)),
        Case("20 x 3000, rising by 500", "hard", labelled(20, 3000, rising=500.0)),
        Case("20 x 3000 around 1000", "hard", labelled(20, 3000, scale=20.0, mean=1000.0)),
        Case("3 x 40000, 36000 of them -inf", "hard", labelled(3, 40000, scale=10.0, masked=36000)),
        Case("20 x 1500, float16", "hard", labelled(20, 1500, FP16, scale=30.0)),
        Case("20 x 1500 around 90, bfloat16", "hard", labelled(20, 1500, BF16, scale=20.0, mean=90.0)),
        Case("64 x 8192", "performance", labelled(64, 8192)),
        Case("32 x 16384", "performance", labelled(32, 16384)),
    ],
    oracle=lambda logits, target: F.cross_entropy(logits.double(), target, reduction="none").float(),
    budget=loss_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 3, "right for large, rising and masked logits"),
        Traffic(lambda logits, target: nbytes(logits), 3, at_most=1.01, title="reads the logits once"),
        BuffersBelow(lambda logits, target: nbytes(logits) / 8, 2, "no probabilities stored"),
    ],
    bonus=[
        against_copy("8192 x 32768", labelled(8192, 32768), lambda logits, target: nbytes(logits)),
    ],
    mistakes=[
        nan_of_exp,
        *CROSS_ENTROPY,
        read_times(
            "logits",
            1.9,
            "The maximum and the sum can be found in one pass: correct the sum whenever the maximum grows.",
        ),
    ],
)
