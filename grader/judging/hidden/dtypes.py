"""Hidden cases of unit 02: other formats, sizes and numbers for each student, in the groups of the public cases."""

from __future__ import annotations

import random

import torch

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed
from course_lib.exercises.dtypes import cases as D


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N = rng.randrange(3, 20), rng.randrange(101, 900, 2)
    exponent_bits, mantissa_bits = rng.choice(((3, 4), (6, 9), (4, 11), (6, 5)))
    match exercise_id.split(".")[1]:
        case "decode_float":
            ordinary = range(1, (1 << exponent_bits) - 1)
            one_of_each = D.specials(exponent_bits, mantissa_bits)
            return [
                Case(
                    "normal numbers of another format",
                    "normal",
                    D.drawn_patterns(exponent_bits, mantissa_bits, ordinary, 300),
                ),
                Case(
                    "subnormal numbers of another format",
                    "subnormal",
                    D.drawn_patterns(exponent_bits, mantissa_bits, range(0, 1)),
                ),
                Case(
                    "special values of another format",
                    "special",
                    D.patterns(exponent_bits, mantissa_bits, lambda g: one_of_each),
                ),
            ]
        case "ulp":
            tiny = 2.0 ** -rng.randrange(15, 24)
            power = 2.0 ** rng.randrange(-12, 15)
            return [
                Case("a hidden bfloat16", "plain", D.numbers_of("bfloat16", 2.0**-100, 2.0**100)),
                Case("a hidden float32", "plain", D.numbers_of("float32", 2.0**-100, 2.0**100)),
                fixed("a hidden power of two", "powers", x=power, dtype="float16"),
                Case("a hidden float8_e4m3fn", "powers", D.numbers_of("float8_e4m3fn", 2.0**-5, 2.0**7)),
                fixed("a hidden subnormal", "tiny", x=tiny, dtype="float16"),
            ]
        case "round_to_bf16":
            return [
                Case(f"{7 * N} hidden numbers", "plain", D.bits_of_numbers(7 * N, powers=rng.randrange(3, 20))),
                Case("hidden ties", "ties", D.ties),
                Case("hidden order", "special", D.special_floats),
            ]
        case "half_sum":
            return [
                Case(f"{M} x {5 * N}", "long", D.normal(M, 5 * N, dtype=torch.float16, mean=1.5)),
                Case(f"{M} x {3 * N} below -100", "large", D.normal(M, 5 * N + 600, dtype=torch.float16, mean=-150)),
            ]
        case "stable_logsumexp":
            return [
                Case(f"{M} x {N}", "large", D.logits(M, N, mean=rng.choice((-5000, 300, 20000)))),
                Case(f"{M} x {N}, masked", "masked", D.logits(M, N, masked=True, mean=200)),
                Case(f"{M} x {10 * N}, float16", "float16", D.logits(M, 10 * N, torch.float16, scale=5)),
            ]
        case "relu_intensity":
            dtype = rng.choice(("float16", "bfloat16"))
            return [fixed("a hidden dtype", "plain", dtype=dtype)]
        case "scaled_square":
            return [
                Case(f"{9 * N}", "ragged", D.sizes(9 * N, 0.1, 3, torch.bfloat16, 1.25)),
                Case(f"{7 * N}, large", "large", D.sizes(7 * N, 400, 30000, torch.float16, 2.0**-16)),
                Case(f"{5 * N}, tiny", "tiny", D.sizes(5 * N, 2e-5, 1e-4, torch.float16, 2.0**29)),
            ]
        case "quantize_rows":
            return [
                Case(f"{M} x {N}", "plain", D.normal(M, N, mean=rng.choice((-2.0, 0.0, 5.0)))),
                Case(f"7 x {N}", "sizes", D.rows_of_all_sizes(7, N)),
                Case(f"8 x {N}, a row of zeros", "zeros", D.rows_of_all_sizes(8, N, zeros=1)),
            ]
    return []  # predictions: their programs stand in the notebook
