"""Walks of an online softmax whose update has one mistake, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.attention.oracles import State
from course_lib.exercises.cases import FP32
from course_lib.exercises.flash.slips import TILES, are_mild, scored

Update = Callable[[State, torch.Tensor, torch.Tensor], State | None]


def factors(m: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the online softmax's (m_new, p, alpha) from the running maximum m (rows) and a tile of scores s (rows, keys)."""
    top = torch.maximum(m, s.amax(-1))
    base = torch.where(top == -math.inf, 0, top)
    return top, torch.exp(s - base[..., None]), torch.exp(m - base)


def relative_to_the_tile(state: State, s: torch.Tensor, v: torch.Tensor) -> State | None:
    """Update the state with p relative to the maximum of its own tile; None where a row sees no key, since NaN has many causes."""
    m, _, alpha = factors(state.m, s)
    top = s.amax(-1, keepdim=True)
    if bool((top == -math.inf).any()):
        return None
    p = torch.exp(s - top)
    return State(m, state.l * alpha + p.sum(-1), state.acc * alpha[..., None] + p @ v)


def by_the_new_maximum(state: State, s: torch.Tensor, v: torch.Tensor) -> State:
    """Update the state with the old sums multiplied by exp(-m_new)."""
    m, p, _ = factors(state.m, s)
    alpha = torch.exp(-torch.where(m == -math.inf, 0, m))
    return State(m, state.l * alpha + p.sum(-1), state.acc * alpha[..., None] + p @ v)


def by_the_tile(state: State, s: torch.Tensor, v: torch.Tensor) -> State | None:
    """Update the state with the old sums multiplied by exp(m - the tile's own maximum); None where a row sees no key."""
    m, p, _ = factors(state.m, s)
    top = s.amax(-1)
    alpha = torch.exp(state.m - top)
    return (
        None
        if bool((top == -math.inf).any())
        else State(m, state.l * alpha + p.sum(-1), state.acc * alpha[..., None] + p @ v)
    )


def rescaled_behind(l_too: bool, acc_too: bool) -> Update:
    """Make the update that multiplies l or acc by alpha only after the tile is added; None where a row sees no key."""

    def update(state: State, s: torch.Tensor, v: torch.Tensor) -> State | None:
        m, p, alpha = factors(state.m, s)
        if bool((m == -math.inf).any()):
            return None
        l, acc = state.l * (1 if l_too else alpha) + p.sum(-1), state.acc * (1 if acc_too else alpha[..., None]) + p @ v
        return State(m, l * (alpha if l_too else 1), acc * (alpha[..., None] if acc_too else 1))

    return update


def along_the_columns(state: State, s: torch.Tensor, v: torch.Tensor) -> State | None:
    """Update the state with the rows' factors applied along the columns of acc; None unless blocks have as many rows as columns."""
    m, p, alpha = factors(state.m, s)
    if alpha.dim() > 1 or len(alpha) % v.shape[-1]:
        return None
    blocks = state.acc.unflatten(0, (-1, v.shape[-1])) * alpha.unflatten(0, (-1, 1, v.shape[-1]))
    return State(m, state.l * alpha + p.sum(-1), blocks.flatten(0, 1) + p @ v)


def divided(state: State, s: torch.Tensor, v: torch.Tensor) -> State | None:
    """Update the state with acc divided by l; None where l is 0, since NaN has many causes."""
    m, p, alpha = factors(state.m, s)
    l = state.l * alpha + p.sum(-1)
    return None if bool((l == 0).any()) else State(m, l, (state.acc * alpha[..., None] + p @ v) / l[..., None])


def rounded_before_its_sum(dtype: torch.dtype) -> Update:
    """Make the update that rounds p, and acc after its rescaling, to this dtype."""

    def update(state: State, s: torch.Tensor, v: torch.Tensor) -> State:
        m, p, alpha = factors(state.m, s)
        acc = (state.acc * alpha[..., None]).to(dtype).double()
        return State(m, state.l * alpha + p.sum(-1), acc + p.to(dtype).double() @ v)

    return update


def lse_of_the_start(s: torch.Tensor, v: torch.Tensor) -> tuple[None, torch.Tensor] | None:
    """Compute lse as if m or l stayed as before the first tile; None where exp(s) may be 0, since l may be, too."""
    return (None, torch.full_like(s[:, 0], -math.inf)) if bool((s > -80).all()) else None


def in_tiles_by(update: Callable[..., Any], rounds: bool = False) -> list[Callable[..., Any]]:
    """Make functions that compute o by this update, for several tile sizes. rounds: `update` takes v's dtype, not float32, and makes it."""

    def of_tile(tile: int) -> Callable[..., torch.Tensor | None]:
        def wrong(**call: Any) -> torch.Tensor | None:
            s, v = scored(**call)
            dtype = call["v"].dtype
            if call.get("splits") or s.shape[-1] <= tile or (rounds and dtype == FP32) or not are_mild(s):
                return None
            step = update(dtype) if rounds else update
            nothing = torch.zeros_like(s[..., 0])
            acc = v.new_zeros(*s.shape[:-1], v.shape[-1])
            state: State | None = State(nothing - math.inf, nothing, acc)
            for of_keys, values in zip(s.split(tile, -1), v.split(tile, -2), strict=True):
                state = step(state, of_keys, values) if state else None
            if state is None:
                return None
            o = state.acc / torch.where(state.l == 0, 1, state.l)[..., None]
            return o if "s" in call else o.to(dtype).double()  # online_update's is float32

        return wrong

    return [of_tile(tile) for tile in TILES]
