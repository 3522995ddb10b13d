"""The remarks that variants draw, written down to be read: in remarks/, for each unit, a sentence and the variants that are told it.

A remark is a claim about an answer, and only a reader can say whether it is true of one. So the kill matrix fails where a variant draws
another one than the one that stands here, and `grader kill-matrix UNIT --write-remarks` writes down what was drawn: read the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tritontrace.messages import Message

FOLDER = Path(__file__).parent / "remarks"
Key = tuple[str, str]
"""An exercise's id, and the name of one of its variants."""


def to_read(remark: str) -> str:
    """Return the remark without the parts that a slow machine leaves out: a small input that shows a fault, and all of one that exact
    arithmetic has proved."""
    if (
        isinstance(remark, Message)
        and remark.id == "criteria.looks.both"
        and _id(remark.parameters["other"]).startswith("criteria.smallest.")
    ):
        remark = remark.parameters["one"]
    return "" if _id(remark).startswith(("criteria.smallest.", "criteria.formula.")) else remark


def _id(remark: str) -> str:
    return remark.id if isinstance(remark, Message) else ""


def alike(one: str, other: str) -> bool:
    """Whether two remarks are equal up to their numbers: inputs are drawn again where a case changes."""
    return _without_numbers(one) == _without_numbers(other)


def _without_numbers(remark: str) -> str:
    return re.sub(r"\d+(?:[.,]\d+)*", "0", remark)


@cache
def of_module(module: str) -> Mapping[Key, str]:
    """Return the reviewed remark of each variant of a unit's module; {} if there is no file."""
    path = FOLDER / f"{module}.json"
    sentences = json.loads(path.read_text()) if path.exists() else {}
    return {
        (f"{module}.{entry}", name): remark
        for entry, of_exercise in sentences.items()
        for remark, names in of_exercise.items()
        for name in names
    }


def write(judged: Mapping[Key, str]) -> None:
    """Save the remarks of these variants as reviewed; those of others stay."""
    for module in sorted({exercise.partition(".")[0] for exercise, _ in judged}):
        drawn = {
            **of_module(module),
            **{key: remark for key, remark in judged.items() if key[0].startswith(f"{module}.")},
        }
        sentences: dict[str, dict[str, list[str]]] = {}
        for (exercise, name), remark in sorted(drawn.items()):
            if remark:
                sentences.setdefault(exercise.partition(".")[2], {}).setdefault(remark, []).append(name)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{module}.json").write_text(json.dumps(sentences, indent=1, ensure_ascii=False) + "\n")
    of_module.cache_clear()
