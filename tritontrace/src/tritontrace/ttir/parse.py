"""Reads the printed form of a module, as the compiler's front end gives it, into the data of ir.py.

An operation is a line, or several if it has regions:

    %acc_29:3 = scf.for %start = %7 to %8 step %9 iter_args(%m_30 = %m_24, ...) -> (...)  : i32 {
      ...
    } loc(#loc170)

What is left of it without results, regions, names of values and place is its *form*: "arith.cmpi slt, %, % : tensor<64xi32>".
A kernel has few forms, and each is read once. What is irregular about single operations stands in printed.py.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from tritontrace.messages import MessageError, say
from tritontrace.ttir import numerics, printed
from tritontrace.ttir.ir import Block, Function, Module, Operation, Place, Type, walk
from tritontrace.ttir.printed import split, type_of, types_of


class Unparsed(MessageError, ValueError):
    """Raised where the text has an unknown form. The message names the operation and its place."""


def parse(text: str) -> Module:
    """Parse what `str(module)` prints, and return its functions by name. Raises Unparsed if a part of it has no known form."""
    return _Reader(text).module()


# ----------------------------------------------------------------------------------------------------- lines

STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
BRACKETS = r"[^()]*(?:\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)[^()]*)*"  # what stands in round brackets
LAYOUT = re.compile(r"#(?!loc)[a-z]\w*")
FUNCTION = re.compile(r'tt\.func (?:(\w+) )?@("[^"]*"|[\w$.-]+)\(')
BLOCK = re.compile(r"(\^\w+)(.*)")
ARGUMENT = re.compile(rf"(%[\w$.-]+): (.*?)(?: \{{[^{{}}]*\}})? loc\({BRACKETS}\)")
OPERATION = re.compile(r'(?:(%[^=]*) = )?"?([a-z_]\w*\.[\w.]+)"?(.*)')
CARRIED = re.compile(r"(%[\w$.-]+) = ")
USE = re.compile(r"(%[\w$.-]+(?:#\d+)?)")


class _Reader:
    """Reads one module: knows what its aliases stand for, and which lines are left."""

    def __init__(self, text: str):
        lines = text.split("\n")
        aliases = dict(line.split(" = ", 1) for line in lines if line[:1] == "#" and " = " in line)
        self.places = _Places(aliases)
        layouts: dict[str, str] = {}  # Gluon's
        for alias, meaning in aliases.items():
            if alias[:4] != "#loc" and "padded" not in meaning:  # whose braces would be taken for an operation's
                layouts[alias] = _written_out(meaning, layouts)
        if layouts:
            lines = _written_out(text, layouts).split("\n")
        self.lines = (_veiled(line) for line in map(str.strip, lines) if line and line[0] != "#")

    def module(self) -> Module:
        functions = [self._function(line) for line in self.lines if not line.startswith(("module", "}"))]
        return {function.name: function for function in functions}

    def _function(self, line: str) -> Function:
        found = FUNCTION.match(line)
        if not found:
            raise Unparsed(say("launch.text.no_function", line=_unveiled(line[:100])))
        arguments = _arguments(line)
        blocks, end = self._region(arguments) if line[-1] == "{" else ([], line)
        place = self.places[end[end.rfind(" loc(") + 5 : -1]]
        if not any(
            op.name == "ttg.warp_specialize" for op in walk(blocks)
        ):  # whose partitions share names with their functions
            _set_apart(blocks, {}, {})
        return Function(_unquoted(found[2]), arguments, blocks, found[1] != "private", place)

    def _region(self, arguments: list[tuple[str, Type]]) -> tuple[list[Block], str]:
        """The blocks up to the next closing brace, and the line that begins with it."""
        blocks = [Block("^bb0", arguments)]
        for line in self.lines:
            if line[0] == "}":
                return blocks, line
            if line[0] != "^":
                blocks[-1].operations.append(self._operation(line))
                continue
            if (found := BLOCK.match(line)) is None:
                raise Unparsed(say("launch.text.no_block", line=_unveiled(line[:100])))
            label, rest = found.groups()
            if len(blocks) == 1 and not blocks[0].operations:  # the first block's own line
                blocks = [Block(label, _arguments(rest) or arguments)]
            else:
                blocks.append(Block(label, _arguments(rest)))
        raise Unparsed(say("launch.text.no_end"))

    def _operation(self, line: str) -> Operation:
        found = OPERATION.match(line)
        if not found:
            raise Unparsed(say("launch.text.no_operation", line=_unveiled(line[:100])))
        results, name, text = found.groups()
        regions = []
        while (at := text.rfind(" loc(")) < 0 or text[-1] != ")":  # not at the operation's end yet
            if text[-1:] != "{":
                text += self._continued(line)
                continue
            text, arguments = _defined(text[:-1])
            blocks, end = self._region(arguments)
            regions.append(blocks)
            text += "{" if end[-1] == "{" else end[1:]
        place, text = self.places[text[at + 5 : -1]], text[:at]
        parts = USE.split(text)
        operands, successors = tuple(parts[1::2]), ()
        names = _results(results) if results else ()
        try:
            form = _form(name, "%".join(parts[::2]), len(names))
            if form.carried:  # a loop's head has the types of its body's arguments
                first = regions[0][0]
                first.arguments = [(n, kind) for (n, _), kind in zip(first.arguments, form.carried, strict=True)]
        except Exception as error:  # whatever a form that no rule foresaw leads to
            where = {"file": place.file, "line": place.line, "column": place.column}
            raise Unparsed(say("launch.text.form", operation=name, text=_unveiled(text[:200]), **where)) from error
        if form.successors:
            operands, successors = _passed(operands, form.successors)
        typed = tuple(zip(names, form.results, strict=True))
        return Operation(name, operands, typed, form.attributes, place, tuple(regions), successors)

    def _continued(self, line: str) -> str:
        """Append the next line to an operation that goes on there: at a region of Gluon's or at the targets of cf.switch."""
        more = next(self.lines, "}")
        if more[0] in "}%^" or OPERATION.match(more):
            raise Unparsed(say("launch.text.no_place", line=_unveiled(line[:100])))
        return f" {more}"


def _set_apart(blocks: list[Block], known: dict[str, str], uses: dict[str, int]) -> None:
    """Give each value of a region a name of its own in its function: in the text, regions beside one another use one name for two.

    known   the names of what lies around the region, by those in the text;  uses   how many values of the function had each so far
    """
    known = dict(known)

    def fresh(name: str) -> str:
        known[name] = f"{name}'{uses[name]}" if uses.setdefault(name, 0) else name
        uses[name] += 1
        return known[name]

    for block in blocks:
        block.arguments = [(fresh(name), kind) for name, kind in block.arguments]
        for op in block.operations:
            op.results = tuple((fresh(name), kind) for name, kind in op.results)
    for op in (op for block in blocks for op in block.operations):
        op.operands = tuple(known.get(name, name) for name in op.operands)
        op.successors = tuple((label, tuple(known.get(n, n) for n in names)) for label, names in op.successors)
        for region in op.regions:
            _set_apart(region, known, uses)


def _written_out(text: str, layouts: dict[str, str]) -> str:
    return LAYOUT.sub(lambda found: layouts.get(found[0], found[0]), text)


def _results(text: str) -> tuple[str, ...]:
    """The names of "%x", "%acc:3" or "%a, %b"."""
    if ":" not in text and "," not in text:
        return (text,)
    names = []
    for part in text.split(", "):
        name, _, count = part.partition(":")
        names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
    return tuple(names)


def _arguments(text: str) -> list[tuple[str, Type]]:
    """Read the arguments of a block or a function: "%x: f32 loc(..), %y: i32 {..} loc(..)"."""
    return [(name, type_of(kind)) for name, kind in ARGUMENT.findall(text)]


def _defined(head: str) -> tuple[str, list[tuple[str, Type]]]:
    """A region's head without the values that it defines, and those: a loop's without their types."""
    if arguments := _arguments(head):
        return ARGUMENT.sub("", head), arguments
    return CARRIED.sub("", head), [(name, Type("")) for name in CARRIED.findall(head)]


def _passed(operands: tuple[str, ...], successors: tuple[tuple[str, int], ...]) -> tuple[tuple, tuple]:
    """A branch's own operands, and each label with those that its block is passed."""
    at = own = len(operands) - sum(count for _, count in successors)
    found = []
    for label, count in successors:
        found.append((label, operands[at : at + count]))
        at += count
    return operands[:own], tuple(found)


# ----------------------------------------------------------------------------------------------------- forms

DICTIONARY = re.compile(r" <?\{([^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*)\}>?")
SUCCESSOR = re.compile(r"(\^\w+)(?:\(([^)]*)\))?")
ATOM = re.compile(
    r'(?P<name>[A-Za-z_][\w.]*) = (?P<value>"[^"]*"|[\w.+-]+)|(?P<flag>[A-Za-z_]\w*)<(?P<values>[^<>]*)>'
    r'|(?P<each>[A-Za-z_]\w*)\((?P<number>\d+)\)|@(?P<symbol>"[^"]*"|[\w$.-]+)|(?P<word>[A-Za-z_][\w.]*)|(?P<literal>"[^"]*"|-?\d[\w.+-]*)'
)


@dataclass(frozen=True)
class _Form:
    """The common part of operations that differ only in names and places."""

    attributes: Mapping[str, Any]
    results: tuple[Type, ...]
    successors: tuple[tuple[str, int], ...] = ()  # label, number of values passed
    carried: tuple[Type, ...] = ()  # what a loop's body takes


@lru_cache(8192)
def _form(name: str, text: str, count: int) -> _Form:
    """Read an operation with `count` results. `text` has "%" for each operand, and nothing of regions."""
    attributes: dict[str, Any] = {}
    if "{" in text:
        for found in DICTIONARY.findall(text):
            attributes |= _dictionary(found)
        text = DICTIONARY.sub("", text)
    head, colon, signature = text.rpartition(" : ")
    if not colon:
        head, signature = text, ""
    carried: tuple[Type, ...] = ()
    successors: tuple[tuple[str, int], ...] = ()
    if name == "arith.constant":
        kind = signature or "i1"
        types = (type_of(kind),)
        attributes["value"], head = plain(head.strip(), kind), ""
    elif name == "scf.for":  # "% to % step % iter_args(%) -> (f32)  : i32": the type at the end is the counter's
        head, _, results = head.partition(" -> ")
        types = types_of(results)
        carried = (type_of(signature.strip() or "index"), *types)
    elif "^" in text:
        successors = tuple((label, passed.count("%")) for label, passed in SUCCESSOR.findall(text))
        head, types = "", ()
    else:
        if not signature:
            head, _, results = head.partition(" -> ")
            signature = results and f"-> {results}"
        types = _result_types(name, signature, count) if count else ()
        if name == "scf.while":
            carried = types_of(signature.partition("->")[0])
    if len(types) != count:
        raise ValueError("the types of results are not known")
    attributes = printed.named(_read_head(name, head) | attributes)
    return _Form(MappingProxyType(attributes), types, successors, carried)


def _result_types(name: str, signature: str, count: int) -> tuple[Type, ...]:
    """Read the types after the colon: "a, b -> c", "a to b", or types of operands or results alone."""
    _, arrow, after = signature.rpartition("-> ")
    if not arrow:
        _, arrow, after = signature.rpartition(" to ")
    types = types_of(after) if arrow else printed.results(name, types_of(signature))[-count:]
    return types * count if len(types) == 1 else types


def _read_head(name: str, head: str) -> dict[str, Any]:
    """The attributes among the operands: "slt, %, %", "%, inputPrecision = tf32", "@callee(%)", "% allow_reorder"."""
    attributes: dict[str, Any] = {}
    if groups := printed.groups(name, head):
        attributes["operands"] = groups
    if not head.strip(" %,"):  # as in most operations
        return attributes
    unnamed = iter(printed.UNNAMED.get(name, ()))
    for found in ATOM.finditer(head):
        kind = found.lastgroup
        if kind == "value":
            attributes[found["name"]] = plain(found["value"])
        elif kind == "values":
            attributes[found["flag"]] = tuple(found["values"].split(", "))
        elif kind == "number":  # "partition0() num_warps(4) partition1() num_warps(1)"
            attributes[found["each"]] = (*attributes.get(found["each"], ()), int(found["number"]))
        elif kind == "symbol":
            attributes["callee"] = _unquoted(found["symbol"])
        elif key := next(unnamed, None):
            attributes[key] = printed.AXES[found[0]] if key == "axis" else plain(found[0])
        elif kind == "word":
            if found[0].rstrip("0123456789") not in printed.SYNTAX:
                attributes[found[0]] = True
        else:  # "literals", since what they are called is not known
            attributes["literals"] = (*attributes.get("literals", ()), plain(found[0]))
    return attributes


def _dictionary(text: str) -> dict[str, Any]:
    """Read attributes such as "end = 64 : i32, tt.flatten"."""
    pairs = [part.partition(" = ") for part in split(text)] if text else []
    return {_unquoted(name): plain(value) if value else True for name, _, value in pairs}


# ----------------------------------------------------------------------------------------------------- attributes' values

WIDENED = {  # by numerics, under Triton's names
    "bf16": "bf16",
    "f8E5M2": "fp8e5",
    "f8E4M3FN": "fp8e4nv",
    "f8E5M2FNUZ": "fp8e5b16",
    "f8E4M3FNUZ": "fp8e4b8",
    "f8E4M3B11FNUZ": "fp8e4b15",
}
IEEE = {"f16": "<e", "f32": "<f", "f64": "<d"}


def plain(text: str, kind: str = "") -> Any:
    """Return an attribute's value as Python data: number, boolean, string, tuple; its text if it is something else.

    `kind` is the text of its type, where that does not stand behind it.
    """
    if text[0] == "[":
        return tuple(map(plain, split(text[1:-1]))) if len(text) > 2 else ()
    if text[0] in "#@{":
        return _unveiled(text)
    value, colon, after = text.rpartition(" : ")
    if not colon:
        value, after = text, kind
    if value[0] == '"':
        return _unquoted(value)
    if value.startswith("array<"):
        element, _, numbers = value[6:-1].partition(": ")
        return tuple(_number(number, element) for number in numbers.split(", ")) if numbers else ()
    if value.startswith("dense<"):
        return _dense(value[6:-1], type_of(after))
    return _number(value, after)


def _dense(text: str, block: Type) -> Any:
    """One number if all are the same, or tuples as the block is nested; "0x.." is how many numbers lie in memory."""
    if not text:
        return ()
    if text[0] == '"':
        raw, count = np.frombuffer(bytes.fromhex(_unquoted(text)[2:]), np.uint8), math.prod(block.shape)
        if block.element == "i1" and len(raw) < count:  # a bit each
            raw = np.unpackbits(raw, count=count, bitorder="little")
        values = [_from_bits(each.tobytes(), block.element) for each in raw.reshape(count, -1)]
        return _nested(values, block.shape)
    if text[0] == "[":
        return tuple(_dense(part, block) for part in split(text[1:-1]))
    return _number(text, block.element)


def _nested(values: list, shape: tuple[int, ...]) -> tuple:
    if len(shape) == 1:
        return tuple(values)
    step = len(values) // shape[0]
    return tuple(_nested(values[i : i + step], shape[1:]) for i in range(0, len(values), step))


def _number(text: str, element: str) -> Any:
    """A number of this element, or of any ("" if that is not said); the text if it is no number."""
    if text in ("true", "false"):
        return text == "true"
    is_float = element in IEEE or element in WIDENED
    try:
        if is_float and text[:2] == "0x":
            return _from_bits(int(text, 16).to_bytes(8, "little"), element)
        return float(text) if is_float or (not element and "." in text) else int(text, 0)
    except ValueError:
        return _unveiled(text)


def _from_bits(raw: bytes, element: str) -> bool | int | float:
    """The number whose bytes in memory these are; a float may have more, which are 0."""
    if code := IEEE.get(element):
        return struct.unpack_from(code, raw)[0]
    if name := WIDENED.get(element):
        return float(numerics.widen(np.frombuffer(raw, "<u2" if name == "bf16" else "u1", count=1), name)[0])
    return any(raw) if element == "i1" else int.from_bytes(raw, "little", signed=True)


# ----------------------------------------------------------------------------------------------------- strings

# The signs that mean something to the patterns above, hidden while they stand in a string.
SIGNS = '\\"%@^#:,=<>(){}[] '
VEIL = {ord(sign): 0xE000 + ord(sign) for sign in SIGNS}
UNVEIL = {hidden: sign for sign, hidden in VEIL.items()}


def _veiled(text: str) -> str:
    return STRING.sub(lambda found: f'"{found[0][1:-1].translate(VEIL)}"', text) if '"' in text else text


def _unveiled(text: str) -> str:
    return text.translate(UNVEIL)


@lru_cache(4096)
def _unquoted(text: str) -> str:
    """The text that a quoted string stands for: \\22 is a quote, \\C3\\A9 an é."""
    if text[:1] != '"':
        return text
    text = _unveiled(text[1:-1])
    if "\\" not in text:
        return text
    codes = re.sub(
        rb"\\([0-9A-F]{2}|.)", lambda c: bytes.fromhex(c[1].decode()) if len(c[1]) > 1 else c[1], text.encode()
    )
    return codes.decode(errors="replace")


# ----------------------------------------------------------------------------------------------------- places

NOWHERE = ("", 0, 0, "")
LOCATION = re.compile(rf"({STRING.pattern})(?::(\d+):(\d+)|\((.*)\)$|$)")  # "file":3:4 or "name"(..) or "name"


class _Places(dict[str, Place]):
    """Places by the text of a location, which is an alias most of the time. Each is read when it is first asked for."""

    def __init__(self, aliases: Mapping[str, str]):
        self.aliases = aliases

    def __missing__(self, text: str) -> Place:
        place = self[text] = Place(*self._read(text))
        return place

    def _read(self, text: str) -> tuple[str, int, int, str]:
        """The fields of a Place."""
        if text in self.aliases:
            text = self.aliases[text][4:-1]  # of "loc(..)"
        if found := LOCATION.match(text):
            string, line, column, inner = found.groups()
            if line:
                return _unquoted(string), int(line), int(column), ""
            file, row, place, name = self._read(inner) if inner else NOWHERE
            return file, row, place, name or _unquoted(string)
        text = _veiled(text)
        if text.startswith("callsite("):  # what is called stands first
            return self._read(text[9:].partition(" at ")[0])
        if text.startswith("fused"):
            parts = map(self._read, split(text[text.index("[") + 1 : -1]))
            return next((fields for fields in parts if fields[0]), NOWHERE)
        return self._read(text) if text in self.aliases else NOWHERE
