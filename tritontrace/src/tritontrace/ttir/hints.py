"""Promises that a kernel makes to the compiler: tl.multiple_of, tl.max_contiguous, tl.max_constancy, tl.assume. Are they kept?

The front end writes a promise next to the operation that computes the value, and the compiler makes accesses wider because of
it. It keeps no promise about a parameter or about a value that a loop carries. No access is wider than 16 bytes, so at most 16
elements are checked together, even if a promise says more. A promise is read as the compiler reads it:

    tl.max_contiguous   each group of this many neighbours holds consecutive numbers. A group of zeros passes, too: this is how
                        tutorials keep offsets past the end inside a tensor, and nobody uses what is loaded there
    tl.max_constancy    each group holds one number
    tl.multiple_of      the first number of each run of consecutive numbers is a multiple
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tritontrace.ttir import ir
from tritontrace.ttir.elements import itemsize
from tritontrace.ttir.launching import Site

MULTIPLE, CONTIGUOUS, CONSTANT = "tt.divisibility", "tt.contiguity", "tt.constancy"  # as the front end calls them
FUNCTIONS = {MULTIPLE: "tl.multiple_of", CONTIGUOUS: "tl.max_contiguous", CONSTANT: "tl.max_constancy"}
ASSUME = "llvm.intr.assume"
WIDEST = 16  # bytes of an access, and so elements, too


class Promise(NamedTuple):
    """A hint in the source (tl.multiple_of, tl.max_contiguous, tl.assume) about one value of the module, along one axis.

    function, value  where it stands there: "%offs_4" of a function. Of tl.assume the condition
    kind             an attribute's name, or ASSUME;  axis, size  of the block: what is promised along which axis
    step             the difference between consecutive elements: 1, or for pointers the bytes of what they point to
    """

    function: str
    value: str
    kind: str
    axis: int
    size: int
    type: ir.Type
    site: Site
    step: int

    def broken(self, values: np.ndarray) -> np.ndarray:
        """Return for each program, or once for all, whether the promise is false. values: (programs or 1, *block); any axis may be 1."""
        if self.kind == ASSUME:
            return ~np.all(values.reshape(len(values), -1), axis=1)
        block = self.type.shape or (1,)
        values = np.broadcast_to(values.reshape(len(values), *(values.shape[1:] or (1,))), (len(values), *block))
        lanes = np.moveaxis(values, self.axis + 1, -1).reshape(len(values), -1, block[self.axis])
        size = min(self.size & -self.size, WIDEST)
        if self.kind == MULTIPLE:
            begins = np.ones(lanes.shape, bool)
            begins[..., 1:] = lanes[..., 1:] - lanes[..., :-1] != self.step
            return (begins & (lanes % size != 0)).any((1, 2))
        groups = lanes.reshape(*lanes.shape[:-1], -1, min(size, lanes.shape[-1]))
        if self.kind == CONSTANT:
            return (groups != groups[..., :1]).any((1, 2, 3))
        apart = (np.diff(groups, axis=-1) != self.step).any(-1)
        return (apart & groups.any(-1)).any((1, 2))


def promises(function: ir.Function, op: ir.Operation, site: Site) -> Iterator[Promise]:
    """Yield the promises about an operation's result, or made by the operation itself."""
    if op.name == ASSUME:
        yield Promise(function.name, op.operands[0], ASSUME, 0, 1, ir.Type("i1"), site, 1)
        return
    if len(op.results) != 1:
        return
    ((name, kind),) = op.results
    for attribute in FUNCTIONS.keys() & op.attributes.keys() if kind.element[0] in "ip" else ():
        sizes = op.attributes[attribute]
        sizes = (
            sizes if isinstance(sizes, tuple) else (sizes,) * max(1, len(kind.shape))
        )  # one number: the same for all
        step = itemsize(kind.pointee) if kind.element == "ptr" else 1
        for axis, size in enumerate(sizes):
            if isinstance(size, int) and size > 1:
                yield Promise(function.name, name, attribute, axis, size, kind, site, step)


class Promises:
    """Collects the promises of a launch that are false."""

    def __init__(self) -> None:
        self.broken: dict[Promise, tuple[int, int]] = {}  # the first program, and a value of its

    def look(self, promise: Promise, values: np.ndarray, programs: np.ndarray) -> None:
        """Check a promise against its values in these programs."""
        broken = promise.broken(values)
        if broken.any() and promise not in self.broken:
            row = int(np.argmax(broken))
            self.broken[promise] = int(programs[row]), int(values[row].reshape(-1)[0])


def without(text: str, some: list[Promise]) -> str:
    """Remove these promises from a module's text. A multiple says something of runs alone, so it goes with the promise of how long they
    are."""
    axes: dict[tuple[str, str], set[int]] = {}
    for each in some:
        for kind in (each.kind, MULTIPLE) if each.kind == CONTIGUOUS else (each.kind,):
            axes.setdefault((each.value, kind), set()).add(each.axis)
    kept = []
    for line in text.split("\n"):
        if (found := ASSUMED.match(line)) and (found[1], ASSUME) in axes:
            continue
        if found := DEFINED.match(line):
            line = NOTE.sub(lambda note, value=found[1]: _less(note, axes.get((value, note[1]), set())), line)
            line = line.replace("{, ", "{")
        kept.append(line)
    return "\n".join(kept)


DEFINED, ASSUMED = re.compile(r"\s*(%[\w$.-]+) = "), re.compile(rf"\s*{re.escape(ASSUME)} (%[\w$.-]+) ")
NOTE = re.compile(r"(?:, )?(tt\.(?:divisibility|contiguity|constancy)) = dense<\[?([^\]>]*)\]?> : tensor<(\d+)xi32>")


def _less(note: re.Match[str], axes: set[int]) -> str:
    """Print a promise without what it says of these axes."""
    count = int(note[3])
    sizes = note[2].split(", ") * (count if ", " not in note[2] else 1)
    if len(axes) == count:
        return ""
    if not axes:
        return note[0]
    left = ", ".join("1" if axis in axes else size for axis, size in enumerate(sizes))
    return note[0].replace(f"dense<{note[0].partition('dense<')[2].partition('>')[0]}>", f"dense<[{left}]>")
