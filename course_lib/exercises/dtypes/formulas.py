"""Formats by their formulas: bits to numbers, gaps between numbers, predictions, intensity."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.dtypes.cases import drawn_patterns, numbers_of, patterns, specials
from course_lib.exercises.dtypes.mistakes import no_hidden_one, renamed, times, upside_down
from course_lib.exercises.dtypes.oracles import decoded, gap, is_gap, outcomes, traced_intensity, truth
from course_lib.mistakes import miscounted

decode_float = Exercise(
    id="dtypes.decode_float",
    signature="decode_float(patterns: list[int], exponent_bits: int, mantissa_bits: int) -> list[float]",
    kind="formula",
    without=["course_lib.figures.dtypes"],
    effort=Effort(minutes=20, lines=14, difficulty=2),
    track="more",
    cases=[
        Case("float16, normal numbers", "normal", drawn_patterns(5, 10, range(1, 31))),
        Case("tf32, normal numbers", "normal", drawn_patterns(8, 10, range(1, 255))),
        Case("float16, subnormal numbers", "subnormal", drawn_patterns(5, 10, range(0, 1))),
        Case("4 + 3 bits, subnormal numbers", "subnormal", drawn_patterns(4, 3, range(0, 1), 8)),
        Case("zeros, infinities, NaN", "special", patterns(5, 2, lambda g: specials(5, 2))),
        Case("every float16", "all", patterns(5, 10, lambda g: list(range(1 << 16)))),
        Case("every bfloat16", "all", patterns(8, 7, lambda g: list(range(1 << 16)))),
    ],
    oracle=lambda patterns, exponent_bits, mantissa_bits: [truth(exponent_bits, mantissa_bits)(p) for p in patterns],
    criteria=[
        Holds(decoded, 2, say("dtypes.decode_float.title_normal"), "normal"),
        Holds(decoded, 1, say("dtypes.decode_float.title_subnormal"), "subnormal"),
        Holds(decoded, 1, say("dtypes.decode_float.title_special"), "special"),
        Holds(decoded, 2, say("dtypes.decode_float.title_all"), "all"),
    ],
    mistakes=[no_hidden_one],
)

ulp = Exercise(
    id="dtypes.ulp",
    signature="ulp(x: float, dtype: str) -> float",
    kind="formula",
    without=["course_lib.figures.dtypes"],
    effort=Effort(minutes=10, lines=4, difficulty=2),
    track="more",
    cases=[
        *(fixed(f"1.0 in {d}", "plain", x=1.0, dtype=d) for d in ("float16", "bfloat16")),
        Case("a float16", "plain", numbers_of("float16", 2.0**-10, 2.0**14)),
        Case("a bfloat16", "plain", numbers_of("bfloat16", 2.0**-60, 2.0**60)),
        Case("a float32", "plain", numbers_of("float32", 2.0**-60, 2.0**60)),
        fixed("-3.0 in bfloat16", "plain", x=-3.0, dtype="bfloat16"),
        fixed("2048 in float16", "powers", x=2048.0, dtype="float16"),
        fixed("2047 in float16", "powers", x=2047.0, dtype="float16"),
        fixed("0.5 in float8_e4m3fn", "powers", x=0.5, dtype="float8_e4m3fn"),
        Case("a float8_e5m2", "powers", numbers_of("float8_e5m2", 2.0**-10, 2.0**10)),
        fixed("0.0 in float16", "tiny", x=0.0, dtype="float16"),
        fixed("2 ** -20 in float16", "tiny", x=2.0**-20, dtype="float16"),
        fixed("2 ** -14 in float16", "tiny", x=2.0**-14, dtype="float16"),
        fixed("2 ** -130 in bfloat16", "tiny", x=2.0**-130, dtype="bfloat16"),
    ],
    oracle=gap,
    criteria=[
        Holds(is_gap, 2, say("dtypes.ulp.title_plain"), "plain"),
        Holds(is_gap, 1, say("dtypes.ulp.title_powers"), "powers"),
        Holds(is_gap, 1, say("dtypes.ulp.title_tiny"), "tiny"),
    ],
    mistakes=[
        times(2, say("dtypes.ulp.frexp_s_exponent"), gap),
        times(0.5, say("dtypes.ulp.half_of_it_as_for_rounding"), gap),
    ],
)

predictions = Exercise(
    id="dtypes.predictions",
    signature="predicted: dict[str, float]",
    kind="values",
    effort=Effort(minutes=10, lines=6, difficulty=2),
    cases=[fixed("six programs", "plain")],
    oracle=outcomes,
    criteria=[Correct("plain", 6, say("dtypes.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("tiny_fp16", 1e-5): say("dtypes.predictions.rounded_before_it_grows"),
                ("square_fp16", 90_000): say("dtypes.predictions.beyond_the_largest"),
                ("square_fp16", 65_504): say("dtypes.predictions.does_not_stop"),
                ("weight_bf16", 1.003): say("dtypes.predictions.numbers_of_bf16"),
                ("weight_bf16", 1 + 2**-7): say("dtypes.predictions.nearest_of_two"),
                ("weight_fp16", 1.001): say("dtypes.predictions.a_power_of_two"),
                ("weight_fp16", 1): say("dtypes.predictions.a_gap_of_fp16"),
                ("counter_bf16", 2048): say("dtypes.predictions.three_bits_less"),
                ("counter_bf16", 65_536): say("dtypes.predictions.no_integer"),
                ("counter_bf16", 255): say("dtypes.predictions.no_integer"),
                ("counter_bf16", 128): say("dtypes.predictions.still_a_gap_of_one"),
                ("counter_bf16", 257): say("dtypes.predictions.between_two"),
                ("above_2048_fp16", 1): say("dtypes.predictions.the_gap_below"),
                ("above_2048_fp16", 2**-10): say("dtypes.predictions.the_gap_at_one"),
            }
        )
    ],
)

relu_intensity = Exercise(
    id="dtypes.relu_intensity",
    signature="relu_intensity(dtype: str) -> float",
    kind="formula",
    effort=Effort(minutes=5, lines=2, difficulty=1),
    track="more",
    cases=[
        *(fixed(d, "plain", dtype=d) for d in ("float32", "float16", "bfloat16")),
        *(fixed(d, "small", dtype=d) for d in ("float8_e4m3fn", "float8_e5m2")),
    ],
    oracle=traced_intensity,
    criteria=correct("dtypes.relu_intensity", {"plain": 2, "small": 1}),
    mistakes=[
        times(2, say("dtypes.relu_intensity.a_comparison_and_a_product"), traced_intensity),
        upside_down,
        renamed,
    ],
)
