"""The sentences of grading that a student reads, by id; tritontrace/messages.py says how they are written."""

from pathlib import Path

from tritontrace.messages import Catalogue

say = Catalogue.read(Path(__file__).parent).say
