"""docs/taste.md shows what the trace says of its three scripts."""

import re
from pathlib import Path

import pages
import pytest

SHOWN = pages.shown(Path(__file__).resolve().parents[2] / "docs" / "taste.md")


def test_there_are_three_examples():
    assert len(SHOWN) == 3


@pytest.mark.parametrize("one", SHOWN, ids=[one.command for one in SHOWN])
def test_the_page_shows_what_the_command_prints(tmp_path, one):
    ran = pages.run(one, tmp_path)
    assert ran.returncode == ("out of bounds:" in one.output), ran.stderr
    assert _even(ran.stdout) == _even(one.output)


def _even(text):
    """The text with its lines' numbers, which are those of the file that the block is with its first line; without widths."""
    return re.sub(" +", " ", text).strip()
