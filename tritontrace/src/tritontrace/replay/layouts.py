"""Gluon's layouts and tensor descriptors as plain data, and back.

A layout is what its class and its numbers say; classes of the author's own are none, whatever they derive from.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cache
from typing import Any, NamedTuple

import triton.language as tl

from tritontrace.messages import Message, say

# trap: a layout of Gluon's is its class and its numbers, and a derived class is refused: the compiler calls a layout's
# methods in the trusted process

GLUON = "triton.experimental.gluon.language"
NAMES = (
    "AutoLayout", "CoalescedLayout", "BlockedLayout", "SliceLayout", "DistributedLinearLayout", "DotOperandLayout",
    "NVMMADistributedLayout", "NVMMASharedLayout", "SwizzledSharedLayout", "PaddedSharedLayout", "SharedLinearLayout",
)  # fmt: skip
MOST, LARGEST = 64, 1 << 48  # numbers in a list, and a number
WORDS = ("zero", "nan")  # what lies outside of a tensor


class Classes(NamedTuple):
    """Gluon's classes: layouts, by name; a barrier's layout; tensor descriptors."""

    layouts: dict[str, type]
    barrier: type | None
    descriptor: type | None


NONE = Classes({}, None, None)


@cache
def classes() -> Classes:
    """Load Gluon's classes, cached; loading takes as long as all of Triton by itself. Triton 3.4 has none, and 3.5 another one."""
    try:
        from triton.experimental.gluon import language
        from triton.experimental.gluon.language.nvidia.hopper.mbarrier import MBarrierLayout
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
    except ImportError:
        return NONE
    layouts = {name: getattr(language, name) for name in NAMES if hasattr(language, name)}
    return Classes(layouts, MBarrierLayout, TensorDescriptor)


def _known() -> Classes:
    """Gluon's classes, and none before it is loaded: nothing is one of Gluon's then."""
    return classes() if GLUON in sys.modules else NONE


def is_layout(value: Any) -> bool:
    """Whether a value is one of Gluon's layouts. A class derived from one could answer the compiler anything."""
    known = _known()
    return any(type(value) is kind for kind in (*known.layouts.values(), known.barrier))


def is_descriptor(value: Any) -> bool:
    """Whether a value is Gluon's tensor descriptor, and no subclass."""
    return type(value) is _known().descriptor


REFUSED = object()  # what is no plain data


def described(layout: Any) -> dict[str, Any] | None:
    """Serialise a layout as plain data; None if it holds anything else."""
    kind = "SwizzledSharedLayout" if type(layout) is classes().barrier else type(layout).__name__
    fields = {field.name: _plain(getattr(layout, field.name)) for field in dataclasses.fields(classes().layouts[kind])}
    return None if REFUSED in fields.values() else {"kind": kind, "fields": fields}


def rebuilt(data: Any) -> Any:
    """Rebuild a layout that `described` serialised. Raises ValueError, with a message, if it is malformed."""
    match data:
        case {"kind": str(kind), "fields": dict(fields)} if kind in classes().layouts:
            return _made(classes().layouts[kind], fields, say("replay.layout.kind", type=kind))
    raise ValueError(say("replay.layout.unknown"))


def fields_of(descriptor: Any) -> dict[str, Any] | None:
    """Serialise a tensor descriptor without its tensor; None if it holds anything else."""
    fields = {f.name: _plain(getattr(descriptor, f.name)) for f in dataclasses.fields(descriptor) if f.name != "base"}
    return None if REFUSED in fields.values() else fields


def descriptor(base: Any, fields: dict[str, Any]) -> Any:
    """Rebuild a tensor descriptor that `fields_of` serialised. Raises ValueError, with a message, if Gluon refuses it."""
    kind = classes().descriptor
    if kind is None:
        raise ValueError(say("replay.layout.no_gluon"))
    return _made(kind, fields, say("replay.layout.descriptor"), base=base)


def _plain(value: Any) -> Any:
    value = value.value if isinstance(value, tl.constexpr) else value
    if value is None or type(value) is bool or (type(value) is int and abs(value) <= LARGEST) or _is_word(value):
        return value
    if isinstance(value, (list, tuple)) or type(value) is tl.tuple:
        parts = [_plain(part) for part in value]
        return REFUSED if len(parts) > MOST or REFUSED in parts else parts
    return (described(value) or REFUSED) if is_layout(value) else REFUSED


def _is_word(value: Any) -> bool:
    return type(value) is str and value in WORDS


def _made(kind: type, fields: dict[str, Any], called: Message, **more: Any) -> Any:
    wanted = {field.name for field in dataclasses.fields(kind)} - more.keys()
    if fields.keys() != wanted:
        raise ValueError(say("replay.layout.fields", kind=called))
    try:
        return kind(**{name: _value(value) for name, value in fields.items()}, **more)
    except (AssertionError, TypeError, ValueError, IndexError, AttributeError) as error:
        reason = str(error) or say("replay.layout.no_reason")
        raise ValueError(say("replay.layout.not_made", kind=called, reason=reason)) from None


def _value(value: Any) -> Any:
    if value is None or type(value) is bool or (type(value) is int and abs(value) <= LARGEST):
        return value
    if _is_word(value):
        return value
    if type(value) is list and len(value) <= MOST:
        return [_value(part) for part in value]
    return rebuilt(value)
