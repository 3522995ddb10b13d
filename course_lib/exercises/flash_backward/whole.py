"""FlashAttention, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course_lib.catalogue import say
from course_lib.criteria import BuffersBelow, Compiles, Correct, DotFlops, Launches, NoAtomics, Speed
from course_lib.criteria.costs import MIN_PROGRAMS
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP16, FP32, operations, twice
from course_lib.exercises.flash.cases import by_columns, heads, one_of_each_head
from course_lib.exercises.flash.mistakes import OF_O, OVERFLOW, ROUNDED_ACCUMULATOR, looks_like_tf32
from course_lib.exercises.flash_backward.cases import both, with_dy
from course_lib.exercises.flash_backward.criteria import (
    KeepsOneNumberARow,
    KernelsAlone,
    KernelsMadeTheGradients,
    of_pairs,
    products,
    scores_bytes,
)
from course_lib.exercises.flash_backward.mistakes import atomics, like_tf32, mistakes_of, swapped
from course_lib.exercises.flash_backward.oracles import result, result_budget
from course_lib.exercises.recomputation.mistakes import if_applied_to_others
from course_lib.mistakes import on_exception


def torchs_flash(q, k, v, causal, dy) -> Callable[[], object]:
    """Make a function that runs torch's FlashAttention-2, forward and backward, on the same inputs."""
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]

    def run() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.enable_grad():
            o = scaled_dot_product_attention(*leaves, is_causal=causal)
        return torch.autograd.grad(o, leaves, dy)

    return run


flash_attention = Exercise(
    id="flash_backward.flash_attention",
    signature="FlashAttention.apply(q: (..., Nq, D), k, v: (..., Nk, D), is_causal=False, scale=None) -> (..., Nq, D)",
    called="forward and backward",
    wiring=8,
    effort=Effort(minutes=30, lines=25, difficulty=4),
    cases=[
        Case("(2, 2) heads of 64 queries and keys, float16", "plain", both(64, 64, 16, lead=(2, 2))),
        Case("1 query, 200 keys, bfloat16", "ragged", both(1, 200, 16, BF16)),
        Case("(2, 1, 2) heads of 80, float32", "ragged", both(20, 40, 80, FP32, lead=(2, 1, 2))),
        Case("no leading dimension, a scale of 0.4", "ragged", both(140, 150, 16, lead=(), scale=0.4)),
        Case("no leading dimension, a scale of 0", "ragged", both(160, 130, 16, lead=(), scale=0.0)),
        Case("128 queries, 64 keys, heads of 128, float16", "ragged", both(128, 64, 128, lead=(1, 1))),
        Case("other inputs before backward", "ragged", twice(both(20, 40, 16, scale=0.4), causal=True, scale=0.2)),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", both(40, 33, 16, lead=(2, 3), layout="heads", do="heads")),
        Case("by columns, after o.sum()", "strided", with_dy(by_columns(heads(30, 40, 16)), "one number")),
        Case("one k and v for 3 heads", "strided", with_dy(one_of_each_head(heads(30, 40, 16, lead=()), 3))),
        Case("130 queries, 200 keys, causal", "causal", both(130, 200, 16, BF16, causal=True)),
        Case("70 queries, 31 keys, causal, float32", "causal", both(70, 31, 16, FP32, causal=True)),
        Case("large scores", "hard", both(24, 170, 16, BF16, lead=(), scores="large")),
        Case("rising scores, heads of 80, float32", "hard", both(30, 150, 80, FP32, scores="rising", v_mean=20.0)),
        Case("scores near -200", "hard", both(70, 64, 16, scores="low")),
        Case("16 queries, 2048 keys, v around 20, bfloat16", "half", both(16, 2048, 16, BF16, lead=(), v_mean=20.0)),
        Case("64 heads of 64 queries and keys, float16", "performance", both(64, 64, 16, lead=(64,))),
        Case(
            "64 queries and keys, heads of 128, v around 22, float16",
            "half",
            both(64, 64, 128, FP16, lead=(), scores="flat", v_mean=22.0, do="around 3"),
        ),
        Case("512 queries and keys, float16", "performance", both(512, 512, 16, lead=(1,))),
        Case("512 queries and keys, causal, bfloat16", "half of it", both(512, 512, 16, BF16, lead=(2,), causal=True)),
    ],
    oracle=result,
    budget=result_budget,
    allows=operations("_to_copy _unsafe_view bmm mm clone eq exp logsumexp mul scalar_tensor sub tril where"),
    gates=[KernelsMadeTheGradients(), Correct("plain"), Compiles()],
    criteria=[
        Correct("ragged", 2, say("flash_backward.flash_attention.title_ragged")),
        Correct("strided", 2, say("flash_backward.flash_attention.title_strided")),
        Correct("causal", 2, say("flash_backward.flash_attention.title_causal")),
        Correct("hard", 2, say("flash_backward.flash_attention.title_hard")),
        Correct("half", 1, say("flash_backward.flash_attention.title_half")),
        KernelsAlone(2),
        KeepsOneNumberARow(3),
        Launches(1, 1, phase=0),
        Launches(3, 1, phase=1, programs=MIN_PROGRAMS),
        # one kernel for all three gradients does five products, three kernels do seven
        DotFlops(products(9), of_pairs(2, 5), 1, say("flash_backward.flash_attention.title_dot_flops")),
        DotFlops(
            products(9),
            of_pairs(2, 5),
            1,
            say("flash_backward.flash_attention.title_dot_flops_half_of_it"),
            "half of it",
        ),
        NoAtomics(1),
        BuffersBelow(scores_bytes, 1, say("flash_backward.flash_attention.title_buffers_below")),
    ],
    bonus=[
        Speed(
            say("flash_backward.flash_attention.vs_speed"),
            Case("16 heads of 128, 4096 tokens, bfloat16", "speed", both(4096, 4096, 128, BF16, lead=(1, 16))),
            lambda q, k, v, **_: 2 * (q.nbytes + k.nbytes + v.nbytes) + 3 * q.nbytes,
            full=1.0,
            none=0.6,
            points=4,
            baseline=torchs_flash,
            advice=say("flash_backward.flash_attention.advice_speed"),
        )
    ],
    mistakes=[
        on_exception("got 1)", say("flash_backward.flash_attention.one_gradient")),
        on_exception("incorrect number of gradients", say("flash_backward.flash_attention.too_few_gradients")),
        on_exception(
            "takes 2 positional arguments but 3 were given", say("flash_backward.flash_attention.two_results")
        ),
        on_exception("takes no arguments", say("flash_backward.flash_attention.autograd_of_the_slow_one")),
        if_applied_to_others,
        OVERFLOW,
        *OF_O,
        ROUNDED_ACCUMULATOR,
        swapped(2),
        *mistakes_of("dq", 1),
        *mistakes_of("dk", 2),
        looks_like_tf32,
        like_tf32("dk", 2),
        atomics,
    ],
)
