"""Sentences as data: an id with parameters. The words stand in catalogues, a folder of TOML files for each language.

An id is the name of a file and of a key in it: `trace.race.lanes` is `lanes` in the table `race` of trace.toml. A sentence is a
format string; `{count:one|several}` chooses by a number, or by whether something holds, and `{names: and }` joins a list.
"""

from __future__ import annotations

import numbers
import os
import string
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LANGUAGE", "Catalogue", "Message", "MessageError", "message_of"]

LANGUAGE = "TRITONTRACE_MESSAGES"
"""The environment variable that names a folder with catalogues of another language, in a folder for each package."""


class Message(str):
    """A sentence with its id and parameters: code and tests look at `id` and `parameters`, people read the text.

    >>> from tritontrace.messages import Catalogue
    >>> words = Catalogue({"race.stores": "{programs} {programs:program stores|programs store} to `{tensor}`."})
    >>> message = words.say("race.stores", programs=2, tensor="x")
    >>> print(message, message.id, message.parameters)
    2 programs store to `x`. race.stores {'programs': 2, 'tensor': 'x'}
    """

    id: str
    parameters: Mapping[str, Any]

    def __new__(cls, text: str, id: str = "", parameters: Mapping[str, Any] | None = None) -> Message:
        message = super().__new__(cls, text)
        message.id, message.parameters = id, parameters or {}
        return message

    def as_data(self) -> dict[str, Any]:
        """Return the message as JSON holds it, parameters that are messages among it.

        >>> Message("2 tiles", "tiles.count", {"count": 2}).as_data()
        {'text': '2 tiles', 'id': 'tiles.count', 'parameters': {'count': 2}}
        """
        return {
            "text": str(self),
            "id": self.id,
            "parameters": {name: _plain(v) for name, v in self.parameters.items()},
        }

    @classmethod
    def from_data(cls, data: Any) -> Message:
        """Return the message that `as_data` converted. Raises ValueError if the data are malformed."""
        match data:
            case {"text": str(text), "id": str(id), "parameters": dict(parameters)} if len(data) == 3:
                return cls(text, id, {name: _parameter(value) for name, value in parameters.items()})
        raise ValueError("not a message")


def _plain(value: Any) -> Any:
    """A parameter as JSON holds it: counts may be numpy's."""
    if isinstance(value, Message):
        return value.as_data()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else value


def _parameter(value: Any) -> Any:
    """A parameter as it was given: it may be a message itself, or a list."""
    if isinstance(value, list):
        return [_parameter(each) for each in value]
    return Message.from_data(value) if isinstance(value, dict) else value


class MessageError(Exception):
    """An exception that carries a Message: str() is its text, and `message` has its id and its parameters.

    >>> from tritontrace.messages import Catalogue, MessageError
    >>> error = MessageError(Catalogue({"grid.negative": "the grid is {grid}"}).say("grid.negative", grid=-1))
    >>> print(error, error.message.id, error.message.parameters)
    the grid is -1 grid.negative {'grid': -1}
    """

    @property
    def message(self) -> Message:
        return message_of(self)


def message_of(error: BaseException) -> Message:
    """Return the Message of any error; of one that has none, its text without an id.

    >>> from tritontrace.messages import message_of
    >>> message_of(ValueError("odd")), message_of(ValueError("odd")).id
    ('odd', '')
    """
    (first, *_) = *error.args, ""
    return first if isinstance(first, Message) else Message(str(error))


@dataclass(frozen=True)
class Catalogue:
    """Sentences by id, with placeholders for parameters.

    >>> from tritontrace.messages import Catalogue
    >>> print(Catalogue({"tiles.count": "{count:one tile|{count:,} tiles}"}).say("tiles.count", count=2048))
    2,048 tiles
    """

    sentences: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> Catalogue:
        """Return the sentences in the TOML files of a package's folder, replaced by those that LANGUAGE has for that package. A file is
        read when one of its sentences is first asked for."""
        other = os.environ.get(LANGUAGE)
        return cls(_Files([folder, Path(other) / folder.parent.name] if other else [folder]))

    def say(self, id: str, /, **parameters: Any) -> Message:
        """Return the sentence with this id, filled in. Raises LookupError if there is none, or if it has other parameters."""
        return Message(_FORMATTER.vformat(self.sentences[id], (), parameters), id, parameters)


class _Files(Mapping[str, str]):
    """The sentences of the TOML files in folders by id; a later folder's replace those before."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._paths = [path for folder in folders for path in folder.glob("*.toml")]
        self._read: dict[str, dict[str, str]] = {}

    def _file(self, name: str) -> dict[str, str]:
        if name not in self._read:
            texts = [path.read_text("utf-8") for path in self._paths if path.stem == name]
            self._read[name] = dict(each for text in texts for each in _flat(name, tomllib.loads(text)))
        return self._read[name]

    def __getitem__(self, id: str) -> str:
        return self._file(id.partition(".")[0])[id]

    def __iter__(self) -> Iterator[str]:
        return (id for name in dict.fromkeys(path.stem for path in self._paths) for id in self._file(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    else:
        for key, each in value.items():
            yield from _flat(f"{name}.{key}", each)


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" in format_spec:
            one, _, several = format_spec.partition("|")
            return one if value == 1 else several
        if isinstance(value, list):
            return format_spec.join(map(str, value))
        return super().format_field(value, format_spec)

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        if unused := kwargs.keys() - used_args:
            raise LookupError(f"the sentence has no place for {', '.join(sorted(unused))}")


_FORMATTER = _Formatter()
say = Catalogue.read(Path(__file__).with_name("catalogue")).say
