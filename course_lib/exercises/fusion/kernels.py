"""Kernels that do in one launch what torch does in several."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.catalogue import say
from course_lib.criteria import GATES, BuffersBelow, Coalesced, Launches, Speed, Traffic, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises import cases
from course_lib.exercises.cases import BF16, FP16, Drawing, cases_of
from course_lib.exercises.fusion.cases import added, also, labelled, nbytes, normed, rows, vectors
from course_lib.exercises.fusion.mistakes import (
    CROSS_ENTROPY,
    GELUS,
    IN_REGISTERS,
    MASKED_ZERO,
    NO_CORRECTION,
    NORMS,
    RESIDUAL,
    SIN_COS,
    SOFTMAX,
    SQUARED,
    all_zero,
    by_row,
    columns_add_up,
    cut_off,
    divided_by,
    divided_by_the_block,
    infinite_everywhere,
    log_of_0,
    nan_beside_masked_positions,
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

against_copy = partial(cases.against_copy, full=0.75, none=0.4)

sin2_plus_cos2 = Exercise(
    id="fusion.sin2_plus_cos2",
    signature="sin2_plus_cos2(x: (N,), y: (N,), contiguous) -> (N,)",
    effort=Effort(minutes=10, lines=8, difficulty=2),
    cases=cases_of(
        plain=[vectors(4096)],
        ragged=[vectors(1), vectors(5001)],
        half=[vectors(999, FP16), Drawing("1333 around 100, bfloat16", vectors(1333, BF16, scale=100.0))],
        performance=[vectors(1 << 19), vectors(1 << 17), vectors(1 << 16)],
    ),
    oracle=lambda x, y: x.double().sin().square() + y.double().cos().square(),
    budget=near(lambda x, y: torch.ones_like(x, dtype=torch.float64)),
    gates=GATES,
    criteria=[
        *correct("fusion.sin2_plus_cos2", {"ragged": 1, "half": 1}),
        Launches(1, 1),
        Traffic(lambda x, y: 3 * nbytes(x), 3, at_most=1.0),
    ],
    bonus=[against_copy(vectors(1 << 25), lambda x, y: 3 * nbytes(x))],
    mistakes=[*SIN_COS, several_launches],
)

bias_gelu = Exercise(
    id="fusion.bias_gelu",
    signature="bias_gelu(x: (M, N), column stride 1, bias: (N,)) -> (M, N), contiguous",
    effort=Effort(minutes=15, lines=12, difficulty=3),
    track="more",
    cases=cases_of(
        plain=[also(rows(64, 256), "bias")],
        ragged=[also(rows(1, 1), "bias"), also(rows(37, 1031, scale=3.0), "bias"), also(rows(61, 7), "bias")],
        strided=[also(rows(45, 100, window=True), "bias")],
        half=[also(rows(50, 130, FP16, scale=4.0), "bias"), also(rows(50, 130, BF16, scale=4.0), "bias")],
        performance=[also(rows(1024, 512), "bias"), also(rows(256, 512), "bias"), also(rows(128, 1024, BF16), "bias")],
    ),
    oracle=lambda x, bias: F.gelu(x.double() + bias.double()),
    budget=near(lambda x, bias: x.double().abs() + bias.double().abs()),
    gates=GATES,
    criteria=[
        *correct("fusion.bias_gelu", {"ragged": 2, "strided": 1, "half": 1}),
        Launches(1, 1),
        Traffic(lambda x, bias: 2 * nbytes(x) + x.shape[0] * nbytes(bias), 2, at_most=1.0),
        Coalesced("load", 1),
    ],
    bonus=[against_copy(also(rows(8192, 8192), "bias"), lambda x, bias: 2 * nbytes(x))],
    mistakes=[
        *GELUS,
        Misconception(by_row, say("fusion.bias_gelu.the_bias_of_the_row"), each=True),
        several_launches,
        read_times("x", 1.9, IN_REGISTERS),
    ],
)


FAR_BELOW = (
    -20_000.0
)  # whatever number a running maximum starts from, or masked positions hold, if it is not below all logits


def softmax_bytes(x: torch.Tensor) -> int:
    """Count the bytes that a fused softmax moves at least: x once in, once out."""
    return 2 * nbytes(x)


softmax = Exercise(
    id="fusion.softmax",
    signature="softmax(x: (M, N), column stride 1, N up to 32768) -> (M, N), contiguous",
    effort=Effort(minutes=20, lines=10, difficulty=3),
    cases=cases_of(
        plain=[rows(64, 256)],
        ragged=[rows(1, 1), rows(37, 1031), rows(61, 7, FP16)],
        strided=[rows(45, 100, window=True)],
        hard=[
            rows(20, 777, scale=20.0, mean=1000.0),
            rows(20, 500, FP16, rising=200.0),
            rows(20, 300, BF16, scale=30.0, mean=-300.0),
            rows(20, 300, mean=-300.0),
            rows(20, 300, mean=FAR_BELOW),
            rows(20, 300, scale=5.0, masked=150),
        ],
        performance=[rows(128, 1024), rows(64, 4096, BF16)],
    ),
    oracle=lambda x: torch.softmax(x.double(), 1),
    budget=softmax_budget,
    gates=GATES,
    criteria=[
        *correct("fusion.softmax", {"ragged": 2, "strided": 1, "hard": 3}),
        Launches(1, 1),
        Traffic(softmax_bytes, 3, at_most=1.0),
    ],
    bonus=[against_copy(rows(8192, 8192), softmax_bytes)],
    mistakes=[
        overflows,
        nan_beside_masked_positions,
        columns_add_up,
        cut_off,
        not_apart(lambda x: torch.softmax(x.double(), 1)),
        Misconception(
            divided_by(lambda x, p: x.sum(1, keepdim=True)),
            say("fusion.softmax.divided_by_the_sum_of_x"),
            each=True,
        ),
        *SOFTMAX,
        scaled_rows(MASKED_ZERO),
        several_launches,
        read_times("x", 1.9, IN_REGISTERS),
    ],
)

LONG = 1_060_000  # no block is that long: Triton's largest has 2**20 elements

online_softmax = Exercise(
    id="fusion.online_softmax",
    signature="online_softmax(x: (M, N), column stride 1, any N) -> (M, N), contiguous",
    effort=Effort(minutes=25, lines=18, difficulty=4),
    cases=cases_of(
        plain=[rows(64, 3000)],
        ragged=[rows(1, 1), rows(7, 10007), rows(30, 999, FP16, window=True)],
        hard=[
            rows(5, 20011, rising=3000.0),
            rows(5, 20011, mean=500.0, rising=-3000.0),
            rows(3, 40000, scale=10.0, masked=36000),
            rows(5, 9000, BF16, scale=30.0, mean=-300.0),
            rows(5, 3000, mean=-300.0),
            rows(5, 3000, mean=FAR_BELOW),
        ],
        long=[Drawing(f"1 x {LONG:_}", rows(1, LONG))],
        performance=[rows(64, 4096), rows(16, 16384), rows(8, 16384, BF16)],
    ),
    oracle=lambda x: torch.softmax(x.double(), 1),
    budget=softmax_budget,
    gates=GATES,
    criteria=[
        *correct("fusion.online_softmax", {"ragged": 2, "hard": 3, "long": 2}),
        Traffic(
            lambda x: 3 * nbytes(x),
            3,
            at_most=1.01,
            title=say("fusion.online_softmax.title_traffic"),
            again=lambda x: {"x": 2 * nbytes(x)},
        ),
    ],
    bonus=[
        Speed(
            say("fusion.online_softmax.vs_speed"),
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
        *SOFTMAX,
        infinite_everywhere,
        scaled_rows(NO_CORRECTION, say("fusion.online_softmax.the_sum_is_too_small")),
        read_times("x", 2.9, say("fusion.cross_entropy.two_passes")),
    ],
)


def beside_rows(x: torch.Tensor, weight: torch.Tensor) -> int:
    """Count the bytes that a norm moves beside its rows: the weights once for each, and up to two float32 statistics."""
    return x.shape[0] * (nbytes(weight) + 2 * 4)


rmsnorm = Exercise(
    id="fusion.rmsnorm",
    signature="rmsnorm(x: (M, N), column stride 1, weight: (N,), eps: float) -> (M, N), contiguous",
    effort=Effort(minutes=15, lines=11, difficulty=3),
    cases=cases_of(
        plain=[normed(rows(64, 256))],
        ragged=[
            Drawing("1 x 1, eps 0.1", normed(rows(1, 1), 0.1)),
            normed(rows(37, 1031), 1e-5),
            normed(rows(61, 7, FP16)),
        ],
        strided=[normed(rows(45, 100, window=True))],
        hard=[
            normed(rows(30, 600, FP16, scale=100.0, mean=300.0)),
            Drawing("30 x 600 near 0.001, eps 0.00001", normed(rows(30, 600, scale=1e-3), 1e-5)),
            normed(rows(30, 3000, BF16, mean=20.0)),
        ],
        performance=[normed(rows(128, 1024)), normed(rows(64, 2048, BF16))],
    ),
    oracle=rms_norm,
    budget=norm_budget,
    gates=GATES,
    criteria=[
        *correct("fusion.rmsnorm", {"ragged": 2, "strided": 1, "hard": 3}),
        Launches(1, 1),
        Traffic(lambda x, weight, eps: 2 * nbytes(x) + beside_rows(x, weight), 3, at_most=1.0),
    ],
    bonus=[against_copy(normed(rows(8192, 8192)), lambda x, weight, eps: 2 * nbytes(x))],
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
    effort=Effort(minutes=10, lines=13, difficulty=2),
    track="more",
    cases=cases_of(
        plain=[added(rows(64, 256))],
        ragged=[
            Drawing("1 x 1, eps 0.1", added(rows(1, 1), 0.1)),
            added(rows(37, 1031), 1e-5),
            added(rows(61, 7, FP16)),
        ],
        hard=[
            added(rows(30, 600, FP16, scale=100.0, mean=300.0)),
            Drawing("30 x 600 near 0.001, eps 0.00001", added(rows(30, 600, scale=1e-3), 1e-5)),
            added(rows(30, 3000, BF16, mean=20.0)),
        ],
        performance=[added(rows(128, 1024)), added(rows(64, 2048, BF16))],
    ),
    oracle=add_rms_norm,
    budget=norm_budget,
    gates=GATES,
    criteria=[
        *correct("fusion.add_rmsnorm", {"ragged": 2, "hard": 2}),
        Launches(1, 1),
        Traffic(
            lambda x, residual, weight, eps: 4 * nbytes(x) + beside_rows(x, weight),
            3,
            at_most=1.0,
            title=say("fusion.add_rmsnorm.title_traffic"),
        ),
    ],
    bonus=[
        against_copy(added(rows(8192, 8192)), lambda x, residual, weight, eps: 4 * nbytes(x)),
    ],
    mistakes=[divided_by_the_block, *RESIDUAL, *NORMS, all_zero("hard", SQUARED), several_launches],
)

cross_entropy = Exercise(
    id="fusion.cross_entropy",
    signature="cross_entropy(logits: (M, V), column stride 1, target: (M,) int64) -> (M,) float32",
    effort=Effort(minutes=20, lines=15, difficulty=4),
    cases=cases_of(
        plain=[labelled(64, 1000)],
        ragged=[labelled(1, 1), labelled(17, 10007), labelled(9, 50257), labelled(30, 999, window=True)],
        hard=[
            labelled(20, 3000, rising=500.0),
            labelled(20, 3000, scale=20.0, mean=1000.0),
            labelled(3, 40000, scale=10.0, masked=36000),
            labelled(20, 1500, FP16, scale=30.0),
            labelled(20, 1500, BF16, scale=20.0, mean=90.0),
            labelled(20, 1500, mean=-300.0),
            labelled(20, 1500, mean=FAR_BELOW),
        ],
        performance=[labelled(64, 8192), labelled(32, 16384)],
    ),
    oracle=lambda logits, target: F.cross_entropy(logits.double(), target, reduction="none").float(),
    budget=loss_budget,
    gates=GATES,
    criteria=[
        *correct("fusion.cross_entropy", {"ragged": 2, "hard": 3}),
        Traffic(
            lambda logits, target: nbytes(logits), 3, at_most=1.01, title=say("fusion.cross_entropy.title_traffic")
        ),
        BuffersBelow(lambda logits, target: nbytes(logits) / 8, 2, say("fusion.cross_entropy.title_buffers_below")),
    ],
    bonus=[
        against_copy(labelled(8192, 32768), lambda logits, target: nbytes(logits)),
    ],
    mistakes=[
        nan_of_exp,
        log_of_0,
        *CROSS_ENTROPY,
        read_times("logits", 1.9, say("fusion.cross_entropy.two_passes")),
    ],
)
