"""Latency and read bandwidth of a GPU's memories, by working-set size.

latency()           a pointer chase: each load's address is what the load before it brought, so nothing overlaps
bandwidth()         the opposite: all SMs read as much as they can, round after round
add_one_seconds()   x + 1 by the size of x, on a GPU or on one core of a CPU

On a GPU of sm_80 or newer these measure here; `measured("memory_hierarchy")` is the same from one H200. `python benchmarks/latency.py`
records anew. Sizes in bytes, waits in cycles of the SM's clock and in seconds, bandwidth in bytes/s.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.profiling import bench
from tritontrace.threads import one_thread

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
LINE = 128  # bytes between two places of a chase: none finds its line brought in by the one before
STEPS = 1 << 14  # timed steps of a chase
L1_BYTES = 16 * KiB  # a set that every L1 holds
ADD_ONE = [4**k for k in range(13)]  # elements of x, up to 64 MiB


@cache
def measured_here() -> dict[str, Any] | None:
    """Return measure_all() of this machine's GPU, cached; None without one of sm_80 or newer."""
    return measure_all() if bench.has_gpu() else None


def of(card: gpu.GPU) -> dict[str, Any] | None:
    """Return the measurements of a card's memories: made here if it is this machine's, recorded if it is of that kind, else None."""
    if card.measured:
        return measured_here()
    kept = measured("memory_hierarchy")
    return kept if card.name in kept["machine"].split() else None


# ------------------------------------------------------------------------------------------------------------ kernels


@triton.jit
def cycle():
    """Read the SM's clock: cycles so far."""
    return tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def nanosecond():
    """Read the GPU's clock in nanoseconds."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def follow(address):
    """Load the eight bytes at an address, through L1. (In a chase tl.load would read and write one register, and clear it first.)"""
    return tl.inline_asm_elementwise(
        "ld.global.ca.b64 $0, [$1];", "=l,l", [address], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def chase_kernel(start, out_ptr, warm_up, steps):
    """Store the cycles and nanoseconds of `steps` dependent loads from address `start` on, after `warm_up` untimed ones."""
    address = start
    for _ in range(warm_up):
        address = follow(address)
    began, ns = cycle(), nanosecond()
    for _ in range(steps):
        address = follow(address)
    tl.store(out_ptr + 2, address)  # waits for the last one
    tl.store(out_ptr, cycle() - began)
    tl.store(out_ptr + 1, nanosecond() - ns)


@triton.jit
def fma_kernel(x_ptr, out_ptr, rounds):
    """Store the cycles and nanoseconds of 64 * rounds dependent multiply-adds."""
    x = tl.load(x_ptr)
    a = tl.load(x_ptr + 1)
    began, ns = cycle(), nanosecond()
    for _ in range(rounds):
        for _ in tl.static_range(64):
            x = x * a + a
    tl.store(x_ptr, x)
    tl.store(out_ptr, cycle() - began)
    tl.store(out_ptr + 1, nanosecond() - ns)


@triton.jit
def read_kernel(x_ptr, out_ptr, blocks, rounds, step, CACHE: tl.constexpr, BLOCK: tl.constexpr):
    """Read `rounds` blocks of x in each program, `step` blocks apart, and wrap round after `blocks`."""
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for r in range(rounds):
        block = (tl.program_id(0) + r * step) % blocks
        total += tl.load(x_ptr + block * BLOCK + tl.arange(0, BLOCK), cache_modifier=CACHE)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


# ------------------------------------------------------------------------------------------------------- measurements


def ring(nbytes: int) -> torch.Tensor:
    """Make a pointer chase on the GPU, (nbytes / 8,) int64: one place a line, each holding the address of the next in a random cycle."""
    places = nbytes // LINE
    order = torch.randperm(places, device="cuda")
    table = torch.zeros(places, LINE // 8, dtype=torch.int64, device="cuda")
    table[order, 0] = table.data_ptr() + LINE * order.roll(-1)
    return table.flatten()


def latency(sizes: Sequence[int]) -> list[tuple[int, float, float]]:
    """Measure (bytes of the working set, cycles, seconds) of one load: the median of five chases."""
    found = []
    for nbytes in sizes:
        table = ring(nbytes)
        out = torch.empty(3, dtype=torch.int64, device="cuda")
        warm_up = min(nbytes // LINE, MiB // LINE)  # an L1 forgets between two launches
        runs = []
        for _ in range(5):
            table.sum()  # into the L2 cache, as far as it fits
            chase_kernel[(1,)](table.data_ptr(), out, warm_up, STEPS, num_warps=1, num_stages=1)  # pyright: ignore[reportCallIssue]
            cycles, ns, _ = out.tolist()
            runs.append((cycles / STEPS, ns / STEPS / 1e9))
        found.append((nbytes, *sorted(runs)[2]))
    return found


def fma_latency() -> tuple[float, float]:
    """Measure (cycles, seconds) from the start of a multiply-add to that of a dependent one: registers alone."""
    x, out = torch.tensor([1.0, 0.5], device="cuda"), torch.empty(2, dtype=torch.int64, device="cuda")
    rounds, runs = 1 << 12, []
    for _ in range(5):
        fma_kernel[(1,)](x, out, rounds, num_warps=1)  # pyright: ignore[reportCallIssue]
        cycles, ns = out.tolist()
        runs.append((cycles / (64 * rounds), ns / (64 * rounds) / 1e9))
    return sorted(runs)[2]


def bandwidth(sizes: Sequence[int], cache_modifier: str = ".cg", total: int = 8 * GiB) -> list[tuple[int, float]]:
    """Measure (bytes of the working set, bytes/s read by all SMs together): the median of five launches that read `total` each.

    cache_modifier   ".cg" passes by the L1 caches. With ".ca" a program reads one block again and again, from its SM's L1:
                     four programs of 32 KiB to an SM, whatever the size.
    """
    BLOCK = 8192  # floats, 32 KiB: 8 loads of 16 bytes under way in each of 256 threads
    programs = 4 * gpu.num_sms()
    step = programs if cache_modifier == ".cg" else 0
    rounds = max(1, total // (programs * BLOCK * 4))
    out, found = torch.empty(programs, device="cuda"), []
    for nbytes in sizes:
        blocks = max(1, nbytes // (4 * BLOCK))
        x = torch.randn(blocks * BLOCK, device="cuda")
        times = []
        for _ in range(6):  # the first compiles and warms up
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            read_kernel[(programs,)](x, out, blocks, rounds, step, CACHE=cache_modifier, BLOCK=BLOCK, num_warps=8)  # pyright: ignore[reportCallIssue]
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        found.append((nbytes, programs * rounds * BLOCK * 4 / statistics.median(times[1:])))
    return found


@one_thread()
def add_one_seconds(sizes: Sequence[int], device: str) -> list[tuple[int, float]]:
    """Measure (n, seconds) from the call of x + 1, for n floats, until its result is there: the best of seven means; one core of a CPU."""
    found = []
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for n in sizes:
        x, out = torch.randn(n, device=device), torch.empty(n, device=device)
        runs = 100 if device == "cuda" else max(1, min(200, 200_000 // n))
        best = float("inf")
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(runs):
                torch.add(x, 1, out=out)
                wait()
            best = min(best, (time.perf_counter() - start) / runs)
        found.append((n, best))
    return found


def powers(low: int, high: int) -> list[int]:
    """List low, 2 low, 4 low, ... up to high."""
    return [low << k for k in range((high // low).bit_length())]


def measure_all() -> dict[str, Any]:
    """Measure latency and bandwidth of all memories, as plain data; a few seconds."""
    card = torch.cuda.get_device_properties(torch.cuda.current_device())
    room = card.total_memory // 8
    all_l1 = 4 * gpu.num_sms() * 32 * KiB
    return {
        "machine": card.name,
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "l2_bytes": card.L2_cache_size,
        "add_one": add_one_seconds(ADD_ONE, "cuda"),
        "fma": fma_latency(),
        "latency": latency(powers(4 * KiB, min(GiB, room))),
        "l1_bandwidth": bandwidth([all_l1], ".ca")[0][1],
        "bandwidth": bandwidth(powers(MiB, min(4 * GiB, room))),
    }


# ----------------------------------------------------------------------------------------------------------- reading


def level(found: dict[str, Any], name: str) -> tuple[float, float, float]:
    """Read (cycles, seconds, bytes/s) of "L1", "L2" or "memory" off the curves.

    L1 and L2 at a size well inside them. Memory at the largest: of a set twice as large as L2, half is still found there.
    """
    size = {"L1": L1_BYTES, "L2": found["l2_bytes"] / 4, "memory": float("inf")}[name]
    cycles, seconds = next((c, s) for n, c, s in reversed(found["latency"]) if n <= size)
    rate = found["l1_bandwidth"] if name == "L1" else next(b for n, b in reversed(found["bandwidth"]) if n <= size)
    return cycles, seconds, rate
