"""Unit 02. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import Variant, kinds

wrong, honest = kinds("dtypes")


def body(entry: str, name: str, loses: list[str], source: str) -> Variant:
    """Make a wrong answer from its whole source."""
    return wrong(entry, name, loses, source=source)


NORMAL, SUBNORMAL, SPECIAL, ALL = (
    "holds.decoded.normal",
    "holds.decoded.subnormal",
    "holds.decoded.special",
    "holds.decoded.all",
)
ULP = ("holds.is_gap.plain", "holds.is_gap.powers", "holds.is_gap.tiny")
ROUND = ("holds.bit_exact.plain", "holds.bit_exact.ties", "holds.bit_exact.special")
SUM = ("correct.long", "correct.large", "buffers_below.performance")
LSE = ("correct.large", "correct.masked", "correct.float16")
RELU = ("correct.plain", "correct.small")
SQUARE = ("correct.ragged", "correct.large", "correct.tiny", "traffic.performance")
STEP = (
    "holds.within_half_a_step.plain",
    "holds.within_half_a_step.sizes",
    "holds.least_step.sizes",
    "holds.zeros_stay.zeros",
)
GATE, RAN = "correct.plain", "ran"

WRONG = [
    # -------------------- decode_float
    wrong("decode_float", "forgets the hidden 1", [NORMAL, SPECIAL, ALL], ("(1 + fraction)", "fraction")),
    wrong(
        "decode_float",
        "a bias one too large",
        [NORMAL, SUBNORMAL, SPECIAL, ALL],
        ("(exponent_bits - 1) - 1", "(exponent_bits - 1)"),
    ),
    wrong(
        "decode_float",
        "subnormals with a hidden 1",
        [SUBNORMAL, SPECIAL, ALL],
        ("        elif field == 0:\n            number = fraction * 2.0 ** (1 - bias)\n", ""),
    ),
    wrong(
        "decode_float",
        "subnormals one exponent too low",
        [SUBNORMAL, ALL],
        ("2.0 ** (1 - bias)", "2.0 ** (0 - bias)"),
    ),
    wrong(
        "decode_float",
        "no infinities",
        [SPECIAL, ALL],
        (
            "        if field == highest:\n            number = math.nan if fraction else math.inf\n        elif",
            "        if",
        ),
    ),
    wrong(
        "decode_float",
        "NaN is infinite, too",
        [SPECIAL, ALL],
        ("math.nan if fraction else math.inf", "math.inf"),
    ),
    wrong("decode_float", "no sign", [NORMAL, SUBNORMAL, SPECIAL, ALL], ("-number if sign else number", "number")),
    wrong(
        "decode_float",
        "zero has no sign",
        [SPECIAL, ALL],
        ("-number if sign else number", "-number if sign and number else number"),
    ),
    wrong(
        "decode_float",
        "float16 alone",
        [NORMAL, SUBNORMAL, SPECIAL, ALL],
        ("bias, highest = 2 ** (exponent_bits - 1) - 1, 2**exponent_bits - 1", "bias, highest = 15, 31"),
    ),
    wrong(
        "decode_float",
        "the first number alone",
        [NORMAL, SUBNORMAL, SPECIAL, ALL],
        ("return numbers", "return numbers[:1]"),
    ),
    # -------------------- ulp
    wrong("ulp", "the gap above 1 for all", list(ULP), ("info.eps * 2.0 ** (exponent - 1)", "info.eps")),
    wrong("ulp", "eps times x", list(ULP), ("info.eps * 2.0 ** (exponent - 1)", "info.eps * abs(x)")),
    wrong("ulp", "frexp's exponent", list(ULP), ("(exponent - 1)", "exponent")),
    wrong("ulp", "no subnormals", [ULP[2]], ("max(abs(x), info.tiny)", "abs(x)")),
    wrong(
        "ulp",
        "the smallest subnormal as the floor",
        [ULP[2]],
        ("max(abs(x), info.tiny)", "max(abs(x), info.tiny * info.eps)"),
    ),
    wrong("ulp", "float16 for all", [ULP[0], ULP[1], ULP[2]], ("getattr(torch, dtype)", "torch.float16")),
    body(
        "ulp",
        "half of it, as for rounding",
        list(ULP),
        "def ulp(x, dtype):\n    info = torch.finfo(getattr(torch, dtype))\n    return info.eps / 2 * 2.0 ** (math.frexp(max(abs(x), info.tiny))[1] - 1)\n",
    ),
    # -------------------- round_to_bf16
    wrong("round_to_bf16", "cuts off", list(ROUND), ("(x + 0x7FFF + last)", "x")),
    wrong("round_to_bf16", "ties up", [ROUND[1], ROUND[2]], ("0x7FFF + last", "0x8000")),
    wrong("round_to_bf16", "ties towards zero", [ROUND[1], ROUND[2]], ("0x7FFF + last", "0x7FFF")),
    wrong(
        "round_to_bf16",
        "ties to odd",
        [ROUND[1], ROUND[2]],
        ("0x7FFF + last", "0x8000 - last"),
    ),
    wrong("round_to_bf16", "NaN runs over", [ROUND[2]], ("torch.where(nan, 0x7FC00000, up)", "up")),
    wrong("round_to_bf16", "infinity is NaN", [ROUND[2]], ("> 0x7F800000", ">= 0x7F800000")),
    wrong("round_to_bf16", "negative NaN forgotten", [ROUND[2]], ("(x & 0x7FFFFFFF) >", "x >")),
    wrong(
        "round_to_bf16",
        "NaN keeps its lower bits",
        [ROUND[2]],
        ("torch.where(nan, 0x7FC00000, up)", "torch.where(nan, x, up)"),
    ),
    wrong("round_to_bf16", "leaves the lower bits", list(ROUND), (" & -0x10000", "")),
    wrong(
        "round_to_bf16",
        "the upper half, shifted down",
        list(ROUND),
        ("return torch.where(nan, 0x7FC00000, up)", "return torch.where(nan, 0x7FC0, up >> 16)"),
    ),
    wrong(
        "round_to_bf16",
        "a cast",
        [RAN],
        ("torch.where(nan, 0x7FC00000, up)", "x.view(torch.float32).bfloat16().float().view(torch.int32)"),
    ),
    wrong(
        "round_to_bf16",
        "returns floats",
        list(ROUND),
        ("torch.where(nan, 0x7FC00000, up)", "torch.where(nan, 0x7FC00000, up).view(torch.float32)"),
    ),
    wrong(
        "round_to_bf16",
        "rounds to 15 bits",
        list(ROUND),
        ("x >> 16 & 1", "x >> 15 & 1"),
        ("0x7FFF +", "0x3FFF +"),
        ("-0x10000", "-0x8000"),
    ),
    # -------------------- predictions
    *(
        wrong("predictions", name, ["correct.plain"], patch)
        for name, patch in (
            ("1e-8 survives", ('"tiny_fp16": 0,', '"tiny_fp16": 1e-5,')),
            ("fp16 has no end", ('"square_fp16": math.inf', '"square_fp16": 90000')),
            ("stops at the largest", ('"square_fp16": math.inf', '"square_fp16": 65504')),
            ("rounds up", ('"weight_bf16": 1.0', '"weight_bf16": 1.0078125')),
            ("fp16 as coarse as bf16", ('"weight_fp16": 1 + 2**-10', '"weight_fp16": 1')),
            ("a byte's limit", ('"counter_bf16": 256', '"counter_bf16": 255')),
            ("the gap below", ('"above_2048_fp16": 2,', '"above_2048_fp16": 1,')),
            ("a text", ('"counter_bf16": 256', '"counter_bf16": "256"')),
            ("bf16 has 1.003", ('"weight_bf16": 1.0', '"weight_bf16": 1.003')),
            ("a thousandth", ('"weight_fp16": 1 + 2**-10', '"weight_fp16": 1.001')),
            ("fp16's counter", ('"counter_bf16": 256', '"counter_bf16": 2048')),
            ("stops at 128", ('"counter_bf16": 256', '"counter_bf16": 128')),
            ("one more", ('"counter_bf16": 256', '"counter_bf16": 257')),
            ("the gap at 1", ('"above_2048_fp16": 2,', '"above_2048_fp16": 2**-10,')),
        )
    ),
    # -------------------- half_sum
    wrong("half_sum", "adds in float16", [GATE], ("x.sum(1, dtype=torch.float32)", "x.cumsum(1)[:, -1].float()")),
    wrong("half_sum", "rounds the sum to float16", [GATE], ("x.sum(1, dtype=torch.float32)", "x.sum(1).float()")),
    wrong(
        "half_sum",
        "adds in bfloat16",
        [GATE],
        ("x.sum(1, dtype=torch.float32)", "x.sum(1, dtype=torch.bfloat16).float()"),
    ),
    wrong("half_sum", "a float32 copy", [SUM[2]], ("x.sum(1, dtype=torch.float32)", "x.float().sum(1)")),
    wrong("half_sum", "returns float16", [GATE], ("x.sum(1, dtype=torch.float32)", "x.sum(1)")),
    wrong("half_sum", "the columns", [GATE], ("x.sum(1, dtype=torch.float32)", "x.sum(0, dtype=torch.float32)")),
    wrong(
        "half_sum",
        "halves of halves in float16",
        [SUM[0], SUM[1]],
        (
            "return x.sum(1, dtype=torch.float32)",
            "if x.shape[1] < 1000:\n        return x.sum(1, dtype=torch.float32)\n    n = x.shape[1] // 64 * 64\n    parts = x[:, :n].reshape(x.shape[0], -1, 64).sum(2)\n    return parts.sum(1, dtype=torch.float32) + x[:, n:].sum(1, dtype=torch.float32)",
        ),
    ),
    wrong("half_sum", "the mean times N", [GATE], ("x.sum(1, dtype=torch.float32)", "x.mean(1).float() * x.shape[1]")),
    # -------------------- stable_logsumexp
    wrong("stable_logsumexp", "no maximum", [LSE[0], LSE[1]], ("m = x.amax(1)", "m = x.amax(1) * 0")),
    wrong(
        "stable_logsumexp",
        "a masked row is NaN",
        [LSE[1]],
        ("    m = torch.where(m == -math.inf, 0, m)  # -inf - -inf would be NaN\n", ""),
    ),
    wrong(
        "stable_logsumexp",
        "casts after the sum",
        [GATE],
        ("    x = x.float()\n", ""),
        ("sum(1).log()", "sum(1).log().half().float()"),
    ),
    wrong(
        "stable_logsumexp",
        "adds in float16",
        [LSE[2]],
        ("    x = x.float()\n", ""),
        (
            "return m + (x - m[:, None]).exp().sum(1).log()",
            "return m.float() + (x - m[:, None]).exp().sum(1).float().log()",
        ),
    ),
    wrong(
        "stable_logsumexp",
        "one maximum for all rows",
        [LSE[0]],
        ("m = x.amax(1)", "m = x.amax().expand(x.shape[0])"),
    ),
    wrong("stable_logsumexp", "forgets to add the maximum", [GATE], ("return m + ", "return ")),
    wrong("stable_logsumexp", "clamps", [LSE[0], LSE[1]], ("m = x.amax(1)", "x = x.clamp(max=80)\n    m = x.amax(1)")),
    wrong(
        "stable_logsumexp",
        "torch does it",
        [GATE],
        ("return m + (x - m[:, None]).exp().sum(1).log()", "return torch.log_softmax(x, 1)[:, 0] * -1 + x[:, 0]"),
    ),
    wrong(
        "stable_logsumexp",
        "a masked row is 0",
        [LSE[1]],
        (
            "return m + (x - m[:, None]).exp().sum(1).log()",
            "r = m + (x - m[:, None]).exp().sum(1).log()\n    return torch.where(r == -math.inf, 0, r)",
        ),
    ),
    # -------------------- relu_intensity
    wrong("relu_intensity", "the load alone", list(RELU), ("1 / (2 * itemsize)", "1 / itemsize")),
    wrong("relu_intensity", "bytes per operation", list(RELU), ("1 / (2 * itemsize)", "2 * itemsize")),
    wrong("relu_intensity", "float32 for all", list(RELU), ("getattr(torch, dtype).itemsize", "4")),
    wrong("relu_intensity", "a comparison and a product", list(RELU), ("1 / (2 * itemsize)", "2 / (2 * itemsize)")),
    wrong("relu_intensity", "bits, not bytes", list(RELU), ("1 / (2 * itemsize)", "1 / (16 * itemsize)")),
    wrong(
        "relu_intensity", "no 8 bits", [RELU[1]], ("getattr(torch, dtype).itemsize", "4 if dtype == 'float32' else 2")
    ),
    # -------------------- scaled_square
    wrong("scaled_square", "squares in float16", [SQUARE[1], SQUARE[2]], (".to(tl.float32)", "")),
    wrong(
        "scaled_square",
        "casts after the square",
        [SQUARE[1], SQUARE[2]],
        (".to(tl.float32)", ""),
        ("x * x * scale", "(x * x).to(tl.float32) * scale"),
    ),
    wrong(
        "scaled_square",
        "computes in bfloat16",
        [GATE],
        ("tl.float32", "tl.bfloat16"),
        ("x * x * scale", "x * x * scale.to(tl.bfloat16)"),
    ),
    wrong(
        "scaled_square",
        "loads without a mask",
        [SQUARE[0], SQUARE[1], SQUARE[2]],
        ("tl.load(x_ptr + i, mask=i < n)", "tl.load(x_ptr + i)"),
    ),
    wrong("scaled_square", "whole blocks alone", list(SQUARE[:3]), ("triton.cdiv(n, BLOCK)", "n // BLOCK")),
    wrong(
        "scaled_square",
        "a float32 copy by torch",
        ["triton_did_the_work"],
        ("    out = torch.empty_like(x)\n", "    x = x.float()\n    out = torch.empty_like(x)\n"),
    ),
    wrong(
        "scaled_square",
        "loads twice",
        [SQUARE[3]],
        ("out_ptr + i, x * x * scale", "out_ptr + i, x * tl.load(x_ptr + i, mask=i < n).to(tl.float32) * scale"),
    ),
    wrong(
        "scaled_square",
        "returns float32",
        [SQUARE[0], SQUARE[1], SQUARE[2], SQUARE[3]],
        ("torch.empty_like(x)", "torch.empty(n, dtype=torch.float32, device=x.device)"),
    ),
    wrong("scaled_square", "no scale", [GATE], ("x * x * scale", "x * x")),
    # -------------------- quantize_rows
    wrong("quantize_rows", "cuts off", [*STEP[:2], STEP[3]], (".round()", "")),
    wrong(
        "quantize_rows",
        "one scale for the matrix",
        [STEP[2]],
        ("x.abs().amax(1) / 127", "(x.abs().amax() / 127).expand(x.shape[0]).clone()"),
    ),
    wrong(
        "quantize_rows",
        "a row of zeros is NaN",
        [STEP[3]],
        ("    scale = torch.where(scale == 0, 1, scale)  # 0 / 0 would be NaN\n", ""),
        ("scale[:, None]).round()", "scale[:, None]).round().nan_to_num(1.0)"),
    ),
    wrong(
        "quantize_rows",
        "the maximum without abs",
        list(STEP),
        ("x.abs().amax(1)", "x.amax(1)"),
    ),
    wrong("quantize_rows", "128 steps", list(STEP), ("amax(1) / 127", "amax(1) / 128")),
    wrong("quantize_rows", "a step too large", [STEP[2]], ("amax(1) / 127", "amax(1) / 100")),
    wrong(
        "quantize_rows",
        "returns the inverse of the scale",
        list(STEP),
        ("to(torch.int8), scale", "to(torch.int8), 1 / scale"),
    ),
    wrong(
        "quantize_rows",
        "a norm of torch's",
        [RAN],
        ("x.abs().amax(1)", "torch.linalg.vector_norm(x, torch.inf, dim=1)"),
    ),
    wrong("quantize_rows", "writes into x", [RAN], ("x.abs()", "x.abs_()")),
    wrong("quantize_rows", "q alone", list(STEP), ("to(torch.int8), scale", "to(torch.int8)")),
]

HONEST = [
    honest(
        "decode_float",
        "strings and ldexp",
        source="""def decode_float(patterns, exponent_bits, mantissa_bits):
    def one(p):
        text = format(p, f"0{1 + exponent_bits + mantissa_bits}b")
        sign, e, m = text[0], int(text[1 : 1 + exponent_bits], 2), int(text[1 + exponent_bits :], 2)
        if e == 2**exponent_bits - 1:
            value = math.nan if m else math.inf
        else:
            value = math.ldexp(m + (2**mantissa_bits if e else 0), max(e, 1) - 2 ** (exponent_bits - 1) + 1 - mantissa_bits)
        return math.copysign(value, -1 if sign == "1" else 1)
    return [one(p) for p in patterns]
""",
    ),
    honest(
        "ulp",
        "asks the neighbour",
        source="""def ulp(x, dtype):
    t = torch.tensor([abs(x)]).to(getattr(torch, dtype))
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[t.element_size()]
    return ((t.view(kind) + 1).view(t.dtype).double() - t.double()).item()
""",
    ),
    honest(
        "round_to_bf16",
        "takes the lower half apart",
        source="""def round_to_bf16(x):
    low, high = x & 0xFFFF, x - (x & 0xFFFF)
    odd = (high >> 16) & 1 == 1
    up = (low > 0x8000) | ((low == 0x8000) & odd)
    rounded = torch.where(up, high + 0x10000, high)
    f = x.view(torch.float32)
    return torch.where(f != f, torch.full_like(x, 0x7FC00000), rounded)
""",
    ),
    honest(
        "half_sum",
        "a cumulative sum of a slice in float32",
        ("x.sum(1, dtype=torch.float32)", "x.sum(dim=-1, dtype=torch.float32)"),
    ),
    honest(
        "half_sum",
        "in parts, each added in float32",
        (
            "return x.sum(1, dtype=torch.float32)",
            "h = x.shape[1] // 2\n    return x[:, :h].sum(1, dtype=torch.float32) + x[:, h:].sum(1, dtype=torch.float32)",
        ),
    ),
    honest(
        "stable_logsumexp",
        "in base 2",
        (
            "return m + (x - m[:, None]).exp().sum(1).log()",
            "return m + ((x - m[:, None]) * 1.4426950408889634).exp2().sum(1).log2() * 0.6931471805599453",
        ),
    ),
    honest("stable_logsumexp", "clamps the maximum", ("torch.where(m == -math.inf, 0, m)", "m.clamp(min=-1e30)")),
    honest("stable_logsumexp", "max and values", ("x.amax(1)", "x.max(1).values")),
    honest(
        "relu_intensity",
        "a tensor's element_size",
        ("getattr(torch, dtype).itemsize", "torch.empty(1, dtype=getattr(torch, dtype)).element_size()"),
    ),
    honest("scaled_square", "small blocks", ("4096", "256")),
    honest(
        "scaled_square", "the square of sqrt(scale) * x", ("x * x * scale", "tl.sqrt(scale) * x * (tl.sqrt(scale) * x)")
    ),
    honest("scaled_square", "scale first", (".to(tl.float32)", ""), ("x * x * scale", "scale * x * x")),
    honest("scaled_square", "an explicit cast", ("x * x * scale,", "(x * x * scale).to(out_ptr.dtype.element_ty),")),
    honest(
        "quantize_rows",
        "keeps dimensions, clamps",
        ("(x / scale[:, None]).round()", "(x / scale.unsqueeze(1)).round().clamp(-127, 127)"),
    ),
    honest(
        "quantize_rows",
        "multiplies by the inverse",
        ("(x / scale[:, None]).round()", "(x * (1 / scale)[:, None]).round()"),
    ),
    honest("quantize_rows", "a floor under the scale", ("torch.where(scale == 0, 1, scale)", "scale.clamp(min=1e-12)")),
]

VARIANTS = WRONG + HONEST
