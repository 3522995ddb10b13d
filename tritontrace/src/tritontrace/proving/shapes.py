"""Torch, asked for shapes: every tensor's sizes and strides come as Sizes, with formulas.

A size of 2 or more is a symbol, and sizes that are equal are one symbol: of a script that adds two vectors of 1,000 numbers it is
not known that they need not be equal. What torch makes of tensors has the sizes that its operands had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from tritontrace.proving import formulas
from tritontrace.proving.formulas import SizeFormula, symbol, whole
from tritontrace.proving.sizes import Size, formula_of, sized

MOST = (
    1 << 30
)  # elements of a tensor of which proofs speak: beyond it, 32-bit offsets are what a reader looks for first
_SHAPE = torch.Tensor.shape.__get__  # pyright: ignore[reportAttributeAccessIssue] - a property of the class


class SizedShapes(TorchFunctionMode):
    """Torch mode that tracks the formulas of all tensors' shapes.

    literals  whether a number of the source that makes a tensor is a size, too, as in a script
    symbols   name -> its number in this run
    shared    names of symbols that stand for several sizes, because these are equal in the example
    """

    def __init__(self, literals: bool, symbols: Mapping[str, int] | None = None, shared: Iterable[str] = ()):
        super().__init__()
        self.literals, self.shared = literals, set(shared)
        self.symbols: dict[str, int] = dict(symbols or {})
        self._by_number = {number: symbol(name, low=1) for name, number in self.symbols.items() if number > 1}
        self._known: Any = WeakTensorKeyDictionary()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function == _SHAPE or (function is torch.Tensor.size and len(args) + len(kwargs) == 1):
            return torch.Size(self._sizes(args[0]))
        if function is torch.Tensor.size:
            axis = args[1] if len(args) > 1 else kwargs["dim"]
            return self._sizes(args[0])[axis]
        if function in (torch.Tensor.numel, torch.numel, torch.Tensor.nelement):
            return sized(args[0].numel(), product(self.shape(args[0])))
        if function is torch.Tensor.stride:
            strides = [sized(formulas.value(one, self.symbols), one) for one in self.strides(args[0])]
            axis = args[1] if len(args) > 1 else kwargs.get("dim")
            return tuple(strides) if axis is None else strides[axis]
        result = function(*args, **kwargs)
        made = [result] if isinstance(result, torch.Tensor) else result if isinstance(result, (tuple, list)) else []
        given = list(_in((args, kwargs)))
        for tensor in made:
            if isinstance(tensor, torch.Tensor) and not any(tensor is one for one in given):
                self._learn(tensor, given, "make" if not any(isinstance(g, torch.Tensor) for g in given) else "")
        return result

    # ------------------------------------------------------------------------------------------------- what is known

    def shape(self, tensor: torch.Tensor) -> tuple[SizeFormula, ...]:
        """Return the formulas of a tensor's sizes."""
        if tensor not in self._known:
            self._known[tensor] = tuple(self._symbol(size) for size in tensor.shape)
        return self._known[tensor]

    def learn(self, tensor: torch.Tensor, shape: tuple[SizeFormula, ...]) -> None:
        """Record the formulas of a tensor's sizes."""
        self._known[tensor] = shape

    def strides(self, tensor: torch.Tensor) -> tuple[SizeFormula, ...]:
        """Return the formulas of a tensor's strides: those of a dense tensor with the axes in this order; of another one, numbers. Along an
        axis of one element torch may have any number, and nobody goes that way."""
        order = axes(tensor)
        outcome = [whole(stride) for stride in tensor.stride()]
        if order is not None:
            after = whole(1)
            for axis in reversed(order):
                if tensor.shape[axis] == 1 or formulas.value(after, self.symbols) == tensor.stride(axis):
                    outcome[axis] = after
                after = after * self.shape(tensor)[axis]
        return tuple(outcome)

    def match(self, number: int, others: Iterable[int] = ()) -> SizeFormula | None:
        """Return a formula with this value: a size, a product of sizes, or one of these rounded up in parts of one of `others`; or None."""
        sizes = list(self._by_number.items())
        if number in self._by_number:
            return self._by_number[number]
        for count in (1, 2, 3):
            for some in combinations_with_replacement(sizes, count):
                total, formula = prod(n for n, _ in some), product(f for _, f in some)
                if total == number:
                    return formula
                for part in sorted({*others} - {1}, reverse=True):
                    if part > 0 and -(-total // part) == number:
                        return formulas.divided(formula + (part - 1), whole(part))
        return None

    # ------------------------------------------------------------------------------------------------- learning

    def _sizes(self, tensor: torch.Tensor) -> list[int]:
        return [sized(n, f) for n, f in zip(tensor.shape, self.shape(tensor), strict=True)]

    def _symbol(self, number: int) -> SizeFormula:
        if number < 2:
            return whole(number)
        if number in self._by_number:
            self.shared |= {one.name for one in formulas.symbols_of(self._by_number[number])}
        else:
            name = f"size {number}"
            self.symbols[name] = number
            self._by_number[number] = symbol(name, low=1)
        return self._by_number[number]

    def _learn(self, tensor: torch.Tensor, given: list[Any], how: str) -> None:
        """Find the formulas of a new tensor's sizes: of its shape, where that is given as numbers or as another tensor's, or among those
        of what it was made of."""
        if (written := self._as_given(tensor, given)) is not None:
            self._known[tensor] = written
            return
        known: dict[int, SizeFormula] = {}
        for one in given:
            if isinstance(one, Size):
                known.setdefault(int(one), one.formula)
        for one in given:
            if isinstance(one, torch.Tensor):
                shape = self.shape(one)
                for number, formula in zip(one.shape, shape, strict=True):
                    known.setdefault(number, formula)
                for first in range(len(shape)):
                    for last in range(first + 2, len(shape) + 1):
                        known.setdefault(prod(one.shape[first:last]), product(shape[first:last]))
        literal = {one for one in given if type(one) is int} if not self.literals else set()
        outcome = []
        for number in tensor.shape:
            if number < 2 or (number in literal and number not in known):
                outcome.append(whole(number))
            else:
                outcome.append(known[number] if number in known else self._symbol(number))
        self._known[tensor] = tuple(outcome)

    def _as_given(self, tensor: torch.Tensor, given: list[Any]) -> tuple[SizeFormula, ...] | None:
        """The formulas of a shape that stands among what a tensor was made of, number by number: two of them that are equal for these sizes
        need not be equal for others, and one of them may be 1."""
        shape = tuple(tensor.shape)
        for one in given:
            if isinstance(one, torch.Tensor) and tuple(one.shape) == shape:
                return self.shape(one)
        numbers = [one for one in given if isinstance(one, int)]
        for first in range(len(numbers) - len(shape) + 1):
            some = numbers[first : first + len(shape)]
            if tuple(map(int, some)) == shape and any(isinstance(one, Size) for one in some):
                return tuple(
                    formula_of(n) if isinstance(n, Size) or not self.literals else self._symbol(n) for n in some
                )
        return None


def axes(tensor: torch.Tensor) -> list[int] | None:
    """Return the axes of a dense tensor from the outermost in memory to the innermost; None if it has gaps or overlaps."""
    order = sorted(range(tensor.dim()), key=lambda axis: (-tensor.stride(axis), -tensor.shape[axis], axis))
    after = 1
    for axis in reversed(order):
        if tensor.shape[axis] != 1 and tensor.stride(axis) != after:
            return None
        after *= tensor.shape[axis]
    return order


def product(some: Iterable[SizeFormula]) -> SizeFormula:
    """Return the product of formulas; 1 of none."""
    total = whole(1)
    for formula in some:
        total = total * formula
    return total


def _in(value: Any) -> Iterator[Any]:
    """Tensors and numbers in nested arguments."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from _in(one)
    elif isinstance(value, (torch.Tensor, int)):
        yield value
