"""The pages that people read: their tables and links agree with what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import grader
from course_lib.exercises import UNITS
from grader import index

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def rows(page: str) -> dict[str, list[str]]:
    """Number of a unit -> the cells of its row in the page's table of units, the last table row of each number."""
    lines = (line.removeprefix("# ") for line in (ROOT / page).read_text("utf-8").splitlines())
    tables = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| "))
    found = ((re.match(r"[\[*]*(\d\d) ", cells[0]), cells) for cells in tables)
    return {match[1]: cells for match, cells in found if match}


def minutes(unit: str) -> str:
    return str(sum(exercise.minutes for exercise in grader.exercises(unit).values()))


def test_the_readme_lists_the_units():
    listed = rows("README.md")
    assert list(listed) == [unit[:2] for unit in UNITS]
    for unit in UNITS:
        name, _, exercises, took = listed[unit[:2]]
        assert name.lower().replace(" ", "") == unit.replace("_", "")
        assert (exercises, took) == (str(len(grader.exercises(unit))), minutes(unit))


def test_the_start_page_maps_the_units():
    listed, said = rows("solutions/00_start_here.py"), rows("README.md")
    assert list(listed) == [unit[:2] for unit in UNITS]
    for unit in UNITS:
        name, teaches, took = listed[unit[:2]]
        assert (teaches, took) == (said[unit[:2]][1], minutes(unit))
        assert unit.startswith("00_") or name == f"[{said[unit[:2]][0]}](../{unit}/{unit}.ipynb)"
        assert (ROOT / "notebooks" / unit / f"{unit}.ipynb").exists()


def test_the_solutions_index_is_as_the_sources_are():
    assert index.check(ROOT) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_and_pictures_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    here = [link.partition("#")[0] for link in links if not re.match(r"https?://", link)]
    assert [link for link in here if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_name_files_that_exist(page):
    named = re.findall(r"`python3? ((?:benchmarks|docs)/\w+\.py)", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_map_names_files_that_exist():
    text = (ROOT / "docs" / "design.md").read_text("utf-8")
    have = {
        path.name for room in ("course_lib", "grader", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")
    }
    named = set(re.findall(r"\b\w+\.py\b", text)) - {"NN_topic.py"}
    assert named - have == set()
    rooms = re.findall(r"^ *(\w+)/  ", text, re.M)
    assert [room for room in rooms if not any((p / room).is_dir() for p in (ROOT, *ROOT.glob("*")))] == []


def test_instructors_find_the_short_path_in_the_readme():
    section = (ROOT / "README.md").read_text("utf-8").partition("## For instructors\n")[2].partition("\n## ")[0]
    assert "docs/instructors.md" in section and len(section.strip().splitlines()) <= 20


def test_an_image_holds_nothing_that_git_ignores():
    def patterns(name: str) -> set[str]:
        lines = (ROOT / name).read_text("utf-8").splitlines()
        return {line.strip("/").removeprefix("**/") for line in lines if line and not line.startswith("#")}

    assert patterns(".gitignore") <= patterns(".dockerignore")
