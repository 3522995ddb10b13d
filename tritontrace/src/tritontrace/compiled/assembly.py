"""Facts read in what the compiler wrote: Triton's intermediate code (TTIR), PTX, and the cubin of machine code."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tritontrace.compiled.places import Frame

TOOL_FAILED = (OSError, subprocess.SubprocessError, RuntimeError)  # Triton says "Cannot find" in a RuntimeError

# ----------------------------------------------------------------------------------------------------- memory


@dataclass(frozen=True)
class Move:
    """One instruction between global memory and a thread: the bits that a thread moves, and where it was written."""

    op: Literal["load", "store"]
    bits: int
    frames: tuple[Frame, ...]  # innermost call first


def located(ptx: str) -> Iterator[tuple[tuple[Frame, ...], str]]:
    """Yield the lines of a PTX text that are no `.loc`, each with its place in the source, innermost call first.

    The `.loc` lines tell; the calls that led there stand in their comments alone: `.loc 1 7 24 // cell.py:7:24 @[ cell.py:17:28 ]`.
    Within inline assembly newer LLVM counts the lines of the assembly, as if the kernel had them.
    """
    frames: tuple[Frame, ...] = ()
    inline = False
    for line in ptx.splitlines():
        if "inline asm" in line:
            inline = "begin" in line
        elif not line.lstrip().startswith(".loc"):
            yield frames, line
        elif not inline:
            _, _, comment = line.partition("//")
            frames = tuple((file, int(number)) for file, number in re.findall(r"([^\s@\[\]]+):(\d+):\d+", comment))


TMA_BITS = 128  # a bulk copy moves whole tiles, as wide as can be


def moves(ptx: str) -> Iterator[Move]:
    """Yield the global loads and stores in a PTX text, in order.

    Triton's loads are inline assembly, each after its `.loc`.
    """
    for frames, line in located(ptx):
        if re.search(r"\bld\.global\.nc\b[^{]*$", line):
            continue  # a table of libdevice's sin and cos, not a tensor
        elif access := re.search(r"\b(ld|st)\.global[.\w:]*?(?:\.v(\d))?\.[bufs](\d+)\b", line):
            kind, vector, bits = access.groups()
            yield Move("load" if kind == "ld" else "store", int(vector or 1) * int(bits), frames)
        elif copy := re.search(r"cp\.async\.c[ag]\.shared\.global[^;]*?\],[^;]*?\], (0x[0-9a-f]+|\d+)", line):
            yield Move("load", 8 * int(copy.group(1), 0), frames)  # 4, 8 or 16 bytes to shared memory
        elif "cp.async.bulk.tensor" in line:
            yield Move("store" if ".global.shared" in line else "load", TMA_BITS, frames)


def copies(ptx: str) -> list[str]:
    """List the kinds of asynchronous copies between global and shared memory: by each thread, or of whole tiles."""
    kinds = {
        "cp.async": r"\bcp\.async\.c[ag]\.shared\.global",
        "TMA load": r"\bcp\.async\.bulk\.tensor[.\w]*\.shared::(?:cluster|cta)\.global",
        "TMA store": r"\bcp\.async\.bulk\.tensor[.\w]*\.global\.shared::cta",
    }
    return [name for name, pattern in kinds.items() if re.search(pattern, ptx)]


# ----------------------------------------------------------------------------------------------------- tensor cores


def tensor_instructions(ptx: str) -> list[str]:
    """List the tensor-core instructions in a PTX text, each once: "wgmma.mma_async m64n64k16 f32.f16.f16"."""
    found = [
        f"{name} {shape} {types.replace('.row.col', '').replace('.satfinite', '').strip('.')}"
        for name, shape, types in re.findall(r"\b(mma\.sync|wgmma\.mma_async)[.\w:]*?\.(m\d+n\d+k\d+)([.\w]*)", ptx)
    ]
    constants = dict(re.findall(r"mov\.[bu]32\s+(%r\d+), (\d+);", ptx))
    blackwell = r"\btcgen05\.mma\.[.\w:]*?kind::(\w+)[.\w:]*\s+\[[^\]]*\], (?:%rd\d+|\[[^\]]*\]), %rd\d+, (%r\d+)"
    for kind, descriptor in re.findall(blackwell, ptx):
        shape = _tcgen05_shape(kind, int(constants[descriptor])) if descriptor in constants else ""
        found.append(" ".join(filter(None, ["tcgen05.mma", shape, kind])))
    return list(dict.fromkeys(found))


def _tcgen05_shape(kind: str, descriptor: int) -> str:
    """M and N from the instruction descriptor: N / 8 in bits 17 to 22, M / 16 in bits 24 to 28. K is 32 bytes.

    PTX ISA 8.7, "Instruction descriptor format for .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8".
    """
    K = {"tf32": 8, "f16": 16, "f8f6f4": 32, "i8": 32}.get(kind)
    return f"m{16 * (descriptor >> 24 & 31)}n{8 * (descriptor >> 17 & 63)}k{K}" if K else ""


@dataclass(frozen=True)
class Dot:
    """A `tl.dot` in TTIR: whether its blocks are fp32 and may be rounded to TF32, and its place in the source."""

    tf32: bool
    frames: tuple[Frame, ...]  # innermost call first


def dots(ttir: str) -> Iterator[Dot]:
    """Yield every `tl.dot` of a kernel, those of its helpers included: in TTIR they are inlined already."""
    locations = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", ttir, re.MULTILINE))
    for attributes, a, b, location in re.findall(
        r"\btt\.dot ([^:\n]*) : tensor<([^>]*)> \* tensor<([^>]*)> [^\n]* loc\((.*)\)$", ttir, re.MULTILINE
    ):
        fp32 = all(re.search(r"xf32\b", block) for block in (a, b))
        tf32 = re.search(r"inputPrecision = tf32\b", attributes) is not None  # tf32x3 keeps nearly all of fp32
        yield Dot(fp32 and tf32, tuple(_frames(location, locations)))


def _frames(location: str, locations: dict[str, str]) -> Iterator[Frame]:
    """The files and lines of a location such as `callsite(#loc25 at "acc"(#loc68))`, innermost call first."""
    for file, line, name in re.findall(r'"((?:[^"\\]|\\.)*)":(\d+):\d+|(#loc\d*)', location):
        if name:
            yield from _frames(locations.get(name, ""), locations)
        else:
            yield file, int(line)


# ----------------------------------------------------------------------------------------------------- machine code


REGISTERS, FRAME = (
    0x2F,
    0x11,
)  # attributes of a function in a cubin: EIATTR_REGCOUNT, EIATTR_FRAME_SIZE (bytes of its stack)


def registers(cubin: bytes, ptx: str) -> tuple[int | None, int | None]:
    """Return the registers of a thread, and its spill bytes, from a cubin; None where the cubin does not tell.

    The PTX cannot tell: the assembler decides. What the PTX itself keeps in slow memory (a table in `sin`) is no spill. NVIDIA's
    cuobjdump -res-usage prints the same numbers, but where others' code runs no further program may be started.
    """
    try:
        told = list(_told_of_functions(cubin))
    except (struct.error, ValueError, IndexError):  # no ELF file as we know it
        return None, None
    used, stack = ([value for attribute, value in told if attribute == which] for which in (REGISTERS, FRAME))
    if not used or not stack:
        return None, None
    tables = [int(size) for size in re.findall(r"\.local \.align \d+ \.b8\s+\w+\[(\d+)\]", ptx)]
    own = sum(-(-size // 16) * 16 for size in tables)  # the stack grows in steps of up to 16 bytes
    return max(used), max(0, max(stack) - own)


def _told_of_functions(cubin: bytes) -> Iterator[tuple[int, int]]:
    """(attribute, value) of every function: entries of the ELF section .nv.info that hold two numbers, the function's and the value."""
    (at,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQ", cubin, at + i * size) for i in range(count)]
    for name, _, _, _, start, length in sections:
        name += sections[names][4]
        if cubin[name : cubin.index(b"\0", name)] != b".nv.info":
            continue
        end = start + length
        while start < end:
            form, attribute, nbytes = struct.unpack_from("<BBH", cubin, start)
            start += 4
            if form == 4:  # so many bytes follow; in other forms that field is the value
                if nbytes == 8:
                    yield attribute, struct.unpack_from("<II", cubin, start)[1]
                start += nbytes


def sass(built: Any) -> str:
    """Return the machine code as text, one instruction a line. Raises one of TOOL_FAILED without NVIDIA's tools."""
    text = built.asm["sass"]
    if not text:
        raise RuntimeError("cuobjdump printed no instruction")
    return re.sub(r"^[-\d:Y\w]+\t", "    ", text, flags=re.MULTILINE)  # without the columns of scheduling bits
