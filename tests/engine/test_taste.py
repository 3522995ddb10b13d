"""docs/taste.md shows what the trace says of its three scripts."""

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
    assert pages.without_lines(ran.stdout) == pages.without_lines(one.output)
