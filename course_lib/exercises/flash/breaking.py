"""An attention of one head to be broken."""

from __future__ import annotations

import math

import torch

from course_lib.catalogue import say
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.breaking import Given, Kills, mutant, near_as

KERNEL = """@triton.jit
def given_kernel(q_ptr, k_ptr, v_ptr, o_ptr, N, S, scale, causal: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < N, other=0)
    m = tl.full((BLOCK,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, S, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < S, other=0)
        v = tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < S, other=0)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = (offs_n < S)[None, :]
        if causal:
            seen = seen & (offs_n[None, :] <= offs_m[:, None] + S - N)
        qk = tl.where(seen, qk, -float("inf"))
        new = tl.maximum(m, tl.max(qk, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(qk - new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m = new
    tl.store(o_ptr + offs_m[:, None] * D + offs_d[None, :], acc / l[:, None], mask=offs_m[:, None] < N)


def given_attention(q, k, v, causal):
    N, D = q.shape
    o = torch.empty_like(q)
    given_kernel[(triton.cdiv(N, 32),)](q, k, v, o, N, k.shape[0], D**-0.5, causal=causal, D=D, BLOCK=32)
    return o
"""


def right(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Compute attention (N, D) in float64; the last query sees the last key."""
    N, S = len(q), len(k)
    scores = q.double() @ k.double().T / math.sqrt(q.shape[1])
    if causal:
        scores = scores.masked_fill(torch.arange(S)[None] > torch.arange(N)[:, None] + S - N, -math.inf)
    return scores.softmax(1) @ v.double()


def lawful(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> str:
    """Return a message if the function promises no result for these inputs, else "". It promises one for contiguous float32, D of 16, 32 or
    64, and a key for each query."""
    if not all(t.is_contiguous() and t.dtype == torch.float32 for t in (q, k, v)):
        return say("criteria.mutants.not_contiguous")
    if q.shape[1] not in (16, 32, 64) or max(len(q), len(k)) > 256:
        return say("criteria.mutants.other_sides")
    return say("criteria.mutants.queries_without_keys") if causal and len(q) > len(k) else ""


ATTENTION = Given(
    KERNEL,
    "given_attention",
    {"q": "ND", "k": "SD", "v": "SD"},
    right=right,
    budget=near_as(
        lambda q, k, v, causal: (
            v.double().abs().max() * (2 + (q.double() @ k.double().T).abs().max() / q.shape[1] ** 0.5)
        ),
        times=16,
    ),
    numbers={"causal": (True, False)},
    lawful=lawful,
)

break_attention = Exercise(
    id="flash.break_attention",
    signature='breaking_inputs() -> a list of at most 3 dicts {"q": (N, D), "k": (S, D), "v": (S, D), "causal": bool}',
    kind="formula",
    called="for its inputs",
    effort=Effort(minutes=20, lines=10, difficulty=4),
    track="more",
    cases=[
        mutant("m begins at 0", ('tl.full((BLOCK,), -float("inf"), tl.float32)', "tl.zeros((BLOCK,), tl.float32)")),
        mutant("acc is not corrected", ("acc * alpha[:, None]", "acc")),
        mutant("keys behind the last one count", ("seen = (offs_n < S)[None, :]", "seen = (offs_n >= 0)[None, :]")),
        mutant("causal from the upper left", ("offs_m[:, None] + S - N", "offs_m[:, None]")),
    ],
    oracle=lambda **_: None,
    criteria=[Kills(ATTENTION, 2 / 3, 5)],
)  # fmt: skip
