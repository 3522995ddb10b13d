"""Bytes that a tiled product moves, and the tile that moves fewest."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed, integer
from course_lib.exercises.tiling.oracles import fits_and_moves_least, traced
from course_lib.mistakes import every, miscounted


def bytes_of_tiles(m: int, n: int, k: int, bm: int, bn: int, itemsize: int) -> int:
    """Count the bytes that are moved if each tile at an edge is a whole one."""
    along_m, along_n = -(-m // bm), -(-n // bn)
    return itemsize * (along_m * along_n * (bm + bn) * k + along_m * bm * along_n * bn)


matmul_bytes = Exercise(
    id="tiling.matmul_bytes",
    signature="matmul_bytes(m: int, n: int, k: int, bm: int, bn: int, itemsize: int) -> int",
    kind="formula",
    effort=Effort(minutes=10, lines=4, difficulty=2),
    cases=[
        fixed("256 cubed, tiles of 64", "whole", m=256, n=256, k=256, bm=64, bn=64, itemsize=4),
        fixed("128 x 512 x 256, tiles of 32 x 128", "whole", m=128, n=512, k=256, bm=32, bn=128, itemsize=4),
        fixed("512 x 128 x 64, tiles of 128 x 64", "whole", m=512, n=128, k=64, bm=128, bn=64, itemsize=2),
        fixed("256 cubed, one tile", "whole", m=256, n=256, k=256, bm=256, bn=256, itemsize=2),
        fixed("257 x 300 x 100, tiles of 64", "ragged", m=257, n=300, k=100, bm=64, bn=64, itemsize=4),
        fixed("30 x 500 x 77, tiles of 64 x 128", "ragged", m=30, n=500, k=77, bm=64, bn=128, itemsize=2),
        Case(
            "drawn sizes",
            "ragged",
            lambda g: {
                "m": integer(g, 60, 250),
                "n": integer(g, 60, 250),
                "k": integer(g, 20, 90),
                "bm": 32,
                "bn": 64,
                "itemsize": 4,
            },
        ),
    ],
    oracle=lambda m, n, k, bm, bn, itemsize: traced(m, n, k, bm, bn, itemsize=itemsize).bytes,
    criteria=correct("tiling.matmul_bytes", {"whole": 3, "ragged": 2}),
    mistakes=[
        every(
            lambda out, m, n, k, bm, bn, itemsize: out == traced(m, n, k, bm, bn, itemsize=itemsize).loads.bytes,
            say("tiling.matmul_bytes.forgets_the_result"),
        ),
        every(
            lambda out, itemsize, **call: (
                type(out) in (int, float) and out * itemsize == traced(**call, itemsize=itemsize).bytes
            ),
            say("tiling.matmul_bytes.forgets_the_itemsize"),
        ),
        every(
            lambda out, m, n, k, bm, bn, itemsize: (
                out == itemsize * (m * k * -(-m // bm) + k * n * -(-n // bn) + m * n)
            ),
            say("tiling.matmul_bytes.the_other_way_round"),
        ),
        every(lambda out, **call: out == bytes_of_tiles(**call), say("tiling.matmul_bytes.whole_tiles")),
        every(
            lambda out, m, n, k, bm, bn, itemsize: (
                out == itemsize * (m * k * -(-n // bm) + k * n * -(-m // bn) + m * n)
            ),
            say("tiling.matmul_bytes.the_other_side"),
        ),
        every(
            lambda out, m, n, k, bm, bn, itemsize: out == itemsize * (m * k * (n // bn) + k * n * (m // bm) + m * n),
            say("tiling.matmul_bytes.rounded_down"),
        ),
        every(
            lambda out, m, n, k, bm, bn, itemsize: out == itemsize * (m * k + k * n + m * n),
            say("tiling.matmul_bytes.each_once"),
        ),
        every(
            lambda out, m, n, k, bm, bn, itemsize: (
                out == itemsize * (m * k * -(-n // bn) + k * n * -(-m // bm) + 2 * m * n)
            ),
            say("tiling.matmul_bytes.the_result_is_not_read"),
        ),
    ],
)

SMALL = 256


def times_read() -> dict[str, int]:
    """Return how often each element is loaded, in products of 256 x 256 matrices."""
    square, flat = traced(SMALL, SMALL, SMALL, 64, 64, 32), traced(SMALL, SMALL, SMALL, 32, 128, 32)
    deep = traced(SMALL, SMALL, SMALL, 64, 64, 64)
    found = {
        "a, tiles of 64 x 64": square.reread("a_ptr"),
        "b, tiles of 64 x 64": square.reread("b_ptr"),
        "a, tiles of 32 x 128": flat.reread("a_ptr"),
        "b, tiles of 32 x 128": flat.reread("b_ptr"),
        "a, tiles of 64 x 64, BLOCK_K twice as large": deep.reread("a_ptr"),
    }
    return {name: int(times) for name, times in found.items()}


predictions = Exercise(
    id="tiling.predictions",
    signature="predicted_reads: dict[str, int]",
    kind="values",
    effort=Effort(minutes=8, lines=5, difficulty=2),
    cases=[fixed("five counts", "plain")],
    oracle=times_read,
    criteria=[Correct("plain", 5, say("tiling.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                **{(f"{one}, tiles of 64 x 64", 16): say("tiling.predictions.tiles_in_all") for one in "ab"},
                **{(f"{one}, tiles of 64 x 64", 256): say("tiling.predictions.nothing_saved") for one in "ab"},
                ("a, tiles of 32 x 128", 8): say("tiling.predictions.along_n"),
                ("b, tiles of 32 x 128", 2): say("tiling.predictions.along_m"),
                (
                    "a, tiles of 64 x 64, BLOCK_K twice as large",
                    2,
                ): say("tiling.predictions.block_k"),
            }
        )
    ],
)

SHARED = {"A100": 163 << 10, "H200": 227 << 10, "T4": 64 << 10, "little": 20 << 10}
best_tile = Exercise(
    id="tiling.best_tile",
    signature="best_tile(m: int, n: int, k: int, shared_bytes: int) -> tuple[int, int]",
    kind="formula",
    effort=Effort(minutes=10, lines=8, difficulty=3),
    track="more",
    cases=[
        *(
            fixed(f"4096 cubed, {name}", "large", m=4096, n=4096, k=4096, shared_bytes=nbytes)
            for name, nbytes in SHARED.items()
        ),
        fixed("16 rows", "other shapes", m=16, n=4096, k=4096, shared_bytes=SHARED["A100"]),
        fixed("4096 x 48", "other shapes", m=4096, n=48, k=512, shared_bytes=SHARED["A100"]),
        fixed("300 x 5000", "other shapes", m=300, n=5000, k=100, shared_bytes=SHARED["T4"]),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(fits_and_moves_least, 3, say("tiling.best_tile.title_large"), "large"),
        Holds(fits_and_moves_least, 2, say("tiling.best_tile.title_other_shapes"), "other shapes"),
    ],
    mistakes=[
        every(
            lambda out, m, n, k, shared_bytes: isinstance(out, list) and len(out) == 2 and out[0] == out[1],
            say("tiling.best_tile.most_bytes"),
        )
    ],
)
