"""Walks along the keys of a causal mask, each with one mistake: how often a query then counts each key, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.exercises.flash.slips import TILES, of_each_head, softmax_of, under

SIZES = [(bm, bn) for bm in TILES for bn in TILES]  # rows of a block, and keys of a tile


@dataclass(frozen=True)
class Walk:
    """How blocks of `bm` queries iterate over tiles of `bn` keys. keys: (keys,); all others: (Nq, 1).

    sees    how many keys a query sees;  fewest, most  the first row of its block, and the last
    """

    keys: torch.Tensor
    sees: torch.Tensor
    fewest: torch.Tensor
    most: torch.Tensor
    bn: int

    def up(self, n: torch.Tensor) -> torch.Tensor:
        """Round up to whole tiles."""
        return -(-n // self.bn) * self.bn

    @property
    def whole(self) -> torch.Tensor:
        """Count the keys of the tiles that every row of the block sees."""
        return self.fewest // self.bn * self.bn


def walks(nq: int, nk: int, keys: int, bm: int, bn: int, device: Any) -> Walk:
    """Lay out the iterations of a call with nq queries and nk keys, over the first `keys` keys."""
    i = torch.arange(nq, device=device)[:, None]
    first = i // bm * bm
    sees, fewest, most = ((n + nk - nq).clamp(0, nk) for n in (i + 1, first + 1, first + bm))
    return Walk(torch.arange(keys, device=device), sees, fewest, most, bn)


def counted(times: Callable[[Walk], torch.Tensor], bm: int, bn: int, nothing: float = 0.0) -> Callable[..., Any]:
    """Make the wrong formula in which a query counts each key times(walk) times; it returns o. nothing: the weight in rows that count none.
    None where most rows count none: many mistakes give the same."""

    def wrong(q, k, v, causal=False, scale=None, **_: Any) -> torch.Tensor | None:
        nq, nk = q.shape[-2], k.shape[-2]
        if not causal:
            return None
        n = times(walks(nq, nk, nk, bm, bn, q.device)).expand(nq, nk)
        if 2 * int((n > 0).any(-1).sum()) < nq:
            return None
        s = under(n > 0, q, k, scale) + n.clamp(min=1).double().log()
        return softmax_of(s, nothing) @ of_each_head(q, v)

    return wrong


def unseen_score_0(bm: int, bn: int) -> Callable[..., Any]:
    """Make the wrong formula in which masked keys of the tiles that a query visits have a score of 0; it returns o."""

    def wrong(q, k, v, causal=False, scale=None, **_: Any) -> torch.Tensor | None:
        nq, nk = q.shape[-2], k.shape[-2]
        if not causal:
            return None
        k, v = (torch.nn.functional.pad(x, (0, 0, 0, bn)) for x in (k, v))
        w = walks(nq, nk, nk + bn, bm, bn, q.device)
        everything = torch.ones(nq, nk + bn, dtype=torch.bool, device=q.device)
        s = under(everything, q, k, scale).masked_fill(w.keys >= w.sees, 0)
        return softmax_of(s.masked_fill(w.keys >= w.up(w.most), -math.inf)) @ of_each_head(q, v)

    return wrong


def turned_round(too: bool) -> Callable[[Walk], torch.Tensor]:
    """Count, beside the whole tiles, the keys after those that a query sees: a mask with its comparison reversed. too: from the first
    on."""
    return lambda w: (w.keys < w.whole) | ((w.keys >= w.sees + (not too)) & (w.keys < w.up(w.most)))


def uncut(w: Walk) -> torch.Tensor:
    """Count all keys of a block's tiles, as without a mask."""
    return w.keys < w.up(w.most)


def whole_by_the_last_row(w: Walk) -> torch.Tensor:
    """Count the tiles that the last row of a block sees as a whole, and then what a query sees."""
    return (w.keys < w.most // w.bn * w.bn) | (w.keys < w.sees)


def not_rounded_down(w: Walk) -> torch.Tensor:
    """Count up to the end of the tile that the first row cuts, and what a query sees from there on once more."""
    return (w.keys < w.up(w.fewest)).long() + ((w.keys >= w.fewest) & (w.keys < w.sees)).long()


def begun_anew(w: Walk) -> torch.Tensor:
    """Count the whole tiles, and then all that a query sees: the masked loop starts at 0."""
    return (w.keys < w.whole).long() + (w.keys < w.sees).long()


def ends_with_the_first_row(w: Walk) -> torch.Tensor:
    """Count what a query sees in the tiles that the first row of its block sees, or cuts."""
    return (w.keys < w.up(w.fewest)) & (w.keys < w.sees)
