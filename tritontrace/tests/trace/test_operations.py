"""Each operation of TTIR against torch, Python's integers and fractions, and hand-made cases."""

import math
import operator
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import refusing

from tritontrace.tracing import operations
from tritontrace.tracing.operations import REDUCTIONS, SCANS, constant, from_memory, poison, rounded, to_memory
from tritontrace.ttir import ir, numerics
from tritontrace.ttir.elements import FLOATS, dtype_of, itemsize
from tritontrace.ttir.numerics import is_poison

TORCH = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "f8E5M2": torch.float8_e5m2,
    "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2FNUZ": torch.float8_e5m2fnuz, "f8E4M3FNUZ": torch.float8_e4m3fnuz,
}  # fmt: skip
FP8 = sorted(name for name in TORCH if name[:2] == "f8")
COMPUTED = ["f16", "bf16", "f32", "f64"]  # of which there is arithmetic
LARGEST = {name: torch.finfo(dtype).max for name, dtype in TORCH.items() if name != "f64"}
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def as_the_evaluator_calls():
    """Floats make no noise, since the caller says so; nothing else warns."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        yield


def found(name, elements, result, dims=1, **attributes):
    kinds = [ir.Type(element, (8,) * dims) for element in elements]
    results = (("%r", ir.Type(result, (8,) * dims)),)
    operation = ir.Operation(name, tuple(f"%{i}" for i in range(len(kinds))), results, attributes, ir.Place())
    return operations.lanewise(operation, kinds)


def compute(name, elements, result, *operands, **attributes):
    """The result, which must be held as its type is; operands stay as they are."""
    before = [operand.copy() for operand in operands]
    value = found(name, elements, result, **attributes).function(*operands)
    assert value.dtype == dtype_of(result)
    assert value.shape == np.broadcast_shapes(*[operand.shape for operand in operands])
    for operand, copy in zip(operands, before, strict=True):
        np.testing.assert_array_equal(operand, copy)
    return value


def held(tensor):
    """A tensor's values as the evaluator holds them."""
    return tensor.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32).numpy()


def sample(element, count=4096, seed=0):
    """Numbers of all sizes: random bits, subnormals, infinities and NaN among them, and many near 1."""
    bits = np.random.default_rng(seed).integers(0, 256, (count // 2, itemsize(element)), np.uint8)
    near = torch.randn(count // 2, generator=torch.Generator().manual_seed(seed)).to(TORCH[element])
    values = np.concatenate([from_memory(bits.view(f"i{bits.shape[1]}")[:, 0], element), held(near)])
    values[np.isnan(values)] = NAN  # those that signal, numpy's fmax takes for numbers or not, as it likes
    values[:4] = [0.0, -0.0, INF, NAN]
    return values[None]


def as_torch(values, element):
    return torch.from_numpy(values).to(TORCH[element])


# ----------------------------------------------------------------------------------------------------- integers


def corners(element):
    bits = WIDTHS[element]
    numbers = {0, 1, 2, 3, 7, bits - 1, bits, bits + 1, 100, *(sign * 2**k + d for sign in (1, -1) for k in (bits // 2, bits - 1, bits)
               for d in (-1, 0, 1))}  # fmt: skip
    return sorted({number % 2**bits for number in numbers})


def array_of(numbers, element):
    """Integers, taken modulo 2^bits."""
    return constant(tuple(numbers), ir.Type(element, (len(numbers),)))


def signed(number, bits):
    return number - (number >> bits - 1 << bits)


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# By operation: unsigned a and b, the same numbers signed, and their bits.
EXPECTED = {
    "arith.addi": lambda a, b, x, y, bits: a + b,
    "arith.subi": lambda a, b, x, y, bits: a - b,
    "arith.muli": lambda a, b, x, y, bits: a * b,
    "arith.divui": lambda a, b, x, y, bits: a // b if b else -1,
    "arith.divsi": lambda a, b, x, y, bits: quotient(x, y) if y else -1,
    "arith.remui": lambda a, b, x, y, bits: a % b if b else a,
    "arith.remsi": lambda a, b, x, y, bits: x - y * quotient(x, y) if y else x,
    "arith.andi": lambda a, b, x, y, bits: a & b,
    "arith.ori": lambda a, b, x, y, bits: a | b,
    "arith.xori": lambda a, b, x, y, bits: a ^ b,
    "arith.shli": lambda a, b, x, y, bits: a << b if b < bits else 0,
    "arith.shrui": lambda a, b, x, y, bits: a >> b,
    "arith.shrsi": lambda a, b, x, y, bits: x >> b,
    "arith.maxsi": lambda a, b, x, y, bits: max(x, y),
    "arith.minsi": lambda a, b, x, y, bits: min(x, y),
    "arith.maxui": lambda a, b, x, y, bits: max(a, b),
    "arith.minui": lambda a, b, x, y, bits: min(a, b),
    "tt.mulhiui": lambda a, b, x, y, bits: a * b >> bits,
}
PREDICATES = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def check_integers(name, element, a, b):
    bits = WIDTHS[element]
    expected = [
        EXPECTED[name](m, n, signed(m, bits), signed(n, bits), bits) % 2**bits for m, n in zip(a, b, strict=True)
    ]
    with np.errstate(all="raise"):  # not even for a division by zero
        result = compute(name, [element] * 2, element, array_of(a, element), array_of(b, element))
    assert [int(number) % 2**bits for number in result[0]] == expected


@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("name", EXPECTED)
def test_integers_wrap_around_and_never_fail(name, element):
    pairs = [(a, b) for a in corners(element) for b in corners(element)]
    check_integers(name, element, *zip(*pairs, strict=True))
    for b in corners(element):  # one divisor for all, positive dividends alone: the fast ways
        check_integers(name, element, range(2 ** min(WIDTHS[element] - 1, 4)), [b] * 2 ** min(WIDTHS[element] - 1, 4))


@settings(deadline=None)
@given(
    st.sampled_from(sorted(EXPECTED)),
    st.sampled_from(sorted(WIDTHS)),
    st.lists(st.tuples(*[st.integers(0, 2**64)] * 2), min_size=1),
)
def test_integers_are_pythons_modulo_a_power_of_two(name, element, pairs):
    a, b = zip(*[(m % 2 ** WIDTHS[element], n % 2 ** WIDTHS[element]) for m, n in pairs], strict=True)
    check_integers(name, element, a, b)


@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize(
    "predicate", ["eq", "ne", *(sign + name for sign in "su" for name in ("lt", "le", "gt", "ge"))]
)
def test_integers_compare_signed_and_unsigned(predicate, element):
    pairs = [(a, b) for a in corners(element) for b in corners(element)]
    a, b = zip(*pairs, strict=True)
    result = compute("arith.cmpi", [element] * 2, "i1", array_of(a, element), array_of(b, element), predicate=predicate)
    if predicate[0] == "s":
        pairs = [tuple(signed(number, WIDTHS[element]) for number in pair) for pair in pairs]
    assert result[0].tolist() == [PREDICATES[predicate[-2:]](*pair) for pair in pairs]


@pytest.mark.parametrize("element", WIDTHS)
def test_absolute_values(element):
    numbers, bits = corners(element), WIDTHS[element]
    result = compute("math.absi", [element], element, array_of(numbers, element))
    assert [int(n) % 2**bits for n in result[0]] == [abs(signed(n, bits)) % 2**bits for n in numbers]


@pytest.mark.parametrize("target", WIDTHS)
@pytest.mark.parametrize("source", WIDTHS)
def test_widths(source, target):
    numbers, narrow, wide = corners(source), WIDTHS[source], WIDTHS[target]
    x = array_of(numbers, source)

    def values(name):
        return [int(number) % 2**wide for number in compute(name, [source], target, x)[0]]

    if wide > narrow:
        assert values("arith.extui") == numbers
        assert values("arith.extsi") == [signed(number, narrow) % 2**wide for number in numbers]
    elif wide < narrow:
        assert values("arith.trunci") == [number % 2**wide for number in numbers]
    else:
        assert values("arith.bitcast") == values("tt.bitcast") == numbers


def test_index_and_pointers():
    x = array_of([5, -5], "i32")
    assert compute("arith.index_cast", ["i32"], "index", x).tolist() == [[5, -5]]
    assert compute("arith.index_cast", ["index"], "i32", array_of([2**32 + 5], "i64")).tolist() == [[5]]
    pointer = array_of([2**63 + 16], "i64")
    assert compute("tt.int_to_ptr", ["i64"], "ptr", pointer) is pointer
    assert compute("tt.ptr_to_int", ["ptr"], "i64", pointer) is pointer
    assert compute("tt.bitcast", ["ptr"], "ptr", pointer) is pointer


# ----------------------------------------------------------------------------------------------------- floats

BINARY = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul, "arith.divf": torch.div, "tt.precise_divf": torch.div,
    "arith.remf": torch.fmod, "arith.maximumf": torch.maximum, "arith.minimumf": torch.minimum, "arith.maxnumf": torch.fmax,
    "arith.minnumf": torch.fmin,
}  # fmt: skip


@pytest.mark.parametrize("element", COMPUTED)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_rounds_as_torch_does(name, element):
    a, b = sample(element, seed=1), sample(element, seed=2)[:, ::-1].copy()
    result = compute(name, [element] * 2, element, a, b)
    expected = BINARY[name](as_torch(a, element).double(), as_torch(b, element).double()).to(TORCH[element])
    np.testing.assert_array_equal(result, held(expected))


UNARY = {
    "math.exp": torch.exp, "math.exp2": torch.exp2, "math.log": torch.log, "math.log2": torch.log2, "math.sin": torch.sin,
    "math.cos": torch.cos, "math.sqrt": torch.sqrt, "tt.precise_sqrt": torch.sqrt, "math.rsqrt": torch.rsqrt, "math.erf": torch.erf,
    "math.tanh": torch.tanh,
}  # fmt: skip
EXACT = {"math.absf": torch.abs, "math.floor": torch.floor, "math.ceil": torch.ceil, "arith.negf": torch.neg}


@pytest.mark.parametrize("element", COMPUTED)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name, element):
    x = sample(element)
    x = np.where(np.abs(x) < 1000, x, 1)  # far from 0, libraries differ in sine and cosine
    x[0, :4] = [0.0, -0.0, INF, NAN]
    result = compute(name, [element], element, x)
    expected = held(UNARY[name](as_torch(x, element).double()).to(TORCH[element]))
    tolerance = {"f16": 2**-11, "bf16": 2**-8, "f32": 2e-6, "f64": 1e-14}[element]
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol={"f16": 1e-7}.get(element, 2e-7))


@pytest.mark.parametrize("element", COMPUTED)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name, element):
    x = sample(element)
    np.testing.assert_array_equal(compute(name, [element], element, x), held(EXACT[name](as_torch(x, element))))


@pytest.mark.parametrize(
    "predicate",
    ["true", "false", "ord", "uno", *(o + name for o in "ou" for name in ("eq", "ne", "gt", "ge", "lt", "le"))],
)
def test_floats_compare_ordered_and_unordered(predicate):
    pairs = [(a, b) for a in (NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF) for b in (NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF)]
    a, b = np.float32(pairs).T[:, None]
    result = compute("arith.cmpf", ["f32"] * 2, "i1", a, b, predicate=predicate)
    unordered = [math.isnan(x) or math.isnan(y) for x, y in pairs]
    if predicate in ("true", "false"):
        expected = [predicate == "true"] * len(pairs)
    elif predicate in ("ord", "uno"):
        expected = [nan == (predicate == "uno") for nan in unordered]
    else:
        compared = [PREDICATES[predicate[1:]](x, y) for x, y in pairs]
        expected = [predicate[0] == "u" if nan else truth for nan, truth in zip(unordered, compared, strict=True)]
    assert result[0].tolist() == expected


def is_nearest(exact, result, element):
    """No neighbour of the result is nearer to the exact number, or as near with an even last bit."""
    result = np.abs(np.array([result], dtype_of(element)))
    bits = to_memory(result, element)
    distances = [
        abs(abs(exact) - Fraction(n.item()))
        for n in (from_memory(bits + d, element) for d in (-1, 0, 1))
        if np.isfinite(n)
    ]
    away = abs(abs(exact) - Fraction(result.item()))
    return away == min(distances) and (distances.count(away) == 1 or bits.item() % 2 == 0)


# Numbers with many ties between them: few bits here, and something tiny added there.
LEAF = st.builds(lambda m, e: math.ldexp(m, e), st.integers(-4096, 4096), st.integers(-30, 2))


@settings(deadline=None)
@given(LEAF, LEAF, LEAF, st.sampled_from(["f16", "bf16", "f32"]))
def test_fma_rounds_once(x, y, z, element):
    x, y, z = (rounded(np.array([[v]], np.float64), element) for v in (x, y, z))
    exact = Fraction(float(x.item())) * Fraction(float(y.item())) + Fraction(float(z.item()))
    result = compute("math.fma", [element] * 3, element, x, y, z).item()
    assert abs(exact) > 65000 or result == exact or is_nearest(exact, result, element)


def test_fma_of_a_tie_and_next_to_nothing():
    x, y = np.float32([[1 + 2**-12, 1 + 2**-12, 2**-126]]), np.float32([[1 + 2**-12, 2**12, 2.0**126]])
    z = np.float32([[-1, 2.0**-60, 2.0**-60]])
    expected = np.float32([[2**-11 + 2**-24, 4097, 1]])
    np.testing.assert_array_equal(compute("math.fma", ["f32"] * 3, "f32", x, y, z), expected)
    tie = [np.float32([[v, v]]) for v in (1 + 2**-8, 1)]  # a bf16 has 8 bits, so the sum below lies in the middle
    result = numerics.wide_fma(*tie, np.float32([[2.0**-80, -(2.0**-80)]]))
    np.testing.assert_array_equal(rounded(result, "bf16"), [[1 + 2**-7, 1]])
    assert compute("math.fma", ["f32"] * 3, "f32", *np.float32([[[3e38]], [[3e38]], [[1]]])).item() == INF


def test_clamp():
    x, low, high = np.float32([[-1, 0.5, 7, NAN, INF]]), np.float32([[0]]), np.float32([[1]])
    assert compute("tt.clampf", ["f32"] * 3, "f32", x, low, high, propagateNan="none").tolist() == [[0, 0.5, 1, 0, 1]]
    result = compute("tt.clampf", ["f32"] * 3, "f32", x, low, high, propagateNan="all")
    np.testing.assert_array_equal(result, [[0, 0.5, 1, NAN, 1]])


def test_select():
    c, a, b = np.array([[True, False, True]]), np.float32([[1, 2, NAN]]), np.float32([[4], [5]])
    np.testing.assert_array_equal(
        compute("arith.select", ["i1", "f32", "f32"], "f32", c, a, b), [[1, 4, NAN], [1, 5, NAN]]
    )
    kinds = [ir.Type("i1"), ir.Type("ptr", (2, 3)), ir.Type("ptr", (2, 3))]
    whole = ir.Operation("arith.select", ("%c", "%a", "%b"), (("%r", kinds[1]),), {}, ir.Place())
    blocks = np.arange(12).reshape(2, 2, 3)  # of two programs, each with one truth
    result = operations.lanewise(whole, kinds).function(np.array([True, False]), blocks, -blocks[:1])
    assert result.tolist() == [[[0, 1, 2], [3, 4, 5]], [[0, -1, -2], [-3, -4, -5]]]


# ----------------------------------------------------------------------------------------------------- conversions


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(sorted(LARGEST)))
def test_rounding_from_float64_happens_once(value, element):
    value = max(-LARGEST[element], min(value, LARGEST[element]))
    result = compute("arith.truncf", ["f64"], element, np.array([[value]])).item()
    assert math.copysign(1, result) == math.copysign(1, value) or result == 0
    assert is_nearest(Fraction(value), result, element)


@pytest.mark.parametrize("element", sorted({*TORCH} - {"f64"}))
def test_middles_go_to_even_also_from_just_beside_in_float64(element):
    codes = np.arange(2 ** min(8 * itemsize(element), 16)).astype(f"i{itemsize(element)}")
    numbers = np.unique(from_memory(codes, element)).astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    even = to_memory(numbers.astype(np.float32), element) % 2 == 0
    if element == "f32":
        numbers, even = np.float64([1, 1 + 2**-23]), np.array([True, False])
    low, high, middles = numbers[:-1], numbers[1:], (numbers[1:] + numbers[:-1]) / 2
    np.testing.assert_array_equal(rounded(middles[None], element)[0], np.where(even[:-1], low, high))
    np.testing.assert_array_equal(rounded(np.nextafter(middles, -INF)[None], element)[0], low)
    np.testing.assert_array_equal(rounded(np.nextafter(middles, INF)[None], element)[0], high)


@pytest.mark.parametrize("element", sorted({*TORCH} - {"f64", "f32"}))
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_rounding_modes(element, source):
    x = np.clip(sample(source, seed=3), -LARGEST[element], LARGEST[element])
    nearest = compute("tt.fp_to_fp", [source], element, x, rounding="rtne")
    np.testing.assert_array_equal(compute("tt.fp_to_fp", [source], element, x), nearest)
    if source == "f32":
        np.testing.assert_array_equal(nearest, held(as_torch(x, element)))
    toward_zero = compute("tt.fp_to_fp", [source], element, x, rounding="rtz")
    number = ~np.isnan(x)
    assert (np.isnan(toward_zero) == ~number).all() and (np.abs(toward_zero) <= np.abs(x))[number].all()
    np.testing.assert_array_equal(rounded(toward_zero, element), toward_zero)
    other = np.abs(nearest) > np.abs(x)
    np.testing.assert_array_equal(toward_zero[~other], nearest[~other])
    codes = to_memory(np.abs(nearest), element).astype(int) - to_memory(np.abs(toward_zero), element)
    assert (codes[other & number] == 1).all()


@pytest.mark.parametrize("element", sorted({*TORCH} - {"f64", "f32"}))
def test_overflow(element):
    x = np.float32([[INF, -INF, 3.4e38, -3.4e38, 1e-45, -1e-45]])
    nearest, toward_zero = (compute("tt.fp_to_fp", ["f32"], element, x, rounding=mode)[0] for mode in ("rtne", "rtz"))
    if element in FP8:  # saturates, as cvt.satfinite
        assert (
            (np.isfinite(nearest)).all() and (nearest == toward_zero).all() and nearest[0] == -nearest[1] == nearest[2]
        )
    else:
        assert nearest[:4].tolist() == [INF, -INF, INF, -INF]
        assert toward_zero[:2].tolist() == [INF, -INF] and np.isfinite(toward_zero[2:]).all()
    assert toward_zero[4:].tolist() == [0, 0]


@pytest.mark.parametrize("element", COMPUTED)
def test_integers_become_floats(element):
    for source in WIDTHS:
        numbers, bits = corners(source), WIDTHS[source]
        x = array_of(numbers, source)
        for name, values in (("arith.uitofp", numbers), ("arith.sitofp", [signed(number, bits) for number in numbers])):
            dtype = np.float64 if element == "f64" else np.float32
            expected = rounded(np.array([dtype(value) for value in values])[None], element)
            np.testing.assert_array_equal(compute(name, [source], element, x), expected)
    assert not np.signbit(compute("arith.sitofp", ["i1"], "f32", np.array([[False]]))).any()


def test_floats_become_integers():
    x = np.float32([[1.9, -1.9, 300, 3e9, -3e9, 1e30, NAN, INF, -0.5]])
    top = 2**31 - 1
    assert compute("arith.fptosi", ["f32"], "i32", x).tolist() == [[1, -1, 300, top, -top - 1, top, 0, top, 0]]
    assert compute("arith.fptosi", ["f32"], "i8", x[:, :3]).tolist() == [[1, -1, 44]]
    assert compute("arith.fptoui", ["f32"], "i32", x).view(np.uint32).tolist() == [
        [1, 0, 300, 3 * 10**9, 0, 2**32 - 1, 0, 2**32 - 1, 0]
    ]
    assert compute("arith.fptosi", ["f64"], "i64", np.float64([[2.0**52 + 1, -1e300]])).tolist() == [
        [2**52 + 1, -(2**63)]
    ]
    assert compute("arith.fptoui", ["f16"], "i8", np.float32([[255, 3.5]])).view(np.uint8).tolist() == [[255, 3]]
    assert compute("arith.fptosi", ["bf16"], "i16", np.float32([[-256]])).tolist() == [[-256]]


def test_widening_copies_nothing():
    x = sample("f8E4M3FN")
    for source, target in (("f8E4M3FN", "f16"), ("f8E5M2", "bf16"), ("f16", "f32"), ("bf16", "f32")):
        assert compute("arith.extf", [source], target, x) is x
    assert compute("arith.extf", ["f16"], "f64", x).dtype == np.float64
    assert not np.array_equal(compute("tt.fp_to_fp", ["bf16"], "f16", np.float32([[1e30]])), [[1e30]])


# ----------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("element", sorted({*TORCH} - {"f64", "f32"}))
def test_each_code_is_read_as_torch_reads_it_and_written_back(element):
    """NaNs as well, whatever their payload: a kernel that copies changes no bit."""
    size = itemsize(element)
    codes = np.arange(256**size).astype(f"i{size}").reshape(4, -1)
    values = from_memory(codes, element)
    np.testing.assert_array_equal(values, held(torch.from_numpy(codes).view(TORCH[element])))
    assert values.dtype == np.float32 and np.array_equal(to_memory(values, element), codes)
    kept = ~np.isnan(values) & ~np.isinf(values)
    np.testing.assert_array_equal(rounded(values, element)[kept], values[kept])
    integer = f"i{8 * size}"
    assert np.array_equal(compute("tt.bitcast", [integer], element, codes), values, equal_nan=True)
    assert np.array_equal(compute("arith.bitcast", [element], integer, values), codes)


@pytest.mark.parametrize(
    "element, size", [("i1", 1), ("i8", 1), ("i16", 2), ("i32", 4), ("i64", 8), ("ptr", 8), ("f32", 4), ("f64", 8)]
)
def test_other_memory(element, size):
    assert itemsize(element) == size
    bits = np.random.default_rng(0).integers(-128, 128, (2, 8 * size), np.int8).view(f"i{size}")
    if element == "i1":
        bits = bits & 1
    values = from_memory(bits, element)
    assert values.dtype == dtype_of(element) and np.array_equal(to_memory(values, element), bits)
    assert to_memory(values, element).dtype == bits.dtype
    if element[0] == "f":
        assert np.array_equal(compute("tt.bitcast", [element], f"i{8 * size}", values), bits)
    assert from_memory(np.int8([2, 0]), "i1").tolist() == [True, False]


@pytest.mark.parametrize("element", sorted(FLOATS))
def test_arrays_that_must_not_be_written_or_lie_apart(element):
    x = np.broadcast_to(np.float32([[1.5], [-2.0], [NAN]]), (3, 4)).astype(dtype_of(element))
    for view in (np.broadcast_to(x[:, :1], (3, 4)), np.tile(x, 2)[:, ::2], x.T.copy().T):
        np.testing.assert_array_equal(rounded(view, element), view)
        np.testing.assert_array_equal(from_memory(to_memory(view, element), element), view)


def test_constants():
    assert constant(7, ir.Type("i32", (4, 8))).shape == (1, 1, 1) and constant(True, ir.Type("i1")).tolist() == [True]
    assert constant(0.1, ir.Type("f16")).tolist() == [np.float16(0.1)] and constant(0.1, ir.Type("f64")).tolist() == [
        0.1
    ]
    assert constant(0xFFFFFFFF, ir.Type("i32")).tolist() == constant(-1, ir.Type("i32")).tolist() == [-1]
    assert constant(-1, ir.Type("i1")).tolist() == [True] and constant(0, ir.Type("ptr", (4,))).dtype == np.int64
    assert constant(((1, 2), (3, 4)), ir.Type("bf16", (2, 2))).tolist() == [[[1, 2], [3, 4]]]
    assert constant((2**64 - 1, 3), ir.Type("i64", (2,))).tolist() == [[-1, 3]]
    assert np.isnan(constant(NAN, ir.Type("f8E5M2"))).all() and constant(INF, ir.Type("f32")).tolist() == [INF]


# ----------------------------------------------------------------------------------------------------- poison


@pytest.mark.parametrize("element", sorted(FLOATS))
def test_poison_stays_poison(element):
    lanes = np.tile(poison(element), 37)[None]
    assert lanes.dtype == dtype_of(element) and is_poison(lanes).all() and np.isnan(lanes).all()
    assert is_poison(rounded(lanes, element)).all() and is_poison(operations.cut(lanes, element)).all()
    if element not in FP8:
        assert is_poison(from_memory(to_memory(lanes, element), element)).all()
    mixed = np.where(np.arange(37) % 2, lanes, 1)
    assert (is_poison(rounded(mixed, element)) == np.arange(37) % 2).all()
    for target in FLOATS - {element}:
        assert is_poison(compute("tt.fp_to_fp", [element], target, lanes)).all()


@pytest.mark.parametrize("element", COMPUTED)
def test_poison_passes_through_arithmetic(element):
    lanes, ones = np.tile(poison(element), 37)[None], np.ones((2, 37), dtype_of(element))
    for name in BINARY:
        assert is_poison(compute(name, [element] * 2, element, lanes, ones)).all()
        assert is_poison(compute(name, [element] * 2, element, ones, lanes)).all()
    for name in {**UNARY, **EXACT}:
        assert is_poison(compute(name, [element], element, lanes)).all(), name
    for at in range(3):
        operands = [lanes if i == at else ones for i in range(3)]
        assert is_poison(compute("math.fma", [element] * 3, element, *operands)).all()
    assert is_poison(compute("tt.clampf", [element] * 3, element, lanes, ones, ones)).all()
    assert is_poison(compute("arith.select", ["i1", element, element], element, ones < 0, ones, lanes)).all()


@pytest.mark.parametrize("element", COMPUTED)
def test_a_maximum_passes_over_nan_but_not_over_poison(element):
    p, one = poison(element), dtype_of(element).type(1)
    a, b = np.array([[NAN, one, NAN, p, p, one]], one.dtype), np.array([[one, NAN, NAN, one, NAN, p]], one.dtype)
    for name in ("arith.maxnumf", "arith.minnumf"):
        result = compute(name, [element] * 2, element, a, b)
        np.testing.assert_array_equal(result, [[1, 1, NAN, NAN, NAN, NAN]])
        assert is_poison(result).tolist() == [[False, False, False, True, True, True]]
        lines = np.concatenate([a, b])
        for folded in (REDUCTIONS[name](lines, 0, element)[None], SCANS[name](lines, 0, element)[1:]):
            np.testing.assert_array_equal(folded, result)
            assert np.array_equal(is_poison(folded), is_poison(result))


def test_what_stands_for_poison_in_integers():
    assert poison("i1").tolist() is True and poison("i8").item() == 0x5B and poison("i32").item() == 0x5A5A5A5B
    assert poison("ptr").dtype == np.int64


# ----------------------------------------------------------------------------------------------------- libdevice


def libdevice(symbol, elements, result, *operands):
    return compute("tt.extern_elementwise", elements, result, *operands, symbol=symbol)


def test_libdevice():
    x = np.float32([[0.5, -0.25, NAN]])
    np.testing.assert_allclose(libdevice("__nv_tanhf", ["f32"], "f32", x), np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(
        libdevice("__nv_erfcf", ["f32"], "f32", x)[0, :2], [math.erfc(0.5), math.erfc(-0.25)], rtol=1e-6
    )
    np.testing.assert_allclose(libdevice("__nv_erfc", ["f64"], "f64", np.float64([[5]])), [[math.erfc(5)]], rtol=1e-13)
    np.testing.assert_allclose(
        libdevice("__nv_normcdf", ["f64"], "f64", np.float64([[-6]])), [[9.865876450377e-10]], rtol=1e-10
    )
    assert libdevice("__nv_isnanf", ["f32"], "i32", x).tolist() == [[0, 0, 1]]
    assert libdevice("__nv_roundf", ["f32"], "f32", np.float32([[2.5, -2.5, 0.49999997]])).tolist() == [[3, -3, 0]]
    assert libdevice("__nv_lgammaf", ["f32"], "f32", np.float32([[1, 0, INF]])).tolist() == [[0, INF, INF]]
    assert libdevice("__nv_powif", ["f32", "i32"], "f32", np.float32([[2]]), np.int32([[10]])).tolist() == [[1024]]
    assert libdevice("__nv_ldexpf", ["f32", "i32"], "f32", np.float32([[3]]), np.int32([[-1]])).tolist() == [[1.5]]
    assert found("tt.extern_elementwise", ["f32"], "f32", symbol="__nv_tanhf").flops == "special"
    assert found("tt.extern_elementwise", ["f32"], "i32", symbol="__nv_isnanf").flops is None


def test_libdevice_knows_which_integers_have_a_sign():
    bits = array_of([2**32 - 1, 5], "i32")
    assert libdevice("__nv_uint2float_rn", ["i32"], "f32", bits).tolist() == [[2**32, 5]]
    assert libdevice("__nv_int2float_rn", ["i32"], "f32", bits).tolist() == [[-1, 5]]
    assert libdevice("__nv_uint2double_rn", ["i32"], "f64", bits).tolist() == [[2**32 - 1, 5]]
    assert libdevice("__nv_ull2float_rn", ["i64"], "f32", array_of([2**63], "i64")).tolist() == [[2.0**63]]
    x = np.float32([[3e9, -1, 2.5]])
    assert libdevice("__nv_float2uint_rn", ["f32"], "i32", x).view(np.uint32).tolist() == [[3 * 10**9, 0, 2]]
    assert libdevice("__nv_float2int_rn", ["f32"], "i32", x).tolist() == [[2**31 - 1, -1, 2]]
    assert libdevice("__nv_float_as_uint", ["f32"], "i32", np.float32([[-0.0]])).tolist() == [[-(2**31)]]
    assert libdevice("__nv_uint_as_float", ["i32"], "f32", np.int32([[0x3F800000]])).tolist() == [[1]]
    for element in ("i32", "i64"):
        numbers, bits = corners(element), WIDTHS[element]
        x, suffix = array_of(numbers, element), "" if bits == 32 else "ll"
        assert libdevice(f"__nv_clz{suffix}", [element], "i32", x)[0].tolist() == [
            bits - n.bit_length() for n in numbers
        ]
        assert libdevice(f"__nv_popc{suffix}", [element], "i32", x)[0].tolist() == [n.bit_count() for n in numbers]


def test_what_only_a_gpu_can_do_is_named():
    with refusing("launch.lacking.libdevice", operations.NotHere, function="j0f"):
        found("tt.extern_elementwise", ["f32"], "f32", symbol="__nv_j0f")
    with refusing("launch.lacking.assembly", operations.NotHere):
        found("tt.elementwise_inline_asm", ["i32"], "i32")


# ----------------------------------------------------------------------------------------------------- counting


@pytest.mark.parametrize(
    "name", ["tt.load", "tt.splat", "arith.constant", "scf.for", "tt.reduce", "tt.dot", "tt.addptr"]
)
def test_other_operations_are_not_lanewise(name):
    assert found(name, ["f32"], "f32") is None


def test_flops():
    def counted(name, elements, result, **attributes):
        lanewise = found(name, elements, result, **attributes)
        return lanewise.flops, lanewise.per_lane

    assert {counted(name, ["f16"] * 2, "f16") for name in BINARY} == {("float", 1)}
    assert {counted(name, ["f32"], "f32") for name in UNARY} == {("special", 1)}
    assert {counted(name, ["bf16"], "bf16") for name in EXACT} == {("float", 1)}
    assert {counted(name, ["i32"] * 2, "i32") for name in EXPECTED} == {(None, 1)}
    assert counted("math.fma", ["f16"] * 3, "f16") == ("float", 2)
    assert counted("tt.clampf", ["f32"] * 3, "f32") == ("float", 1)
    assert counted("arith.cmpf", ["f32"] * 2, "i1", predicate="olt") == (None, 1)
    assert counted("arith.truncf", ["f32"], "f16") == (None, 1)


# ----------------------------------------------------------------------------------------------------- reductions


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_sums_are_rounded_at_each_step(element, axis):
    x = held(torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(0)).to(TORCH[element]))
    for name, of_torch, scan in (("arith.addf", torch.sum, torch.cumsum), ("arith.mulf", torch.prod, torch.cumprod)):
        result, prefixes = REDUCTIONS[name](x, axis, element), SCANS[name](x, axis, element)
        assert result.dtype == prefixes.dtype == x.dtype and prefixes.shape == x.shape
        np.testing.assert_array_equal(rounded(result, element), result)
        tolerance = {"f16": 1e-2, "bf16": 6e-2, "f32": 1e-5, "f64": 1e-12}[element]
        wide = torch.from_numpy(x).double()
        np.testing.assert_allclose(result, of_torch(wide, axis).numpy(), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(prefixes, scan(wide, axis).numpy(), rtol=tolerance, atol=tolerance)
    many = np.float32([[60000, 60000, 1, 1] + [-30000] * 4])  # the sum is 2; on the way it is more than a half can hold
    assert REDUCTIONS["arith.addf"](many, 1, "f32").tolist() == [2] and SCANS["arith.addf"](many, 1, "f32")[0, -1] == 2
    assert REDUCTIONS["arith.addf"](np.tile(many[:, :2], 2), 1, "f16").tolist() == [np.inf]
    assert SCANS["arith.addf"](many, 1, "f16")[0].tolist()[1:3] == [np.inf, np.inf]


@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("name", sorted(name for name in REDUCTIONS if name[-1] == "i"))
def test_integers_are_folded_in_their_own_width(name, element):
    numbers, bits = corners(element), WIDTHS[element]
    x = array_of(numbers, element)
    expected = numbers[:1]
    for b in numbers[1:]:
        a = expected[-1]
        expected.append(EXPECTED[name](a, b, signed(a, bits), signed(b, bits), bits) % 2**bits)
    result, prefixes = REDUCTIONS[name](x, 1, element), SCANS[name](x, 1, element)
    assert result.dtype == prefixes.dtype == x.dtype and result.shape == (1,)
    assert int(result[0]) % 2**bits == expected[-1]
    assert [int(number) % 2**bits for number in prefixes[0]] == expected


def test_maxima_and_nan():
    x = np.float32([[1, NAN, 3, 2], [NAN, NAN, NAN, NAN]])
    assert REDUCTIONS["arith.maxnumf"](x[:1], 1, "f32").tolist() == [3]
    np.testing.assert_array_equal(REDUCTIONS["arith.minnumf"](x, 1, "f32"), [1, NAN])
    np.testing.assert_array_equal(REDUCTIONS["arith.maximumf"](x, 1, "f32"), [NAN, NAN])
    np.testing.assert_array_equal(SCANS["arith.maxnumf"](x[:1], 1, "f32"), [[1, 1, 3, 3]])
    np.testing.assert_array_equal(SCANS["arith.minnumf"](x[:1, 1:], 1, "f32"), [[NAN, 3, 2]])
    np.testing.assert_array_equal(SCANS["arith.minimumf"](x[:1], 1, "f32"), [[1, NAN, NAN, NAN]])
    assert REDUCTIONS["arith.maxnumf"](np.broadcast_to(np.float32([[2]]), (1, 8)), 1, "f32").tolist() == [2]


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_few_halves_are_converted_as_many_are(element):
    """numpy converts few, torch many: to the same bits, of NaNs too."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    numbers = operations.from_memory(codes, element)
    between = (numbers.view(np.uint32) + np.uint32(0x1001)).view(np.float32)
    with np.errstate(all="ignore"):
        for convert, values in (
            (operations.from_memory, codes),
            (operations.to_memory, between),
            (operations.rounded, between),
        ):
            few = np.concatenate([convert(part, element) for part in np.split(values, 1 << 10)])
            assert few.tobytes() == convert(values, element).tobytes()
