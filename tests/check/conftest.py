"""Fixtures that the tests of checks share."""

import pytest

from course_lib.render import cells


@pytest.fixture
def places(monkeypatch):
    """All places below a notebook's cell that code has asked for, each with what is shown there, in order."""
    made = []

    class Place:
        def __init__(self, text):
            self.shown = [text]
            made.append(self)

        def show(self, text, html):
            self.shown.append(text)

    monkeypatch.setattr(cells, "Below", Place)
    return made
