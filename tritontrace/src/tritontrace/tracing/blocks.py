"""Operations on whole blocks: shapes, products, reductions and scans, descriptors. Values are held as evaluate.py says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tritontrace.messages import say
from tritontrace.tracing import operations
from tritontrace.ttir import elements, ir, numerics
from tritontrace.ttir.launching import FlopKind


@dataclass(frozen=True)
class Whole:
    """A function for an operation on whole blocks, and the number of floating-point operations of one program in it."""

    function: Callable
    flops: FlopKind | None = None
    operations: int = 0


def spread(values: np.ndarray, shape: tuple[int, ...], programs: int | None = None) -> np.ndarray:
    """Broadcast values along the axes of the block, and to `programs` programs if that is given."""
    whole = (programs or len(values), *shape)
    return values if values.shape == whole else np.broadcast_to(values, whole)


def _of_one_length(*values: np.ndarray) -> int:
    return max(map(len, values))


# ------------------------------------------------------------------------------------------------- shapes


def _range(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    values = np.arange(op.attributes["start"], op.attributes["end"], dtype=np.int32)[None]
    return Whole(lambda: values)


def _splat(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    axes = (1,) * len(op.results[0][1].shape)
    return Whole(lambda x: x.reshape(len(x), *axes))


def _unsplat(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    return Whole(lambda x: x.reshape(len(x)))


def _expand_dims(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    place = (slice(None),) * (op.attributes["axis"] + 1) + (None,)
    return Whole(lambda x: x[place])


def _broadcast(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    return Whole(lambda x: x)


def _reshape(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    """Reshape a block. With `can_reorder` the compiler may lay the elements in any order that suits its threads. Here
    the last one comes first, so that whoever counts on an order is found out."""
    before, after = kinds[0].shape, op.results[0][1].shape
    if op.attributes.get("allow_reorder") and [n for n in before if n > 1] != [n for n in after if n > 1]:
        return Whole(lambda x: spread(x, before).reshape(len(x), -1)[:, ::-1].reshape(len(x), *after))
    return Whole(lambda x: spread(x, before).reshape(len(x), *after))


def _trans(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    order = (0, *(axis + 1 for axis in op.attributes["order"]))
    return Whole(lambda x: x.transpose(order))


def _join(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    shape = kinds[0].shape

    def join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        programs = _of_one_length(a, b)
        return np.stack([spread(a, shape, programs), spread(b, shape, programs)], -1)

    return Whole(join)


def _split(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = np.broadcast_to(x, (*x.shape[:-1], 2))
        return pairs[..., 0], pairs[..., 1]

    return Whole(split)


def _cat(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    """Interleave the elements of both, as on a GPU whose threads hold one element of each: tl.cat promises no order."""

    def cat(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        programs = _of_one_length(a, b)
        both = np.stack([spread(a, kinds[0].shape, programs), spread(b, kinds[1].shape, programs)], 2)
        return both.reshape(len(both), *op.results[0][1].shape)

    return Whole(cat)


def gather(
    op: ir.Operation, kinds: Sequence[ir.Type], poison: Callable[[str], np.ndarray] = operations.poison
) -> Whole:
    """Make the function that computes tl.gather. poison: the value at a place that is not known."""
    axis, (source, index) = op.attributes["axis"] + 1, kinds[:2]

    def gathered(x: np.ndarray, places: np.ndarray) -> np.ndarray:
        programs = _of_one_length(x, places)
        places = spread(places, index.shape, programs)
        unknown = places == operations.poison(index.element)  # of a masked load without `other`
        outside = (_without_sign(places) >= source.shape[axis - 1]) & ~unknown
        if outside.any():
            facts = {"element": int(places[outside][0]), "size": source.shape[axis - 1], "axis": axis - 1}
            raise operations.Undefined(say("launch.undefined.gather", **facts))
        found = np.take_along_axis(spread(x, source.shape, programs), np.where(unknown, 0, _without_sign(places)), axis)
        return np.where(unknown, poison(source.element), found)

    return Whole(gathered)


def _without_sign(places: np.ndarray) -> np.ndarray:
    """Places as a GPU takes them: 32 bits without a sign."""
    return places.view(f"u{places.itemsize}").astype(np.uint32).astype(np.int64)


def _histogram(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    (bins,), shape = op.results[0][1].shape, kinds[0].shape

    def histogram(x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        programs = len(x) if mask is None else _of_one_length(x, mask)
        values = spread(x, shape, programs).reshape(programs, -1)
        counted = slice(None) if mask is None else spread(mask, shape, programs).reshape(programs, -1)
        x = _without_sign(values)
        if (outside := values[counted][x[counted] >= bins]).size:
            facts = {"bins": bins, "last": bins - 1, "value": int(outside[0])}
            raise operations.Undefined(say("launch.undefined.histogram", **facts))
        rows = np.broadcast_to(np.arange(programs)[:, None], x.shape)
        flat = np.bincount((rows * bins + x)[counted].reshape(-1), minlength=programs * bins)
        return flat.reshape(programs, bins).astype(np.int32)

    return Whole(histogram)


# ------------------------------------------------------------------------------------------------- products


MMA_K = 16  # of mma.m16n8k16 and wgmma with halves


def _dot(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    a_kind, b_kind, acc_kind = kinds[:3]
    precision = op.attributes.get("inputPrecision") if a_kind.element == "f32" else None
    # tensor cores sum up the products of MMA_K elements at a time, and round to the accumulator after each
    step = MMA_K if acc_kind.element == "f16" else a_kind.shape[-1]

    def dot(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
        a, b = spread(a, a_kind.shape), spread(b, b_kind.shape)
        if precision == "tf32":
            a, b = numerics.tf32(np.ascontiguousarray(a)), numerics.tf32(np.ascontiguousarray(b))
        if precision == "bf16x3":
            high, low = zip(*(_in_bf16(x) for x in (a, b)), strict=True)
            return numerics.dot(high[0], high[1], numerics.dot(high[0], low[1], numerics.dot(low[0], high[1], acc)))
        if acc_kind.element not in elements.FLOATS:
            return numerics.dot(a, b, acc)
        for k in range(0, a_kind.shape[-1], step):
            acc = operations.rounded(numerics.dot(a[..., k : k + step], b[..., k : k + step, :], acc), acc_kind.element)
        return acc

    return Whole(dot, "dot", 2 * prod(acc_kind.shape) * a_kind.shape[-1])


def _dot_scaled(op: ir.Operation, kinds: Sequence[ir.Type]) -> Whole:
    raise operations.NotHere(say("launch.lacking.dot_scaled"))


def _in_bf16(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split float32 into a sum of two bf16 numbers."""
    high = operations.rounded(x, "bf16")
    return high, operations.rounded(x - high, "bf16")


# ------------------------------------------------------------------------------------------------- reductions, scans


Combine = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], list[np.ndarray]]


def reduction(op: ir.Operation, kinds: Sequence[ir.Type], fold: operations.Fold | None) -> Whole:
    """Make the function (combine, *values) that computes tl.reduce. fold: computes it, if the combination is a single operation.

    A function of the kernel's own takes neighbours in pairs, then pairs of these: what a GPU does, up to the order.
    """
    axis, shape = op.attributes["axis"] + 1, kinds[0].shape
    results = [kind for _, kind in op.results]

    def reduce(combine: Combine, *values: np.ndarray) -> list[np.ndarray]:
        if fold is not None:
            (x,) = values
            return [fold(_along(x, axis, shape), axis, kinds[0].element)]
        programs = _of_one_length(*values)
        parts = [np.moveaxis(spread(x, shape, programs), axis, 1) for x in values]
        while parts[0].shape[1] > 1:
            parts = combine([x[:, ::2] for x in parts], [x[:, 1::2] for x in parts])
        return [x[:, 0] for x in parts]

    flops = "reduction" if results[0].element in elements.FLOATS else None
    return Whole(reduce, flops, prod(shape) - prod(results[0].shape))


def scan(op: ir.Operation, kinds: Sequence[ir.Type], accumulate: operations.Fold | None) -> Whole:
    """Make the function that computes tl.associative_scan for whole blocks of several programs."""
    axis, shape, backward = op.attributes["axis"] + 1, kinds[0].shape, bool(op.attributes.get("reverse"))

    def prefixes(combine: Combine, *values: np.ndarray) -> list[np.ndarray]:
        programs = _of_one_length(*values)
        parts = [np.moveaxis(spread(x, shape, programs), axis, 1) for x in values]
        parts = [x[:, ::-1] for x in parts] if backward else parts
        if accumulate is not None:
            parts = [accumulate(parts[0], 1, kinds[0].element)]
        else:
            distance = 1
            while distance < parts[0].shape[1]:
                later = combine([x[:, :-distance] for x in parts], [x[:, distance:] for x in parts])
                parts = [np.concatenate([x[:, :distance], y], 1) for x, y in zip(parts, later, strict=True)]
                distance *= 2
        return [np.moveaxis(x[:, ::-1] if backward else x, 1, axis) for x in parts]

    flops = "reduction" if kinds[0].element in elements.FLOATS else None
    return Whole(prefixes, flops, prod(shape) - prod(shape) // shape[axis - 1])


def _along(x: np.ndarray, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """The values with all copies along one axis."""
    if x.shape[axis] == shape[axis - 1]:
        return x
    return np.broadcast_to(x, (*x.shape[:axis], shape[axis - 1], *x.shape[axis + 1 :]))


# ------------------------------------------------------------------------------------------------- descriptors


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor: the tensor behind it, and the padding value that a load gives beyond its edges. It is also a block pointer of
    Triton before 3.8: a descriptor that knows where its block begins.

    base     (programs or 1,) addresses;  sizes, strides  of each axis, likewise, in elements
    offsets  of the block's first element, likewise; of a block pointer alone
    """

    base: np.ndarray
    sizes: tuple[np.ndarray, ...]
    strides: tuple[np.ndarray, ...]
    padding: float = 0.0
    offsets: tuple[np.ndarray, ...] = ()

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Descriptor:
        parts = (tuple(map(function, part)) for part in (self.sizes, self.strides, self.offsets))
        sizes, strides, offsets = parts
        return Descriptor(function(self.base), sizes, strides, self.padding, offsets)

    def merge(self, function: Callable[..., np.ndarray], others: Sequence[Descriptor]) -> Descriptor:
        """Apply a function to this descriptor's parts and the others'."""

        def merged(*parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            return tuple(function(*values) for values in zip(*parts, strict=True))

        every = (self, *others)
        base = function(*[one.base for one in every])
        sizes, strides, offsets = (
            merged(*[getattr(one, name) for one in every]) for name in ("sizes", "strides", "offsets")
        )
        return Descriptor(base, sizes, strides, self.padding, offsets)

    def advanced(self, by: Sequence[np.ndarray]) -> Descriptor:
        """Move the block pointer by some elements along each axis."""
        offsets = tuple(before + step for before, step in zip(self.offsets, by, strict=True))
        return Descriptor(self.base, self.sizes, self.strides, self.padding, offsets)

    def pointers(
        self, shape: tuple[int, ...], where: Sequence[np.ndarray], itemsize: int, checked: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses of a block, and which of its elements lie within the tensor. where: its first element, for each axis;
        checked: the axes whose edges count, all unless they are named."""
        indices = []
        for axis, (first, extent) in enumerate(zip(where, shape, strict=True)):
            along = [1] * (1 + len(shape))
            along[1 + axis] = extent
            indices.append(_column(first, len(shape)) + np.arange(extent).reshape(along))
        return self._of(indices, itemsize, checked)

    def rows(
        self, shape: tuple[int, ...], rows: np.ndarray, column: np.ndarray, itemsize: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for rows at any place, from one column on (TMA gather)."""
        return self._of(
            [rows.astype(np.int64)[:, :, None], _column(column, 2) + np.arange(shape[1]).reshape(1, 1, -1)], itemsize
        )

    def _of(
        self, indices: Sequence[np.ndarray], itemsize: int, checked: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        rank = len(indices)
        pointers, inside = _column(self.base, rank), np.ones((1,) * (rank + 1), bool)
        for axis, (index, size, stride) in enumerate(zip(indices, self.sizes, self.strides, strict=True)):
            pointers = pointers + index * _column(stride, rank) * itemsize
            if checked is None or axis in checked:
                inside = inside & (index >= 0) & (index < _column(size, rank))
        return pointers, inside


def _column(values: np.ndarray, rank: int) -> np.ndarray:
    """(programs,) as (programs, 1, ..., 1), in 64 bits."""
    return values.astype(np.int64).reshape(-1, *[1] * rank)


def padding_of(op: ir.Operation) -> float:
    """Return the number that a tensor descriptor loads beyond the edges, from `tl.make_tensor_descriptor`."""
    return float("nan") if op.attributes.get("padding") in (2, "PAD_NAN", "nan") else 0.0


OPERATIONS: dict[str, Callable[[ir.Operation, Sequence[ir.Type]], Whole]] = {
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.reshape": _reshape,
    "tt.trans": _trans,
    "tt.join": _join,
    "tt.split": _split,
    "tt.cat": _cat,
    "tt.gather": gather,
    "tt.histogram": _histogram,
    "tt.dot": _dot,
    "tt.dot_scaled": _dot_scaled,
}
