"""Costs of a transformer: parameters, bytes of a training step, FLOPs, seconds, dollars."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.training.oracles import SavedBytes, differentiable
from course_lib.mistakes import every
from course_lib.workloads.gpt import GPT, LARGE, TORCH, Config
from course_lib.workloads.launched import Kernels

SIZES = ("vocab", "layers", "width", "heads", "kv_heads", "hidden")


def sized(name: str, group: str, c: Config, /, **more: Any) -> Case:
    """Make a case of a model's sizes."""
    return fixed(name, group, **{size: getattr(c, size) for size in SIZES}, **more)


def config(**sizes: int) -> Config:
    """Make the configuration of these sizes; other arguments of a case are ignored."""
    return Config(**{name: sizes[name] for name in SIZES})


@cache
def parameters_of(c: Config) -> int:
    """Count the parameters of a model, on the meta device."""
    with torch.device("meta"):
        return sum(p.numel() for p in GPT(c).parameters())


@cache
def kept_of(c: Config, batch: int, n: int) -> int:
    """Count the bytes saved between forward and backward of the course's model in bfloat16, with the course's kernels in its slots.

    A number for each layer and the rest, linear in layers: few are run, and the others are as many more.
    """
    one, two = (_kept(dataclasses.replace(c, layers=layers), batch, n) for layers in (1, 2))
    return one + (c.layers - 1) * (two - one)


def _kept(c: Config, batch: int, n: int) -> int:
    model = GPT(c, differentiable(Kernels())).bfloat16()
    tokens, targets = torch.randint(0, c.vocab, (2, batch, n)).unbind()
    with torch.enable_grad(), SavedBytes(*model.parameters()) as kept:
        model(tokens, targets.clone())
    return kept.bytes - tokens.untyped_storage().nbytes() + tokens.nbytes


def memory_of(batch: int, n: int, **sizes: int) -> tuple[int, int, int]:
    """Count (parameters, bytes of weights, gradients and optimizer, bytes saved for backward)."""
    c = config(**sizes)
    return parameters_of(c), state_of(c), kept_of(c, batch, n)


def state_of(c: Config) -> int:
    """Count the bytes of bfloat16 weights and gradients, and of the float32 master, m and v."""
    with torch.device("meta"):
        weights = list(GPT(c).bfloat16().parameters())
    return sum(2 * p.nbytes + 3 * p.numel() * 4 for p in weights)


def says(part: int, name: str, told: str) -> Callable[..., str]:
    """Make a function that returns "" if one of three whole numbers is right, else a message."""

    def look(output: Any, **arguments: Any) -> str:
        if not isinstance(output, list) or len(output) != 3:
            return say("training.training_memory.no_three")
        right, found = memory_of(**arguments)[part], output[part]
        return (
            ""
            if found == right
            else say(
                "training.training_memory.wrong", what=told, right=right, got=_said(found), model=_named(arguments)
            )
        )

    look.__name__ = name
    return look


def _said(value: Any) -> str:
    return f"{value:,}" if type(value) in (int, float) else say("training.training_memory.no_number")


def _named(arguments: dict[str, Any]) -> str:
    """The sizes of a model and of a batch, as a student would pass them."""
    return ", ".join(f"{name} {arguments[name]}" for name in (*SIZES, "batch", "n"))


def off_by(wrong: Callable[..., float], part: int) -> Callable[..., bool]:
    """Make a function that tells whether the number at `part` is off by `wrong` of the arguments."""

    def matches(output: Any, **arguments: Any) -> bool:
        amount = wrong(**arguments)
        return isinstance(output, list) and len(output) == 3 and type(output[part]) in (int, float) and (
            output[part] - memory_of(**arguments)[part] == amount
        )  # fmt: skip

    return matches


def _q_and_k(layers: int, width: int, heads: int, kv_heads: int, batch: int, n: int, **_: Any) -> int:
    return -2 * layers * batch * n * (heads + kv_heads) * (width // heads)


def bytes_each(count: int) -> Callable[..., bool]:
    """Make a function that tells whether weights, gradients and optimizer take that many bytes for each parameter."""
    return off_by(lambda **arguments: (count - 16) * memory_of(**arguments)[0], 1)


NARROW = Config(vocab=50, layers=3, width=24, heads=3, kv_heads=3, hidden=40)
GROUPED = Config(vocab=77, layers=2, width=32, heads=8, kv_heads=2, hidden=56)

training_memory = Exercise(
    id="training.training_memory",
    signature="training_memory(vocab, layers, width, heads, kv_heads, hidden, batch, n) -> (parameters, state, activations), bytes",
    kind="formula",
    without=["course_lib.workloads.gpt", "course_lib.workloads.launched"],
    effort=Effort(minutes=25, lines=16, difficulty=4),
    cases=[
        sized(
            "one layer", "plain", Config(vocab=64, layers=1, width=64, heads=4, kv_heads=4, hidden=176), batch=1, n=16
        ),
        sized("three layers, heads of their own", "plain", NARROW, batch=3, n=10),
        sized("heads that share k and v", "plain", GROUPED, batch=2, n=21),
    ],
    oracle=memory_of,
    criteria=[
        Holds(says(0, "parameters", "parameters"), 2, say("training.training_memory.title_plain")),
        Holds(
            says(1, "state", say("training.training_memory.state")),
            1,
            say("training.training_memory.title_plain_2"),
        ),
        Holds(
            says(2, "activations", say("training.training_memory.activations")),
            5,
            say("training.training_memory.title_plain_3"),
        ),
    ],
    mistakes=[
        every(
            off_by(lambda vocab, batch, n, **_: -2 * batch * n * vocab, 2),
            say("training.training_memory.logits_forgotten"),
        ),
        every(
            off_by(lambda layers, heads, batch, n, **_: -4 * layers * batch * n * heads, 2),
            say("training.training_memory.lse_forgotten"),
        ),
        every(off_by(_q_and_k, 2), say("training.training_memory.v_alone_not_all_of_qkv")),
        every(
            off_by(lambda width, heads, n, **_: -2 * n * (width // heads), 2),
            say("training.training_memory.one_table_of_angles"),
        ),
        every(off_by(lambda batch, n, **_: -8 * batch * n, 2), say("training.training_memory.targets_forgotten")),
        every(
            off_by(lambda vocab, width, **_: -vocab * width, 0),
            say("training.training_memory.one_matrix_for_embedding_and_head"),
        ),
        every(off_by(lambda width, **_: -width, 0), say("training.training_memory.the_last_norm")),
        every(
            off_by(lambda layers, width, **_: -(2 * layers + 1) * width, 0), say("training.training_memory.no_norms")
        ),
        *(
            every(bytes_each(count), say("training.training_memory.bytes_for_each", bytes=count))
            for count in range(2, 33)
            if count != 16
        ),
        every(
            off_by(lambda width, heads, batch, n, **_: 4 * (batch - 1) * n * (width // heads), 2),
            say("training.training_memory.tables_of_each_text"),
        ),
    ],
)


# ------------------------------------------------------------------------------------------------------- FLOPs, seconds, dollars


@cache
def flops_of(c: Config, batch: int, n: int) -> int:
    """Count the FLOPs of a training step: torch's counter sees the matrices, and pairs of queries and keys are counted one by one."""
    with torch.device("meta"):
        model = GPT(
            c, dataclasses.replace(TORCH, attention=lambda q, k, v: q + v.repeat_interleave(c.heads // c.kv_heads, 1))
        )
        tokens = torch.zeros(batch, n, dtype=torch.int64)
    with torch.enable_grad(), FlopCounterMode(display=False) as counted:
        model(tokens, tokens).backward()
    pairs = sum(1 for query in range(n) for key in range(query + 1))
    products = 2 + 4  # q kᵀ and p v; the gradients of q, k, p and v
    return counted.get_total_flops() + batch * c.layers * c.heads * pairs * products * 2 * c.head_dim


def cost_of(
    batch: int, n: int, tokens: float, flops_per_second: float, mfu: float, dollars: float, **sizes: int
) -> tuple:
    """Compute (FLOPs of a step, its seconds, dollars of the run)."""
    step = flops_of(config(**sizes), batch, n)
    seconds = step / (flops_per_second * mfu)
    return step, seconds, tokens / (batch * n) * seconds / 3600 * dollars


def costs(part: int, name: str, unit: str) -> Callable[..., str]:
    """Make a function that returns "" if one of three numbers is right, else a message."""

    def look(output: Any, **arguments: Any) -> str:
        if not isinstance(output, list) or len(output) != 3:
            return say("training.run_cost.no_three")
        right, found = cost_of(**arguments)[part], output[part]
        if type(found) in (int, float) and abs(found - right) <= 1e-6 * right:
            return ""
        predicted = f"{found:.6g}" if type(found) in (int, float) else say("training.training_memory.no_number")
        facts = {"right": right, "unit": unit, "predicted": predicted}
        if part:  # seconds and dollars follow from FLOPs: once is enough
            return say("training.run_cost.other", **facts)
        return say("training.run_cost.other_of", **facts, model=_named(arguments))

    look.__name__ = name
    return look


def _first_is(guess: Callable[..., float]) -> Callable[..., bool]:
    def matches(output: Any, **arguments: Any) -> bool:
        found = output[0] if isinstance(output, list) and output and type(output[0]) in (int, float) else 0
        return abs(found - guess(**arguments)) <= 1e-9 * abs(found)

    return matches


def with_the_embedding(batch: int, n: int, **arguments: Any) -> float:
    """Compute the FLOPs 6 N D with every parameter counted in N, and attention besides."""
    c = config(**arguments)
    return flops_of(c, batch, n) + 6 * batch * n * (c.vocab * c.width + (2 * c.layers + 1) * c.width)


def whole_square(batch: int, n: int, **arguments: Any) -> float:
    """Compute the FLOPs with attention over all pairs, future keys among them."""
    c = config(**arguments)
    return flops_of(c, batch, n) + 12 * batch * c.layers * c.width * n * (n - 1) // 2


def in_attention(products: float) -> Callable[..., float]:
    """Make a function of a run's arguments that computes the FLOPs of a step in which attention has that many products of each pair,
    instead of six; several causes of a wrong count change nothing else."""

    def flops(batch: int, n: int, **arguments: Any) -> float:
        c = config(**arguments)
        return flops_of(c, batch, n) + (products - 6) * 2 * batch * c.layers * c.width * n * (n + 1) // 2

    return flops


def by_shared_heads(batch: int, n: int, **arguments: Any) -> float:
    """Compute the FLOPs with the products of attention counted for each head of k and v."""
    c = config(**arguments)
    return in_attention(6 * c.kv_heads / c.heads)(batch, n, **arguments)


def _relates(part: int, guess: Callable[..., float]) -> Callable[..., bool]:
    """Make a function that tells whether the number at `part` is guess(the one before it, **arguments)."""

    def matches(output: Any, **arguments: Any) -> bool:
        if not isinstance(output, list) or len(output) != 3 or not all(type(x) in (int, float) for x in output):
            return False
        return math.isclose(output[part], guess(output[part - 1], **arguments), rel_tol=1e-9)

    return matches


run_of = partial(dict, tokens=1e9, flops_per_second=989e12, mfu=0.4, dollars=2.5)

run_cost = Exercise(
    id="training.run_cost",
    signature="run_cost(vocab, layers, width, heads, kv_heads, hidden, batch, n, tokens, flops_per_second, mfu, dollars) -> "
    "(flops, seconds, dollars)",
    kind="formula",
    without=["torch.utils.flop_counter", "course_lib.workloads.gpt"],
    effort=Effort(minutes=15, lines=8, difficulty=3),
    cases=[
        sized("one layer", "plain", dataclasses.replace(NARROW, layers=1), batch=1, n=16, **run_of()),
        sized("three layers", "plain", NARROW, batch=3, n=10, **run_of(mfu=0.5)),
        sized("the large one, 4 x 512", "plain", LARGE, batch=4, n=512, **run_of(tokens=20e9)),
    ],
    oracle=cost_of,
    criteria=[
        Holds(costs(0, "flops", "FLOPs"), 4, say("training.run_cost.title_plain")),
        Holds(costs(1, "seconds", "seconds"), 1, say("training.run_cost.title_plain_2")),
        Holds(costs(2, "dollars", "dollars"), 1, say("training.run_cost.title_plain_3")),
    ],
    mistakes=[
        every(_first_is(with_the_embedding), say("training.run_cost.6_n_d_with_all_parameters")),
        every(_first_is(whole_square), say("training.run_cost.all_pairs_not_half")),
        every(
            _first_is(
                lambda vocab, width, batch, n, **a: (
                    flops_of(config(vocab=vocab, width=width, **a), batch, n) + 6 * batch * n * vocab * width
                )
            ),
            say("training.run_cost.with_the_embedding"),
        ),
        every(_first_is(by_shared_heads), say("training.run_cost.attention_of_shared_heads")),
        every(_first_is(in_attention(0)), say("training.run_cost.no_attention")),
        every(_first_is(in_attention(3)), say("training.run_cost.half_of_attention")),
        *(
            every(_first_is(in_attention(products)), say("training.run_cost.products", products=products))
            for products in (7, 8, 9)
        ),
        every(
            _first_is(lambda batch, n, **a: flops_of(config(**a), batch, n) / 3),
            say("training.run_cost.forward_alone"),
        ),
        every(
            _relates(1, lambda flops, flops_per_second, mfu, **_: flops / flops_per_second * mfu),
            say("training.run_cost.times_mfu"),
        ),
        every(
            _relates(1, lambda flops, flops_per_second, **_: flops / flops_per_second),
            say("training.run_cost.at_the_peak"),
        ),
        every(
            _relates(2, lambda seconds, tokens, batch, n, dollars, **_: tokens / (batch * n) * seconds * dollars),
            say("training.run_cost.dollars_a_second"),
        ),
        every(
            _relates(2, lambda seconds, tokens, dollars, **_: tokens * seconds / 3600 * dollars),
            say("training.run_cost.a_token_a_step"),
        ),
    ],
)
