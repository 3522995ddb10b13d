"""How long a text fits into memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import BF16, FP32, fixed
from course_lib.exercises.flash_backward.cases import model
from course_lib.words import in_words


class KeepsRows(torch.autograd.Function):
    """An autograd function with attention's shapes but not its arithmetic: saves q, k, v, o and one float32 a query, like
    FlashAttention."""

    @staticmethod
    def forward(ctx, q, k, v):
        o, lse = torch.empty_like(q), torch.empty(q.shape[:-1], device=q.device)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx, do):
        return do, do, do


def with_scores(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Compute attention by torch's own operations: autograd saves what it needs of them."""
    return torch.softmax(q @ k.mT, -1) @ v


@cache
def kept_bytes(tokens: int, layers: int, heads: int, head_dim: int, itemsize: int, scores: bool) -> int:
    """Count the bytes of all storages that autograd saves for backward, q, k and v among them; on meta tensors."""
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    dtype = {2: BF16, 4: FP32}[itemsize]
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        q, k, v = (
            torch.empty(heads, tokens, head_dim, dtype=dtype, device="meta", requires_grad=True) for _ in range(3)
        )
        _o = with_scores(q, k, v) if scores else KeepsRows.apply(q, k, v)
    return layers * sum(storage.nbytes() for storage in kept.values())


def longest(budget_bytes: int, config: dict[str, Any]) -> int:
    """Return the most tokens whose saved bytes are within the budget, found by bisection."""
    low, high = 0, 1
    while kept_bytes(high, **config) <= budget_bytes:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept_bytes(middle, **config) <= budget_bytes else (low, middle)
    return low


def fits(output: Any, budget_bytes: int, config: dict[str, Any]) -> str:
    """Return "" if this many tokens fit in the budget and one more would not, else a message."""
    if type(output) is not int or output < 0:
        return say("flash_backward.longest_context.no_number", got=in_words(output))
    for tokens, within in ((output, True), (output + 1, False)):
        if not tokens:
            continue
        kept = kept_bytes(min(tokens, 1 << 40), **config)
        if (kept <= budget_bytes) != within:
            facts = {"budget": budget_bytes, "config": str(config), "count": output, "tokens": tokens, "kept": kept}
            return say(f"flash_backward.longest_context.{'too_many' if within else 'not_the_most'}", **facts)
    return ""


longest_context = Exercise(
    id="flash_backward.longest_context",
    signature="longest_context(budget_bytes: int, config: dict) -> int",
    kind="formula",
    effort=Effort(minutes=15, lines=8, difficulty=3),
    track="more",
    cases=[
        fixed("16 GB, FlashAttention", "flash", **model(16e9, 24, 16, 64, 2, False)),
        fixed("1 GB, one layer, float32", "flash", **model(1e9, 1, 8, 128, 4, False)),
        fixed("100 kB, one layer", "flash", **model(1e5, 1, 4, 32, 2, False)),
        fixed("16 GB, scores kept", "scores", **model(16e9, 24, 16, 64, 2, True)),
        fixed("1 GB, one layer, float32, scores kept", "scores", **model(1e9, 1, 8, 128, 4, True)),
        fixed("141 GB, scores kept", "scores", **model(141e9, 32, 32, 128, 2, True)),
        fixed("one byte too few for one token", "edges", **model(2 * (4 * 64 * 2 + 4) * 3 - 1, 3, 2, 64, 2, False)),
        fixed("just one token", "edges", **model(2 * (4 * 64 * 2 + 4) * 3, 3, 2, 64, 2, False)),
        fixed("nine tokens to the byte, scores kept", "edges", **model(3 * 9 * 32 * 4 + 9 * 9 * 4, 1, 1, 32, 4, True)),
        fixed("one byte less", "edges", **model(3 * 9 * 32 * 4 + 9 * 9 * 4 - 1, 1, 1, 32, 4, True)),
    ],
    oracle=longest,
    criteria=[
        Holds(fits, 2, say("flash_backward.longest_context.title_flash"), "flash"),
        Holds(fits, 2, say("flash_backward.longest_context.title_scores"), "scores"),
        Holds(fits, 1, say("flash_backward.longest_context.title_edges"), "edges"),
    ],
)
