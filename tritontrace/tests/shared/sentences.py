"""What a message says, and whether a catalogue fits the code that says its sentences."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tritontrace.messages import Message, message_of


def says(what: str | BaseException, id: str, /, **parameters: Any) -> bool:
    """Whether it is a message with this id, or an error that says one, and these are among its parameters."""
    message = message_of(what) if isinstance(what, BaseException) else what
    return getattr(message, "id", "") == id and message.parameters.items() >= parameters.items()


def mentions(what: str | BaseException, id: str, /, **parameters: Any) -> bool:
    """Whether it says that itself, or in one of its parameters."""
    message = message_of(what) if isinstance(what, BaseException) else what
    return any(says(part, id, **parameters) for part in parts(message))


@contextmanager
def refusing(id: str, kind: Any = ValueError, /, **parameters: Any) -> Iterator[None]:
    """Demand that the block ends with an error of this kind, or of these, which mentions that."""
    with pytest.raises(kind) as raised:
        yield
    assert mentions(raised.value, id, **parameters), [*parts(message_of(raised.value))]


def parts(message: Any) -> Iterator[Message]:
    """The message, and those among its parameters."""
    if isinstance(message, Message):
        yield message
        for value in message.parameters.values():
            for each in value if isinstance(value, list) else [value]:
                yield from parts(each)


def accented(sentence: str) -> str:
    """A pseudo-translation: other letters around the same parameters."""
    other, pieces = str.maketrans("aeiouAEIOU", "áéíóúÁÉÍÓÚ"), []
    for text, name, spec, _ in string.Formatter().parse(sentence):
        pieces.append(text.translate(other).replace("{", "{{").replace("}", "}}"))
        pieces += [] if name is None else [f"{{{name}:{spec}}}" if spec else f"{{{name}}}"]
    return "".join(pieces)


def misfits(sentences: Mapping[str, str], files: Iterable[Path]) -> list[str]:
    """List calls of `say` with an id that has no sentence or with other parameters, and sentences that no code names.

    An id may be put together: `f"race.{name}"` names each sentence of a table.
    """
    named, found = [], []
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and (pattern := _pattern(node)):
                named.append(pattern)
            match node:
                case ast.Call(func=ast.Name("say"), args=[ast.Constant(str(id))]):
                    names = [each.arg for each in node.keywords]
                    if id not in sentences:
                        found.append(f"{path.name}:{node.lineno}: {id} has no sentence")
                    elif None not in names and set(names) != set(parameters(sentences[id])):
                        found.append(f"{path.name}:{node.lineno}: {id} has other parameters")
    whole = re.compile("|".join(f"(?:{pattern})" for pattern in dict.fromkeys(named)))
    ends = {id: [id, *(id[dot.end() :] for dot in re.finditer(r"\.(?=.*\.)", id))] for id in sentences}
    return found + [f"{id} is said nowhere" for id in sentences if not any(map(whole.fullmatch, ends[id]))]


def _pattern(node: ast.Constant | ast.JoinedStr) -> str:
    """A pattern of the ids, or ends of ids with a point in them, that this string can be; "" for none."""
    if isinstance(node, ast.Constant):
        value = node.value if isinstance(node.value, str) else ""
        return re.escape(value) if re.fullmatch(r"\w+(\.\w+)+", value) else ""
    text = "".join(each.value if isinstance(each, ast.Constant) else "*" for each in node.values)
    return re.escape(text).replace(r"\*", r"\w*") if re.fullmatch(r"\w+(\.[\w*]+)+", text) else ""


def parameters(sentence: str) -> Iterator[str]:
    """The names of what is put into a sentence."""
    for _, name, spec, _ in string.Formatter().parse(sentence):
        if name is not None:
            yield name
            yield from parameters(spec or "")
