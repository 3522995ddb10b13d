"""The sentences of verdicts, by id. criteria.toml has those of all units; tritontrace/messages.py says how they are written."""

from pathlib import Path

from tritontrace.messages import Catalogue

say = Catalogue.read(Path(__file__).parent).say
