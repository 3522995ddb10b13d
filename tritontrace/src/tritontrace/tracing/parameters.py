"""The kernel's parameters, and what of a storage is whose: a launch may be given several views of one storage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch


class Parameter(NamedTuple):
    """A view of a storage that a launch gets as an argument. start: in bytes."""

    name: str
    start: int = 0


class Parameters:
    """Maps each element of one storage to the launch's parameter it belongs to: the first one whose view holds it, and between views that
    of the one that begins before it. Views of the very same elements are one, with the first one's name.

    views   by name, in the order of the kernel's parameters;  nbytes  of the storage
    """

    def __init__(self, views: Mapping[str, torch.Tensor], nbytes: int):
        once: dict[tuple, str] = {}
        for name, view in views.items():
            once.setdefault((view.storage_offset(), view.shape, view.stride(), view.dtype), name)
        self._views, self._nbytes = {name: views[name] for name in once.values()}, nbytes
        self._unit = min(view.element_size() for view in self._views.values())
        self.each = [
            Parameter(name, int(view.storage_offset()) * view.element_size()) for name, view in self._views.items()
        ]

    def at(self, byte: int) -> Parameter:
        """Return the parameter whose element lies at this byte of the storage; the first one, where none does."""
        number = byte // self._unit
        if len(self.each) == 1 or not 0 <= number < self._whose.size:
            return self.each[0]
        return self.each[self._whose[number]]

    def of(self, counts: np.ndarray, itemsize: int) -> list[tuple[Parameter, np.ndarray]]:
        """List each parameter with the counts of its elements. counts: of all elements of the storage, each `itemsize` bytes wide."""
        if len(self.each) == 1:
            return [(self.each[0], counts)]
        whose = self._whose[np.minimum(np.arange(counts.size) * itemsize // self._unit, self._whose.size - 1)]
        return [(parameter, counts[whose == number]) for number, parameter in enumerate(self.each)]

    @cached_property
    def _whose(self) -> np.ndarray:
        """(units,) the number of each one's parameter."""
        units = max(1, self._nbytes // self._unit)
        in_order = sorted(range(len(self.each)), key=lambda number: self.each[number].start)
        starts = [self.each[number].start // self._unit for number in in_order]
        before = np.maximum(np.searchsorted(starts, np.arange(units), "right") - 1, 0)
        whose = np.array(in_order, np.uint16)[before]
        for number, view in reversed(list(enumerate(self._views.values()))):
            wide = view.element_size() // self._unit
            strides = [*(wide * stride * whose.itemsize for stride in view.stride()), whose.itemsize]
            places = whose[self.each[number].start // self._unit :]
            np.lib.stride_tricks.as_strided(places, (*view.shape, wide), strides)[...] = number
        return whose
