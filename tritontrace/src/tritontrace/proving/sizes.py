"""Sizes that remember how they were computed: host code runs on numbers as ever, and each number that came from a tensor's
shape knows its formula. What host code asks of one (`assert n % 16 == 0`, `if n > 1024`, `min`) is kept as a condition: the way
that it took is taken by every size for which these hold.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton

from tritontrace.proving import formulas
from tritontrace.proving.formulas import Condition, SizeFormula, negated, whole

_NEXT_POWER_OF_2: Any = triton.next_power_of_2
_LEN: Any = len
_asked: list[dict[Condition, None]] = []  # what host code has asked, of each `remembering` that is open


class Size(int):
    """An int that carries the formula by which it was computed.

    >>> n = Size(1000, symbol("n"))
    >>> (n + 255) // 256, ((n + 255) // 256).formula
    (4, cdiv(n, 256))
    """

    formula: SizeFormula

    def __new__(cls, number: int, formula: SizeFormula) -> Size:
        made = super().__new__(cls, number)
        made.formula = formula
        return made

    def __add__(self, other: Any) -> Any:
        return _computed(operator.add, operator.add, self, other)

    def __sub__(self, other: Any) -> Any:
        return _computed(operator.sub, operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _computed(operator.sub, operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _computed(operator.mul, operator.mul, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return 0 - self

    def __floordiv__(self, other: Any) -> Any:
        return _divided(operator.floordiv, formulas.divided, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divided(operator.floordiv, formulas.divided, other, self)

    def __mod__(self, other: Any) -> Any:
        return _divided(operator.mod, formulas.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _divided(operator.mod, formulas.remainder, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        quotient = int(self) / other
        return _Ratio(quotient, self, other) if isinstance(other, int) and other > 0 else quotient

    def __rtruediv__(self, other: Any) -> Any:
        quotient = other / int(self)
        return _Ratio(quotient, other, self) if isinstance(other, int) and self > 0 else quotient

    def __lt__(self, other: Any) -> Any:
        return _compared(operator.lt, formulas.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _compared(operator.le, formulas.at_most, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared(operator.gt, lambda a, b: formulas.less(b, a), self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared(operator.ge, formulas.at_least, self, other)

    def __eq__(self, other: Any) -> Any:
        return _compared(operator.eq, formulas.equal, self, other)

    def __ne__(self, other: Any) -> Any:
        return _compared(operator.ne, lambda a, b: negated(formulas.equal(a, b)), self, other)

    __hash__ = int.__hash__

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other)

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other)


class _Ratio(float):
    """The quotient of two whole numbers, which math.ceil and math.floor make one of again."""

    def __new__(cls, number: float, of: int, by: int) -> _Ratio:
        made = super().__new__(cls, number)
        made.of, made.by = of, by
        return made

    of: int
    by: int

    def __ceil__(self) -> int:
        return -(-self.of // self.by)

    def __floor__(self) -> int:
        return self.of // self.by


def formula_of(number: int) -> SizeFormula:
    """Return the formula of a number; of one that is no Size, the number."""
    return number.formula if isinstance(number, Size) else whole(int(number))


def sized(number: int, formula: SizeFormula) -> int:
    """Attach a formula to a number; one that does not depend on sizes is an ordinary int."""
    return int(number) if formula.constant is not None else Size(number, formula)


def plain(value: Any) -> Any:
    """Strip the formulas from a value, in tuples, lists and dicts as well."""
    if isinstance(value, Size):
        return int(value)
    if isinstance(value, tuple):
        return tuple(map(plain, value)) if type(value) is tuple else value
    if isinstance(value, list):
        return list(map(plain, value))
    return {name: plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def sizes_in(value: Any) -> Iterator[Size]:
    """Yield the sizes in nested tuples and lists."""
    if isinstance(value, Size):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from sizes_in(one)


def _computed(number: Callable, formula: Callable, a: Any, b: Any) -> Any:
    if type(a) is bool or type(b) is bool or not (isinstance(a, int) and isinstance(b, int)):
        known = [int(one) if isinstance(one, Size) else one for one in (a, b)]
        return number(*known)
    return sized(number(int(a), int(b)), formula(formula_of(a), formula_of(b)))


def _divided(number: Callable, formula: Callable, a: Any, b: Any) -> Any:
    if not (isinstance(a, int) and isinstance(b, int)) or int(b) < 1:
        return number(_pinned(a), _pinned(b))
    if isinstance(b, Size):
        ask(formulas.at_least(b.formula, 1))
    return _computed(number, formula, a, b)


def _compared(number: Callable, condition: Callable, a: Size, b: Any) -> Any:
    if not isinstance(b, int) or isinstance(b, bool):
        return number(int(a), b)
    result = number(int(a), int(b))
    asked = condition(a.formula, formula_of(b))
    ask(asked if result else negated(asked))
    return result


def _pinned(value: Any) -> Any:
    """The number alone, of which it is noted that it must be this one."""
    if isinstance(value, Size):
        ask(formulas.equal(value.formula, int(value)))
        return int(value)
    return value


def _pinning(operation: Callable) -> Callable[[Any, Any], Any]:
    return lambda self, other: operation(_pinned(self), _pinned(other))


for _name in ("and", "or", "xor", "pow"):  # no formula has these
    _operation = getattr(operator, f"__{_name}__")
    setattr(Size, f"__{_name}__", _pinning(_operation))
    setattr(Size, f"__r{_name}__", _pinning(lambda a, b, operation=_operation: operation(b, a)))


def ask(condition: Condition) -> None:
    """Record that host code branches on this condition, which holds in this run."""
    if _asked and condition != formulas.ALWAYS:
        _asked[-1].setdefault(condition)


def _next_power_of_2(n: int) -> int:
    number = int(_NEXT_POWER_OF_2(int(n)))
    return sized(number, formulas.power_of_two(n.formula)) if isinstance(n, Size) and n >= 1 else number


def _len(of: Any) -> int:
    """Return what Python's len gives, which makes an int of all that `__len__` returns."""
    return of.size(0) if isinstance(of, torch.Tensor) and of.dim() else _LEN(of)


@contextmanager
def remembering() -> Iterator[dict[Condition, None]]:
    """Record the conditions on sizes that host code branches on inside the block. Yields them, in order."""
    asked: dict[Condition, None] = {}
    _asked.append(asked)
    triton.next_power_of_2, builtins.len = _next_power_of_2, _len
    try:
        yield asked
    finally:
        triton.next_power_of_2, builtins.len = _NEXT_POWER_OF_2, _LEN
        _asked.pop()
