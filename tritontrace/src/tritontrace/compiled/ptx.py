"""PTX, run for the threads of some programs as far as addresses go: where each thread loads and stores.

Whole numbers, comparisons and branches are computed for all threads at once. What is loaded of tensors, such as an index, is what
stands there now. What is a float, or comes from elsewhere, stays unknown, and so does all that is made of it. An unknown branch is not
taken, and an unknown mask lets every thread through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from tritontrace.compiled.assembly import located
from tritontrace.compiled.places import Frame

LANES = 32
MOST = 40_000  # instructions; behind these no loop goes round again

Known = np.ndarray | None  # a number or a truth of each thread, or of all; None: unknown


@dataclass(frozen=True)
class Access:
    """One execution of a load or a store by the threads of all programs.

    bytes        that a thread moves at once
    addresses    (warps, lanes), None if they depend on data;  active  the lanes that take part
    number       the place of the instruction in the code, which is the same in each turn of a loop
    """

    op: Literal["load", "store", "atomic"]
    space: Literal["global", "shared"]
    bytes: int
    addresses: np.ndarray | None
    active: np.ndarray
    frames: tuple[Frame, ...]
    number: int = 0


@dataclass(frozen=True)
class _Instruction:
    name: str
    operands: tuple[str, ...]
    guard: str  # the predicate that lets it run, with "!" before it if it must be false; "" for always
    frames: tuple[Frame, ...]

    @cached_property
    def parts(self) -> list[str]:
        return self.name.split(".")

    @cached_property
    def moves(self) -> bool:
        """Whether it loads from global or shared memory, or stores to it."""
        if self.is_table or self.parts[0] not in MOVING:
            return self.copies
        return any(part.partition("::")[0] in ("global", "shared") for part in self.parts)

    @cached_property
    def copies(self) -> bool:
        return self.name.startswith(("cp.async.ca.", "cp.async.cg."))

    @property
    def is_table(self) -> bool:
        """Whether it loads from a table of libdevice's sin and cos."""
        return self.name.startswith("ld.global.nc") and not self.operands[0].startswith("{")

    @cached_property
    def leads_on(self) -> bool:
        """Whether it says what runs next."""
        return self.parts[0] in ("bra", "ret", "exit")

    @cached_property
    def written(self) -> list[str]:
        if self.parts[0] in ("st", "red", "stmatrix", "bra") or self.copies or not self.operands:
            return []
        return REGISTER.findall(self.operands[0])

    @property
    def read(self) -> list[str]:
        """The registers that matter to where it goes, of a load or a store; of what else, all that it reads."""
        operands = self.operands if not self.written else self.operands[1:]
        if self.moves and not self.copies:
            operands = [each for each in operands if each.startswith("[")]
        return [name for each in operands for name in REGISTER.findall(each)] + REGISTER.findall(self.guard)


MOVING = ("ld", "st", "atom", "red", "ldmatrix", "stmatrix")
REGISTER = re.compile(r"%(?:p|rs|rd|r)\d+\b")
STATEMENT = re.compile(r"(?:@(!?)(%?\w+)\s+)?([a-z][\w.:]*)(?:\s+(.*))?", re.DOTALL)
LABEL = re.compile(r"(\$?\w+):(?!:)\s*")
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")


@dataclass
class Code:
    """The instructions of a PTX kernel that addresses depend on, and its registers. threads: of a program."""

    instructions: list[_Instruction]
    labels: dict[str, int]
    registers: set[str]
    threads: int


def parse(ptx: str) -> Code:
    """Parse the kernel in a PTX text; what no address, mask or branch depends on is left out."""
    _, _, body = ptx.partition(".visible .entry ")
    every, labels = [], {}
    for frames, line in located(body.partition("\n}")[0]):
        for statement in line.partition("//")[0].strip(" \t{}").split(";"):
            statement = statement.strip()
            while label := LABEL.match(statement):
                labels[label[1]] = len(every)
                statement = statement[label.end() :]
            if match := STATEMENT.fullmatch(statement):
                negated, guard, name, operands = match.groups()
                every.append(
                    _Instruction(name, tuple(OPERAND.findall(operands or "")), (negated or "") + (guard or ""), frames)
                )
    wanted, registers = _needed(every)
    at = np.concatenate([[0], np.cumsum(wanted)]).astype(int)  # of a place among all, its place among the wanted
    threads = re.search(r"\.(?:reqntid|maxntid) (\d+)", ptx)
    return Code(
        [each for each, want in zip(every, wanted, strict=True) if want],
        {label: int(at[place]) for label, place in labels.items()},
        registers,
        int(threads[1]) if threads else 128,
    )


def _needed(every: Sequence[_Instruction]) -> tuple[list[bool], set[str]]:
    """Find which instructions have a say in where a load, a store or a branch goes, and which registers."""
    wanted = [each.moves or each.leads_on for each in every]
    registers = {name for each, want in zip(every, wanted, strict=True) if want for name in each.read}
    more = True
    while more:
        more = False
        for i, each in enumerate(every):
            if not wanted[i] and registers.intersection(each.written):
                wanted[i] = more = True
                registers.update(each.read)
    return wanted, registers


class Contents:
    """Current contents of tensors. parts: the address of each storage, and its bytes."""

    def __init__(self, parts: Iterable[tuple[int, np.ndarray]]):
        self._parts = list(parts)

    def at(self, addresses: np.ndarray, active: np.ndarray, size: int) -> Known:
        """Return the whole numbers of `size` bytes that the active threads load; None if one of them lies outside of all storages."""
        numbers, missing = np.zeros(addresses.shape, np.uint64), active.copy()
        for start, content in self._parts:
            inside = missing & (addresses >= start) & (addresses + size <= start + len(content))
            for byte in range(size):
                numbers[inside] |= content[addresses[inside] - start + byte].astype(np.uint64) << np.uint64(8 * byte)
            missing &= ~inside
        return None if missing.any() else numbers.view(np.int64)


# ----------------------------------------------------------------------------------------------------- running


class Threads:
    """The threads of some programs, as an interpreter of PTX runs them together.

    values     of the kernel's arguments, in their order; None for what is no whole number
    programs   (n, 3): their places in the grid;  memory  of the tensors
    whole      whether every loop came to its end
    """

    def __init__(
        self, code: Code, values: Sequence[int | None], programs: np.ndarray, grid: Sequence[int], memory: Contents
    ):
        self.code, self.values, self.memory, self.whole = code, values, memory, True
        self._count = code.threads * len(programs)
        thread = np.tile(np.arange(code.threads), len(programs))
        places = np.repeat(programs, code.threads, 0).T
        self._special: dict[str, Known] = {
            "%tid.x": thread,
            "%laneid": thread % LANES,
            "%ntid.x": np.array([code.threads]),
        }
        for axis, letter in enumerate("xyz"):
            self._special |= {f"%ctaid.{letter}": places[axis], f"%nctaid.{letter}": np.array([grid[axis]])}
        self._special |= {"%tid.y": np.array([0]), "%tid.z": np.array([0])}
        self._registers: dict[str, Known] = {}
        self._at = 0  # the instruction that runs

    def run(self) -> Iterator[Access]:
        """Run to the end, and yield each load and store. Diverged threads reconverge where their code does."""
        waiting = {0: np.ones(self._count, bool)}
        steps, end = 0, len(self.code.instructions)
        while waiting:
            at = min(waiting)
            active = waiting.pop(at)
            meeting = min(waiting, default=end)
            branched = False
            while at < meeting and not branched:
                instruction = self.code.instructions[at]
                self._at, steps = at, steps + 1
                taking_part = self._taking_part(instruction.guard, active)
                if instruction.leads_on:
                    goal = self.code.labels.get(instruction.operands[0], end) if instruction.operands else end
                    gone = active & taking_part if taking_part is not None else np.zeros_like(active)
                    if goal <= at and steps > MOST:
                        self.whole &= not gone.any()
                        gone = np.zeros_like(active)
                    for place, who in ((goal, gone), (at + 1, active & ~gone)):
                        if who.any() and place < end:
                            waiting[place] = waiting.get(place, False) | who
                    branched = True
                else:
                    taking_part = active if taking_part is None else taking_part
                    if instruction.moves:
                        yield from self._moved(instruction, taking_part)
                    else:
                        self._compute(instruction, taking_part)
                at += 1
            if not branched and at < end:
                waiting[at] = waiting.get(at, False) | active

    def _taking_part(self, guard: str, active: np.ndarray) -> Known:
        if not guard:
            return active
        truth = self._registers.get(guard.lstrip("!"))
        if truth is None:
            return None
        return active & (~truth if guard.startswith("!") else truth)

    def _moved(self, instruction: _Instruction, active: np.ndarray) -> Iterator[Access]:
        first, *others = (each for each in instruction.operands if each.startswith("["))
        parts = instruction.parts
        if instruction.copies:
            size = int(instruction.operands[2], 0)
            taken = self._value(instruction.operands[3], 32) if len(instruction.operands) > 3 else None
            fetching = active if taken is None else active & (taken > 0)
            yield self._access("load", "global", size, others[0], fetching, instruction)
            yield self._access("store", "shared", size, first, active, instruction)
            return
        space = "global" if "global" in parts else "shared"
        if "matrix" in parts[0]:
            count = int(next(part for part in parts if re.fullmatch(r"x\d", part))[1])
            active = active & (self._lanes() < 8 * count)
            op = "load" if parts[0] == "ldmatrix" else "store"
            yield self._access(op, space, 16, first, active, instruction)
            return
        bytes_ = _bits(parts[-1]) // 8
        vector = next((int(part[1:]) for part in parts if re.fullmatch(r"v\d", part)), 1)
        op = {"ld": "load", "st": "store"}.get(parts[0], "atomic")
        access = self._access(op, space, vector * bytes_, first, active, instruction)
        yield access
        for i, name in enumerate(instruction.written):
            value = None
            if op == "load" and space == "global" and name in self.code.registers and access.addresses is not None:
                value = self.memory.at(access.addresses.reshape(-1) + i * bytes_, active, bytes_)
            self._set(name, value, active)

    def _access(self, op, space, size: int, where: str, active: np.ndarray, by: _Instruction) -> Access:
        address = self._address(where)
        if address is not None:
            address = np.broadcast_to(address, self._count).reshape(-1, LANES)
        return Access(op, space, size, address, active.reshape(-1, LANES), by.frames, self._at)

    def _address(self, operand: str) -> Known:
        """The sum in brackets: a register, and perhaps an offset."""
        total = np.zeros(1, np.int64)
        for part in _summands(operand):
            value = self._value(part, 64)
            if value is None:
                return None
            total = total + value
        return total

    def _lanes(self) -> np.ndarray:
        lanes = self._special["%laneid"]
        assert lanes is not None
        return lanes

    # ------------------------------------------------------------------------------------------------- computing

    def _compute(self, instruction: _Instruction, active: np.ndarray) -> None:
        result = self._results(instruction)
        for name, value in zip(instruction.written, result, strict=False):
            self._set(name, value, active)

    def _set(self, name: str, value: Known, active: np.ndarray) -> None:
        before = self._registers.get(name)
        if value is not None and before is not None and not active.all():
            value = np.where(active, value, before)
        self._registers[name] = value

    def _results(self, instruction: _Instruction) -> list[Known]:
        """Values that it writes to each of its registers."""
        base, *rest = instruction.parts
        operands = instruction.operands[1:]
        unknown: list[Known] = [None] * len(instruction.written)
        kind = rest[-1] if rest else ""
        if base == "ld":  # of an argument
            number = re.search(r"_param_(\d+)", operands[0])
            value = self.values[int(number[1])] if number and int(number[1]) < len(self.values) else None
            exact = operands[0].strip("[]").endswith(number[0]) if number else False
            return [None if value is None or not exact else _cut(np.array([value]), _bits(kind))]
        if base == "elect":
            return [np.zeros(1, np.int64), self._lanes() == 0]
        if base == "mov" and "{" in "".join(instruction.operands):
            return self._packed(instruction, _bits(kind))
        if base == "cvt":
            kind, source = rest[-2], rest[-1]
            value = None if "f" in kind[0] + source[0] else self._value(operands[0], _bits(source))
            return [None if value is None else _cut(_signed(value, source), _bits(kind))]
        if base == "shfl" and rest[1] == "idx":
            return [self._from_lane(*(self._value(each, 32) for each in operands[:2]))]
        values = [self._value(each, 1 if each.startswith(("%p", "!")) else _bits(kind)) for each in operands]
        if base == "selp":
            return [_chosen(*values)]
        if kind[:1] not in ("b", "s", "u", "p") or base not in OPERATIONS or any(value is None for value in values):
            return unknown
        with np.errstate(all="ignore"):
            result = OPERATIONS[base](rest, kind, *values)
        if result is None or result.dtype == bool:
            return [result]
        return [_cut(result, 64 if "wide" in rest else _bits(kind))]

    def _packed(self, instruction: _Instruction, bits: int) -> list[Known]:
        """A register made of two halves, or the halves of one."""
        into, of = instruction.operands
        if into.startswith("{"):
            value, half = self._value(of, bits), bits // 2
            return [None, None] if value is None else [_cut(value, half), _cut(_shift_right(value, half, bits), half)]
        low, high = (self._value(each.strip(), bits // 2) for each in of.strip("{} ").split(","))
        return [None if low is None or high is None else low | (high << (bits // 2))]

    def _from_lane(self, value: Known, lane: Known) -> Known:
        if value is None or lane is None:
            return None
        both = (np.broadcast_to(each, self._count).reshape(-1, LANES) for each in (value, lane))
        values, lanes = both
        return np.take_along_axis(values, lanes % LANES, 1).reshape(-1)

    def _value(self, operand: str, bits: int) -> Known:
        operand = operand.strip()
        if operand.startswith("!"):
            value = self._value(operand[1:], bits)
            return None if value is None else ~value
        if operand in self._special:
            return self._special[operand]
        if operand.startswith("%"):
            return self._registers.get(operand)
        if re.fullmatch(r"-?(0x[\da-fA-F]+|\d+)U?", operand):
            number = np.array([int(operand.rstrip("U"), 0)], dtype=object) & ((1 << bits) - 1)
            return number != 0 if bits == 1 else number.astype(np.uint64).view(np.int64)
        return (
            np.zeros(1, np.int64) if re.fullmatch(r"[A-Za-z$_][\w$]*", operand) else None
        )  # where shared memory begins


@lru_cache(maxsize=4096)
def _summands(operand: str) -> list[str]:
    """A register, and perhaps an offset, of an operand in brackets."""
    return [part.replace(" ", "") for part in re.findall(r"[%\w$.]+|-\s*\d+", operand)]


@lru_cache
def _bits(kind: str) -> int:
    """Bits of a type: 32 of "s32", and of "f16x2", too."""
    number = re.search(r"(\d+)(?:x(\d+))?$", kind)
    return int(number[1]) * int(number[2] or 1) if number else 1 if kind == "pred" else 32


def _cut(value: np.ndarray, bits: int) -> np.ndarray:
    """The lowest bits of a number; 64 of them are as they are."""
    return value if bits >= 64 or value.dtype == bool else value & ((1 << bits) - 1)


def _signed(value: np.ndarray, kind: str) -> np.ndarray:
    """A register read as a number of a kind, such as "s32"."""
    bits = _bits(kind)
    return (value ^ (1 << (bits - 1))) - (1 << (bits - 1)) if kind[0] == "s" and bits < 64 else value


def _shift_right(value: np.ndarray, by: np.ndarray | int, bits: int) -> np.ndarray:
    by = np.asarray(by)
    shifted = (value.view(np.uint64) >> np.minimum(by, 63).astype(np.uint64)).view(np.int64)
    return np.where(by >= bits, 0, shifted)


def _chosen(yes: Known, no: Known, condition: Known) -> Known:
    if condition is None or (yes is None and no is None):
        return None
    if yes is None or no is None:  # known, if all choose what is known
        every = condition.all() if yes is not None else not condition.any()
        return (yes if yes is not None else no) if every else None
    return np.where(condition, yes, no)


Operation = Callable[..., "np.ndarray | None"]


def _plain(work: Callable[..., np.ndarray]) -> Operation:
    return lambda rest, kind, *values: work(*values)


def _as_numbers(work: Callable[..., np.ndarray]) -> Operation:
    return lambda rest, kind, *values: work(*(_signed(value, kind) for value in values))


def _multiplied(rest: Sequence[str], kind: str, a: np.ndarray, b: np.ndarray, *added: np.ndarray) -> np.ndarray | None:
    product = _signed(a, kind) * _signed(b, kind)
    if "hi" in rest:
        if _bits(kind) > 32:
            return None
        product >>= _bits(kind)
    return product + added[0] if added else product


def _shifted_right(rest: Sequence[str], kind: str, a: np.ndarray, by: np.ndarray) -> np.ndarray:
    if kind[0] == "s":
        return _signed(a, kind) >> np.minimum(by, _bits(kind) - 1)
    return _shift_right(a, by, _bits(kind))


def _shifted_left(rest: Sequence[str], kind: str, a: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.where(by >= _bits(kind), 0, a << np.minimum(by, 63))


COMPARISONS: Mapping[str, Callable[..., np.ndarray]] = {
    **dict.fromkeys(("lt", "lo"), np.less),
    **dict.fromkeys(("le", "ls"), np.less_equal),
    **dict.fromkeys(("gt", "hi"), np.greater),
    **dict.fromkeys(("ge", "hs"), np.greater_equal),
    "eq": np.equal,
    "ne": np.not_equal,
}


def _compared(rest: Sequence[str], kind: str, a: np.ndarray, b: np.ndarray, *more: np.ndarray) -> np.ndarray | None:
    if kind == "u64":
        a, b = a.view(np.uint64), b.view(np.uint64)
    truth = COMPARISONS[rest[0]](_signed(a, kind), _signed(b, kind))
    both = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(rest[1])
    return both(truth, more[0]) if both and more else None if more else truth


def _divided(remainder: bool) -> Operation:
    def work(rest: Sequence[str], kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        a, b = _signed(a, kind), _signed(b, kind)
        if not b.all():
            return None
        quotient = np.sign(a) * np.sign(b) * (abs(a) // abs(b))  # towards zero
        return a - quotient * b if remainder else quotient

    return work


def _field(rest: Sequence[str], kind: str, a: np.ndarray, first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """bfe: a field of bits, whose highest is its sign if the kind has one."""
    value = _shift_right(a, first, 64) & ((1 << length) - 1)
    sign = 1 << np.maximum(length - 1, 0)
    return (value ^ sign) - sign if kind[0] == "s" else value


def _inserted(rest, kind: str, a: np.ndarray, b: np.ndarray, first: np.ndarray, length: np.ndarray) -> np.ndarray:
    mask = ((1 << length) - 1) << first
    return (b & ~mask) | ((a << first) & mask)


def _looked_up(rest, kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
    """lop3: any function of three bits."""
    result = np.zeros(1, np.int64)
    for case in range(8):
        if int(table.flat[0]) >> case & 1:
            bits = [value if case >> place & 1 else ~value for value, place in ((a, 2), (b, 1), (c, 0))]
            result = result | (bits[0] & bits[1] & bits[2])
    return result


OPERATIONS: dict[str, Operation] = {
    "mov": _plain(lambda a: a),
    "cvta": _plain(lambda a: a),
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "not": _plain(np.invert),
    "neg": _plain(np.negative),
    "abs": _as_numbers(np.abs),
    "min": _as_numbers(np.minimum),
    "max": _as_numbers(np.maximum),
    "mul": _multiplied,
    "mad": _multiplied,
    "div": _divided(remainder=False),
    "rem": _divided(remainder=True),
    "shl": _shifted_left,
    "shr": _shifted_right,
    "setp": _compared,
    "bfe": _field,
    "bfi": _inserted,
    "lop3": _looked_up,
}
