"""Broken rings: the text of a kernel with one mistake, and what the simulator says of it. So no answer can be wrong, and none stands here.

A ring is the right text with some of it replaced. Which of its mistakes it shows, and at which lines, is asked of `simulate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from course_lib.exercises.breaking import loaded, mutated
from tritontrace.hopper import ORDERS, Fault, Report, Spot, simulate

HEAD = """from tritontrace.hopper.language import (
    TensorDescriptor, fence_async_shared, gl, gluon, mbarrier, mma, mma_wait, new_barriers, store_wait, tma_load, tma_store,
)

ACC = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
NBYTES = gl.constexpr(64 * 64 * 2)  # of a tile


"""

RING = """@gluon.jit
def produce(a_desc, b_desc, a, b, full, empty, STEPS: gl.constexpr, STAGES: gl.constexpr):
    for i in range(STEPS):
        s = i % STAGES
        mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)
        mbarrier.expect(full.index(s), 2 * NBYTES)
        tma_load(a_desc, [0, 64 * i], full.index(s), a.index(s))
        tma_load(b_desc, [64 * i, 0], full.index(s), b.index(s))


@gluon.jit
def consume(c_desc, a, b, c, full, empty, STEPS: gl.constexpr, STAGES: gl.constexpr):
    acc = gl.zeros((64, 64), gl.float32, ACC)
    for i in range(STEPS):
        s = i % STAGES
        mbarrier.wait(full.index(s), i // STAGES & 1)
        acc = mma(a.index(s), b.index(s), acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index(s))
    c.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma_store(c_desc, [0, 0], c)
    store_wait(0)
"""
"""The right text: what is shown, line by line from 1 on."""

TAIL = """

@gluon.jit
def ring(a_desc, b_desc, c_desc, STEPS: gl.constexpr, STAGES: gl.constexpr):
    a = gl.allocate_shared_memory(a_desc.dtype, [STAGES, 64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 64, 64], b_desc.layout)
    c = gl.allocate_shared_memory(c_desc.dtype, [64, 64], c_desc.layout)
    full = new_barriers(STAGES, 1)
    empty = new_barriers(STAGES, 1)
    gl.warp_specialize(
        [
            (consume, (c_desc, a, b, c, full, empty, STEPS, STAGES)),
            (produce, (a_desc, b_desc, a, b, full, empty, STEPS, STAGES)),
        ],
        [1],
        [24],
    )


def launch(x, STEPS, STAGES):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    tiles = [TensorDescriptor.from_tensor(each, [64, 64], layout) for each in x]
    ring[(1,)](*tiles, STEPS, STAGES, num_warps=4)
"""

Edit = tuple[str, str]


@dataclass(frozen=True)
class Ring:
    """A broken ring: the right kernel's text with some of it replaced, for this many products with this many slots."""

    edits: tuple[Edit, ...] = ()
    steps: int = 5
    stages: int = 2

    @property
    def text(self) -> str:
        return mutated(RING, self.edits)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def run(self, orders: Sequence[str] = ORDERS) -> Report:
        """Simulate the ring in these execution orders and return the report."""
        g = torch.Generator().manual_seed(0)
        a, b = (
            torch.randn(64, 64 * self.steps, generator=g).half(),
            torch.randn(64 * self.steps, 64, generator=g).half(),
        )
        launch = loaded(HEAD + self.text + TAIL, "launch")
        return simulate(
            launch, (a, b, torch.empty(64, 64, dtype=torch.float16)), self.steps, self.stages, orders=orders
        )

    @property
    def changed(self) -> set[int]:
        """Return the numbers of the lines that differ from the right text. A line that lacks has none."""
        found: set[int] = set()
        for _, new in filter(lambda edit: edit[1], self.edits):
            first = self.text[: self.text.index(new)].count("\n") + 1
            found |= set(range(first, first + max(1, new.count("\n"))))
        return found

    def line_of(self, spot: Spot) -> int:
        """Return the number of a spot's line in the text, from 1 on."""
        return self.line_in(spot.line)

    def line_in(self, line: int) -> int:
        """Convert a line number of the whole cell, which begins with HEAD, to one of the text."""
        return line - HEAD.count("\n")


@lru_cache(maxsize=64)
def faults_of(ring: Ring) -> list[tuple[Fault, set[int]]]:
    """List the faults that execution orders bring to light, the most telling first, each with the lines that it is about: those that the
    simulator names, and those that differ from the right text. One that names a line outside of the text is left out."""
    text = range(1, len(ring.lines) + 1)
    named = [(fault, {ring.line_of(spot) for spot in fault.lines}) for fault in ring.run().faults]
    return [(fault, lines | ring.changed) for fault, lines in named if all(line in text for line in lines)]


FULL = "        mbarrier.wait(full.index(s), i // STAGES & 1)\n"
WAITED, RELEASED = "        acc = mma_wait(0, deps=[acc])\n", "        mbarrier.arrive(empty.index(s))\n"
PRODUCT = "        acc = mma(a.index(s), b.index(s), acc, is_async=True)\n"
MISTAKES: dict[str, tuple[Edit, ...]] = {
    "released early": ((WAITED + RELEASED, RELEASED + WAITED),),
    "not waited for": ((FULL, ""),),
    "waited for late": ((FULL + PRODUCT, PRODUCT + FULL),),
    "parity by turns": (("full.index(s), i // STAGES & 1", "full.index(s), i & 1"),),
    "consumer's parity": (("full.index(s), i // STAGES & 1", "full.index(s), (i // STAGES + 1) & 1"),),
    "parity the other way": (("(i // STAGES + 1) & 1", "i // STAGES & 1"),),
    "not released": ((RELEASED, ""),),
    "bytes of two": (("2 * NBYTES", "3 * NBYTES"),),
    "no fence": (("    fence_async_shared()\n", ""),),
    "fence above": (
        (
            "    c.store(acc.to(c_desc.dtype))\n    fence_async_shared()\n",
            "    fence_async_shared()\n    c.store(acc.to(c_desc.dtype))\n",
        ),
    ),
    "store not waited for": (("    store_wait(0)\n", ""),),
    "one under way": ((WAITED, WAITED.replace("wait(0", "wait(1")),),
    "released once": ((RELEASED, RELEASED.replace("        mb", "        if i == 0:\n            mb", 1)),),
    "producer does not wait": (("        mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)\n", ""),),
    "next slot": (("full.index(s), b.index(s))", "full.index(s), b.index((i + 1) % STAGES))"),),
    "another barrier": (("[64 * i, 0], full.index(s)", "[64 * i, 0], full.index((i + 1) % STAGES)"),),
}
