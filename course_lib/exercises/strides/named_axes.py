"""Products and sums by the names of axes: einsum and reduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.catalogue import say
from course_lib.criteria import Correct, sum_budget
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import ARITHMETIC, FP16, fixed, laid_out
from course_lib.exercises.misconceptions import Misconception
from course_lib.mistakes import on_exception
from tritontrace.tracing import Mode

# ------------------------------------------------------------------------------------------------ predictions


class Did(Mode):
    """Dispatch mode that counts the products and the bytes of copies that torch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.products, self.copied = 0, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        self.products += name in ("mm", "bmm")
        self.copied += out.nbytes if name in ("clone", "_to_copy") else 0
        return out


def did(equation: str, *shapes: tuple[int, ...]) -> Did:
    """Count what torch does for an einsum of tensors of these shapes."""
    with Did() as mode:
        torch.einsum(equation, *map(torch.empty, shapes))
    return mode


def flops(work: Callable[[], Any]) -> int:
    """Count the FLOPs of work(), by torch's counter."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def einsum_counted() -> dict[str, int]:
    """Return the right answers about torch's einsum, by the names that the exercise uses."""
    square, column, heads = (64, 64), (64, 1), (2, 64, 4, 16)
    x, y, z = (torch.empty(shape) for shape in (square, square, column))
    return {
        "products: mk,kn->mn": did("mk,kn->mn", square, square).products,
        "products: mn,mn->mn": did("mn,mn->mn", square, square).products,
        "products: mk,kn,np->mp": did("mk,kn,np->mp", square, square, square).products,
        "bytes copied: mk,nk->mn": did("mk,nk->mn", square, square).copied,
        "bytes copied: bshd,bthd->bhst": did("bshd,bthd->bhst", heads, heads).copied,
        "elements: mk,kn->n": torch.einsum("mk,kn->n", x, y).numel(),
        "elements: ...d,df->...f": torch.einsum("...d,df->...f", torch.empty(heads), torch.empty(16, 5)).numel(),
        "FLOPs: mk,kn,nv->mv, from the left": flops(lambda: (x @ y) @ z),
        "FLOPs: mk,kn,nv->mv, from the right": flops(lambda: x @ (y @ z)),
    }


einsum_predictions = Exercise(
    id="strides.einsum_predictions",
    signature="predicted_einsum: dict[str, int]",
    kind="values",
    effort=Effort(minutes=15, lines=9, difficulty=3),
    track="more",
    cases=[fixed("nine numbers", "plain")],
    oracle=einsum_counted,
    criteria=[Correct("plain", 9, say("strides.einsum_predictions.title_plain"))],
)

# ------------------------------------------------------------------------------------------------ by name


def queries_and_keys(B: int, S: int, T: int, G: int, R: int, D: int, dtype: torch.dtype = torch.float32):
    """Return a function that draws q (B, S, G * R, D) and k (B, T, G, D)."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        q, k = torch.randn(B, S, G * R, D, generator=g), torch.randn(B, T, G, D, generator=g)
        return {"q": q.to(dtype), "k": k.to(dtype)}

    return draw


def scores_of_each_head(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Compute scores (B, H, S, T), one product for each head."""
    share = q.shape[2] // k.shape[2]
    heads = [q[:, :, h].double() @ k[:, :, h // share].double().mT for h in range(q.shape[2])]
    return torch.stack(heads, 1)


def with_neighbours_apart(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Compute scores in which query head h uses key head h modulo their number."""
    G = k.shape[2]
    return torch.stack([q[:, :, h].double() @ k[:, :, h % G].double().mT for h in range(q.shape[2])], 1)


SUM = ARITHMETIC | frozenset(
    ["bmm", "mm", "clone", "baddbmm", "repeat", "stack", "cat", "index_select", "zeros", "repeat_interleave"]
)
grouped_scores = Exercise(
    id="strides.grouped_scores",
    signature="grouped_scores(q: (B, S, H, D), k: (B, T, G, D)) -> (B, H, S, T)",
    effort=Effort(minutes=10, lines=4, difficulty=3),
    track="more",
    cases=[
        Case("2 x 5 tokens, 4 heads, 4 of keys", "plain", queries_and_keys(2, 5, 7, 4, 1, 8)),
        Case("1 x 3 tokens, 2 heads, 2 of keys", "plain", queries_and_keys(1, 3, 4, 2, 1, 16)),
        Case("6 heads, 2 of keys", "grouped", queries_and_keys(2, 4, 5, 2, 3, 8)),
        Case("8 heads, 1 of keys", "grouped", queries_and_keys(3, 5, 6, 1, 8, 4)),
        Case("6 heads, 3 of keys, float16", "grouped", queries_and_keys(1, 6, 9, 3, 2, 32, FP16)),
    ],
    oracle=scores_of_each_head,
    budget=sum_budget(lambda q, k: scores_of_each_head(q.abs(), k.abs()), lambda q, k: q.shape[-1]),
    allows=SUM,
    gates=[Correct("plain")],
    criteria=[Correct("grouped", 3, say("strides.grouped_scores.title_grouped"))],
    mistakes=[
        Misconception(with_neighbours_apart, say("strides.grouped_scores.h_modulo_g"), scores_of_each_head),
        on_exception("EinopsError", say("strides.grouped_scores.does_not_divide")),
    ],
)


def pooled(B: int, n: int, width: int, C: int, dtype: torch.dtype = torch.float32, layout: str = "rows"):
    """Return a function that draws x (B, n * width, C) and the width of a window."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        return {"x": laid_out(torch.randn(B, n * width, C, generator=g).to(dtype), layout), "width": width}

    return draw


def window_by_window(x: torch.Tensor, width: int) -> torch.Tensor:
    """Compute the mean (B, S / width, C) of each window of tokens."""
    return torch.stack([x[:, s : s + width].double().mean(1) for s in range(0, x.shape[1], width)], 1)


def every_nth(x: torch.Tensor, width: int) -> torch.Tensor:
    """Compute the means as if a window were made of tokens that lie S / width apart."""
    step = x.shape[1] // width
    return torch.stack([x[:, s::step].double().mean(1) for s in range(step)], 1)


mean_pool = Exercise(
    id="strides.mean_pool",
    signature="mean_pool(x: (B, S, C), width: int) -> (B, S / width, C)",
    effort=Effort(minutes=5, lines=1, difficulty=2),
    track="more",
    cases=[
        Case("2 x 12 x 5, by 3", "plain", pooled(2, 4, 3, 5)),
        Case("3 x 10 x 4, by 2", "plain", pooled(3, 5, 2, 4)),
        Case("2 x 8 x 3, by 1", "other", pooled(2, 8, 1, 3)),
        Case("1 x 7 x 9, by 7", "other", pooled(1, 1, 7, 9)),
        Case("2 x 12 x 6, by 4, a view", "other", pooled(2, 3, 4, 6, layout="columns")),
        Case("2 x 300 x 4, by 100, float16", "other", pooled(2, 3, 100, 4, FP16)),
    ],
    oracle=window_by_window,
    budget=sum_budget(lambda x, width: window_by_window(x.abs(), width), lambda x, width: x.shape[1]),
    allows=SUM,
    gates=[Correct("plain")],
    criteria=[Correct("other", 2, say("strides.mean_pool.title_other"))],
    mistakes=[
        Misconception(every_nth, say("strides.mean_pool.windows_of_tokens_far_apart"), window_by_window),
        Misconception(
            lambda x, width: window_by_window(x, width) * width, say("strides.mean_pool.sums"), window_by_window
        ),
    ],
)
