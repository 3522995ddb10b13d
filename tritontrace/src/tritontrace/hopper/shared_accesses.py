"""Loads and stores of shared memory as the front end's text has them: which line, and how often it passes the banks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from triton.experimental.gluon import language as gl

from tritontrace.hopper.banks import bank_conflicts
from tritontrace.results import Passes
from tritontrace.ttir import ir
from tritontrace.ttir.elements import itemsize
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.parse import parse

ALIAS = re.compile(r"^(#\w+) = (#ttg\.\w+<.*>)$", re.M)
# trap: an allocation that is given a value stores it
ACCESS = re.compile(r"(?<== )ttg\.local_load .*|^\s*ttg\.local_store .*|(?<== )ttg\.local_alloc %.*", re.M)
BLOCK, TILE = (re.compile(rf"{kind}<((?:\d+x)+)(\w+), (#\w+)[,>]") for kind in ("tensor", "memdesc"))
FIELD = re.compile(r"(\w+) = (\[.*?\](?=, \w+ =|}|$)|\w+)")
PADDED = re.compile(r"#ttg\.padded_shared<\[(.*?)\] \{(.*)\}>$")


def passes(front: Front) -> list[Passes]:
    """Count the passes of one warp at each load or store of a tile. `passes` is 0 where the layouts are none that are counted."""
    layouts = dict(ALIAS.findall(front.text))
    module = parse(front.text)  # afresh: what nobody uses has been taken out of front.module
    operations = [op for function in module.values() for op in ir.walk(function.blocks)]
    names = ("ttg.local_load", "ttg.local_store", "ttg.local_alloc")
    places = [op.place for op in operations if op.name in names and op.operands]
    texts = [found[0].strip() for found in ACCESS.finditer(front.text)]
    return [_pass(text, line_of(front, place), layouts) for text, place in zip(texts, places, strict=True)]


def _pass(text: str, line: str, layouts: dict[str, str]) -> Passes:
    op = "load" if text.startswith("ttg.local_load") else "store"
    block, tile = BLOCK.search(text), TILE.search(text)
    if block is None or tile is None:
        return Passes(line, op, 0, 0)
    try:
        shape = [int(n) for n in block[1].split("x")[:-1]]
        registers, shared = (_layout(layouts[found[3]], shape) for found in (block, tile))
        found = bank_conflicts(registers, shared, shape, itemsize(block[2]))
    except (KeyError, TypeError, ValueError, AttributeError):  # a layout of another kind
        return Passes(line, op, 0, 0)
    return Passes(line, op, found.passes, found.needed)


def line_of(front: Front, place: ir.Place) -> str:
    """Return the source line of a place, with its number and its function."""
    for source in front.sources:
        line = source.line(place.line)
        if source.file == place.file and source.has(place.line):
            return f"`{source.name}`, line {line}: `{source.text(line)}`"
    return "a line that is not the kernel's"


def _layout(text: str, shape: list[int]) -> Any:
    """The layout that Triton prints so. Raises KeyError for another kind."""
    if padded := PADDED.match(text):
        return _padded(padded, shape)
    if (kind := re.match(r"#ttg\.(\w+)<", text)) is None:
        raise KeyError(text)
    fields = {name: _value(value) for name, value in FIELD.findall(text)}
    match kind[1]:
        case "blocked":
            names = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
            return gl.BlockedLayout(*(fields[name] for name in names))
        case "nvidia_mma":
            version = [fields["versionMajor"], fields["versionMinor"]]
            return gl.NVMMADistributedLayout(version, fields["warpsPerCTA"], fields["instrShape"])
        case "linear":
            register, lane, warp, block = (fields.get(name, []) for name in ("register", "lane", "warp", "block"))
            return gl.DistributedLinearLayout(register, lane, warp, block, shape)
        case "swizzled_shared":
            return gl.SwizzledSharedLayout(*(fields[name] for name in ("vec", "perPhase", "maxPhase", "order")))
        case "nvmma_shared":
            width, bits = fields["swizzlingByteWidth"], fields["elementBitWidth"]
            return gl.NVMMASharedLayout(width, bits, len(shape), fields.get("transposed", False))
        case "shared_linear":
            return gl.SharedLinearLayout(fields["offset"])
    raise KeyError(kind)


def _padded(found: re.Match, shape: list[int]) -> Any:
    """Padding as Triton prints it: "[32:+4] {order = [1, 0], shape = [64, 64]}", or with the bits of an offset."""
    pairs = [[int(n) for n in pair.split(":+")] for pair in found[1].split(", ")]
    fields = {name: _value(value) for name, value in FIELD.findall("{" + found[2] + "}")}
    if "offset" in fields:
        return gl.PaddedSharedLayout(pairs, fields["offset"], [], shape)
    return gl.PaddedSharedLayout.with_identity_for(pairs, shape, fields["order"])


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    numbers = _numbers(iter(re.findall(r"\[|\]|-?\d+", text)))
    return numbers[0] if numbers else None


def _numbers(parts: Iterator[str]) -> list:
    found: list = []
    for part in parts:
        if part == "]":
            return found
        found.append(_numbers(parts) if part == "[" else int(part))
    return found
