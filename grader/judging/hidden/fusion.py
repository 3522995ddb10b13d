"""Hidden cases of unit 06: sizes, chains and logits that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.breaking import mutant
from course_lib.exercises.cases import BF16, FP16, Drawing, cases_of
from course_lib.exercises.fusion.cases import added, also, labelled, normed, rows, vectors
from course_lib.exercises.rounds import versions


def drawn_chain(rng: random.Random) -> list[list[str]]:
    """Draw a chain of six operations, each on tensors that exist by then."""
    names, ops = ["x", "y"], []
    for k in range(6):
        inputs = rng.sample(names, rng.choice((1, 2)))
        ops.append([f"t{k}", *([names[-1]] if k and names[-1] not in inputs else []), *inputs])
        names.append(f"t{k}")
    return ops


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N = rng.randrange(33, 80, 2), rng.randrange(65, 400, 2)
    long, masked = rng.randrange(9001, 15000, 2), rng.randrange(5000, 8500)
    top = rng.randrange(150, 900)
    match exercise_id.split(".")[1]:
        case "softmax_log":
            height, width = rng.randrange(50, 150), 128 * rng.randrange(2, 7)
            return versions(f"{height} x {width}", rows(height, width))
        case "break_softmax":
            return [
                mutant("zeros behind the end", ('other=-float("inf")', "other=0.0")),
                mutant("nothing below -10000", ('other=-float("inf")', "other=-1e4")),
                mutant(
                    "adds in half",
                    ("tl.sum(tl.exp(x - new), 0)", "tl.sum(tl.exp(x - new).to(tl.float16), 0).to(tl.float32)"),
                ),
                mutant(
                    "no more than 88", ("tl.exp(x - m) / l", "tl.exp(tl.minimum(x, 88.0) - tl.minimum(m, 88.0)) / l")
                ),
                mutant("small results are zero", ("tl.exp(x - m) / l", "tl.where(x - m < -20, 0, tl.exp(x - m) / l)")),
                mutant(
                    "four blocks and no more",
                    ('m, l = -float("inf"), 0.0', 'm, l = -float("inf"), 0.0\n    N = tl.minimum(N, 256)'),
                ),
            ]
        case "chain_bytes":
            ops, cut = drawn_chain(rng), rng.randrange(1, 6)
            given = {"n": N, "ops": ops, "itemsize": rng.choice((1, 2, 8))}
            return [
                Case("a hidden chain", "one by one", lambda g: given | {"fused": [1] * 6}),
                Case("a hidden chain", "all in one", lambda g: given | {"fused": [6]}),
                Case("a hidden chain, cut", "cuts", lambda g: given | {"fused": [cut, 6 - cut]}),
            ]
        case "sin2_plus_cos2":
            return cases_of(ragged=[vectors(M * N)], half=[vectors(N, FP16)])
        case "bias_gelu":
            return cases_of(
                ragged=[also(rows(M, N, scale=2.0), "bias")],
                strided=[also(rows(M, N, window=True), "bias")],
                half=[also(rows(M, N, BF16, scale=3.0), "bias")],
            )
        case "softmax":
            return cases_of(
                ragged=[rows(M, N)],
                strided=[rows(M, N, FP16, window=True)],
                hard=[rows(M, N, scale=15.0, mean=float(top)), rows(M, N, mean=float(-top))],
            )
        case "online_softmax":
            return cases_of(
                ragged=[rows(9, long)],
                hard=[
                    rows(3, long, rising=float(top)),
                    rows(3, long, scale=5.0, masked=masked),
                    rows(M, N, mean=-10.0 * top),
                ],
            )
        case "rmsnorm":
            return cases_of(
                ragged=[normed(rows(M, N), 1e-5)],
                strided=[normed(rows(M, N, window=True))],
                hard=[
                    normed(rows(M, N, FP16, mean=float(top))),
                    Drawing(f"{M} x {N} near 0.001", normed(rows(M, N, scale=1e-3), 1e-6)),
                ],
            )
        case "add_rmsnorm":
            return cases_of(ragged=[added(rows(M, N), 1e-5)], hard=[added(rows(M, N, FP16, mean=float(top)))])
        case "cross_entropy":
            return cases_of(
                ragged=[labelled(7, long)],
                hard=[
                    labelled(5, long, rising=float(top)),
                    labelled(3, long, scale=5.0, masked=masked),
                    labelled(M, N, mean=-10.0 * top),
                ],
            )
    return []  # predicted_launches: they were measured once
