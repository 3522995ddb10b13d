"""The pages that people read: their tables and links agree with what is there."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import grader
from course_lib.exercise import Effort
from course_lib.exercises import UNITS
from course_lib.hardware import inductor
from grader.building import index, units

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(
    path for room in ("course_lib", "grader", "strides", "tritontrace/src") for path in (ROOT / room).rglob("*.py")
)
EXERCISES = ROOT / "course_lib" / "exercises"  # says once, for the package of any unit, which files are in it
SUBMISSIONS = ROOT / "grader" / "audit" / "variants"  # its folders hold what students might hand in
OUR_OWN = [path for path in MODULES if SUBMISSIONS not in path.parent.parents]
PACKAGES = [path.parent for path in MODULES if path.name == "__init__.py" and path.parent.parent != EXERCISES]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_table_of_units_is_as_the_exercises_are():
    assert list(units.TEACHES) == list(UNITS)
    for unit, (name, _) in units.TEACHES.items():
        assert name.lower().replace(" ", "") == unit.replace("_", "")
    assert units.check(ROOT) == []


def test_a_unit_s_minutes_and_exercises_reach_both_tables(tmp_path, monkeypatch):
    monkeypatch.setitem(units.TEACHES, "02_dtypes", ("02 dtypes", "what fits"))
    exercise = next(iter(grader.exercises("02_dtypes").values()))
    monkeypatch.setitem(
        grader.exercises("02_dtypes"),
        "dtypes.more",
        dataclasses.replace(exercise, effort=Effort(1000, 1, 1), track="more"),
    )
    (tmp_path / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    assert units.check(tmp_path) == [
        "README.md: its table of units is stale: `grader build --no-execute` writes it anew."
    ]
    units.write(tmp_path)
    assert (
        "\n| [02 dtypes](solutions/02_dtypes/02_dtypes.ipynb) | what fits | 4\xa0·\xa045\xa0min | 6\xa0·\xa01070\xa0min |\n"
        in (tmp_path / "README.md").read_text("utf-8")
    )
    assert units.check(tmp_path) == []
    assert "\n| [02 dtypes](../02_dtypes/02_dtypes.ipynb) | what fits | 45 | 1070 |\n" in units.table_for_notebooks(
        "00_start_here"
    )
    assert "| **00 start here** (you are here) | " in units.table_for_notebooks("00_start_here")


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


BLANK = re.compile(r"PUT_\w*[_]HERE|\bREPOSITOR[Y]\b|\bADDRES[S]\b|clone [<A-Z]")  # brackets: not in this line itself


def test_nothing_that_is_tracked_has_a_blank_to_fill_in():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    texts = {name: (ROOT / name).read_bytes().decode("utf-8", "replace") for name in listed.split("\0") if name}
    assert len(texts) > 500 and {name: found[0] for name, text in texts.items() if (found := BLANK.search(text))} == {}


def test_the_map_names_files_that_exist():
    text = (ROOT / "docs" / "design.md").read_text("utf-8")
    have = {
        path.name
        for room in ("course_lib", "grader", "tests", "benchmarks", "research", "tritontrace")
        for path in (ROOT / room).rglob("*.py")
    }
    named = set(re.findall(r"\b\w+\.py\b", text)) - {"NN_topic.py"}
    assert named - have == set()
    rooms = re.findall(r"^ *(\w+)/  ", text, re.M)
    have = {path.name for room in (".", "course_lib", "tests", "tritontrace/tests") for path in (ROOT / room).glob("*")}
    have |= {path.parent.name for path in MODULES}
    assert [room for room in rooms if room not in have] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_s_docstring_lists_its_files(package):
    """But for those that are named as a unit: UNITS lists them."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8")))
    files = {path.name for path in package.glob("*.py") if path.stem not in ("__init__", *UNITS.values())}
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py") if path.parent.name not in UNITS.values()}
    named = set(re.findall(r"\b\w+(?:\.py\b|/)", text))
    assert (files | rooms) - named == set()
    assert {name for name in named if name.endswith(".py")} - {path.name for path in MODULES} - {"NN_topic.py"} == set()


def short(version: str) -> str:
    """3.7 of 3.7.1."""
    return ".".join(version.split(".")[:2])


PINS = dict(re.findall(r"(\w+)==([\d.]+)", "\n".join(PYPROJECT["project"]["dependencies"])))
ENGINE = tomllib.loads((ROOT / "tritontrace" / "pyproject.toml").read_text("utf-8"))
TRITONS = [short(version) for version in ENGINE["tool"]["triton-versions"]]
PYTHON = PYPROJECT["project"]["requires-python"].removeprefix(">=")


@pytest.mark.parametrize(
    "page, words, version",
    [
        ("README.md", r"Python (\d[\d.]+\d)", PYTHON),
        ("CONTRIBUTING.md", r"Triton from (\d[\d.]+\d) to (\d[\d.]+\d)", (TRITONS[0], TRITONS[-1])),
        ("docs/hosted.md", r"Python (\d[\d.]+\d) or newer", PYTHON),
        ("docs/hosted.md", r"must have Python (\d[\d.]+\d)", PYTHON),
        ("docs/hosted.md", r"torch (\d[\d.]+\d) with", short(PINS["torch"])),
        ("docs/hosted.md", r"with Triton (\d[\d.]+\d)", short(PINS["triton"])),
        ("docs/hosted.md", r"Triton (\d[\d.]+\d) to (\d[\d.]+\d)", (TRITONS[0], TRITONS[-1])),
        ("docs/hosted.md", r"Triton is (\d[\d.]+\d) or newer", TRITONS[0]),
        (
            "tritontrace/src/tritontrace/catalogue/launch.toml",
            r"Triton (\d[\d.]+\d) to (\d[\d.]+\d)",
            (TRITONS[0], TRITONS[-1]),
        ),
        ("make.py", r"Python (\d[\d.]+\d) or newer", PYTHON),
    ],
)
def test_versions_are_those_of_pyproject(page, words, version):
    assert set(re.findall(words, " ".join((ROOT / page).read_text("utf-8").split()))) == {version}


# `peers` are what benchmarks/ measures the course against, on a GPU: the newest are wanted, and nothing here installs them
EXTRAS = {name: lines for name, lines in PYPROJECT["project"]["optional-dependencies"].items() if name != "peers"}
NAMED = [Requirement(line) for line in sum(EXTRAS.values(), PYPROJECT["project"]["dependencies"])]
PINNED = {canonicalize_name(each.name) for each in NAMED if "==" in str(each.specifier)}
CONSTRAINTS = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if not line.startswith("#")]


def test_constraints_agree_with_pyproject():
    """Pins of what the course names itself stand in pyproject.toml alone; constraints.txt has those of all that these need."""
    assert [line for line in CONSTRAINTS if not re.fullmatch(r"[a-z0-9-]+==\d[\w.]*", line)] == []
    versions = dict(line.split("==") for line in CONSTRAINTS)
    assert len(versions) == len(CONSTRAINTS) and PINNED & versions.keys() == set()
    ranges = [each for each in NAMED if "==" not in str(each.specifier) and each.name != PYPROJECT["project"]["name"]]
    assert [str(each) for each in ranges if versions[canonicalize_name(each.name)] not in each.specifier] == []


def test_all_that_the_course_needs_is_pinned_or_constrained():
    """But for what torch pins itself, where it is for a GPU; `make constraints` names what is new."""
    waiting, needed = list(NAMED), set()
    while waiting:
        name = canonicalize_name((asked := waiting.pop()).name)
        if (name, *asked.extras) in needed or name == PYPROJECT["project"]["name"]:
            continue
        needed.add((name, *asked.extras))
        try:
            lines = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # of an extra or a platform that is not here
            continue
        waiting += [
            each
            for each in map(Requirement, lines)
            if any(each.marker is None or each.marker.evaluate({"extra": extra}) for extra in ("", *asked.extras))
        ]
    known = PINNED | {line.partition("==")[0] for line in CONSTRAINTS}
    assert {name for name, *_ in needed if not name.startswith(("nvidia-", "cuda-"))} - known == set()


def test_the_environments_have_one_python_and_it_is_new_enough():
    """environment.yml leaves torch and Triton to pyproject.toml."""
    conda, docker = ((ROOT / name).read_text("utf-8") for name in ("environment.yml", "Dockerfile"))
    (python,) = {*re.findall(r"\bpython=([\d.]+)", conda), *re.findall(r"^FROM python:([\d.]+)", docker, re.M)}
    assert [int(part) for part in python.split(".")] >= [int(part) for part in PYTHON.split(".")]
    assert f"`python:{python}-slim`" in (ROOT / "docs" / "hosted.md").read_text("utf-8")
    assert not re.search(r"(?m)^ *- *(torch|triton)\b", conda)


def test_instructors_find_the_short_path_in_the_readme():
    section = (ROOT / "README.md").read_text("utf-8").partition("## For instructors\n")[2].partition("\n## ")[0]
    assert "docs/instructors.md" in section and len(section.strip().splitlines()) <= 20


def test_an_image_holds_nothing_that_git_ignores():
    def patterns(name: str) -> set[str]:
        lines = (ROOT / name).read_text("utf-8").splitlines()
        return {line.strip("/").removeprefix("**/") for line in lines if line and not line.startswith("#")}

    assert patterns(".gitignore") <= patterns(".dockerignore")


def _undocumented(path):
    """Names of the public functions and classes without a docstring; "" stands for the module."""
    tree = ast.parse(path.read_text("utf-8"))
    yield from () if ast.get_docstring(tree) else ("",)
    for node in tree.body:
        public = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        if public and not ast.get_docstring(node):
            yield node.name


def test_what_is_public_has_a_docstring():
    # a notebook prints these as they are
    shown = {ROOT / "course_lib" / "hardware" / "inductor.py": set(inductor.FUNCTIONS)}
    found = {str(path.relative_to(ROOT)): set(_undocumented(path)) - shown.get(path, set()) for path in OUR_OWN}
    assert {path: names for path, names in found.items() if names} == {}


# A docstring that begins so has no noun of its own and is read twice; "Whether" and "How many" say what a function answers.
WITHOUT_A_NOUN = re.compile(
    r"(After|As|At|By|For|From|Have|In|Its?|Nothing|Of|So|Something|That|There|Those|What|When|Where|Which|While|Who|Whose|Why|"
    r"With|Without)\b"
)


def test_docstrings_begin_with_a_verb_or_a_noun():
    found = []
    rooms = [path for room in ("benchmarks", "research", "tests") for path in sorted((ROOT / room).rglob("*.py"))]
    for path in [*OUR_OWN, *(path for path in rooms if path.parent.name != "toy_variants")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                if WITHOUT_A_NOUN.match(text):
                    found.append(f"{path.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert found == []


def test_thousands_have_a_comma():
    """Find no number such as 65,536 that is written with a space, in guides, modules and units."""
    texts = [*PAGES, *(ROOT / "course_lib").rglob("*.py"), *(ROOT / "solutions").glob("*.py")]
    spaced = re.compile(r"(?<![\w.,])(?<!\d )\d{1,3}(?: \d{3})+\b(?![.,]?\d| \d)")
    found = [(path.name, text) for path in texts for text in spaced.findall(path.read_text("utf-8"))]
    assert found == []


def test_a_list_begins_on_a_line_of_its_own():
    """Find no list of a unit whose first item stands in the sentence before it: `fits if * it needs`, then a line `* and`."""
    lines = r"[^\n]*\n(?:#  +[^\n]*\n|# \([^\n]*\n)*# "
    swallowed = re.compile(rf"^# [^*\n]*\w:? (?:\* [a-z]{lines}\* |1\. {lines}2\. )", re.MULTILINE)
    texts = {
        path.name: re.sub(r"`[^`\n]*`", "code", path.read_text("utf-8")) for path in (ROOT / "solutions").glob("*.py")
    }
    assert [(name, found) for name, text in texts.items() for found in swallowed.findall(text)] == []
    assert swallowed.search("# So a tile fits if * it needs few\n# * it has few\n")
    assert swallowed.search("# both numbers right * for squares\n# (1 point),\n# * for others\n")
    assert swallowed.search("# a program 1. loads q,\n# 2. divides\n")


EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


def examples(path: Path) -> list[str]:
    """The Python code blocks of a page, or of the Markdown cells of a notebook."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "markdown")
    return EXAMPLE.findall(text)


def test_code_that_is_only_shown_is_python():
    shown = [*PAGES, *sorted((ROOT / "notebooks").glob("*/*.ipynb"))]
    found = {path: examples(path) for path in shown}
    assert sum(map(len, found.values())) > 5
    for path, codes in found.items():
        for code in codes:
            compile(code, path.name, "exec", ast.PyCF_ONLY_AST)
