"""The messages that a verdict holds, for tests that ask for ids and parameters and not for words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tritontrace.messages import Message


def within(value: Any) -> Iterator[Message]:
    """Yield the messages in a verdict, a finding or a message, those among a message's parameters included."""
    if isinstance(value, Message):
        yield value
        yield from within([*value.parameters.values()])
    elif is_dataclass(value):
        yield from within([getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from within(each)


def id_of(text: str) -> str:
    """Return the id of a message; "" for a text that is none."""
    return getattr(text, "id", "")


def ids(value: Any) -> set[str]:
    """Return the ids of all messages in a verdict, a finding or a message."""
    return {message.id for message in within(value)}


def parameters(value: Any, id: str) -> dict[str, Any]:
    """Return the parameters of the one message with this id. Raises ValueError unless there is exactly one."""
    (one,) = (message for message in within(value) if message.id == id)
    return dict(one.parameters)
