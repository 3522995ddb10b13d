"""The compiler front end's intermediate code (TTIR) as data: what parse.py makes of its text, and evaluate.py runs.

A module has functions, a function blocks, a block operations; an operation may hold regions, which are lists of blocks
again. A value has one definition and is known by its name, such as "%x_3" or "%acc#1".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Type:
    """The type of one value.

    element  "i1", "i8" ... "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN" and other fp8, "ptr", "desc" (a tensor descriptor),
             or the text of a type that is none of these
    shape    of a block, () of a scalar; of a descriptor the shape of the block that it loads
    pointee  the element type behind a pointer, or of a descriptor's block
    """

    element: str
    shape: tuple[int, ...] = ()
    pointee: str = ""


@dataclass(frozen=True)
class Place:
    """The place in a source file where a value comes from; `name` is the variable that is assigned there, "" if none is."""

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""


@dataclass
class Operation:
    """One TTIR operation.

    name        with its dialect: "arith.addi", "tt.load", "scf.for"
    operands    names of values, in the order in which they are written. Of scf.for: from, to, step, then what is carried
    results     (name, type) of each
    attributes  by name, as plain data: numbers, booleans, strings, tuples. What stands without a name in the text has one here:
                "value" of a constant, "predicate" of a comparison, "axis" of tt.get_program_id (0 to 2), "callee" of a call,
                "kind" of tt.atomic_rmw and "sem" of both atomics ("relaxed", "acquire", "release", "acq_rel"), "operands" (how many
                operands each group has, of operations with several groups: those in one pair of square brackets are one group;
                0 for each left out at the end of tt.load, tt.store, tt.atomic_rmw, tt.histogram; a, its scale, b, its scale, c
                of tt.dot_scaled), "literals" (numbers and strings of an operation that printed.py does not know)
    regions     the bodies of loops and branches
    successors  (label, names of the values passed) for each block that may come next
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[tuple[str, Type], ...]
    attributes: Mapping[str, Any]
    place: Place
    regions: tuple[list[Block], ...] = ()
    successors: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass
class Block:
    """Operations that run one after the other; `arguments` are the values that predecessors pass."""

    label: str
    arguments: list[tuple[str, Type]]
    operations: list[Operation] = field(default_factory=list)


@dataclass
class Function:
    """A kernel or a helper. `arguments` are those of its first block."""

    name: str
    arguments: list[tuple[str, Type]]
    blocks: list[Block]
    public: bool
    place: Place = Place()


Module = dict[str, Function]  # by name; the kernel is the one that is public


def walk(blocks: list[Block]) -> Iterator[Operation]:
    """Yield all operations of these blocks, those of inner regions after the operation that holds them."""
    for block in blocks:
        for operation in block.operations:
            yield operation
            for region in operation.regions:
                yield from walk(region)
