"""The schedule of a product's loop, by a recurrence: when each copy begins, and when each product. No kernel is run.

It is what a kernel with a ring does by the costs of timeline.py where nothing but copies and products takes time; a test compares
it with simulated kernels.
"""

from __future__ import annotations

from tritontrace.hopper.timeline import COPIES, TENSOR_CORES, Bar, Costs

ROWS, DEPTH = 64, 64  # of a consumer's step: M and K
ITEMSIZE = 2


def schedule(
    stages: int,
    consumers: int = 1,
    specialised: bool = False,
    steps: int = 8,
    columns: int = 256,
    costs: Costs | None = None,
) -> list[Bar]:
    """Model a loop of `steps` products of 64 rows by `columns` columns for each consumer, which share the tile of b; return its bars.

    stages       tiles in the ring: the next tile takes a slot when the products of the last one there have ended
    specialised  a partition of its own fetches; else the one that multiplies does, as soon as it has issued its product

    >>> one, three = (busy(schedule(stages=stages)) for stages in (1, 3))
    >>> one < three  # more tiles in the ring: tensor cores wait less
    True
    """
    costs = costs or Costs()
    copy = (consumers * ROWS + columns) * DEPTH * ITEMSIZE / costs.copy_bytes
    product = ROWS * columns * DEPTH / costs.multiply_adds
    names = ["the partition"] if not specialised else [f"consumer {i}" for i in range(consumers)]
    bars, issued, done = [], [], []  # of each tile: when its first product begins, when its last one has ended
    copies_free = cores_free = fetched = 0.0
    ready = [0.0] * len(names)  # when a consumer can go on
    for i in range(steps):
        slot = done[i - stages] if i >= stages else 0.0
        turn = issued[i - stages + 1] if i >= stages > 1 and not specialised else 0.0
        if specialised and slot > fetched:
            bars.append(Bar("producer", fetched, slot, "wait for a slot"))
        begin = max(copies_free, slot, turn)
        copies_free, fetched = begin + copy, max(fetched, slot)
        there = copies_free + costs.copy_latency
        bars.append(Bar(COPIES, begin, copies_free, f"tile {i}"))
        for c, name in enumerate(names):
            bars.append(Bar(name, ready[c], max(there, ready[c]), "wait for a tile"))
            issue = max(there, ready[c])
            start = max(issue, cores_free)
            cores_free, ready[c] = start + product, start + product + costs.product_latency
            bars += [Bar(TENSOR_CORES, start, cores_free, name), Bar(name, issue, ready[c], "wgmma")]
            if c == 0:
                issued.append(issue)
        done.append(max(ready))
    return bars
