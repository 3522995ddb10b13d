"""Kernels to be read as the compiler left them: widths of loads, copies, tensor cores, loops, registers that do not suffice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.catalogue import say
from course_lib.criteria import Numbers
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import FP16, fixed
from course_lib.mistakes import miscounted
from tritontrace.compiled import compile_for, sass_for


@triton.jit
def copy_rows(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """Copy a row in each program."""
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def one_chain(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Compute y = y * x + 1/2 again and again: one chain."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = x
    for _ in range(0, steps):
        y = y * x + 0.5
    tl.store(out_ptr + i, y)


@triton.jit
def two_chains(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Compute two such chains, which are independent, and add their results."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y, z = x, 2 * x
    for _ in range(0, steps):
        y = y * x + 0.5
        z = z * x + 0.25
    tl.store(out_ptr + i, y + z)


@triton.jit
def by_pointers(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """Compute a tile of a product, by addresses."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        acc = tl.dot(tl.load(a_ptr + rows * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + cols), acc)
    tl.store(c_ptr + rows * N + cols, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def by_descriptors(a_desc, b_desc, c_desc, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """Compute the same tile, by descriptors."""
    m, n = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


READ: dict[str, int | str] = {
    "bits, rows of 1024": 128,
    "bits, rows of 1001": 32,
    "FFMAs before the jump, one chain": 4,
    "FFMAs before the jump, two chains": 8,
    "longest row of FFMAs that wait for one another, two chains": 4,
    "multiplies, sm_80": "mma",
    "multiplies, sm_90": "wgmma",
    "copies, by_pointers": "cp.async",
    "copies, by_descriptors": "TMA",
    "spills": "1 warp",
}
"""The answers, as compile_for and sass_for gave them: facts() finds them again, and a test compares. So no check needs a compiler."""


def facts() -> dict[str, int | str]:
    """Compile the kernels and read the right answers from their machine code. Raises ValueError without NVIDIA's tools."""
    x, (a, b, c) = torch.empty(4096), (torch.empty(512, 512, dtype=FP16) for _ in range(3))
    sizes: dict[str, Any] = {"BLOCK": 64, "BLOCK_K": 32}
    described = [TensorDescriptor.from_tensor(t, shape) for t, shape in ((a, [64, 32]), (b, [32, 64]), (c, [64, 64]))]
    rows = {n: compile_for(copy_rows, x, x, n, BLOCK=512).load_bits for n in (1024, 1001)}
    one, two = (max(loops(sass_for(k, x, x, 1000, BLOCK=128)), key=len) for k in (one_chain, two_chains))
    old, new = (compile_for(by_pointers, a, b, c, 512, 512, **sizes, gpu=gpu) for gpu in ("sm_80", "sm_90"))
    tma = compile_for(by_descriptors, *described, 512, **sizes)
    large = {n: compile_for(by_pointers, a, b, c, 512, 512, BLOCK=128, BLOCK_K=32, num_warps=n) for n in (4, 1)}
    values = [
        *rows.values(),
        len(one),
        len(two),
        longest_chain(two),
        *(built.tensor_instructions[0].split(".")[0] for built in (old, new)),
        *(copies[0].split()[0] for copies in (new.copies, tma.copies)),
        " and ".join(f"{n} warp{'s' * (n > 1)}" for n, built in large.items() if built.spills),
    ]
    return dict(zip(READ, values, strict=True))


def loops(sass: str) -> Iterator[list[str]]:
    """Yield the FFMA lines of each loop in the SASS, from its label to the jump back to it."""
    for _, body in re.findall(r"^(\w+):\n((?:    .*\n)*?    @\S+ BRA \1;)", sass, re.M):
        yield [line.strip() for line in body.splitlines() if re.match(r"\s+FFMA\b", line)]


def longest_chain(ffmas: list[str]) -> int:
    """Return the length of the longest chain of these FFMAs in which each needs the one before."""
    depth: dict[str, int] = {}
    for line in ffmas:
        target, *sources = re.findall(r"\bR\d+", line)
        depth[target] = 1 + max((depth.get(source, 0) for source in sources), default=0)
    return max(depth.values())


machine_code = Exercise(
    id="sm.machine_code",
    signature="read_code: dict[str, int | str]",
    kind="values",
    effort=Effort(minutes=15, lines=10, difficulty=3),
    kernels=[copy_rows, one_chain, two_chains, by_pointers, by_descriptors],
    cases=[fixed("five kernels", "plain")],
    oracle=lambda: READ,
    criteria=[Numbers(4, say("sm.machine_code.title_numbers"))],
    mistakes=[
        miscounted(
            {
                ("bits, rows of 1024", 16): say("sm.machine_code.bytes"),
                ("bits, rows of 1001", 4): say("sm.machine_code.bytes"),
                ("bits, rows of 1001", 128): say("sm.machine_code.one_code_for_all_rows"),
                ("FFMAs before the jump, one chain", 1): say("sm.machine_code.turns_side_by_side"),
                ("FFMAs before the jump, two chains", 2): say("sm.machine_code.turns_side_by_side"),
                ("longest row of FFMAs that wait for one another, two chains", 8): say("sm.machine_code.two_of_them"),
                ("multiplies, sm_80", "wgmma"): say("sm.machine_code.since_hopper"),
                ("multiplies, sm_90", "mma"): say("sm.machine_code.hgmma"),
                ("copies, by_pointers", "TMA"): say("sm.machine_code.tma_needs_descriptors"),
                ("copies, by_descriptors", "cp.async"): say("sm.machine_code.descriptors_are_for_tma"),
                **{
                    ("spills", word): say("sm.machine_code.registers_of_a_thread")
                    for word in ("none", "4 warps", "4 warps and 1 warp")
                },
            }
        )
    ],
)

EXERCISES = (machine_code,)
