"""A class in which every student but two hands in something odd, through the real nbgrader: each costs itself alone."""

import json
import os
import re
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
import toy
from nbconvert.exporters import HTMLExporter
from nbgrader.api import Gradebook
from nbgrader.server_extensions.formgrader import handlers
from toy import UNIT

from grader.building import build
from grader.judging import submission
from grader.nbgrader_config import config

pytestmark = pytest.mark.slow  # sixty students through nbgrader; test_preprocessors.py has a class of ten

SCRIPT = "<script>alert(1)</script>"
BESIDE = "open({!r}, 'w').write('a file beside a notebook was imported')"
CODE = {"double": "def double(x):\n    return 2 * x", "root": "def root(x):\n    return x ** 0.5"}


def cell(source, grade_id="", **more):
    metadata = {"nbgrader": {"grade_id": grade_id}} if grade_id else {}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None} | more


def notebook(*cells, **more):
    solved = [cell(source, f"toy-{name}") for name, source in CODE.items()]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [*solved, *cells]} | more


def output(**data):
    return {"output_type": "display_data", "metadata": {}, "data": {k.replace("_", "/"): v for k, v in data.items()}}


def raw(nb, old, new):
    """The notebook as JSON, changed where no encoder would."""
    text = json.dumps(nb)
    assert old in text
    return text.replace(old, new).encode()


LONG = "x" * 2_000
DEEP = b'{"cells": ' + b"[" * 100_000
READ = {  # handled: full marks
    "bytes_order_mark": b"\xef\xbb\xbf" + json.dumps(notebook()).encode(),
    "utf_16": json.dumps(notebook()).encode("utf-16"),
    "not_a_number": raw(notebook(metadata={"x": "NUMBER"}), '"NUMBER"', "[NaN, Infinity, -Infinity, 1e999]"),
    "big_number": raw(notebook(nbformat_minor="NUMBER"), '"NUMBER"', "9" * 4_000),
    "duplicate_keys": raw(notebook(), '"metadata": {}', '"metadata": {}, "metadata": 7, "nbformat": "?"'),
    "version_99": notebook(nbformat=99, nbformat_minor=-1),
    "version_3": {
        "nbformat": 3,
        "metadata": {},
        "worksheets": [
            {"cells": [{"cell_type": "code", "input": [source], "outputs": []} for source in CODE.values()]}
        ],
    },
    "no_version": notebook(nbformat=None, nbformat_minor=[], metadata="?"),
    "schema_99": notebook(cell("1", "toy-double-check") | {"metadata": {"nbgrader": {"schema_version": 99}}}),
    "duplicate_cells": notebook(*[cell(source, f"toy-{name}") for name, source in CODE.items()] * 3),
    "duplicate_checks": notebook(*[cell("1000", "toy-double-check")] * 3),
    "wrong_types": notebook(
        7,
        None,
        [],
        "x",
        {"cell_type": 7, "metadata": 7, "source": {"a": 1}},
        cell(["a = 1", None, 7], id=[1], outputs=7),
    ),
    "script_output": notebook(cell("a = 1", outputs=[output(text_html=SCRIPT, application_javascript="alert(1)")])),
    "script_error": notebook(
        cell("a = 1", outputs=[{"output_type": "error", "ename": SCRIPT, "evalue": SCRIPT, "traceback": [SCRIPT] * 3}])
    ),
    "script_svg": notebook(
        cell("a = 1", outputs=[output(**{"image_svg+xml": f"<svg onload='alert(1)'>{SCRIPT}</svg>"})])
    ),
    "widgets": notebook(metadata={"widgets": {"application/vnd.jupyter.widget-state+json": {"state": {"a": SCRIPT}}}}),
    "script_markdown": notebook(
        cell(f"# {SCRIPT}\n<img src=x onerror=alert(1)>\n<svg/onload=alert(1)>", cell_type="markdown"),
        cell(
            "[x](javascript:alert(1)) [y](  JaVaScRiPt:alert(1)) <a href='data:text/html,alert(1)' onclick=alert(1)>z</a>",
            cell_type="markdown",
        ),
        cell("<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>", cell_type="markdown"),
        cell(SCRIPT, cell_type="raw"),
        cell(SCRIPT, cell_type=SCRIPT),
        cell("![](x)", cell_type="markdown", attachments={"x": {"text/html": SCRIPT}}),
    ),
    "script_metadata": notebook(
        cell(f"# {SCRIPT}", SCRIPT, id=SCRIPT),
        metadata={"kernelspec": {"name": SCRIPT, "argv": ["sh"]}, "title": SCRIPT, "language_info": {"name": SCRIPT}},
    ),
    "spy": notebook(cell("![](http://tracker.example/x.png) <img src='//tracker.example/y'>", cell_type="markdown")),
    "mimicry": notebook(cell('<div class="modal in" id="score">100 / 100</div>', cell_type="markdown")),
    "paths_as_ids": notebook(cell("a = 1", "../../../etc/passwd"), cell("a = 2", LONG), cell("a = 3", "a\0b")),
    "skipped": notebook(cell("1", "toy-double-check") | {"metadata": {"tags": ["skip-execution"], "nbgrader": 3}}),
    "nested_markdown": notebook(
        cell("<div>" * 9_000, cell_type="markdown"), cell("> " * 100_000, cell_type="markdown")
    ),
    "null_bytes": notebook(cell("a = '\0'"), cell("\0", cell_type="markdown")),
    "surrogates": notebook(cell("a = '\ud800'"), cell("\udfff", cell_type="markdown")),
    "endless_demo": notebook(cell("while True: pass"), cell("import os; os._exit(0)"), cell("x = [0] * 10**12")),
}
REFUSED = {  # nothing can be judged, and the feedback says why
    "empty": (b"", "does not read as JSON"),
    "login_page": (b"<!doctype html><script>alert(1)</script>", "does not read as JSON"),
    "truncated": (json.dumps(notebook()).encode()[:-9], "does not read as JSON"),
    "latin_1": (json.dumps(notebook(cell("# \xe9")), ensure_ascii=False).encode("latin-1"), "does not read as JSON"),
    "deep": (DEEP, "does not read as JSON"),
    "number": (b"7", "has no cells"),
    "text": (b'"<script>alert(1)</script>"', "has no cells"),
    "no_cells": (b'{"cells": {}}', "has no cells"),
    "huge": (None, "MB; 100 are allowed"),
    "brackets": (b'{"cells": [' + b"[]," * 5_100_000 + b"[]]}", "lists and objects"),
    "many_cells": (notebook(*[{}] * 3_000), "cells; 2000 are allowed"),
    "many_lines": (notebook(cell("a = 1\n" * 30_000)), "lines in its cells"),
    "many_statements": (notebook(cell("a;" * 5_000)), None),
    "deep_code": (notebook(cells=[cell("double = " + "(" * 9_000, "toy-double")]), None),
}


def hand_in(home, student, content):
    path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """(home, student -> outcome, seconds) of the class. The judge gives what a program that defines the function earns."""
    with pytest.MonkeyPatch.context() as patch:
        exercises = toy.install(patch)
        course = tmp_path_factory.mktemp("course")
        home = course / "class"
        (course / "solutions").mkdir()
        (course / "solutions" / f"{UNIT}.py").write_text(toy.SOURCE)
        build.build(UNIT, execute=False, root=course)
        release = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
        for student in ("aaa_honest", "zzz_honest"):
            hand_in(home, student, notebook())
        for student, content in READ.items():
            hand_in(home, student, content)
        for student, (content, _) in REFUSED.items():
            path = hand_in(home, student, content or b"")
            if content is None:
                os.truncate(path, submission.MAX_FILE + 1)
        victim = home / "submitted" / "aaa_honest" / UNIT / f"{UNIT}.ipynb"
        for student in ("linked", "dangling", "folder", "pipe"):
            path = hand_in(home, student, b"")
            path.unlink()
            {
                "linked": lambda path: path.symlink_to(victim),
                "dangling": lambda path: path.symlink_to("/nowhere"),
                "folder": lambda path: path.mkdir(),
                "pipe": lambda path: os.mkfifo(path),
            }[student](path)
        (home / "submitted" / "linked_folder").mkdir()
        (home / "submitted" / "linked_folder" / UNIT).symlink_to(victim.parent)
        (home / "submitted" / "linked_student").symlink_to(victim.parent.parent)
        for name in ("*", "<img src=x onerror=alert(1)>", "..x [a-z]", "-x"):
            hand_in(home, name, notebook())
        marker = course / "imported"
        beside = hand_in(home, "files_beside", notebook()).parent
        for name in (
            "numpy.py",
            "torch.py",
            "sitecustomize.py",
            "nbgrader_config.py",
            "jupyter_config.py",
            "conftest.py",
        ):
            (beside / name).write_text(BESIDE.format(str(marker)))
        (beside / "secret.txt").symlink_to(release)
        (beside / "index.html").write_text(SCRIPT)

        def verdicts(unit, student, path):
            read = submission.read(path, exercises, release)
            found = {}
            for exercise in exercises:
                try:
                    solved = "return" in read.answer(exercise).source
                except submission.Problem:
                    solved = False
                name = exercise.id.split(".")[1]
                found[exercise.id] = toy.verdict(name, exercise.points * solved, exercise.points)
            return found

        patch.setattr("grader.cohort.single.verdicts", verdicts)
        started = time.monotonic()
        outcomes = toy.grade_with_nbgrader(home, UNIT, root=course)
        assert not marker.exists(), "a file beside a notebook was imported"
        yield home, outcomes, time.monotonic() - started


def score(home, student):
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        return sum(grade.auto_score for grade in book.find_submission(UNIT, student).notebooks[0].grades)


def feedback(home, student):
    return (home / "feedback" / student / UNIT / f"{UNIT}.html").read_text()


def formgrader(home, student):
    """The page that nbgrader's formgrader serves for manual grading."""
    settings = config(home)
    settings.HTMLExporter.template_name = "formgrade"
    settings.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    names = {"assignment_id": UNIT, "notebook_id": UNIT, "submission_id": "1", "student": student, "notebook_path": "x"}
    resources = names | {"index": 0, "total": 1, "base_url": "", "last_name": None, "first_name": None}
    path = home / "autograded" / student / UNIT / f"{UNIT}.ipynb"
    return HTMLExporter(config=settings).from_filename(str(path), resources=resources)[0]


@pytest.mark.parametrize("student", ["aaa_honest", "zzz_honest", "files_beside", *READ])
def test_what_can_be_read_is_graded(graded, student):
    home, outcomes, _ = graded
    assert outcomes[student] == "ok" and score(home, student) == 14


@pytest.mark.parametrize("student", REFUSED)
def test_what_cannot_is_refused_in_a_sentence(graded, student):
    home, outcomes, _ = graded
    assert outcomes[student] == "ok" and score(home, student) == 0
    sentence = REFUSED[student][1]
    assert sentence is None or sentence in feedback(home, student)


@pytest.mark.parametrize("student", ["linked", "dangling", "folder", "pipe", "linked_folder", "linked_student"])
def test_nobody_is_graded_for_a_file_that_is_not_theirs(graded, student):
    home, outcomes, _ = graded
    if outcomes[student] == "ok":
        assert score(home, student) == 0
        assert re.search("Hand in the file itself|is not a regular file", feedback(home, student))
    else:
        assert "No notebooks" in outcomes[student]


def test_names_that_are_patterns_or_html_are_refused_by_name(graded):
    home, outcomes, _ = graded
    refused = {student: said for student, said in outcomes.items() if "is not a student's name" in said}
    assert set(refused) == {"*", "<img src=x onerror=alert(1)>", "..x [a-z]", "-x"}
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        assert not {s.id for s in book.students} & set(refused)
    for name in ("ada", "Ada Lovelace", "o'neill", "ada.l@uni.example", "лёня", "a_b-c+d", "42"):
        assert not submission.misnamed(name)


class Active(HTMLParser):
    """Count what a browser would run or fetch of a page, and what looks like a part of the page."""

    TAGS = ("script", "iframe", "svg", "math", "style", "form", "object", "embed", "link", "meta", "base", "input")

    def __init__(self, page):
        super().__init__()
        self.found = Counter()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag in self.TAGS:
            self.found[tag] += 1
        for name, value in attributes:
            value = (value or "").strip().lower()
            outside = name in ("src", "srcset") and not value.startswith("data:image/")
            if name.startswith("on") or outside or value.startswith(("javascript:", "vbscript:")) or "modal" in value:
                self.found[name, value] += 1


SUSPECT = [name for name in READ if name.startswith("script")]
SUSPECT += ["spy", "mimicry", "nested_markdown", "paths_as_ids", "widgets", "login_page", "text", "null_bytes"]


@pytest.mark.parametrize("student", SUSPECT)
def test_nothing_active_reaches_a_page(graded, student):
    home = graded[0]
    for page in (feedback, formgrader):
        assert Active(page(home, student)).found == Active(page(home, "aaa_honest")).found, page.__name__


def test_only_notebooks_and_pages_are_written(graded):
    home = graded[0]
    written = {p.name for step in ("autograded", "feedback") for p in (home / step).rglob("*") if not p.is_dir()}
    assert written == {f"{UNIT}.ipynb", f"{UNIT}.html"}


def test_the_class_takes_no_longer_than_its_number(graded):
    """No single submission may cost minutes: with all of these a hang would show as a hang."""
    assert graded[2] < 5 * len(graded[1])


def test_names_are_only_words_of_the_gradebook(graded):
    book = json.loads((graded[0] / "autograded" / "paths_as_ids" / UNIT / f"{UNIT}.ipynb").read_text())
    ids = {c["metadata"]["nbgrader"]["grade_id"] for c in book["cells"] if "nbgrader" in c["metadata"]}
    assert ids == {"toy-double", "toy-double-check", "toy-root", "toy-root-check"}
    assert all(len(c["id"]) < 40 for c in book["cells"]) and Path(graded[0]).exists()
