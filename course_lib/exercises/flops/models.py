"""FLOPs and bytes of whole models, their training, and napkins about it."""

from __future__ import annotations

import math

import torch

from course_lib.catalogue import say
from course_lib.criteria import Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed, integer
from course_lib.exercises.flops.cases import CONFIG, GB, NAIVE, layer_sizes, run_of
from course_lib.exercises.flops.mistakes import (
    ATTENTION_COSTS,
    above_the_peak,
    by_pairs,
    elements,
    every,
    one_product_less,
    swapped,
    times,
    with_forward,
    work_done,
)
from course_lib.exercises.flops.oracles import (
    Use,
    attention,
    block_flops,
    counted,
    delivers,
    just_fits,
    keeps_one_layer,
    keeps_twelve_layers,
    meta,
    trained_bytes,
    two_layers_backward,
    within_a_percent,
)
from course_lib.mistakes import for_cases

# ------------------------------------------------------------------------------------------------ models


backward_flops = Exercise(
    id="flops.backward_flops",
    signature="backward_flops(batch, d_in, d_hidden, d_out, input_needs_grad: bool) -> int",
    kind="formula",
    without=["torch.utils.flop_counter", "torch.autograd.profiler"],
    effort=Effort(minutes=10, lines=3, difficulty=2),
    track="more",
    cases=[
        fixed("16, 32, 64, 8", "with", **layer_sizes(16, 32, 64, 8, True)),
        fixed("1, 5, 3, 2", "with", **layer_sizes(1, 5, 3, 2, True)),
        fixed("16, 32, 64, 8", "without", **layer_sizes(16, 32, 64, 8, False)),
        fixed("128, 784, 100, 10", "without", **layer_sizes(128, 784, 100, 10, False)),
    ],
    oracle=two_layers_backward,
    criteria=correct("flops.backward_flops", {"with": 3, "without": 2}),
    mistakes=[
        times(0.5, say("flops.backward_flops.multiplications_alone"), two_layers_backward),
        every(
            lambda out, batch, d_hidden, d_out, **sizes:
                out + 2 * batch * d_hidden * d_out
                == two_layers_backward(batch=batch, d_hidden=d_hidden, d_out=d_out, **sizes),
            say("flops.backward_flops.as_much_as_forward"),
        ),
        with_forward,
    ],
)  # fmt: skip


attention_cost = Exercise(
    id="flops.attention_cost",
    signature="attention_cost(batch, heads, n_q, n_k, d, itemsize) -> tuple[int, int]",
    kind="formula",
    without=["torch.utils.flop_counter", "torch.autograd.profiler"],
    effort=Effort(minutes=10, lines=6, difficulty=3),
    cases=[
        fixed("one head", "one head", **dict(zip(NAIVE, (1, 1, 512, 512, 64, 2), strict=True))),
        fixed("a longer text", "one head", **dict(zip(NAIVE, (1, 1, 4096, 4096, 128, 2), strict=True))),
        fixed("8 sequences, 16 heads", "many", **dict(zip(NAIVE, (8, 16, 256, 256, 64, 2), strict=True))),
        fixed("one token asks", "many", **dict(zip(NAIVE, (1, 1, 1, 4096, 128, 2), strict=True))),
        fixed("unlike lengths", "many", **dict(zip(NAIVE, (2, 3, 100, 37, 16, 4), strict=True))),
    ],
    oracle=attention,
    criteria=correct("flops.attention_cost", {"one head": 3, "many": 2}),
    mistakes=[
        swapped(attention),
        *ATTENTION_COSTS,
        elements(attention),
        times(0.5, say("flops.attention_cost.one_product"),
              attention, part=0),
    ],
)  # fmt: skip


def products_of_tokens(batch: int, tokens: int, d_model: int, **_: int) -> int:
    """Count the FLOPs of the products for S and o, in all heads."""
    return 2 * counted(lambda: meta(batch, tokens, d_model) @ meta(batch, d_model, tokens))


block_cost = Exercise(
    id="flops.block_cost",
    signature="block_cost(batch, tokens, d_model, heads, kv_heads, d_ff) -> int",
    kind="formula",
    without=["torch.utils.flop_counter", "torch.autograd.profiler"],
    effort=Effort(minutes=15, lines=6, difficulty=3),
    track="more",
    cases=[
        fixed("GPT-2 small", "plain", **dict(zip(CONFIG, (1, 1024, 768, 12, 12, 3072), strict=True))),
        fixed("a long text", "plain", **dict(zip(CONFIG, (1, 16384, 768, 12, 12, 3072), strict=True))),
        fixed("a batch", "plain", **dict(zip(CONFIG, (4, 512, 1024, 16, 16, 4096), strict=True))),
        fixed("8 key heads of 32", "shared keys", **dict(zip(CONFIG, (2, 2048, 4096, 32, 8, 14336), strict=True))),
        fixed("1 key head", "shared keys", **dict(zip(CONFIG, (1, 128, 512, 8, 1, 2048), strict=True))),
    ],
    oracle=block_flops,
    criteria=[
        Holds(within_a_percent, 4, say("flops.block_cost.title_plain")),
        Holds(within_a_percent, 2, say("flops.block_cost.title_shared_keys"), group="shared keys"),
    ],
    mistakes=[
        times(0.5, say("flops.block_cost.multiplications_alone"), block_flops),
        every(
            lambda out, kv_heads, **block: math.isclose(
                out, block_flops(kv_heads=block["heads"], **block), rel_tol=0.01
            ),
            say("flops.block_cost.every_head_has_keys"),
        ),
        every(
            lambda out, **block: math.isclose(out, block_flops(**block) - products_of_tokens(**block), rel_tol=0.01),
            say("flops.block_cost.no_attention"),
        ),
        one_product_less,
    ],
)

utilisation = Exercise(
    id="flops.utilisation",
    signature="utilisation(parameters, tokens_per_second, gpus, peak_flops, recompute: bool) -> tuple[float, float]",
    kind="formula",
    without=["torch.utils.flop_counter", "torch.autograd.profiler"],
    effort=Effort(minutes=5, lines=4, difficulty=2),
    track="more",
    cases=[
        fixed("8 B, one GPU", "plain", parameters=8e9, tokens_per_second=9000.0, gpus=1, peak_flops=989.4e12, recompute=False),
        fixed("70 B, 1024 GPUs", "plain", parameters=70e9, tokens_per_second=1.2e6, gpus=1024, peak_flops=989.4e12, recompute=False),
        fixed("8 B, recomputed", "recompute", parameters=8e9, tokens_per_second=8000.0, gpus=1, peak_flops=989.4e12, recompute=True),
        fixed("1 B, old GPUs", "recompute", parameters=1e9, tokens_per_second=2e5, gpus=16, peak_flops=125e12, recompute=True),
    ],
    oracle=lambda **arguments: second_by_second(**arguments),
    criteria=correct("flops.utilisation", {"plain": 2, "recompute": 1}),
    mistakes=[
        times(1 / 3, say("flops.training_days.forward_alone"),
              lambda **run: second_by_second(**run), part=0),
        times(100, say("flops.utilisation.percent"), lambda **run: second_by_second(**run), part=0),
        for_cases(
            lambda case: case.group == "recompute",
            times(8 / 6, say("flops.utilisation.mfu_counts_no_second_forward_pass"),
                  lambda **run: second_by_second(**run), part=0),
        ),
        for_cases(
            lambda case: case.group == "recompute",
            by_pairs(lambda mfu, hfu: hfu <= mfu, say("flops.utilisation.hfu_counts_all")),
        ),
        for_cases(
            lambda case: case.group == "plain",
            by_pairs(lambda mfu, hfu: math.isclose(hfu, 4 / 3 * mfu), say("flops.utilisation.nothing_is_done_twice")),
        ),
        above_the_peak,
    ],
)  # fmt: skip


def second_by_second(parameters: float, tokens_per_second: float, gpus: int, peak_flops: float, recompute: bool) -> Use:
    """Count model and hardware FLOPs utilisation from one token through a model of one weight, as torch counts it."""
    x, w = meta(1, 1, grad=True), meta(1, 1, grad=True)
    forward = counted(lambda: x @ w)
    y = x @ w
    backward = counted(lambda: y.backward(torch.empty_like(y)))
    could = gpus * peak_flops
    each = parameters * tokens_per_second / could
    return Use((forward + backward) * each, (forward * (2 if recompute else 1) + backward) * each)


init_scale = Exercise(
    id="flops.init_scale",
    signature="init_scale(fan_in: int) -> float",
    kind="formula",
    effort=Effort(minutes=5, lines=1, difficulty=2),
    track="more",
    cases=[fixed(f"width {n}", group, fan_in=n) for group, ns in (("one", (64, 256, 1024)), ("deep", (512, 768))) for n in ns],
    oracle=lambda fan_in: None,
    criteria=[
        Holds(keeps_one_layer, 2, say("flops.init_scale.title_one"), group="one"),
        Holds(keeps_twelve_layers, 1, say("flops.init_scale.title_deep"), group="deep"),
    ],
)  # fmt: skip


# ------------------------------------------------------------------------------------------------ napkins


training_days = Exercise(
    id="flops.training_days",
    signature="training_days(parameters, tokens, gpus, peak_flops, mfu) -> float",
    kind="formula",
    effort=Effort(minutes=5, lines=3, difficulty=1),
    track="more",
    cases=[
        fixed("70 B on 15 T", "plain", parameters=70e9, tokens=15e12, gpus=1024, peak_flops=989.4e12, mfu=0.5),
        fixed("124 M on 10 B", "plain", parameters=124e6, tokens=10e9, gpus=8, peak_flops=312e12, mfu=0.4),
        Case(
            "a drawn run",
            "plain",
            lambda g: dict(
                parameters=integer(g, 1, 400) * 1e9, tokens=integer(g, 1, 20) * 1e12, gpus=integer(g, 1, 4096),
                peak_flops=312e12, mfu=integer(g, 20, 60) / 100,
            ),
        ),
    ],
    oracle=lambda **_: None,
    criteria=[Holds(delivers, 3, say("flops.training_days.title_plain"))],
    mistakes=[
        every(lambda out, factor=factor, **run: math.isclose(work_done(out, **run), factor, rel_tol=1e-6), sentence)
        for factor, sentence in (
            (24, say("flops.training_days.hours")),
            (86400, say("flops.training_days.seconds")),
            (1 / 3, say("flops.training_days.forward_alone")),
        )
    ],
)  # fmt: skip


largest_model = Exercise(
    id="flops.largest_model",
    signature="largest_model(gpus: int, memory_bytes: int, bytes_per_parameter: int = 16) -> int",
    kind="formula",
    effort=Effort(minutes=3, lines=1, difficulty=1),
    track="more",
    cases=[
        fixed("8 GPUs of 80 GB", "plain", gpus=8, memory_bytes=80 * GB),
        fixed("one laptop", "plain", gpus=1, memory_bytes=8 * GB - 5),
        Case(
            "a drawn cluster",
            "plain",
            lambda g: dict(
                gpus=integer(g, 1, 64), memory_bytes=integer(g, GB, 200 * GB), bytes_per_parameter=integer(g, 2, 20)
            ),
        ),
    ],
    oracle=lambda **_: None,
    criteria=[Holds(just_fits, 2, say("flops.largest_model.title_plain"))],
)


training_memory = Exercise(
    id="flops.training_memory",
    signature="training_memory(layers, width, batch, optimizer: str) -> tuple[int, int, int, int]",
    kind="formula",
    effort=Effort(minutes=15, lines=6, difficulty=3),
    track="more",
    cases=[
        fixed("2 layers, sgd", "sgd", **run_of(2, 16, 8, "sgd")),
        fixed("5 layers, one row, sgd", "sgd", **run_of(5, 32, 1, "sgd")),
        fixed("3 layers, adagrad", "states", **run_of(3, 16, 4, "adagrad")),
        fixed("4 layers, adam", "states", **run_of(4, 24, 100, "adam")),
        fixed("1 layer, momentum", "states", **run_of(1, 8, 3, "momentum")),
    ],
    oracle=trained_bytes,
    criteria=correct("flops.training_memory", {"sgd": 3, "states": 3}),
)
