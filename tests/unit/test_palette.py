"""One meaning for each colour: whatever draws takes its colours by what they mean from tritontrace.colours, and names none itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from matplotlib.colors import CSS4_COLORS, to_rgb

from tritontrace import colours
from tritontrace.picture import Picture, spread

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tritontrace" / "src" / "tritontrace" / "colours.py"
ROOMS = ("course_lib", "grader", "strides", "tritontrace/src")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if path != TABLE]
DRAWING = [path for path in SOURCES if "figures" in path.parts or path.name in ("draw.py", "drawings.py", "picture.py")]
LAB = ROOT / "course_lib" / "jupyter" / "labextensions" / "strides" / "static" / "course.js"
PAGES = [*sorted((ROOT / "grader" / "templates" / "site").iterdir()), LAB]
LOOKS = {"BLUE", "ORANGE", "GREEN", "RED", "SKY", "YELLOW", "PURPLE", "AMBER", "MID_GREY", "DARK_GREY"}
PLAIN = {"white", "none"}
HEX = re.compile(r"#[0-9A-Fa-f]{6}\b")


def _texts(path: Path) -> list[str]:
    return [
        n.value
        for n in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_names_a_colour_of_its_own(room):
    literal, looks = [], []
    for path in SOURCES:
        if (ROOT / room) in path.parents:
            literal += [f"{path.name}: {text[:40]}" for text in _texts(path) if HEX.search(text)]
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == "tritontrace.colours":
                    looks += [f"{path.name}: {alias.name}" for alias in node.names if alias.name in LOOKS]
    assert literal == [] and looks == []


@pytest.mark.parametrize("path", DRAWING, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_draws_calls_no_colour_by_its_name(path):
    assert [
        text for text in _texts(path) if re.fullmatch(r"C\d|tab:\w+", text) or text in CSS4_COLORS.keys() - PLAIN
    ] == []


LIGHTNESS = re.compile(
    r"\bpaler?\b|\b(?:light|dark)(?:er)? (?:blue|green|grey|orange|purple|red|ground)\b", re.IGNORECASE
)


@pytest.mark.parametrize("path", [*DRAWING, *(ROOT / "solutions").glob("*.py")], ids=lambda path: path.name)
def test_no_words_below_a_picture_name_a_lightness(path):
    """On a dark page it is another one."""
    tree = ast.parse(path.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    notes = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    told = [text for text in _texts(path) if text not in notes] + re.findall(
        r"^# (.*)", path.read_text("utf-8"), re.MULTILINE
    )
    assert [text for text in told if LIGHTNESS.search(text)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_have_the_colours_of_the_table(path):
    table = {value.lower() for value in vars(colours).values() if isinstance(value, str) and HEX.fullmatch(value)}
    assert {colour.lower() for colour in HEX.findall(path.read_text("utf-8"))} <= table


@pytest.mark.parametrize(
    "together",
    [
        ("LEFT", "RIGHT", "RESULT", "PART", "WASTE", "WRONG", "IDLE"),
        ("NOW", "LOADED", "DONE", "RESULT", "PART", "IDLE"),
        ("READ", "WRITTEN", "ATOMIC"),
        ("ALUS", "REGISTERS", "SHARED", "L2", "DRAM", "CONTROL", "NOW", "IDLE"),
        ("OURS", "OTHERS", "LIBRARIES", "LIMIT", "WASTE"),
        ("ONE", "TWO", "THREE", "FOUR", "FIVE"),
    ],
    ids=", ".join,
)
def test_meanings_that_meet_in_a_picture_have_colours_of_their_own(together):
    shades = {tuple(round(part, 2) for part in to_rgb(getattr(colours, name))) for name in together}
    assert len(shades) == len(together)


def test_paler_goes_towards_white():
    assert colours.paler("#000000", 0) == "#ffffff" and colours.paler("#336699", 1) == "#336699"
    assert colours.paler("#000000", 0.2) == "#cccccc"


def test_a_drawing_leaves_out_what_is_empty_above_and_below():
    picture = Picture(4, 3)
    picture.subplots().set(aspect="equal", xlim=(0, 4), ylim=(0, 1))
    width, height = map(float, re.findall(r'viewBox="0 [\d.]+ ([\d.]+) ([\d.]+)"', picture.html())[0])
    assert width == 4 * 72 and height < 0.6 * 3 * 72


def test_what_was_made_pale_is_pale_on_any_ground():
    """On a dark page, pale colours and greys that stayed as they are on white would be the loudest."""
    half = colours.paler(colours.WASTE, 0.5)
    assert colours.THINNED[half] == (colours.ORANGE, 0.15) and colours.sheer(half)[3] == 0.15
    assert colours.sheer(colours.IDLE)[3] < 1 == colours.sheer(colours.OURS)[3]
    picture = Picture(2, 1)
    picture.subplots().bar([0, 1, 2], 1, color=[colours.WASTE, colours.IDLE, colours.OURS])
    drawn = picture.html()
    assert colours.WASTE not in drawn and colours.IDLE not in drawn and colours.OURS.lower() in drawn
    assert drawn.count("color-mix(in srgb,#E69F00 30%,var(--ground))") == 1


def test_labels_are_moved_as_little_as_needed():
    assert spread([0, 10, 20], 5).tolist() == [0, 10, 20]
    assert spread([11, 10], 5).tolist() == [13, 8], "in the order in which they are, both by as much"
    assert spread([0, 1, 2, 50], 4).tolist() == [-3, 1, 5, 50]
