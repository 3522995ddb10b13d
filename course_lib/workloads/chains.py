"""Chains of elementwise operations, cut into kernels: run, and their traffic counted.

An operation is [result, input, ...], names of tensors of n elements, in order of execution; what no operation makes is an
input of the chain, and the last result is the chain's. `fused` says how many operations each kernel does, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from tritontrace.tracing import trace

ChainOp = Sequence[str]

CHAINS: dict[str, list[list[str]]] = {
    "sin² + cos²": [["sin", "x"], ["sin²", "sin"], ["cos", "y"], ["cos²", "cos"], ["out", "sin²", "cos²"]],
    "bias, GELU, dropout, residual": [
        ["z", "x", "bias"],
        ["gelu", "z"],
        ["kept", "gelu", "mask"],
        ["out", "kept", "x"],
    ],
    "SwiGLU": [["neg", "a"], ["exp", "neg"], ["silu", "a", "exp"], ["out", "silu", "b"]],
}
"""The bias of the second is spread out over all rows: n elements, like every tensor here."""

DTYPES = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}


@dataclass(frozen=True)
class Stage:
    """One kernel of a chain: the names that it loaded from memory, and those that it had to store."""

    ops: tuple[tuple[str, ...], ...]
    loads: tuple[str, ...]
    stores: tuple[str, ...]


@triton.jit
def stage_kernel(memory_ptr, n, LOADS: tl.constexpr, STORES: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """Load and store rows of memory (SLOTS, n): bit k of LOADS and STORES says whether row k is loaded, and stored."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = tl.zeros((BLOCK,), dtype=memory_ptr.dtype.element_ty)
    for slot in tl.static_range(SLOTS):
        if (LOADS >> slot) % 2:
            mixed += tl.load(memory_ptr + slot * n + i, mask=i < n, other=0)
    for slot in tl.static_range(SLOTS):
        if (STORES >> slot) % 2:
            tl.store(memory_ptr + slot * n + i, mixed, mask=i < n)


def traced_stages(n: int, ops: Sequence[ChainOp], itemsize: int, fused: Sequence[int]) -> tuple[list[Stage], int]:
    """Run a chain; return its kernels, and the bytes that they moved. A kernel loads a name when an operation first asks for it and it is
    not in a register, and stores every result; stores that nobody ever loaded are then taken off again.

    Raises ValueError if `fused` does not add up to the operations.
    """
    if sum(fused) != len(ops) or any(count < 1 for count in fused):
        raise ValueError(f"{len(ops)} operations cannot be cut into kernels of {list(fused)}")
    names = list(dict.fromkeys(name for op in ops for name in reversed(op)))
    memory = torch.ones(len(names), n, dtype=DTYPES[itemsize])
    stages, start = [], 0
    with trace() as t:
        for count in fused:
            own, registers, loads = ops[start : start + count], set(), []
            for result, *inputs in own:
                loads += [name for name in dict.fromkeys(inputs) if name not in registers]
                registers |= {result, *inputs}
            made = [result for result, *_ in own]
            bits = [sum(1 << names.index(name) for name in group) for group in (loads, made)]
            BLOCK = 1024
            launch: Any = stage_kernel[(triton.cdiv(n, BLOCK),)]
            launch(memory, n, LOADS=bits[0], STORES=bits[1], SLOTS=len(names), BLOCK=BLOCK)
            stages.append((own, loads, made))
            start += count
    loaded = np.any(t.read_counts(memory), axis=1)
    idle = {name for name, read in zip(names, loaded, strict=True) if not read and name != ops[-1][0]}
    useless = sum(n * itemsize for _, _, made in stages for name in made if name in idle)
    found = [
        Stage(tuple(map(tuple, own)), tuple(loads), tuple(m for m in made if m not in idle))
        for own, loads, made in stages
    ]
    return found, t.bytes - useless


def traced_bytes(n: int, ops: Sequence[ChainOp], itemsize: int, fused: Sequence[int]) -> int:
    """Count the bytes that a chain's kernels load and store, in a trace."""
    return traced_stages(n, ops, itemsize, fused)[1]
