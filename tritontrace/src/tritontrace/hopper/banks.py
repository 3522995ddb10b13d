"""Bank conflicts in shared memory, counted from layouts: no kernel is run, and no GPU is asked.

The count (compiled/warps.py) is our own. Triton has one (gl.bank_conflicts), which agrees with it wherever it runs, and ends the
whole process on a PaddedSharedLayout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
from triton._C.libtriton import gluon_ir, ir

from tritontrace.compiled.warps import LANES, WIDEST, passes_of
from tritontrace.messages import say

GROUP, ROW = 16, 128  # bytes: what a swizzle keeps together, and what all banks hold in a row


@dataclass(frozen=True)
class Banks:
    """Passes through shared memory of one warp for one block, and those needed without bank conflicts."""

    passes: int
    needed: int

    @property
    def conflicts(self) -> float:
        """Return the extra passes, relative to those needed: 0.0 without bank conflicts."""
        return self.passes / self.needed - 1


def bank_conflicts(registers: Any, shared: Any, shape: Sequence[int], itemsize: int) -> Banks:
    """Count the passes of one warp that reads or writes a whole tile.

    registers   the layout of the block in registers;  shared  of the tile;  shape  of both;  itemsize  bytes of an element, 1 to 8

    Each lane moves what lies side by side in its registers and in shared memory in one instruction, 16 bytes at most.
    Raises ValueError if the layouts are not for such a shape.

    >>> from tritontrace.hopper.language import gl
    >>> rows = gl.BlockedLayout([1, 1], [32, 1], [1, 1], [1, 0])  # each lane reads a row, 16 bytes at a time
    >>> plain = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    >>> found = bank_conflicts(rows, plain, [32, 32], 4)
    >>> found.passes, found.needed
    (256, 32)
    """
    if itemsize not in (1, 2, 4, 8):
        raise ValueError(say("asked.banks.itemsize", itemsize=itemsize))
    offsets, linear = offsets_in_shared(shared, shape), _linear(registers, shape)
    lanes, values = _combined(linear.lane_bases, len(shape)), _combined(linear.reg_bases, len(shape))
    if len(lanes) != LANES:
        raise ValueError(say("asked.banks.lanes", lanes=len(lanes), of_a_warp=LANES))
    places = offsets[tuple(np.moveaxis(values[:, None] ^ lanes[None], -1, 0))]  # (registers, lanes), in elements
    wide = _side_by_side(places, itemsize)
    first = places[::wide]  # in each instruction of a lane
    return Banks(*passes_of(first * itemsize, np.ones(first.shape, bool), wide * itemsize))


# trap: places in shared memory are written out: Triton's own bank_conflicts and to_linear_layout end the process on
# some layouts (padded in 3.7, swizzled in 3.6)
def offsets_in_shared(layout: Any, shape: Sequence[int]) -> np.ndarray:
    """Return the place in shared memory of each element of a tile, in elements: an array of its shape.

    Triton's own answer to this ends the process, for some layouts in some versions. So the layouts are written out here.

    >>> from tritontrace.hopper.language import gl
    >>> offsets_in_shared(gl.SwizzledSharedLayout(1, 1, 2, [1, 0]), [2, 2]).tolist()  # the second row is swapped
    [[0, 1], [3, 2]]
    """
    if hasattr(layout, "offset_bases"):  # a SharedLinearLayout, or with padding
        place = _by_bits(layout.offset_bases, shape)
        padding = getattr(layout, "interval_padding_pairs", ())
        return place + sum(place // interval * extra for interval, extra in padding)
    if len(shape) != 2:
        raise ValueError(say("asked.banks.dimensions", shape=str(list(shape))))
    if hasattr(layout, "swizzle_byte_width"):
        return _nvmma(layout, shape)
    if hasattr(layout, "max_phase"):
        along = list(layout.order)
        rows, cols = (shape[axis] for axis in reversed(along))
        place = _swizzled(rows, cols, layout.vec, layout.per_phase, layout.max_phase)
        return place if along == [1, 0] else place.T
    raise ValueError(say("asked.banks.layout", type=type(layout).__name__))


def _swizzled(rows: int, cols: int, vec: int, per_phase: int, max_phase: int) -> np.ndarray:
    """(rows, cols), row after row. `vec` elements stay together, and which of these groups comes where changes from row to row."""
    row, col = np.arange(rows)[:, None], np.arange(cols)[None]
    phase = row // per_phase % max_phase
    return row * cols + ((col // vec ^ phase) * vec + col % vec) % cols


def _nvmma(layout: Any, shape: Sequence[int]) -> np.ndarray:
    """A tile as TMA writes it and wgmma reads it: strips as wide as the swizzle, one below the other, groups of 16 bytes swizzled."""
    size = layout.element_bitwidth // 8
    turned = layout.transposed and layout.swizzle_byte_width > 0
    rows, cols = reversed(shape) if turned else shape
    wide = layout.swizzle_byte_width or cols * size  # without a swizzle it lies row after row
    width, vec = wide // size, GROUP // size
    if cols % width:
        raise ValueError(say("asked.banks.swizzle", bytes=wide, width=width, columns=cols))
    strip = _swizzled(rows, width, vec, max(1, ROW // wide), layout.swizzle_byte_width // GROUP or 1)
    place = np.concatenate([strip + i * rows * width for i in range(cols // width)], axis=1)
    return place.T if turned else place


def _by_bits(bases: Sequence[Sequence[int]], shape: Sequence[int]) -> np.ndarray:
    at = _combined(bases, len(shape))
    if len(at) != prod(shape):
        facts = {"elements": len(at), "shape": str(list(shape)), "size": prod(shape)}
        raise ValueError(say("asked.banks.elements", **facts))
    place = np.zeros(shape, np.int64)
    place[tuple(at.T)] = np.arange(len(at))
    return place


def _side_by_side(places: np.ndarray, itemsize: int) -> int:
    """How many registers of each lane lie side by side in shared memory, at a multiple of their size."""
    wide = 1
    while 2 * wide * itemsize <= WIDEST and 2 * wide <= len(places):
        part = places.reshape(-1, 2 * wide, LANES)
        if (part != part[:, :1] + np.arange(2 * wide)[:, None]).any() or (part[:, 0] % (2 * wide)).any():
            break
        wide *= 2
    return wide


def held_by(layout: Any, shape: Sequence[int]) -> dict[tuple[int, ...], tuple[int, int, int]]:
    """Map each place in a block to the (warp, lane, register) that holds its element, by Triton's own mapping of a register layout; the
    last one of several.

    >>> from tritontrace.hopper.language import gl
    >>> held_by(gl.BlockedLayout([2], [32], [4], [0]), [256])[66,]  # warp 1, lane 1, register 0
    (1, 1, 0)
    """
    linear, rank = _linear(layout, shape), len(shape)
    warps, lanes, registers = (
        _combined(bases, rank) for bases in (linear.warp_bases, linear.lane_bases, linear.reg_bases)
    )
    places = warps[:, None, None] ^ lanes[None, :, None] ^ registers[None, None]
    everyone = np.ndindex(places.shape[:3])
    return {tuple(map(int, place)): who for place, who in zip(places.reshape(-1, rank), everyone, strict=True)}


def _linear(layout: Any, shape: Sequence[int]) -> Any:
    """The layout by what each bit of a lane, a register or an offset adds to the place in the tile."""
    builder, _ = _builder()
    return builder.to_linear_layout(layout._to_ir(builder), list(shape))


@cache
def _builder() -> tuple[Any, Any]:
    """A builder of Triton's, for layouts alone: there is neither module nor code. The context lives as long."""
    context = ir.context()
    ir.load_dialects(context)
    return gluon_ir.GluonOpBuilder(context), context


def _combined(bases: Sequence[Sequence[int]], rank: int) -> np.ndarray:
    """(2^bases, rank): the places of 0, 1, 2, ..., each of whose bits adds its basis."""
    points = np.zeros((1, rank), np.int64)
    for basis in bases:
        points = np.concatenate([points, points ^ np.array(basis)])
    return points
