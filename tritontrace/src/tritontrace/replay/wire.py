"""The format of what crosses process borders: a fixed magic, a JSON header, raw bytes. Nothing is ever unpickled.

A tree is made of dicts with string keys, lists, strings, numbers, booleans, None and torch tensors; tensors travel as the
bytes of their storage with dtype, size, stride and offset, so that views stay views. Dataclasses of plain data travel
as trees: `to_tree`, `from_tree`. A Message travels with its id and its parameters, wherever a string may stand.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import numbers
import struct
import types
import typing
from typing import Any, TypeGuard

import torch
from torch.utils._python_dispatch import _disable_current_modes

from tritontrace.messages import Message

__all__ = [
    "DTYPES",
    "MAGIC",
    "MAX_DEPTH",
    "MAX_HEADER",
    "MAX_PARTS",
    "MAX_STORAGES",
    "MAX_TENSOR",
    "MAX_TENSORS",
    "PLAIN",
    "WireError",
    "from_tree",
    "layout",
    "pack",
    "storage_bytes",
    "to_tree",
    "unpack",
    "view",
]

MAGIC = b"strides1"
# Whoever wrote a message may have wanted to cost its reader time or memory: ten times what the largest honest one has
MAX_DEPTH = 100  # levels of lists and dicts
MAX_HEADER = 16 << 20  # bytes
MAX_PARTS = 1_000_000  # lists and dicts: a bracket of two bytes takes sixty in memory
MAX_STORAGES = 10_000
MAX_TENSOR = 128 << 20  # bytes of a tensor's elements, unless they are all sent: a stride of 0 makes many of one
MAX_TENSORS = 512 << 20  # of all tensors, beyond what was sent
PLAIN = frozenset([type(None), bool, int, float, str])  # what travels as it is: most of a log
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


class WireError(ValueError):
    """Raised for bytes that are no valid message: truncated, too long, or with a malformed field."""


def storage_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return the storage as a uint8 tensor (nbytes,), without a copy.

    >>> storage_bytes(torch.ones(2).untyped_storage()).tolist()
    [0, 0, 128, 63, 0, 0, 128, 63]
    """
    with _disable_current_modes():
        return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def layout(tensor: torch.Tensor) -> dict[str, Any]:
    """Return dtype, size, stride and offset of a tensor as plain data.

    >>> layout(torch.ones(2, 3).T)
    {'dtype': 'float32', 'size': [3, 2], 'stride': [1, 3], 'offset': 0}
    """
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "size": list(tensor.size()),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
    }


def view(storage: torch.UntypedStorage, spec: dict[str, Any]) -> torch.Tensor:
    """Return the tensor that `layout` described, over `storage`. Raises WireError if it does not fit inside.

    >>> storage = torch.arange(6.0).untyped_storage()
    >>> view(storage, {"dtype": "float32", "size": [2], "stride": [2], "offset": 1}).tolist()
    [1.0, 3.0]
    """
    dtype = DTYPES.get(str(spec.get("dtype")))
    size, stride, offset = spec.get("size"), spec.get("stride"), spec.get("offset", -1)
    if (
        dtype is None
        or not _naturals(size)
        or not _naturals(stride)
        or len(size) != len(stride)
        or not _naturals([offset])
    ):
        raise WireError(f"not a tensor: {str(spec)[:200]}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else -1
    if (last + 1) * dtype.itemsize > storage.nbytes():
        raise WireError(
            f"a tensor of {size} with strides {stride} reaches beyond its storage of {storage.nbytes()} bytes"
        )
    try:
        with _disable_current_modes():  # set_ writes nothing: a trace must not count the storage as written
            return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
    except RuntimeError:  # more elements than can be counted
        raise WireError(f"a tensor of {str(size)[:200]} cannot be") from None


def _naturals(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**62 for v in values)


# trap: add no pickle, ever: the other end may be hostile
def pack(tree: Any) -> bytes:
    """Serialise a tree as one message. Raises TypeError for anything that is not plain data.

    >>> tree = unpack(pack({"n": 3, "x": torch.arange(3)}))
    >>> tree["n"], tree["x"].tolist()
    (3, [0, 1, 2])
    >>> pack({1, 2})
    Traceback (most recent call last):
        ...
    TypeError: set cannot travel
    """
    storages: dict[int, tuple[int, torch.UntypedStorage]] = {}

    def encode(value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        if type(value) in (list, tuple):
            return value if PLAIN.issuperset(map(type, value)) else [encode(v) for v in value]
        if type(value) is dict and {str}.issuperset(map(type, value)):
            return {k: v if type(v) in PLAIN else encode(v) for k, v in value.items()}
        if type(value) is torch.Tensor:
            value = value.detach().cpu()
            index, _ = storages.setdefault(value.untyped_storage()._cdata, (len(storages), value.untyped_storage()))
            return {"$tensor": layout(value) | {"storage": index}}
        if type(value) is Message:
            return {"$message": value.as_data()}
        raise TypeError(f"{type(value).__name__} cannot travel")

    body = encode(tree)
    blobs = [storage_bytes(storage).numpy() for _, storage in storages.values()]
    header = json.dumps({"storages": [blob.nbytes for blob in blobs], "body": body}).encode()
    return b"".join([MAGIC, struct.pack("<Q", len(header)), header, *(blob.data for blob in blobs)])


def unpack(message: bytes | bytearray) -> Any:
    """Deserialise a message to its tree. Raises WireError if the message is damaged or lies about its lengths.

    >>> unpack(pack([1, 2.5, "a", None]))
    [1, 2.5, 'a', None]
    >>> unpack(b"anything")
    Traceback (most recent call last):
        ...
    tritontrace.replay.wire.WireError: not a message of tritontrace
    """
    start = len(MAGIC) + 8
    if len(message) < start or message[: len(MAGIC)] != MAGIC:
        raise WireError("not a message of tritontrace")
    (length,) = struct.unpack_from("<Q", message, len(MAGIC))
    if length > MAX_HEADER:
        raise WireError(f"the header has {length} bytes; {MAX_HEADER} are allowed")
    text = bytes(message[start : start + length])
    if (parts := text.count(b"[") + text.count(b"{")) > MAX_PARTS:
        raise WireError(f"{parts} lists and dicts; {MAX_PARTS} are allowed")
    try:
        header = json.loads(text)
        sizes, body = header["storages"], header["body"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"the header cannot be read: {error}") from None
    if not _naturals(sizes) or start + length + sum(sizes) != len(message):
        raise WireError("the lengths in the header do not add up")
    if len(sizes) > MAX_STORAGES:
        raise WireError(f"{len(sizes)} storages; {MAX_STORAGES} are allowed")
    storages, position, spread = [], start + length, 0
    for size in sizes:
        part = bytearray(memoryview(message)[position : position + size])  # aligned, and its own
        blob = torch.frombuffer(part, dtype=torch.uint8) if size else None
        storages.append((torch.empty(0, dtype=torch.uint8) if blob is None else blob).untyped_storage())
        position += size

    def tensor(spec: Any) -> torch.Tensor:
        nonlocal spread
        index = spec.get("storage") if isinstance(spec, dict) else None
        if type(index) is not int or not 0 <= index < len(storages):
            raise WireError("a tensor names a storage that is not there")
        found = view(storages[index], spec)
        spread += max(0, found.nbytes - sizes[index])
        if found.nbytes > max(MAX_TENSOR, sizes[index]) or spread > MAX_TENSORS:
            raise WireError(
                f"tensors of {spread} bytes that were not sent; {MAX_TENSORS} are allowed, {MAX_TENSOR} of each"
            )
        return found

    def decode(value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise WireError("the body is nested too deeply")
        if isinstance(value, list):
            return value if PLAIN.issuperset(map(type, value)) else [decode(v, depth + 1) for v in value]
        if isinstance(value, dict):
            if "$tensor" in value:
                return tensor(value["$tensor"])
            if "$message" in value:
                return _message(value["$message"])
            return {k: v if type(v) in PLAIN else decode(v, depth + 1) for k, v in value.items()}
        return value

    return decode(body)


# ------------------------------------------------------------------------------------------------ dataclasses


def to_tree(value: Any) -> Any:
    """Convert a dataclass (and what it holds) to a tree.

    >>> from tritontrace.results import Flops
    >>> to_tree([Flops(dot=2)])
    [{'dot': 2, 'float': 0, 'special': 0, 'reduction': 0}]
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [*value] if PLAIN.issuperset(map(type, value)) else [to_tree(v) for v in value]
    if dataclasses.is_dataclass(value):
        return {f.name: to_tree(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {k: to_tree(v) for k, v in value.items()}
    if isinstance(value, Message):
        return value.as_data()
    if isinstance(value, numbers.Integral):
        return int(value)  # counts may be numpy's
    return value


def _message(tree: Any) -> Message:
    try:
        return Message.from_data(tree)
    except ValueError as error:
        raise WireError(str(error)) from None


@functools.cache
def _fields(cls: Any) -> dict[str, Any]:
    """Field -> type of a dataclass: to find them evaluates strings."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


_origin, _arguments = functools.cache(typing.get_origin), functools.cache(typing.get_args)


def from_tree(cls: Any, tree: Any) -> Any:
    """Convert a tree to the type `cls`, the inverse of to_tree. Raises WireError if a field is missing, unknown or of another type.

    >>> from tritontrace.results import Flops
    >>> from_tree(Flops, to_tree(Flops(dot=2)))
    Flops(dot=2, float=0, special=0, reduction=0)
    """
    if cls is Any or (type(tree) is cls and cls in PLAIN):
        return tree
    if cls is str and isinstance(tree, dict):
        return _message(tree)
    origin, arguments = _origin(cls), _arguments(cls)
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        fields = _fields(cls)
        if not isinstance(tree, dict) or tree.keys() != fields.keys():
            raise WireError(f"not a {cls.__name__}")
        return cls(**{name: from_tree(of, tree[name]) for name, of in fields.items()})
    if origin is list and isinstance(tree, list):
        plain = arguments[0] in PLAIN and {arguments[0]}.issuperset(map(type, tree))
        return [*tree] if plain or arguments[0] is Any else [from_tree(arguments[0], v) for v in tree]
    if origin is tuple and isinstance(tree, list) and len(tree) == len(arguments):
        return tuple(from_tree(t, v) for t, v in zip(arguments, tree, strict=True))
    if origin is dict and isinstance(tree, dict):
        return {k: from_tree(arguments[1], v) for k, v in tree.items()}
    if origin is types.UnionType or origin is typing.Union:
        return None if tree is None and type(None) in arguments else from_tree(arguments[0], tree)
    if origin is typing.Literal and tree in arguments:
        return tree
    if cls is float and type(tree) is int:
        return float(tree)
    if isinstance(cls, type) and type(tree) is cls:
        return tree
    raise WireError(f"expected {getattr(cls, '__name__', cls)}, got {type(tree).__name__}")
