"""Oracles of unit 01: what torch's views read, and the strides that new tensors have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.words import in_words

MAX_RANK, MAX_SIZE = 8, 1 << 22  # axes, and sizes and strides, of what a check believes


def storage_for(shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """Return the storage 0, 1, 2, ... that a tensor of this shape and these strides needs. Each number is its own position."""
    return torch.arange(torch.empty_strided(shape, strides, dtype=torch.int8, device="meta").untyped_storage().nbytes())


def position(index: list[int], strides: list[int], offset: int) -> int:
    """Return the position in the storage that torch reads for this index."""
    shape = [i + 1 for i in index]
    return int(torch.arange(1 << 16).as_strided(shape, strides, offset)[tuple(index)])


def strides_of_a_new_tensor(output: Any, shape: list[int]) -> str:
    """Return "" if these are the strides that torch gives a new tensor, else a message; for the criterion Holds."""
    expected = list(torch.empty(shape, device="meta").stride())
    if not _is_sizes(output):
        return say("strides.row_major_strides.no_list", shape=str(shape), axes=len(shape), got=in_words(output))
    facts = {"shape": str(shape), "right": str(expected), "got": str(list(output))}
    return "" if list(output) == expected else say("strides.row_major_strides.others", **facts)


def recipe_of(view: Callable[..., torch.Tensor]) -> Callable[..., tuple]:
    """Make the oracle that returns the (shape, strides, offset) of torch's own view."""

    def oracle(shape: list[int], strides: list[int], **options: Any) -> tuple:
        found = view(storage_for(shape, strides).as_strided(shape, strides), **options)
        return list(found.shape), list(found.stride())

    return oracle


def reads_like(view: Callable[..., torch.Tensor]) -> Callable[..., str]:
    """Make a function for the criterion Holds: "" if the recipe reads the elements that torch's view reads, else a message."""

    def problem(output: Any, shape: list[int], strides: list[int], **options: Any) -> str:
        given = [f"{name} {value}" for name, value in {"shape": shape, "strides": strides, **options}.items()]
        storage = storage_for(shape, strides)
        expected = view(storage.as_strided(shape, strides), **options)
        if not (isinstance(output, (list, tuple)) and len(output) == 2 and all(map(_is_sizes, output))):
            return say("strides.recipe.no_recipe", given=given, got=in_words(output))
        new_shape, new_strides = map(list, output)
        if new_shape != list(expected.shape):
            return say("strides.recipe.shape", given=given, right=str(list(expected.shape)), got=str(new_shape))
        if len(new_strides) != len(new_shape):
            return say("strides.recipe.count", given=given, sizes=len(new_shape), got=str(new_strides))
        last = sum((n - 1) * s for n, s in zip(new_shape, new_strides, strict=True))
        if last >= len(storage):
            way = [f"{n - 1} * {s}" for n, s in zip(new_shape, new_strides, strict=True)]
            facts = {"strides": str(new_strides), "way": way, "last": last, "end": len(storage) - 1}
            return say("strides.recipe.beyond", given=given, **facts)
        got = storage.as_strided(new_shape, new_strides)
        wrong = (got != expected).nonzero()
        if not len(wrong):
            return ""
        place = tuple(wrong[0].tolist())
        places = {"right": int(expected[place]), "got": int(got[place])}
        return say("strides.recipe.element", given=given, element=str(list(place)), strides=str(new_strides), **places)

    return problem


def _is_sizes(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) > MAX_RANK:
        return False
    return all(type(n) is int and 0 <= n <= MAX_SIZE for n in value)


def tiles(x: torch.Tensor, bm: int, bn: int) -> torch.Tensor:
    """View x (M, N) as tiles (M // bm, N // bn, bm, bn)."""
    return x.unfold(0, bm, bm).unfold(1, bn, bn)


VIEWS = {
    "x.T": lambda x: x.T,
    "x[:, ::2]": lambda x: x[:, ::2],
    "x.contiguous()": lambda x: x.contiguous(),
    "x.T.contiguous()": lambda x: x.T.contiguous(),
    "x.reshape(4096)": lambda x: x.reshape(4096),
    "x.T.reshape(4096)": lambda x: x.T.reshape(4096),
    "x.expand(10, 64, 64)": lambda x: x.expand(10, 64, 64),
    "x[[0, 1]]": lambda x: x[[0, 1]],
    "x.half()": lambda x: x.half(),
    "x.float()": lambda x: x.float(),
}


def new_bytes(make: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """Count the bytes of storage that make(x) allocates, x being (64, 64) float32; 0 if it shares the storage of x."""
    x = torch.zeros(64, 64)
    storage = make(x).untyped_storage()
    return 0 if storage.data_ptr() == x.untyped_storage().data_ptr() else storage.nbytes()
