"""Formats by their formulas: bits to numbers, gaps between numbers, predictions, intensity."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds
from course_lib.exercise import Case, Exercise
from course_lib.exercises.dtypes.cases import drawn_patterns, numbers_of, patterns, specials
from course_lib.exercises.dtypes.mistakes import no_hidden_one, renamed, times, upside_down
from course_lib.exercises.dtypes.oracles import decoded, gap, is_gap, outcomes, traced_intensity, truth

decode_float = Exercise(
    id="dtypes.decode_float",
    entry="decode_float",
    signature="decode_float(patterns: list[int], exponent_bits: int, mantissa_bits: int) -> list[float]",
    kind="formula",
    without=["course_lib.figures.dtypes"],
    minutes=20,
    difficulty=2,
    track="more",
    lines=14,
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
        Holds(decoded, 2, "normal numbers", "normal"),
        Holds(decoded, 1, "subnormal numbers", "subnormal"),
        Holds(decoded, 1, "zeros, infinities, NaN", "special"),
        Holds(decoded, 2, "all 65,536 patterns, twice", "all"),
    ],
    hints=[
        "Cut a pattern into three whole numbers with >> and &: sign, exponent field, mantissa field.",
        "The bias is 2 ** (exponent_bits - 1) - 1. If the exponent field is 0, there is no hidden 1, and the exponent is 1 - bias. If all "
        "its bits are 1, the value is infinity or NaN.",
        "Let fraction = mantissa / 2 ** mantissa_bits. For field 0 take fraction * 2.0 ** (1 - bias). For the highest field take math.inf "
        "if mantissa == 0 else math.nan. Else take (1 + fraction) * 2.0 ** (field - bias). Negate the number if the sign bit is set.",
    ],
    mistakes=[no_hidden_one],
)

ulp = Exercise(
    id="dtypes.ulp",
    entry="ulp",
    signature="ulp(x: float, dtype: str) -> float",
    kind="formula",
    without=["course_lib.figures.dtypes"],
    minutes=10,
    difficulty=2,
    track="more",
    lines=4,
    cases=[
        *(Case(f"1.0 in {d}", "plain", lambda g, d=d: {"x": 1.0, "dtype": d}) for d in ("float16", "bfloat16")),
        Case("a float16", "plain", numbers_of("float16", 2.0**-10, 2.0**14)),
        Case("a bfloat16", "plain", numbers_of("bfloat16", 2.0**-60, 2.0**60)),
        Case("a float32", "plain", numbers_of("float32", 2.0**-60, 2.0**60)),
        Case("-3.0 in bfloat16", "plain", lambda g: {"x": -3.0, "dtype": "bfloat16"}),
        Case("2048 in float16", "powers", lambda g: {"x": 2048.0, "dtype": "float16"}),
        Case("2047 in float16", "powers", lambda g: {"x": 2047.0, "dtype": "float16"}),
        Case("0.5 in float8_e4m3fn", "powers", lambda g: {"x": 0.5, "dtype": "float8_e4m3fn"}),
        Case("a float8_e5m2", "powers", numbers_of("float8_e5m2", 2.0**-10, 2.0**10)),
        Case("0.0 in float16", "tiny", lambda g: {"x": 0.0, "dtype": "float16"}),
        Case("2 ** -20 in float16", "tiny", lambda g: {"x": 2.0**-20, "dtype": "float16"}),
        Case("2 ** -14 in float16", "tiny", lambda g: {"x": 2.0**-14, "dtype": "float16"}),
        Case("2 ** -130 in bfloat16", "tiny", lambda g: {"x": 2.0**-130, "dtype": "bfloat16"}),
    ],
    oracle=gap,
    criteria=[
        Holds(is_gap, 2, "numbers of three dtypes", "plain"),
        Holds(is_gap, 1, "powers of two, and 8 bits", "powers"),
        Holds(is_gap, 1, "zero and subnormal numbers", "tiny"),
    ],
    hints=[
        "Between 1 and 2 the gap is torch.finfo(...).eps. How large is it between 2 and 4, and between 2 ** k and 2 ** (k + 1)?",
        "math.frexp(8.0) is (0.5, 4), because 8 = 0.5 * 2 ** 4. So its exponent is one too large for us.",
        "Subnormal numbers are as far apart as the smallest normal numbers, so use the exponent of max(abs(x), finfo.tiny).",
    ],
    mistakes=[
        times(
            2,
            say("dtypes.ulp.frexp_s_exponent"),
            gap,
        ),
        times(
            0.5,
            say("dtypes.ulp.half_of_it_as_for_rounding"),
            gap,
        ),
    ],
)

predictions = Exercise(
    id="dtypes.predictions",
    entry="predicted",
    signature="predicted: dict[str, float]",
    kind="values",
    minutes=10,
    difficulty=2,
    lines=6,
    cases=[Case("six programs", "plain", lambda g: {})],
    oracle=outcomes,
    criteria=[Correct("plain", 6, "results, as torch computes them")],
    hints=[
        "Ask of each program: how far is the next number of this format, and which are its largest and smallest numbers?",
        "A result that lies less than half a gap from where you began goes back there. A tie goes to the even mantissa.",
        "fp16 begins at 6e-8 and ends at 65,504, and its gap is 1 from 1024 on. In bf16 the gap is 1/128 above 1, and 1 from 128 on.",
    ],
)

relu_intensity = Exercise(
    id="dtypes.relu_intensity",
    entry="relu_intensity",
    signature="relu_intensity(dtype: str) -> float",
    kind="formula",
    minutes=5,
    difficulty=1,
    track="more",
    lines=2,
    cases=[
        *(Case(d, "plain", lambda g, d=d: {"dtype": d}) for d in ("float32", "float16", "bfloat16")),
        *(Case(d, "small", lambda g, d=d: {"dtype": d}) for d in ("float8_e4m3fn", "float8_e5m2")),
    ],
    oracle=traced_intensity,
    criteria=[
        Correct("plain", 2, "equal to the trace, 32 and 16 bits"),
        Correct("small", 1, "equal to the trace, 8 bits"),
    ],
    hints=[
        "How many operations does one element cost? How many times does it cross the memory bus?",
        "One operation (a maximum with 0), one load, one store.",
        "1 / (2 * getattr(torch, dtype).itemsize)",
    ],
    mistakes=[
        times(
            2,
            say("dtypes.relu_intensity.a_comparison_and_a_product"),
            traced_intensity,
        ),
        upside_down,
        renamed,
    ],
)
