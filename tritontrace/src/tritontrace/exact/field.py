"""A field in which kernels are evaluated, and the words in which its numbers are held.

A number has two parts: `low`, a residue modulo a prime P, and `high`, a residue modulo P - 1. Both follow +, -, * and /, so
that whatever is equal by the rules of arithmetic is equal here, bit for bit, in any order. Exponents of a power of g count
modulo P - 1; so

    exp2(x).low = g ** x.high          log2(y).high = the power of g that y.low is

obey exp(a + b) = exp(a) exp(b) and log(exp(a) b) = a + log(b). The other part of each is not known: no map of a prime field
into itself obeys them. P = 2 R + 1 with R prime, so that `high` is a residue modulo R, which can be divided, and a parity.
Inputs have parity 0, so that half of them means something; the parity of half an odd number is not known.

A word is an int64: high above, low below; negative for infinities, NaN, and what nobody wrote.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

Array = np.ndarray

NEGATIVE, POSITIVE, NAN, UNWRITTEN = -1, -2, -3, -4  # infinities, and what is no number
_LOST = 1 << 30  # in either part: not known
_HIGH, _LOW = np.int64(32), np.int64((1 << 32) - 1)
UNKNOWN = _LOST << 32 | _LOST
_BOTH = np.array([0, 1, 2, 0, 1, 0, 2, 0, 2, 2, 2, 0, 0, 0, 0, 0])  # parity of a sum: 0, 1, or 2 for not known
_EACH = np.array([0, 0, 0, 0, 0, 1, 2, 0, 0, 2, 2, 0, 0, 0, 0, 0])  # of a product

PRIMES = (
    (53_759, 7),
    (57_119, 11),
    (64_319, 7),
)  # 2 R + 1, R prime and 3 modulo 4; 2, 3 and 5 are squares modulo P and R
LOG2E, LN2 = 1 / math.log(2), math.log(2)
VAST = 1e9  # constants beyond it lie beyond all that is computed, as where the code has -1e30 for minus infinity


@cache
def field(number: int, reverse: bool = False) -> Field:
    """Return one of `len(PRIMES)` finite fields; reverse: its numbers ordered the other way round."""
    return Field(*PRIMES[number], reverse)


class Field:
    """Arithmetic of a pair of finite fields, on numbers packed into int64 words. Operands broadcast, as numpy's do.

    lost     why parts of numbers became unknown, by the names of operations.REASONS
    chosen   all numbers that were compared, or were the larger or the smaller one; None while nobody asks
    """

    def __init__(self, prime: int, generator: int, reverse: bool = False):
        self.P, self.R, self.reverse = prime, (prime - 1) // 2, reverse
        self.lost: set[str] = set()
        self.chosen: set[int] | None = None
        while not _primitive(generator, prime):
            generator += 1
        self._powers = np.empty(prime - 1, np.int64)
        value = 1
        for exponent in range(prime - 1):
            self._powers[exponent] = value
            value = value * generator % prime
        self._logarithms = np.zeros(prime, np.int64)
        self._logarithms[self._powers] = np.arange(prime - 1)
        self._inverse = np.zeros(prime, np.int64)
        self._inverse[self._powers] = self._powers[-np.arange(prime - 1) % (prime - 1)]
        self._inverse_high = _to_the(self.R - 2, self.R)
        self._root = _to_the((prime + 1) // 4, prime)
        self._root_high = _to_the((self.R + 1) // 4, self.R)
        self.log2e = self._word(7919, 1, 104_729 % prime)
        self.ln2 = self._over(self.one, self.log2e)
        self._vast: dict[int, int] = {}  # word -> its key
        self.constant = lru_cache(None)(self._constant)

    # ------------------------------------------------------------------------------------------------- words

    def _word(self, high: int, parity: int, low: int) -> Array:
        return np.array((high % self.R << 2 | parity) << 32 | low % self.P, np.int64)

    @property
    def one(self) -> Array:
        return self._word(1, 1, 1)

    def integers(self, values: Array | int) -> Array:
        """Convert whole numbers to words."""
        values = np.asarray(values).astype(np.int64)
        return (values % self.R << 2 | values & 1) << _HIGH | values % self.P

    def random(self, count: int, generator: np.random.Generator) -> Array:
        """Draw (count,) random words."""
        high, low = generator.integers(self.R, size=count), generator.integers(self.P, size=count)
        return high << 34 | low

    def numbers(self, values: Array) -> Array:
        """Convert floats to words, each as the simplest fraction that it may stand for."""
        values = np.asarray(values)
        distinct, places = np.unique(values, return_inverse=True)
        words = np.array([self.constant(float(x)) for x in distinct], np.int64)
        return words[places].reshape(values.shape)

    def _constant(self, x: float, bits: int = 24) -> Array:
        """A number that the source or the host gives, read as what it may stand for: a whole number, a fraction with a small
        denominator, 1 / n, the root of one, one of these times log2(e) or ln(2), a short decimal; else its bits."""
        if math.isnan(x):
            return np.array(NAN)
        if math.isinf(x):
            return np.array(POSITIVE if x > 0 else NEGATIVE)
        if abs(x) >= VAST:
            word = self._fraction(Fraction(x))
            key = round(math.copysign((1 << 61) + math.log2(abs(x)) * (1 << 40), x))
            self._vast |= {int(word): key, int(self.minus(word)): -key}
            return word
        for factor, word in ((1.0, self.one), (LOG2E, self.log2e), (LN2, self.ln2)):
            if (found := _simple(x / factor, bits - (factor != 1))) is not None:
                value, root = found
                number = self._fraction(value)
                return self._times(self.sqrt(number) if root else number, word)
        if x < 0:
            return self.minus(self._constant(-x, bits))
        short = Fraction(str(np.float32(x)))
        return self._fraction(short if len(str(short.numerator)) <= 7 else Fraction(x))

    def _fraction(self, value: Fraction) -> Array:
        above, below = (self.integers(np.array(n % (self.P * self.R * 2))) for n in value.as_integer_ratio())
        return self._over(above, below)

    def known(self, words: Array) -> Array:
        """Whether anything is known of each word."""
        return words != UNKNOWN

    def same(self, a: Array, b: Array) -> Array:
        """Whether each two words can be one number: what is known of both is equal, and something is. Parities are left out: that of 8 * (1
        / 8) is not what it should be."""
        high, low = a >> _HIGH ^ b >> _HIGH, (a ^ b) & _LOW
        either_high, either_low = a >> _HIGH | b >> _HIGH, a | b
        no_high = either_high & _LOST != 0
        no_low = either_low & _LOST != 0
        alike = (no_high | (high >> 2 == 0)) & (no_low | (low == 0)) & ~(no_high & no_low)
        return np.where((a < 0) | (b < 0), a == b, alike)

    def comparable(self, a: Array, b: Array) -> Array:
        """Whether some part of both words is known."""
        return (((a | b) >> _HIGH) & (a | b) & _LOST == 0) | (a < 0) | (b < 0)

    # ------------------------------------------------------------------------------------------------- + - * /

    def _parts(self, function: Callable, a: Array, b: Array, parities: Array) -> Array:
        ea, eb, pa, pb = a >> _HIGH, b >> _HIGH, a & _LOW, b & _LOW
        either, low = ea | eb, function(pa, pb) % self.P
        high = function(ea >> 2, eb >> 2) % self.R << 2
        if (either & 3).any():
            high = high | parities[(ea & 3) << 2 | eb & 3]
        if (gone := either & _LOST != 0).any():
            high = np.where(gone, _LOST, high)
        if (gone := (pa | pb) & _LOST != 0).any():
            low = np.where(gone, _LOST, low)
            if ((low & high) & _LOST).any():
                self.lost.add("mixed")
        return high << _HIGH | low

    def plus(self, a: Array, b: Array) -> Array:
        x, y = _ordinary(a, b)
        result = self._parts(np.add, x, y, _BOTH)
        return self._special(result, a, b) if _specials(a, b) else result

    def minus(self, a: Array, b: Array | None = None) -> Array:
        """Compute a - b, or -a."""
        if b is None:
            result = self._parts(np.subtract, np.array(0), _ordinary(a)[0], _BOTH)
            return np.where(a < 0, _negated(a), result) if _specials(a) else result
        x, y = _ordinary(a, b)
        result = self._parts(np.subtract, x, y, _BOTH)
        return self._special(result, a, _negated(b)) if _specials(a, b) else result

    def _special(self, result: Array, a: Array, b: Array) -> Array:
        """A sum with infinities."""
        result = np.where(b < 0, b, np.where(a < 0, a, result))
        opposite = (a < 0) & (b < 0) & (a != b)
        return np.where(_undefined(a) | _undefined(b) | opposite, NAN, result)

    def _times(self, a: Array, b: Array) -> Array:
        result = self._parts(np.multiply, a, b, _EACH)
        if ((a | b) & UNKNOWN).any():
            result = np.where((a == 0) | (b == 0), 0, result)
        return result

    def times(self, a: Array, b: Array) -> Array:
        result = self._times(*_ordinary(a, b))
        if not _specials(a, b):
            return result
        minus_one = self.minus(self.one)
        flipped = (a == minus_one) | (b == minus_one) | ((a == NEGATIVE) & (b == NEGATIVE))
        mixed = (a < 0) & (b < 0) & (a != b)
        infinite = np.where(a < 0, np.where(flipped, _negated(a), a), np.where(flipped, _negated(b), b))
        infinite = np.where(mixed, NEGATIVE, infinite)
        undefined = _undefined(a) | _undefined(b) | self.is_zero(a) | self.is_zero(b)
        return np.where((a < 0) | (b < 0), np.where(undefined, NAN, infinite), result)

    def inverse(self, a: Array) -> Array:
        """Compute 1 / a: infinite of zero."""
        word = _ordinary(a)[0]
        e, p = word >> _HIGH, word & _LOW
        r = np.where(e & _LOST, 0, e >> 2)
        parity = np.where(e & 1, 1, 2)
        high = np.where(r == 0, _LOST, self._inverse_high[r] << 2 | parity)
        low = np.where((p & _LOST != 0) | (p == 0), _LOST, self._inverse[np.where(p & _LOST, 0, p)])
        result = np.where(self.is_zero(a), POSITIVE, high << _HIGH | low)
        return np.where(a < 0, np.where(_undefined(a), NAN, 0), result)

    def _over(self, a: Array, b: Array) -> Array:
        return self._times(a, self.inverse(b))

    def over(self, a: Array, b: Array) -> Array:
        return self.times(a, self.inverse(b))

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        return self.plus(self.times(a, b), c)

    def is_zero(self, a: Array) -> Array:
        p = a & _LOW
        return (a >= 0) & np.where(p & _LOST, (a >> _HIGH) & ~np.int64(3) == 0, p == 0)

    # ------------------------------------------------------------------------------------------------- functions

    def exp2(self, a: Array) -> Array:
        word = _ordinary(a)[0]
        e = word >> _HIGH
        gone = e & (_LOST | 2) != 0
        if gone.any():
            e = np.where(gone, 0, e)
        exponent = e >> 2
        exponent = np.where((exponent ^ e) & 1, exponent + self.R, exponent)
        result = np.int64(_LOST << 32) | self._powers[exponent]
        if gone.any():
            result = np.where(gone, self._of_an_exponential(word), result)
        result = np.where(word == 0, self.one, result)
        return np.where(a < 0, np.where(a == NEGATIVE, 0, a), result) if _specials(a) else result

    def _of_an_exponential(self, word: Array) -> Array:
        """exp2 of a number whose high part is not known: of its rules, exp2(-x) = 1 / exp2(x) alone holds."""
        self.lost.add("exp")
        low = _centred(word & _LOW, self.P)
        value = self.named("exp2")(np.abs(low)) & _LOW
        value = self._powers[value % (self.P - 1)]
        value = np.where(low < 0, self._inverse[value], value)
        return np.where(word & _LOST, UNKNOWN, np.int64(_LOST << 32) | value)

    def log2(self, a: Array) -> Array:
        word = _ordinary(a)[0]
        p = word & _LOW
        gone = p & _LOST != 0
        if gone.any():
            self.lost.add("log")
            p = np.where(gone, 0, p)
            of_a_logarithm = self.named("log2")(word >> _HIGH) & ~_LOW | _LOST
        power = self._logarithms[p]
        result = (power % self.R << 2 | power & 1) << _HIGH | _LOST
        if gone.any():
            result = np.where(gone, np.where(word >> _HIGH & _LOST, UNKNOWN, of_a_logarithm), result)
        result = np.where(word == self.one, 0, np.where(self.is_zero(a), NEGATIVE, result))
        return np.where(a < 0, np.where(a == POSITIVE, a, NAN), result) if _specials(a) else result

    def exp(self, a: Array) -> Array:
        return self.exp2(self.times(a, self.log2e))

    def log(self, a: Array) -> Array:
        return self.times(self.log2(a), self.ln2)

    def sqrt(self, a: Array) -> Array:
        """Compute a square root that is multiplicative; of a number that is no square, the root of its negative."""
        word = _ordinary(a)[0]
        e, p = word >> _HIGH, word & _LOW
        high = np.where(e & _LOST, _LOST, self._root_high[np.where(e & _LOST, 0, e >> 2)] << 2 | e & 3)
        low = np.where(p & _LOST, _LOST, self._root[np.where(p & _LOST, 0, p)])
        return np.where(a < 0, np.where(a == POSITIVE, a, NAN), high << _HIGH | low)

    def rsqrt(self, a: Array) -> Array:
        return self.inverse(self.sqrt(a))

    def power(self, a: Array, b: Array) -> Array:
        """Compute a ** b: a product of a's where b is a small whole number, else exp2(b log2(a))."""
        b = np.asarray(b)
        for n in range(5):
            if (b == self.integers(n)).all():
                result = np.broadcast_to(self.one, a.shape)
                for _ in range(n):
                    result = self.times(result, a)
                return result
        for half, function in (
            (Fraction(1, 2), self.sqrt),
            (Fraction(-1, 2), self.rsqrt),
            (Fraction(-1), self.inverse),
        ):
            if (b == self._fraction(half)).all():
                return function(a)
        return self.exp2(self.times(self.log2(a), b))

    def sigmoid(self, a: Array) -> Array:
        return self.inverse(self.plus(self.one, self.exp(self.minus(a))))

    def tanh(self, a: Array) -> Array:
        two = self.integers(np.array(2))
        return self.minus(self.times(two, self.sigmoid(self.times(two, a))), self.one)

    def named(self, name: str) -> Callable[..., Array]:
        """Make an uninterpreted function of that name: its results are equal where its arguments are."""
        salt = np.uint64(zlib.crc32(name.encode()) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)

        def function(*words: Array) -> Array:
            mixed = np.uint64(0)
            for word in words:
                mixed = _mix(np.asarray(word, np.int64).view(np.uint64) ^ salt ^ mixed)
            high, low = (mixed >> np.uint64(8)) % np.uint64(self.R), (mixed >> np.uint64(36)) % np.uint64(self.P)
            result = high.astype(np.int64) << 34 | low.astype(np.int64)
            for word in words:
                result = np.where(_undefined(word), NAN, result)
            return np.asarray(result, np.int64)

        return function

    # ------------------------------------------------------------------------------------------------- order

    def keys(self, a: Array) -> Array:
        """Return sort keys of numbers: an arbitrary order, in which small whole numbers, -x and x, vast constants, and infinities lie as
        usual. NaN is 0 here."""
        e, p = a >> _HIGH, a & _LOW
        r, low = _centred(e >> 2, self.R), _centred(p, self.P)
        order = np.where(e & _LOST, low << 36, (r << 36) + (low << 2) + (e & 3))
        order = -order if self.reverse else order
        for word, key in self._vast.items():
            order = np.where(a == word, key, order)
        order = np.where(a == NEGATIVE, -(1 << 62), np.where(a == POSITIVE, 1 << 62, order))
        return np.where(_undefined(a), 0, order)

    def larger(self, a: Array, b: Array, propagate: bool = False) -> Array:
        """Return the larger number; of a number and NaN the number, unless `propagate` is set."""
        return self._chosen(a, b, self.keys(a) >= self.keys(b), propagate)

    def smaller(self, a: Array, b: Array, propagate: bool = False) -> Array:
        return self._chosen(a, b, self.keys(a) <= self.keys(b), propagate)

    def _chosen(self, a: Array, b: Array, first: Array, propagate: bool) -> Array:
        result = np.where(first, a, b)
        self.note(result)
        if not _specials(a, b):
            return result
        result = np.where(a == NAN, a if propagate else b, np.where(b == NAN, b if propagate else a, result))
        return np.where((a == UNWRITTEN) | (b == UNWRITTEN), UNWRITTEN, result)

    def note(self, *words: Array) -> None:
        """Add numbers to `chosen`: those that are compared, or that a maximum or minimum picks."""
        if self.chosen is not None:
            self.chosen.update(*(np.unique(x).tolist() for x in words))

    def absolute(self, a: Array) -> Array:
        return self.larger(a, self.minus(a))

    # ------------------------------------------------------------------------------------------------- many at once

    def total(self, words: Array, axis: int) -> Array:
        """Sum along an axis."""
        word = _ordinary(words)[0]
        e, p = word >> _HIGH, word & _LOW
        lost = e & _LOST
        high = np.where(lost, 0, e >> 2).sum(axis) % self.R << 2
        if (e & 3).any():
            parity = (e & 1).sum(axis) & 1
            high = high | np.where((e & 2).any(axis), 2, parity)
        if lost.any():
            high = np.where(lost.any(axis), _LOST, high)
        gone = p & _LOST
        low = np.where(gone, 0, p).sum(axis) % self.P
        if gone.any():
            low = np.where(gone.any(axis), _LOST, low)
        result = high << _HIGH | low
        if _specials(words):
            up, down = (words == POSITIVE).any(axis), (words == NEGATIVE).any(axis)
            result = np.where(up, POSITIVE, np.where(down, NEGATIVE, result))
            result = np.where(_undefined(words).any(axis) | (up & down), NAN, result)
        return result

    def matmul(self, a: Array, b: Array) -> Array:
        """Compute a @ b."""
        special = _specials(a, b)
        x, y = _ordinary(a, b)
        ea, eb, pa, pb = x >> _HIGH, y >> _HIGH, x & _LOW, y & _LOW

        def marks(left: Array, right: Array) -> Array:
            """Mark where a row of one meets a column of the other in both marks."""
            return np.matmul(left.astype(np.float32), right.astype(np.float32)) > 0

        def lost(of_a: Array, of_b: Array) -> Array | bool:
            result: Array | bool = False
            if of_a.any():
                result = result | marks(of_a, y != 0)
            if of_b.any():
                result = result | marks(x != 0, of_b)
            return result

        def product(left: Array, right: Array, modulus: int) -> Array:
            """Multiply matrices of residues below 2**16: exact in float64 for less than 2**21 terms."""
            return np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64) % modulus

        la, lb, ma, mb = ea & _LOST != 0, eb & _LOST != 0, pa & _LOST != 0, pb & _LOST != 0
        high = product(np.where(la, 0, ea >> 2), np.where(lb, 0, eb >> 2), self.R) << 2
        if (ea & 3).any() and (eb & 3).any():
            odd = product(ea & 1, eb & 1, 2)
            high = high | np.where(marks(ea & 2 != 0, eb & 3 != 0) | marks(ea & 3 != 0, eb & 2 != 0), 2, odd)
        high = np.where(lost(la, lb), _LOST, high)
        low = np.where(lost(ma, mb), _LOST, product(np.where(ma, 0, pa), np.where(mb, 0, pb), self.P))
        if ((high & low) & _LOST).any():
            self.lost.add("mixed")
        result = high << _HIGH | low
        if special:
            everywhere = np.ones_like(a, bool), np.ones_like(b, bool)
            result = np.where(marks(a < 0, everywhere[1]) | marks(everywhere[0], b < 0), NAN, result)
        return result


# ----------------------------------------------------------------------------------------------------- of words


def _specials(*words: Array) -> bool:
    return any((np.asarray(x) < 0).any() for x in words)


def _ordinary(*words: Array) -> list[Array]:
    """The words with 0 for what is no number."""
    return [np.where(x < 0, 0, x) if _specials(x) else np.asarray(x) for x in words]


def _undefined(a: Array) -> Array:
    return (a == NAN) | (a == UNWRITTEN)


def _negated(a: Array) -> Array:
    """The opposite of what is no number."""
    return np.where(a == POSITIVE, NEGATIVE, np.where(a == NEGATIVE, POSITIVE, a))


def _centred(residues: Array, modulus: int) -> Array:
    return np.where(residues > modulus // 2, residues - modulus, residues)


def _mix(x: Array) -> Array:
    """SplitMix64's finalizer."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


# ----------------------------------------------------------------------------------------------------- constants


def _simple(x: float, bits: int) -> tuple[Fraction, bool] | None:
    """The simple number that rounds to x, and whether it is the root of it: a fraction up to 256 below, 1 / n, their roots."""
    if x == int(x):
        return Fraction(int(x)), False
    close = abs(x) * 2.0**-bits
    near = Fraction(x).limit_denominator(256)
    if near and abs(float(near) - x) <= close:
        return near, False
    below = Fraction(1, round(1 / x)) if abs(x) < 1 and abs(1 / x) < 1 << 24 else Fraction(0)
    if below and abs(float(below) - x) <= close:
        return below, False
    if x > 0:
        square = x * x
        for root in (Fraction(round(square)), Fraction(1, round(1 / square)) if square < 1 else Fraction(0)):
            if root > 0 and max(root.as_integer_ratio()) < 1 << 14 and abs(math.sqrt(root) - x) <= close:
                return root, True
    return None


def _to_the(exponent: int, prime: int) -> Array:
    """n ** exponent modulo a prime, for each residue n."""
    result, square = np.ones(prime, np.int64), np.arange(prime)
    while exponent:
        if exponent & 1:
            result = result * square % prime
        square, exponent = square * square % prime, exponent >> 1
    return result


def _primitive(g: int, prime: int) -> bool:
    """Whether g generates all residues of a prime 2 R + 1."""
    return pow(g, 2, prime) != 1 and pow(g, (prime - 1) // 2, prime) != 1
