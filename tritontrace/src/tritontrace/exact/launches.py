"""Launches in exact arithmetic: tensors in memory have a word beside each float, and kernels read and write those."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as made_by
from typing import Any, cast

import numpy as np
import torch

from tritontrace.exact.field import Field
from tritontrace.exact.operations import NoMeaning, arithmetic
from tritontrace.messages import MessageError, say
from tritontrace.tracing.accesses import Accesses, Hit, Instruction
from tritontrace.tracing.faults import Faults
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.memory import Arena, Region, quietly, storage_key
from tritontrace.tracing.pattern import Shapes
from tritontrace.tracing.recorded import Recorded
from tritontrace.ttir import ir
from tritontrace.ttir.elements import FLOATS, HALF
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.launching import KernelError, Site

_DTYPES = {"f32": torch.float32, "f64": torch.float64, **HALF}  # of fp8 any format: bytes


class Words:
    """The field words of one storage: what kernels read and write instead of its bytes.

    values   (elements,) words;  writers  (elements,) the number of the store that wrote each, -1 for none
    """

    def __init__(self, storage: torch.UntypedStorage, itemsize: int, values: np.ndarray):
        self.storage, self.itemsize, self.values = (
            storage,
            itemsize,
            values,
        )  # the storage is held: its address stays its own
        self.writers = np.full(values.size, -1, np.int32)

    def items(self, itemsize: int, run: int = 0) -> np.ndarray:
        """Return the words as items, as Region.items does."""
        if not run:
            return self.values
        size = max(0, self.values.size - run + 1)
        return np.lib.stride_tricks.as_strided(self.values, (size, run), (8, 8))

    def of(self, tensor: torch.Tensor, values: np.ndarray | None = None) -> np.ndarray:
        """View the words (or `values`, one for each) in the tensor's shape."""
        values = self.values if values is None else values
        strides = [values.itemsize * stride for stride in tensor.stride()]
        return np.lib.stride_tricks.as_strided(values[tensor.storage_offset() :], tensor.shape, strides)


class Memory:
    """The field words of all storages."""

    def __init__(self, field: Field):
        self.field = field
        self._words: dict[int, Words] = {}

    def knows(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage has words."""
        return (storage.data_ptr() or id(storage)) in self._words

    def words(self, tensor: torch.Tensor) -> Words:
        """Return the words behind a tensor of floats, converted from its numbers on first use."""
        return self.behind(tensor.untyped_storage(), tensor.dtype)

    def behind(self, storage: torch.UntypedStorage, dtype: torch.dtype) -> Words:
        key = storage.data_ptr() or id(storage)
        if key not in self._words:
            with quietly():
                flat = torch.empty(0, dtype=dtype, device=storage.device).set_(storage)
                self._words[key] = Words(storage, dtype.itemsize, self.field.numbers(flat.float().cpu().numpy()))
        words = self._words[key]
        if words.itemsize != dtype.itemsize:
            raise NoMeaning(say("exact.no_meaning.size"))
        return words

    def put(self, tensor: torch.Tensor, values: np.ndarray | int) -> None:
        """Store these words in a tensor of floats."""
        key = storage_key(tensor)
        if key not in self._words:
            size = tensor.untyped_storage().nbytes() // tensor.element_size()
            if np.ndim(values) == 0:
                self._words[key] = Words(
                    tensor.untyped_storage(), tensor.element_size(), np.full(size, values, np.int64)
                )
                return
            if tensor.numel() == size:
                self._words[key] = Words(tensor.untyped_storage(), tensor.element_size(), np.zeros(size, np.int64))
        words = self.words(tensor)
        words.of(tensor)[...] = values
        words.of(tensor, words.writers)[...] = -1


@dataclass
class Assigned:
    """A value assigned to a variable of a kernel, in the programs that ran together."""

    launch: int
    site: Site
    name: str
    shape: tuple[int, ...]
    digests: dict[int, bytes] = made_by(default_factory=dict)  # by program

    @property
    def key(self) -> tuple[int, str, tuple[int, ...]]:
        """Return the key by which it is found in another run."""
        return self.launch, self.name, self.shape


class NotApplicable(MessageError):
    """Raised where a formula cannot be evaluated in a finite field: the reason, with its line."""


class ExactLauncher(Launcher):
    """Launcher that evaluates kernels in the arithmetic of a finite field.

    sites     the stores that wrote words, by the numbers of Words.writers
    assigned  what variables got, in order, where `follow` asks for it
    """

    def __init__(self, memory: Memory, follow: bool = False):
        super().__init__(Recorded())
        self.memory, self.follow, self.arithmetic = memory, follow, arithmetic(memory.field)
        self.sites: list[Site] = []
        self.assigned: list[Assigned] = []

    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        """Evaluate a launch as in a trace. Raises NotApplicable for an operation without a meaning in a field."""
        try:
            super().launch(kernel, args, grid, options)
        except KernelError as error:
            if isinstance(error.__context__, NoMeaning):
                raise NotApplicable(error.message) from None
            raise

    def number_of(self, site: Site) -> int:
        """Return the number of a store in Words.writers."""
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site)

    def _accesses(self, arena: Arena) -> Accesses:
        return _ExactAccesses(arena, self.seen.fault_log, self._shapes, self)

    def _watched(self, front: Front) -> frozenset[str]:
        return frozenset(_names(front.module)) if self.follow else frozenset()

    def _seen_by_a_watcher(self, name: str, site: Site, programs: np.ndarray, values: np.ndarray) -> None:
        seen = Assigned(len(self.seen.launches), site, name, values.shape[1:])
        for number, value in zip(programs.tolist(), values, strict=True):
            seen.digests[number] = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).digest()
        self.assigned.append(seen)

    def _depends_on_what_was(self, arguments: dict[str, Any]) -> bool:
        return False  # a tuned launch runs once: what a second one does to bytes says nothing of words


def _names(module: dict[str, ir.Function]) -> Iterator[str]:
    for function in module.values():
        yield from (op.place.name for op in ir.walk(function.blocks) if op.place.name)


class _ExactAccesses(Accesses):
    """Memory of a launch whose floats are words."""

    def __init__(self, arena: Arena, faults: Faults, shapes: Shapes, launcher: ExactLauncher):
        super().__init__(arena, faults, shapes, launcher.arithmetic)
        self._launcher = launcher

    def _look(self, at: Instruction, programs: np.ndarray, addresses, mask) -> list[Hit]:
        hits = super()._look(at, programs, addresses, mask)
        try:
            for hit in hits:
                self._exact(at, hit, (len(addresses), at.lanes))
        except NoMeaning as problem:
            problem.site = at.site
            raise
        return hits

    def _exact(self, at: Instruction, hit: Hit, access: tuple[int, int]) -> None:
        """Let a hit read and write words."""
        memory = self._launcher.memory
        if at.element not in FLOATS:
            if memory.knows(hit.region.storage):
                raise NoMeaning(say("exact.no_meaning.memory"))
            return
        words = memory.behind(hit.region.storage, _DTYPES.get(at.element, torch.float8_e5m2))
        if at.op != "load":
            words.writers[hit.lanes(access)[1]] = self._launcher.number_of(at.site)
        hit.region = cast(Region, words)  # it has what a Hit asks of a region from here on
