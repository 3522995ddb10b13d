"""One meaning for each colour: figures take theirs by what they mean from tritontrace.picture, and never by how they look."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from matplotlib.colors import CSS4_COLORS, to_rgb

from tritontrace import picture

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "tritontrace" / "src" / "tritontrace"
DRAWING = [*sorted((ROOT / "course_lib" / "figures").rglob("*.py")), *sorted(ENGINE.rglob("draw.py"))]
LOOKS = {"BLUE", "ORANGE", "GREEN", "RED", "SKY", "YELLOW", "PURPLE", "GREY", "DARK_GREY"}
PLAIN = {"white", "none"}


@pytest.mark.parametrize("path", DRAWING, ids=lambda path: str(path.relative_to(ROOT)))
def test_colours_are_named_by_what_they_mean(path):
    literal, looks = [], []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in PLAIN:
            if re.fullmatch(r"#[0-9A-Fa-f]{3,8}|C\d|tab:\w+", node.value) or node.value in CSS4_COLORS:
                literal.append(f"line {node.lineno}: {node.value}")
        elif isinstance(node, ast.ImportFrom) and node.module == "tritontrace.picture":
            looks += [alias.name for alias in node.names if alias.name in LOOKS]
    assert not literal and not looks


@pytest.mark.parametrize(
    "together",
    [
        ("LEFT", "RIGHT", "RESULT", "PART", "WASTE", "WRONG", "IDLE"),
        ("NOW", "LOADED", "DONE", "RESULT", "PART", "IDLE"),
        ("READ", "WRITTEN", "ATOMIC"),
        ("ALUS", "CACHES", "DRAM", "CONTROL", "NOW", "IDLE"),
        ("OURS", "OTHERS", "YARDSTICK", "LIMIT"),
        ("ONE", "TWO", "THREE", "FOUR", "FIVE"),
    ],
    ids=", ".join,
)
def test_meanings_that_meet_in_a_picture_have_colours_of_their_own(together):
    colours = [to_rgb(getattr(picture, name)) for name in together]
    assert len({tuple(round(part, 2) for part in colour) for colour in colours}) == len(together)


def test_paler_goes_towards_white():
    assert picture.paler("#000000", 0) == "#ffffff" and picture.paler("#336699", 1) == "#336699"
    assert picture.paler("#000000", 0.2) == "#cccccc"


def test_labels_are_moved_as_little_as_needed():
    assert picture.spread([0, 10, 20], 5).tolist() == [0, 10, 20]
    assert picture.spread([11, 10], 5).tolist() == [13, 8], "in the order in which they are, both by as much"
    assert picture.spread([0, 1, 2, 50], 4).tolist() == [-3, 1, 5, 50]
