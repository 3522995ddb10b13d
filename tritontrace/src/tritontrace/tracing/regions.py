"""The tensors that kernels were given: what each is called, where it lies, and whether anybody has written it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from tritontrace.messages import say
from tritontrace.tracing.memory import ALIGNMENT, Region, storage_key


class Regions:
    """A Region for each torch storage that a kernel was given, in the order of first use.

    names   what to call tensors instead of the kernel's parameter;  inputs  those to which no kernel should store
    """

    def __init__(self, names: Mapping[str, torch.Tensor], inputs: Iterable[torch.Tensor]):
        inputs = list(inputs)
        self.names = {storage_key(tensor): name for name, tensor in names.items()}
        self.inputs = {storage_key(tensor) for tensor in inputs}
        self._held = [*names.values(), *inputs]  # so that no address is given to another tensor
        self._known: dict[int, Region] = {}  # by storage
        self._uninitialised: dict[int, torch.UntypedStorage] = {}
        self._next_base = ALIGNMENT

    def __iter__(self) -> Iterator[Region]:
        return iter(self._known.values())

    def name(self, name: str, tensor: torch.Tensor) -> None:
        """Call a tensor by this name from now on."""
        self.names[storage_key(tensor)] = name
        self._held.append(tensor)

    def find(self, tensor: torch.Tensor | str) -> Region | None:
        """The region of a tensor, None if no kernel was given it. Raises KeyError if none was given one of that name."""
        if isinstance(tensor, torch.Tensor):
            return self._known.get(storage_key(tensor))
        by_name = {region.name: region for region in self}
        if tensor not in by_name:
            if not by_name:
                raise KeyError(say("asked.trace.no_name_at_all", name=repr(tensor)))
            raise KeyError(say("asked.trace.no_name", name=repr(tensor), names=", ".join(by_name)))
        return by_name[tensor]

    def of(self, tensor: torch.Tensor) -> Region:
        """The region of a tensor that a kernel was given."""
        return self._known[storage_key(tensor)]

    def given(self, parameter: str, tensor: torch.Tensor) -> Region:
        """The region of a tensor that a kernel is given as `parameter` now."""
        key = storage_key(tensor)
        region = self._known.get(key)
        if region is None:
            name = self.names.get(key) or self._fresh(parameter)
            storage = tensor.untyped_storage()
            region = Region(name, storage, tensor.element_size(), key not in self._uninitialised, self._next_base)
            region.read_only = key in self.inputs
            self._next_base += -(-max(1, region.nbytes) // ALIGNMENT) * ALIGNMENT
            self._known[key] = region
        region.elements = tensor.numel()
        return region

    def _fresh(self, name: str) -> str:
        """Kernels call different tensors by one name: the second `o_ptr` is `o_ptr#2`."""
        taken = {region.name for region in self} | set(self.names.values())
        candidates = [name] + [f"{name}#{i}" for i in range(2, len(taken) + 3)]
        return next(candidate for candidate in candidates if candidate not in taken)

    # ------------------------------------------------------------------------------------------------- what torch does

    def allocated(self, tensor: torch.Tensor) -> None:
        """Note a tensor that nobody has written yet."""
        self._uninitialised[storage_key(tensor)] = tensor.untyped_storage()

    def written(self, tensor: torch.Tensor) -> None:
        """Note a tensor that torch writes."""
        key = storage_key(tensor)
        self._uninitialised.pop(key, None)
        if key in self._known:
            self._known[key].ready = None
