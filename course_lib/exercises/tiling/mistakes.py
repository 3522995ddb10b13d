"""Mistakes with tiles, and how results reveal them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial, of_group
from course_lib.exercise import Trial
from course_lib.exercises.misconceptions import Misconception, multiplied_in_tf32
from course_lib.exercises.tiling.oracles import product
from course_lib.mistakes import as_tf32, every


def _is(output: Any, guess: torch.Tensor) -> bool:
    same = isinstance(output, torch.Tensor) and output.shape == guess.shape
    return same and torch.allclose(output.double(), guess, rtol=1e-4, atol=1e-4)


def _of_the_last_tile(output: Any, a: torch.Tensor, b: torch.Tensor, bk: int, **_: int) -> bool:
    last = (a.shape[1] - 1) // bk * bk
    return _is(output, product(a[:, last:], b[last:]))


def _without(axes: tuple[str, ...], output: Any, a: torch.Tensor, b: torch.Tensor, **sides: int) -> bool:
    """Whether what stands behind the last whole tile along these axes is missing, or there is nothing."""
    lengths = {"M": a.shape[0], "N": b.shape[1], "K": a.shape[1]}
    M, N, K = (n // sides[SIDES[x]] * sides[SIDES[x]] if x in axes else n for x, n in lengths.items())
    guess = torch.zeros(lengths["M"], lengths["N"], dtype=torch.float64)
    guess[:M, :N] = product(a[:M, :K], b[:K, :N])
    return _is(output, guess)


SIDES = {"M": "bm", "N": "bn", "K": "bk"}
AXES = [axes for count in (1, 2, 3) for axes in itertools.combinations(SIDES, count)]


last_tile_alone = every(_of_the_last_tile, say("tiling.tiled_matmul.keeps_the_last_piece"))


def whole_tiles_alone(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if the contribution of partial tiles at the edges is missing where there are some, else ""."""
    ragged = [t for t in of_group(trials, "ragged") if t.difference]
    for axes in AXES:  # the fewest that explain it
        length, side = axes[0], SIDES[axes[0]]
        sentence = say("tiling.tiled_matmul.whole_tiles_alone", axes=[*axes], length=length, side=side)
        if every(partial(_without, axes), sentence)(ragged):
            return sentence
    return ""


looks_like_tf32 = multiplied_in_tf32(lambda a, b, **_: [product(as_tf32(a), as_tf32(b))], product)


def _is_large(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether dozens of products of this size would take longer than judging."""
    return a.shape[-2] * b.shape[-1] > 1 << 17


def _of_the_last_block(side: int) -> Callable[..., torch.Tensor | None]:
    """The product of the last block along K alone."""

    def wrong(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        first = (a.shape[-1] - 1) // side * side
        return None if _is_large(a, b) else product(a[..., first:], b[..., first:, :])

    return wrong


def _moved_by(name: str, side: int, what: str) -> Callable[..., torch.Tensor | None]:
    """The product where the pointers of this factor do not go on after a block of `side` along K, or by its other stride, or by 1."""

    def wrong(**factors: torch.Tensor) -> torch.Tensor | None:
        if _is_large(**factors) or not factors[name].numel():
            return None
        x, axis = factors[name], -1 if name == "a" else -2
        k = torch.arange(x.shape[axis])
        step = side * {"not": 0, "one": 1, "other": x.stride(-3 - axis)}[what]
        along = k % side * x.stride(axis) + k // side * step
        starts = x.select(axis, 0)
        lead = torch.zeros((), dtype=torch.int64)
        for i, (n, stride) in enumerate(zip(starts.shape, starts.stride(), strict=True)):
            lead = lead + torch.arange(n).reshape(-1, *[1] * (starts.dim() - i - 1)) * stride
        places = int(x.storage_offset()) + (
            lead[..., None] + along if name == "a" else lead[..., None, :] + along[:, None]
        )
        memory = x.as_strided([x.untyped_storage().nbytes() // x.element_size()], [1], 0)
        if int(places.max()) >= len(memory):
            return None
        moved: dict[str, Any] = factors | {name: memory[places]}
        return product(**moved)

    return wrong


BLOCKS = [2**k for k in range(4, 9)]
the_last_block_alone = Misconception(
    [_of_the_last_block(side) for side in BLOCKS],
    say("tiling.matmul.the_last_piece_alone"),
    product,
    each=True,
    strict=True,
)
pointers_go_on = [
    Misconception(
        [_moved_by(name, side, step) for side in BLOCKS for step in ("not", "one", "other")],
        say("tiling.matmul.pointers_go_on", name=name),
        product,
        each=True,
        strict=True,
    )
    for name in "ab"
]


def past_the_end_of_k(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if loads leave a or b in small contiguous products, and in no large ones, whose K is whole steps; else ""."""
    outside = {
        t.case.group for t in trials for f in t.evidence.faults if f.kind == "out of bounds" and f.tensor in ("a", "b")
    }
    right = outside.isdisjoint(["plain", "performance"])
    return say("tiling.matmul.past_the_end_of_k") if "ragged" in outside and right else ""


def groups_of_one_height(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if the missing tiles are those of a grouped order whose groups all have one height, else ""."""
    return say("tiling.matmul.groups_of_one_height") if _all_stored_in(GROUPS, trials) else ""


def divided_by_the_wrong_side(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if the missing tiles are those of programs whose number is divided by the other side of the grid, else ""."""
    return say("tiling.matmul.divided_by_the_wrong_side") if _all_stored_in(DIVIDED, trials) else ""


Order = Callable[[torch.Tensor, torch.Tensor, int, int], torch.Tensor]
"""Row and column of tiles, numbers of rows and columns of tiles -> the number of the program that stores each."""


def _in_groups(height: int) -> Order:
    return lambda m, n, _, along_n: m // height * height * along_n + n * height + m % height


GROUPS = [_in_groups(2**k) for k in range(1, 5)]
NOBODY = 1 << 60
DIVIDED: list[Order] = [
    lambda m, n, along_m, _: torch.where(n < along_m, m * along_m + n, NOBODY),
    lambda m, n, _, along_n: torch.where(m < along_n, n * along_n + m, NOBODY),
]


def _all_stored_in(orders: Sequence[Order], trials: Sequence[GradedTrial]) -> bool:
    looks = [_stored_in(orders, t) for t in trials if t.difference and t.evidence.launches]
    return bool(looks) and all(looks)


def _stored_in(orders: Sequence[Order], trial: GradedTrial) -> bool:
    """Whether one of these orders stores just those elements of a result that are stored; not all of them are."""
    output = trial.evidence.outputs[-1] if trial.evidence.outputs else None
    if not isinstance(output, torch.Tensor) or output.dim() < 2 or not output.isnan().any():
        return False
    rows, columns = torch.arange(output.shape[-2])[:, None], torch.arange(output.shape[-1])
    for side, width in itertools.product(BLOCKS, BLOCKS):
        along_m, along_n = -(-len(rows) // side), -(-len(columns) // width)
        if trial.evidence.launches[-1].grid[0] != along_m * along_n:
            continue
        for order in orders:
            stored = order(rows // side, columns // width, along_m, along_n) < along_m * along_n
            if torch.equal(~output.isnan(), stored.expand_as(output)):
                return True
    return False


def small_tiles(trials: Sequence[Trial]) -> str:
    """Return a remark if a is read more than twice as often as tiles of 64 would read it, else ""."""
    for trial in of_group(trials, "performance"):
        N = trial.inputs[-1]["b"].shape[-1]
        for launch in trial.evidence.launches:
            for f in launch.footprints:
                if f.tensor == "a" and f.read_bytes > 2 * (N / 64) * max(1, f.read_distinct_bytes):
                    return say("tiling.matmul.tall_tiles")
    return ""
