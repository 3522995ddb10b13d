"""Measure what steps of a kernel cost on one SM of Hopper, in cycles: `python benchmarks/hopper_costs.py`.

Writes course_lib/hardware/measured/hopper_costs.json, from which tritontrace.hopper.timeline has costs. Each step is repeated in a
loop, by one or by two warpgroups that do not wait for one another; a cost is what one more turn takes. A minute on an H100.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.hardware import measurements  # noqa: E402
from tritontrace.hopper.language import gl, gluon, mbarrier, mma, mma_wait, new_barriers  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

jit = gluon.jit
ROWS, COLUMNS = gl.constexpr(64), gl.constexpr(128)
READ = gl.constexpr("{.reg .pred p; setp.ne.u32 p, $1, 0x7fffffff; mov.u32 $0, 0; @p mov.u32 $0, %clock;}")
FEW, MANY = 20, 220  # turns
REPEATS = 9
ARITHMETIC = ("add", "max, add", "sum, add", "exp2", "exp2, sum, add", "to float16, add", "softmax")
PRODUCTS = [(what, n, k) for what in ("one", "pair") for n in (64, 128) for k in (64, 128)]
BARRIERS = ("open", "arrive")


@jit
def clock(after):
    """The cycle, read when `after` has been computed: a number for each row."""
    return gl.inline_asm_elementwise(READ, "=r,r", [after], dtype=gl.int32, is_pure=False, pack=1)


@jit
def write_down(cycles_ptr, cycles, GROUP: gl.constexpr, LAYOUT: gl.constexpr):
    gl.store(cycles_ptr + GROUP * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT)), cycles)


@jit
def of_arithmetic(cycles_ptr, x_ptr, turns, GROUP: gl.constexpr, WHAT: gl.constexpr):
    """A tile in registers, as a product leaves it: each turn works on what the last one made."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    cols = gl.arange(0, COLUMNS, gl.SliceLayout(0, LAYOUT))
    x = gl.load(x_ptr + rows[:, None] * COLUMNS + cols[None, :])
    m = gl.max(x, 1)
    began = clock(m.to(gl.int32, bitcast=True))
    x += (began >> 31).to(gl.float32)[:, None]
    for _ in range(turns):
        if WHAT == "max, add" or WHAT == "softmax":
            m = gl.max(x, 1)
        if WHAT == "to float16, add":
            x = x.to(gl.float16).to(gl.float32)
        if WHAT == "softmax":
            x = gl.exp2(x * 0.5 - m[:, None])
        if WHAT == "exp2" or WHAT == "exp2, sum, add":
            x = gl.exp2(x)
        if WHAT == "sum, add" or WHAT == "exp2, sum, add" or WHAT == "softmax":
            m = gl.sum(x, 1)
        if WHAT != "exp2":
            x = x * 0.5 + m[:, None]
    ended = clock(gl.max(x, 1).to(gl.int32, bitcast=True))
    write_down(cycles_ptr, ended - began, GROUP, LAYOUT)


@jit
def of_products(cycles_ptr, tiles, turns, GROUP: gl.constexpr, WHAT: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    """64 x N x K by a warpgroup, which waits for it. "pair": two of them, and when the first of them has ended."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    a, b = tiles[0].index(GROUP).slice(0, K, 1), tiles[1].slice(0, K, 0).slice(0, N, 1)
    acc = gl.zeros((ROWS, N), gl.float32, LAYOUT)
    other = gl.zeros((ROWS, N), gl.float32, LAYOUT)
    zero = gl.zeros((ROWS,), gl.int32, gl.SliceLayout(1, LAYOUT))
    first = zero
    began = clock(zero)
    for _ in range(turns):
        issued = clock(zero)
        acc = mma(a, b, acc, is_async=True)
        if WHAT == "pair":
            other = mma(a, b, other, is_async=True)
            acc = mma_wait(1, deps=[acc])
            first += clock(zero) - issued
            other = mma_wait(0, deps=[other])
        else:
            acc = mma_wait(0, deps=[acc])
    ended = clock(gl.max(acc + other, 1).to(gl.int32, bitcast=True))
    write_down(cycles_ptr, ended - began, GROUP, LAYOUT)
    write_down(cycles_ptr + 2 * ROWS, first, GROUP, LAYOUT)


@jit
def of_barriers(cycles_ptr, bars, turns, GROUP: gl.constexpr, WHAT: gl.constexpr):
    """A wait for a barrier that is open, or an arrival and the wait for it."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    zero = gl.zeros((ROWS,), gl.int32, gl.SliceLayout(1, LAYOUT))
    mine = bars.index(GROUP)
    began = clock(zero)
    for i in range(turns):
        if WHAT == "open":
            mbarrier.wait(mine, 1)
        else:
            mbarrier.arrive(mine)
            mbarrier.wait(mine, i & 1)
    ended = clock(zero)
    write_down(cycles_ptr, ended - began, GROUP, LAYOUT)


@jit
def arithmetic(cycles_ptr, x_ptr, turns, second, WHAT: gl.constexpr):
    """Let two warpgroups work; `second` is 0 if the second one has no turns."""
    gl.warp_specialize(
        [
            (of_arithmetic, (cycles_ptr, x_ptr, turns, 0, WHAT)),
            (of_arithmetic, (cycles_ptr, x_ptr, turns * second, 1, WHAT)),
        ],
        [4],
        [240],
    )


@jit
def products(cycles_ptr, turns, second, WHAT: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, COLUMNS], gl.float16)
    tiles = (
        gl.allocate_shared_memory(gl.float16, [2, ROWS, COLUMNS], LAYOUT),
        gl.allocate_shared_memory(gl.float16, [COLUMNS, COLUMNS], LAYOUT),
    )
    gl.warp_specialize(
        [
            (of_products, (cycles_ptr, tiles, turns, 0, WHAT, N, K)),
            (of_products, (cycles_ptr, tiles, turns * second, 1, WHAT, N, K)),
        ],
        [4],
        [240],
    )


@jit
def barriers(cycles_ptr, turns, second, WHAT: gl.constexpr):
    bars = new_barriers(2, 1)
    gl.warp_specialize(
        [(of_barriers, (cycles_ptr, bars, turns, 0, WHAT)), (of_barriers, (cycles_ptr, bars, turns * second, 1, WHAT))],
        [4],
        [240],
    )


def turn(launch: Callable[[torch.Tensor, int], object]) -> list[float]:
    """Cycles that one more turn takes, by the slowest warp: of all, and until the first of a pair had ended."""

    def cycles(turns: int) -> torch.Tensor:
        found = []
        for _ in range(REPEATS):
            out = torch.zeros(2, 2 * ROWS.value, dtype=torch.int32, device="cuda")
            launch(out, turns)
            found.append(out.amax(1))
        return torch.stack(found).double().median(0).values

    return ((cycles(MANY) - cycles(FEW)) / (MANY - FEW)).tolist()


def measure() -> dict[str, list]:
    """A row for each step: what, [N, K,] warpgroups, cycles [until both products of a pair had ended, and the first one]."""
    x = torch.rand(ROWS.value, COLUMNS.value, device="cuda")
    found: dict[str, list] = {"arithmetic": [], "products": [], "barriers": []}
    for second in (0, 1):
        for what in ARITHMETIC:
            took = turn(lambda out, n, w=what, s=second: arithmetic[(1,)](out, x, n, s, WHAT=w, num_warps=4))
            found["arithmetic"].append([what, 1 + second, took[0]])
        for what, n, k in PRODUCTS:
            sizes = {"WHAT": what, "N": n, "K": k}
            took = turn(lambda out, n, c=sizes, s=second: products[(1,)](out, n, s, **c, num_warps=4))
            found["products"].append([what, n, k, 1 + second, *(took if what == "pair" else took[:1])])
        for what in BARRIERS:
            took = turn(lambda out, n, w=what, s=second: barriers[(1,)](out, n, s, WHAT=w, num_warps=4))
            found["barriers"].append([what, 1 + second, took[0]])
    return found


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs a Hopper GPU.")
        return 0
    found = measure()
    for name, rows in found.items():
        for row in rows:
            print(f"{name:>10}: {row}")
    card = torch.cuda.get_device_properties(torch.cuda.current_device()).name
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    machine = {"machine": card, "date": date.today().isoformat(), **versions}
    measurements.write("hopper_costs", machine | found, digits=4)
    return 0


if __name__ == "__main__":
    sys.exit(main())
