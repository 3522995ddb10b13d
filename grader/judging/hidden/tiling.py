"""Hidden cases of unit 05: sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.breaking import mutant
from course_lib.exercises.cases import BF16, FP16, fixed
from course_lib.exercises.rounds import versions
from course_lib.exercises.tiling.cases import A100, H200, SLOW, factors, in_shares, order_case, tiled
from course_lib.exercises.tiling.ladder import matrix
from course_lib.exercises.tiling.limits import A100_SM, H200_SM, drawn_kernel, kernel_on, roof


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N, K = rng.randrange(65, 160, 2), rng.randrange(33, 150, 2), rng.randrange(17, 100, 2)
    side, rows, columns, group = rng.choice((2, 3, 5)), rng.randrange(5, 12), rng.randrange(3, 12), rng.randrange(2, 5)
    match exercise_id.split(".")[1]:
        case "matmul_log":
            m, n, k = 128 * rng.choice((2, 3)), 128 * rng.choice((2, 3)), 64 * rng.choice((1, 3))
            return versions(f"{m} x {n} x {k}", factors(m, n, k, FP16))
        case "outer_product_matmul":
            return [Case("hidden sizes", "ragged", factors(M, N, side))]
        case "tiled_matmul":
            return [Case("hidden sizes", "ragged", tiled(M, N, K, 16 * side, 32, 64))]
        case "matmul_bytes":
            return [fixed("hidden sizes", "ragged", m=M, n=N, k=K, bm=32, bn=rng.choice((32, 128)), itemsize=2)]
        case "best_tile":
            room = rng.choice((48, 72, 100, 120)) << 10
            return [
                fixed("hidden memory", "large", m=2048, n=2048, k=2048, shared_bytes=room),
                fixed("a hidden shape", "other shapes", m=M, n=4000, k=K, shared_bytes=room),
            ]
        case "tune":
            square = 256 * rng.randrange(6, 9)
            return [Case(f"{square} x {square} x 192, bfloat16", "performance", factors(square, square, 192, BF16))]
        case "split_k":
            splits = rng.randrange(3, 12)
            return [
                Case(f"{M} x {N} x {4 * K + 1} in {splits} shares", "ragged", in_shares(M, N, 4 * K + 1, splits, FP16)),
                Case("hidden sizes, float32", "ragged", in_shares(N, rows, 3 * K, splits)),
                Case(f"{rows} numbers in {rows + 3} shares", "empty", in_shares(N, M, rows, rows + 3, BF16)),
                Case("hidden shares that cancel", "long", in_shares(rows, N, 4096, splits + 5, BF16, turning=True)),
            ]
        case "break_matmul":
            return [
                mutant(
                    "adds in half",
                    (
                        'acc = tl.dot(a, b, acc, input_precision="ieee")',
                        'acc = tl.dot(a, b, acc, input_precision="ieee").to(tl.float16).to(tl.float32)',
                    ),
                ),
                mutant(
                    "the grid turned",
                    ("(triton.cdiv(M, 32), triton.cdiv(N, 32))", "(triton.cdiv(N, 32), triton.cdiv(M, 32))"),
                ),
                mutant("columns of b packed", ("cols * stride_bn", "cols")),
                mutant("128 columns", ("triton.cdiv(N, 32))", "min(4, triton.cdiv(N, 32)))")),
                mutant("four steps", ("range(0, K, BLOCK)", "range(0, tl.minimum(K, 128), BLOCK)")),
                mutant("one row is none", ("(rows < M) & (cols < N))", "(rows < M - (M == 1)) & (cols < N))")),
            ]
        case "occupancy":
            return [
                Case("hidden kernels", "registers", drawn_kernel),
                kernel_on("a hidden tile", "shared memory", A100_SM, 4, 40, (20 + rows) << 10),
                kernel_on("a hidden GPU", "the rest", H200_SM | {"warps": 8 * columns}, rng.choice((1, 2, 4)), 24, 0),
            ]
        case "roofs":
            return [
                roof("hidden tiles", "L2", (32, 16), (32, 16), m=M, n=N, k=K),
                roof(
                    "hidden rates",
                    "the others",
                    (64, 64),
                    (32, 16),
                    m=M,
                    n=N,
                    k=K,
                    rates={"shared memory": 1e12 * rows},
                ),
            ]
        case "row_sums":
            return [
                Case("hidden sizes", "ragged", matrix(M, 10 * K)),
                Case("hidden halves", "float16", matrix(N, 30 * K, FP16, mean=1.0)),
            ]
        case "one_step":
            return [
                Case("hidden sizes", "ragged", factors(M, N, 64, FP16)),
                Case("a hidden K", "short", factors(M, N, 1 + K % 63, FP16)),
            ]
        case "matmul":
            return [
                Case(f"{M} x {N} x {K}, float16", "ragged", factors(M, N, K, FP16)),
                # more rows of tiles than a group has
                Case(f"{1100 + M} x {300 + N} x 16, float16", "ragged", factors(1100 + M, 300 + N, 16, FP16)),
                Case(f"{M} x {N} x 200, transposed, float16", "strided", factors(M, N, 200, FP16, layout="columns")),
                Case(f"{N} x {M} x {K}, transposed, bfloat16", "strided", factors(N, M, K, BF16, layout="columns")),
                Case(
                    f"{side} of {N} x {K} x {M}, float16", "batched", factors(N, K, M, FP16, batch=side, layout="heads")
                ),
                Case(f"{K} x {N} x {M}, float32", "float32", factors(K, N, M, layout="window")),
            ]
        case "tiles_and_waves":
            return [fixed("hidden sizes", "cliffs", m=10 * M, n=20 * N, bm=64, bn=256, sms=rng.randrange(20, 150))]
        case "pad_to_multiple":
            return [fixed("a hidden size", "plain", n=100 * M + N, multiple=rng.choice((8, 64, 96, 128)))]
        case "predicted_throughput":
            tall = {"bm": 64, "bn": 256}
            return [
                fixed("a hidden size", "roofline", sizes=[8 * rows, 8 * M], **tall, **SLOW),
                fixed("hidden sizes", "waves", sizes=[8 * M, 24 * N, 32 * M], **tall, **rng.choice((A100, H200))),
            ]
        case "grouped_order":
            return [order_case("a hidden grid", "ragged", group * rows + 1, columns, group)]
        case "hilbert_order":
            return [fixed("side 16", "plain", programs=256, side=16)]
    return []  # predictions: their questions stand in the notebook
