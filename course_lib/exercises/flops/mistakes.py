"""Mistakes in counting, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from course_lib import mistakes
from course_lib.catalogue import say
from course_lib.exercise import Trial
from course_lib.exercises.flops.oracles import Cost, block_flops, counted, is_number, meta, two_layers_backward
from course_lib.mistakes import MistakeMatcher


def times(factor: float, sentence: str, oracle: Callable[..., Any], part: int | None = None) -> Callable:
    """Make a matcher that returns `sentence` if the result (or one part of it) is `factor` times the right one in every case."""

    def look(trials: Sequence[Trial]) -> str:
        found = []
        for trial in trials:
            for arguments, output in trial.calls:
                right = oracle(**arguments)
                if part is not None:
                    output = output[part] if isinstance(output, list) and len(output) > part else None
                    right = right[part]
                if right:
                    found.append(
                        isinstance(output, (int, float))
                        and is_number(output)
                        and math.isclose(output, factor * right, rel_tol=1e-6)
                    )
        return sentence if found and all(found) else ""

    return look


def every(matches: Callable[..., bool], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if matches(output, **arguments) for every result, and all are numbers."""
    return mistakes.every(lambda out, /, **arguments: is_number(out) and matches(out, **arguments), sentence)


def work_done(days: float, parameters: float, tokens: float, gpus: int, peak_flops: float, mfu: float) -> float:
    """Return the FLOPs delivered in these days, divided by the FLOPs that the training needs."""
    return days * 86400 * gpus * peak_flops * mfu / (6 * parameters * tokens)


def is_pair(output: Any) -> bool:
    """Whether an output is a list of two."""
    return isinstance(output, list) and len(output) == 2


def moves(elements: Callable[..., int], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if the bytes of every cost are those of so many elements. elements: sizes -> how many."""
    return mistakes.every(
        lambda out, /, itemsize, **sizes: is_pair(out) and out[1] == elements(**sizes) * itemsize, sentence
    )


def scores_moved(times: int, sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if every cost of attention moves `times` matrices as large as S, besides q, k, v and o."""
    return moves(lambda batch, heads, n_q, n_k, d: batch * heads * (2 * (n_q + n_k) * d + times * n_q * n_k), sentence)


MATMUL_BYTES = [
    moves(lambda m, n, k: m * k + k * n, say("flops.matmul_cost.nothing_is_written")),
    moves(lambda m, n, k: m * k + k * n + 2 * m * n, say("flops.matmul_cost.the_result_is_not_read")),
    moves(lambda m, n, k: m * n + n * k + m * n, say("flops.matmul_cost.k_and_n_change_places")),
    moves(lambda m, n, k: 2 * m * n * k + m * n, say("flops.matmul_cost.read_for_each_product")),
]
ATTENTION_COSTS = [
    scores_moved(0, say("flops.attention_cost.as_if_fused")),
    scores_moved(2, say("flops.attention_cost.without_the_softmax")),
    scores_moved(3, say("flops.attention_cost.moved_three_times")),
    moves(
        lambda batch, heads, n_q, n_k, d: 2 * (n_q + n_k) * d + 4 * n_q * n_k,
        say("flops.attention_cost.bytes_of_one_head"),
    ),
    moves(
        lambda batch, heads, n_q, n_k, d: batch * heads * (2 * (n_q + n_k) * d + 4 * n_q * n_q),
        say("flops.attention_cost.scores_of_queries_with_queries"),
    ),
    mistakes.every(
        lambda out, batch, heads, n_q, n_k, d, itemsize: is_pair(out) and out[0] == batch * 4 * n_q * n_k * d,
        say("flops.attention_cost.flops_of_one_head"),
    ),
    *(
        mistakes.every(
            lambda out, batch, heads, n_q, n_k, d, itemsize, each=each: (
                is_pair(out) and out[0] == batch * heads * n_q * n_k * (4 * d + each)
            ),
            say("flops.attention_cost.flops_of_the_softmax", each=each),
        )
        for each in range(1, 9)
    ),
]


def swapped(oracle: Callable[..., Cost]) -> MistakeMatcher:
    """Make the matcher of bytes returned before FLOPs."""
    return mistakes.every(
        lambda out, /, **a: is_pair(out) and out == list(oracle(**a))[::-1],
        say("flops.cost.turned_round"),
    )


with_forward = every(
    lambda out, batch, d_in, d_hidden, d_out, input_needs_grad: (
        out - two_layers_backward(batch, d_in, d_hidden, d_out, input_needs_grad)
        == counted(lambda: meta(batch, d_in) @ meta(d_in, d_hidden) @ meta(d_hidden, d_out))
    ),
    say("flops.backward_flops.with_the_forward_pass"),
)


def one_product_less(trials: Sequence[Trial]) -> str:
    """Return a remark if a block is short of the same product in every case, else ""."""

    def product(batch, tokens, columns, inner) -> int:
        return counted(lambda: meta(batch, tokens, inner) @ meta(inner, columns))

    sizes = {
        say("flops.block_cost.without_queries"): lambda d_model, **_: (d_model, d_model),
        say("flops.block_cost.without_keys"): lambda d_model, heads, kv_heads, **_: (
            d_model // heads * kv_heads,
            d_model,
        ),
        say("flops.block_cost.without_the_mlp"): lambda d_model, d_ff, **_: (d_ff, d_model),
        say("flops.block_cost.without_scores"): lambda d_model, tokens, **_: (tokens, d_model),
    }
    for sentence, size in sizes.items():
        less = every(
            lambda out, size=size, **block: math.isclose(
                block_flops(**block) - out, product(block["batch"], block["tokens"], *size(**block)), rel_tol=1e-6
            ),
            sentence,
        )
        if told := less(trials):
            return told
    return ""


def elements(oracle: Callable[..., Cost]) -> MistakeMatcher:
    """Make the matcher of a cost whose second number counts elements instead of bytes."""
    return mistakes.every(
        lambda out, /, **a: is_pair(out) and is_number(out[1]) and out[1] * a["itemsize"] == oracle(**a).bytes,
        say("flops.matmul_cost.elements_not_bytes"),
    )


def by_pairs(matches: Callable[[float, float], bool], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if matches(first, second) for every result, a pair of numbers."""
    return mistakes.every(lambda out, /, **_: is_pair(out) and all(map(is_number, out)) and matches(*out), sentence)


def above_the_peak(trials: Sequence[Trial]) -> str:
    """Return a remark if an MFU is above 1, which is impossible, else ""."""
    shares = [o[0] for t in trials for o in t.evidence.outputs if isinstance(o, list) and o and is_number(o[0])]
    return say("flops.utilisation.mfu_counts_the_second_forward_pass") if any(s > 1 for s in shares) else ""


one_addition_less = mistakes.every(
    lambda out, m, n, k, itemsize: is_pair(out) and out[0] == m * n * (2 * k - 1),
    say("flops.matmul_cost.k_1_additions"),
)
