"""The tensors that kernels were given: what each is called, where it lies, and whether anybody has written it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from tritontrace.messages import say
from tritontrace.tracing.memory import ALIGNMENT, Region, storage_key
from tritontrace.tracing.parameters import Parameters


class Regions:
    """The Region of each torch storage that kernels got, in the order of first use.

    Each kernel's own parameter is the name that is told of its accesses, so a tensor may have several; no two tensors share one.

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
        """Name a tensor from now on."""
        self.names[storage_key(tensor)] = name
        self._held.append(tensor)

    def find(self, tensor: torch.Tensor | str) -> Region | None:
        """Return the region of a tensor, None if no kernel got it. Raises KeyError if none got one of that name."""
        if isinstance(tensor, torch.Tensor):
            return self._known.get(storage_key(tensor))
        by_name = {name: region for region in self for name in region.names}
        if tensor not in by_name:
            if not by_name:
                raise KeyError(say("asked.trace.no_name_at_all", name=repr(tensor)))
            raise KeyError(say("asked.trace.no_name", name=repr(tensor), names=", ".join(by_name)))
        return by_name[tensor]

    def of(self, tensor: torch.Tensor) -> Region:
        """Return the region of a tensor that a kernel got."""
        return self._known[storage_key(tensor)]

    def given(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, Region]:
        """Return the region of each tensor argument of a launch, by parameter; they are called by these names from now on."""
        views: dict[int, dict[str, torch.Tensor]] = {}
        for parameter, tensor in tensors.items():
            views.setdefault(storage_key(tensor), {})[parameter] = tensor
        for key, mine in views.items():
            region = self._known.get(key)
            if region is None:
                region = self._known[key] = self._new(key, next(iter(mine.values())))
            if key in self.names:
                mine = {self.names[key]: list(mine.values())[-1]}
            else:
                mine = {self._name(parameter, region): tensor for parameter, tensor in mine.items()}
            region.parameters = Parameters(mine, region.nbytes)
            region.names.update({each.name: None for each in region.parameters.each})
        for tensor in tensors.values():
            self.of(tensor).elements = tensor.numel()
        return {parameter: self.of(tensor) for parameter, tensor in tensors.items()}

    def _new(self, key: int, tensor: torch.Tensor) -> Region:
        storage, initialised = tensor.untyped_storage(), key not in self._uninitialised
        region = Region(storage, tensor.element_size(), initialised, self._next_base)
        region.read_only = key in self.inputs
        self._next_base += -(-max(1, region.nbytes) // ALIGNMENT) * ALIGNMENT
        return region

    def _name(self, parameter: str, region: Region) -> str:
        """Kernels call different tensors by one name: the second `o_ptr` is `o_ptr#2`."""
        taken = {name for other in self if other is not region for name in other.names} | set(self.names.values())
        candidates = [parameter] + [f"{parameter}#{i}" for i in range(2, len(taken) + 3)]
        return next(candidate for candidate in candidates if candidate not in taken)

    # ------------------------------------------------------------------------------------------------- what torch does

    def allocated(self, tensor: torch.Tensor) -> None:
        """Record a tensor as uninitialised."""
        self._uninitialised[storage_key(tensor)] = tensor.untyped_storage()

    def written(self, tensor: torch.Tensor) -> None:
        """Record a tensor as written by torch."""
        key = storage_key(tensor)
        self._uninitialised.pop(key, None)
        if key in self._known:
            self._known[key].ready = None
