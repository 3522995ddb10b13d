"""The sentences of verdicts, by id. criteria.toml has those of all units; tritontrace/messages.py says how they are written."""

from collections.abc import Iterable
from pathlib import Path

from tritontrace.messages import Catalogue

say = Catalogue.read(Path(__file__).parent).say


def one_by_one(sentences: Iterable[str]) -> str:
    """Return these sentences as one message, each once; "" if there are none."""
    several = [*dict.fromkeys(filter(None, sentences))]
    return say("criteria.looks.several", sentences=several) if len(several) > 1 else next(iter(several), "")
