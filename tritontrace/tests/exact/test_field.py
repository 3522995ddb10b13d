"""The laws of the field, and what becomes of constants, infinities and unknown parts."""

import math

import numpy as np
import pytest

from tritontrace.exact.field import LN2, LOG2E, NAN, NEGATIVE, POSITIVE, PRIMES, UNKNOWN, field

FIELDS = range(len(PRIMES))


@pytest.fixture(params=FIELDS)
def f(request):
    return field(request.param)


@pytest.fixture
def xyz(f):
    g = np.random.default_rng(1)
    return [f.random(500, g) for _ in range(3)]


def prime(n: int) -> bool:
    return all(n % d for d in range(2, math.isqrt(n) + 1))


def test_primes_are_what_the_field_needs():
    for P, _ in PRIMES:
        R = (P - 1) // 2
        assert prime(P) and prime(R) and R % 4 == 3
        assert all(pow(n, (m - 1) // 2, m) == 1 for n in (2, 3, 5) for m in (P, R))


def same(f, a, b) -> bool:
    return bool(f.same(a, b).all())


def test_rings_laws(f, xyz):
    x, y, z = xyz
    assert np.array_equal(f.times(x, f.plus(y, z)), f.plus(f.times(x, y), f.times(x, z)))
    assert np.array_equal(f.minus(x, y), f.minus(f.minus(y, x)))
    assert same(f, f.times(f.over(x, y), y), x)
    assert not f.same(x, y).any()


def test_exponentials_and_logarithms(f, xyz):
    x, y, _ = xyz
    assert np.array_equal(f.exp(f.plus(x, y)), f.times(f.exp(x), f.exp(y)))
    assert same(f, f.exp(x), f.exp2(f.times(x, f.constant(LOG2E))))
    l = f.plus(f.exp(x), f.exp(y))
    assert same(f, f.log(f.times(f.exp(x), l)), f.plus(x, f.log(l)))
    assert same(f, f.exp(f.minus(x, f.log(l))), f.over(f.exp(x), l))
    assert same(f, f.times(f.log2(l), f.constant(LN2)), f.log(l))


def test_roots(f, xyz):
    x, y, _ = xyz
    assert same(f, f.times(f.sqrt(x), f.sqrt(y)), f.sqrt(f.times(x, y)))
    assert same(f, f.times(x, f.rsqrt(y)), f.over(x, f.sqrt(y)))
    squared = f.times(f.sqrt(x), f.sqrt(x))
    low = np.int64((1 << 32) - 1)
    assert ((squared & low == x & low) | (squared & low == f.minus(x) & low)).all()


@pytest.mark.parametrize(
    "x,y",
    [
        (1 / 3, 1 / 3),
        (0.1, 0.1),
        (np.float32(1e-6), 1e-6),
        (128**-0.5, 128**-0.5),
        (LOG2E / 8, LOG2E / 8),
        (1 / 4001, 1 / 4001),
    ],
)
def test_a_constant_is_the_same_in_float32_and_in_float64(f, x, y):
    assert f.constant(float(np.float32(x))) == f.constant(float(y))


def test_constants_stand_for_numbers(f):
    three, half, eighth = f.integers(np.array(3)), f.constant(0.5), f.constant(64**-0.5)
    assert same(f, f.times(f.constant(float(np.float32(1 / 3))), three), f.one)
    assert same(f, f.plus(half, half), f.one)
    assert same(f, f.times(eighth, f.integers(np.array(8))), f.one)
    assert same(f, f.times(f.constant(float(np.float32(0.125 * LOG2E))), f.constant(LN2)), eighth)
    assert f.constant(0.3) != f.constant(0.30001)


def test_infinities(f, xyz):
    x = xyz[0]
    inf, low = np.array(POSITIVE), np.array(NEGATIVE)
    assert (f.plus(x, low) == NEGATIVE).all() and (f.minus(x, low) == POSITIVE).all()
    assert f.plus(inf, low) == NAN and f.times(inf, np.array(0)) == NAN
    assert (f.exp(low) == 0).all() and f.log(np.array(0)) == NEGATIVE
    assert np.array_equal(f.larger(x, low), x) and (f.over(x, inf) == 0).all()
    assert f.over(np.array(0), np.array(0)) == NAN


def test_what_is_not_known_is_known_not_to_be(f, xyz):
    x, y, _ = xyz
    f.lost.clear()
    mixed = f.times(f.exp(x), f.log(y))
    assert (mixed == UNKNOWN).all() and f.lost == {"mixed"}
    assert not f.comparable(mixed, x).any() and not f.same(mixed, mixed).any()


def test_sums_and_products_of_matrices(f):
    g = np.random.default_rng(2)
    a, b = f.random(6 * 9, g).reshape(6, 9), f.exp(f.random(9 * 4, g)).reshape(9, 4)
    b[3] = 0  # a masked position is a known zero
    a[:, 3] = f.log(f.exp(a[:, 3]))
    expected = f.total(f.times(a[:, :, None], b[None]), 1)
    assert np.array_equal(f.matmul(a, b), expected)


def test_order(f, xyz):
    x, y, _ = xyz
    assert np.array_equal(f.larger(x, y), f.minus(f.smaller(f.minus(x), f.minus(y))))
    small = f.integers(np.arange(-9, 10))
    assert np.array_equal(np.argsort(f.keys(small)), np.arange(19))
    other = field(0, reverse=True)
    assert np.array_equal(np.argsort(-other.keys(other.integers(np.arange(5)))), np.arange(5))


@pytest.mark.parametrize("reverse", [False, True])
def test_vast_constants_lie_beyond_all_others(xyz, reverse):
    other, (x, _, _) = field(0, reverse), xyz
    low = other.constant(-1e30)
    assert np.array_equal(other.larger(x, low), x) and np.array_equal(other.smaller(x, other.minus(low)), x)
    ends = np.array([NEGATIVE, other.constant(-3.4e38), low, 0, other.constant(1e10), POSITIVE])
    assert np.array_equal(np.argsort(other.keys(ends)), np.arange(6))
