"""dK and dV of one head to be broken."""

from __future__ import annotations

import math

import torch

from course_lib.catalogue import say
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.breaking import Given, Kills, mutant, near_as
from course_lib.workloads.gradients import dotted

KERNEL = """@triton.jit
def given_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, N, S, scale,
    causal: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK
    offs_n = first + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, D)
    k = tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < S, other=0)
    v = tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < S, other=0)
    dk = tl.zeros((BLOCK, D), tl.float32)
    dv = tl.zeros((BLOCK, D), tl.float32)
    start = 0
    if causal:  # the first query that sees the first key, and where its tile begins
        start = tl.maximum(first + N - S, 0) // BLOCK * BLOCK
    for i in range(start, N, BLOCK):
        offs_m = i + tl.arange(0, BLOCK)
        q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < N, other=0)
        do = tl.load(do_ptr + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < N, other=0)
        lse = tl.load(lse_ptr + offs_m, mask=offs_m < N, other=0)
        delta = tl.load(delta_ptr + offs_m, mask=offs_m < N, other=0)
        s = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
        p = tl.exp(s - lse[None, :])
        if causal:
            p = tl.where(offs_n[:, None] <= offs_m[None, :] + S - N, p, 0.0)
        dv += tl.dot(p, do, input_precision="ieee")
        dp = tl.dot(v, tl.trans(do), input_precision="ieee")
        ds = p * (dp - delta[None, :])
        dk += tl.dot(ds, q, input_precision="ieee")
    tl.store(dk_ptr + offs_n[:, None] * D + offs_d[None, :], dk * scale, mask=offs_n[:, None] < S)
    tl.store(dv_ptr + offs_n[:, None] * D + offs_d[None, :], dv, mask=offs_n[:, None] < S)


def given_gradients(q, k, v, do, causal):
    (N, D), S = q.shape, len(k)
    scale = D**-0.5
    s = q @ k.T * scale
    if causal:
        s = s.masked_fill(torch.arange(S) > torch.arange(N)[:, None] + S - N, -float("inf"))
    lse = torch.logsumexp(s, 1)
    o = torch.exp(s - lse.clamp(min=-1e30)[:, None]) @ v
    delta = (do * o).sum(1)
    dk_dv = torch.empty(2, S, D)
    given_kernel[(triton.cdiv(S, 32),)](
        q, k, v, do, lse, delta, dk_dv[0], dk_dv[1], N, S, scale, causal=causal, D=D, BLOCK=32
    )
    return dk_dv
"""

TENSORS = {"q": "ND", "k": "SD", "v": "SD", "do": "ND"}


def weights(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    """Compute the probabilities (N, S) in float64; rows of zeros for queries that see nothing. The last query sees the last key."""
    N, S = len(q), len(k)
    scores = q.double() @ k.double().T / math.sqrt(q.shape[1])
    if causal:
        scores = scores.masked_fill(torch.arange(S)[None] > torch.arange(N)[:, None] + S - N, -math.inf)
    return scores.softmax(1).nan_to_num(0)


def right(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool) -> torch.Tensor:
    """Compute dK and dV, as one tensor (2, S, D) in float64, by autograd. A query that sees no key adds nothing to them."""
    first = max(0, len(q) - len(k)) if causal else 0
    k, v = (t.double().requires_grad_() for t in (k, v))
    o = weights(q[first:], k, causal) @ v
    return torch.stack(torch.autograd.grad(dotted(o, do[first:]), (k, v)))


def lawful(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool) -> str:
    """Return a message if the function promises no result for these inputs, else "". It promises one for contiguous float32, D 16, 32 or
    64, at most 256 queries and keys."""
    if not all(t.is_contiguous() and t.dtype == torch.float32 for t in (q, k, v, do)):
        return say("criteria.mutants.not_contiguous")
    if q.shape[1] not in (16, 32, 64) or max(len(q), len(k)) > 256:
        return say("criteria.mutants.other_sides")
    return ""


def of_terms(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool) -> torch.Tensor:
    """Return the magnitude (2, 1, 1) that errors grow with: the largest sum of magnitudes in dK and in dV, times the largest score."""
    q, k, v, do = (t.double() for t in (q, k, v, do))
    p = weights(q, k, causal)
    dp = do.abs() @ v.abs().T
    ds = p * (dp + (p * dp).sum(1, keepdim=True))
    scores = (q @ k.T).abs().max() / q.shape[1] ** 0.5
    sums = torch.stack([(ds.T @ q.abs()).max() / q.shape[1] ** 0.5, (p.T @ do.abs()).max()])
    return (2 + scores) * sums[:, None, None]


GRADIENTS = Given(
    KERNEL,
    "given_gradients",
    TENSORS,
    right=right,
    budget=near_as(of_terms, times=16),
    numbers={"causal": (True, False)},
    lawful=lawful,
)

break_gradients = Exercise(
    id="flash_backward.break_gradients",
    signature='breaking_inputs() -> a list of at most 3 dicts {"q": (N, D), "k": (S, D), "v": (S, D), "do": (N, D), "causal": bool}',
    kind="formula",
    called="for its inputs",
    effort=Effort(minutes=25, lines=10, difficulty=4),
    track="more",
    cases=[
        mutant("the walk begins at the program's own number", ("first + N - S, 0)", "first, 0)")),
        mutant(
            "scores are masked before exp",
            (
                "        p = tl.exp(s - lse[None, :])\n        if causal:\n            p = tl.where(offs_n[:, None] <= offs_m[None, :] "
                "+ S - N, p, 0.0)\n",
                "        if causal:\n            s = tl.where(offs_n[:, None] <= offs_m[None, :] + S - N, s, "
                '-float("inf"))\n        p = tl.exp(s - lse[None, :])\n',
            ),
        ),
        mutant("delta is not subtracted", ("(dp - delta[None, :])", "dp")),
        mutant("gradients above 1,000 are clipped", ("dp = tl.dot(v, tl.trans(do)", "dp = tl.dot(v, tl.trans(tl.minimum(do, 1000.0))")),
    ],
    oracle=lambda **_: None,
    criteria=[Kills(GRADIENTS, 1 / 3, 7)],
)  # fmt: skip
