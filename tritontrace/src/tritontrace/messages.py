"""Sentences as data: an id with parameters. The words stand in catalogues, a folder of TOML files for each language.

An id is the name of a file and of a key in it: `trace.race.lanes` is `lanes` in the table `race` of trace.toml. A sentence is a
format string; `{count:one|several}` chooses by a number, or by whether something holds, and `{names: and }` joins a list.
"""

from __future__ import annotations

import os
import string
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LANGUAGE", "Catalogue", "Message"]

LANGUAGE = "TRITONTRACE_MESSAGES"
"""The environment variable that names a folder with catalogues of another language, in a folder for each package."""


class Message(str):
    """A sentence that knows what it says: code and tests look at `id` and `parameters`, people read the text.

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


@dataclass(frozen=True)
class Catalogue:
    """Sentences by id.

    >>> from tritontrace.messages import Catalogue
    >>> print(Catalogue({"tiles.count": "{count:one tile|{count:,} tiles}"}).say("tiles.count", count=2048))
    2,048 tiles
    """

    sentences: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> Catalogue:
        """Return what the TOML files of a package's folder hold, and in its place what LANGUAGE has for that package."""
        other = os.environ.get(LANGUAGE)
        return cls(_read(folder) | (_read(Path(other) / folder.parent.name) if other else {}))

    def say(self, id: str, /, **parameters: Any) -> Message:
        """Return the sentence with this id. Raises LookupError if there is none, or if it has other parameters."""
        return Message(_FORMATTER.vformat(self.sentences[id], (), parameters), id, parameters)


def _read(folder: Path) -> dict[str, str]:
    return dict(
        each for path in folder.glob("*.toml") for each in _flat(path.stem, tomllib.loads(path.read_text("utf-8")))
    )


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
