"""The real nbgrader with its sqlite gradebook, on a toy class; only the judge is replaced."""

import html
import json
import re

import nbformat
import pytest
import toy
from nbgrader.api import Gradebook
from toy import UNIT

from grader.building import build
from grader.gradebook import converting, submitted
from grader.nbgrader_config import ROOT, config

FULL = {"double": (10, 10, {"bonus": 1.5, "remark": "Next: read *less* <b>."}), "root": (4, 4, {})}


def nb_of(course):
    return json.loads((course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text())


def cell_of(nb, cell_id):
    return next(cell for cell in nb["cells"] if cell["id"] == cell_id)


def copied_check(nb):
    nb["cells"] += [dict(cell_of(nb, "toy-double-check"))] * 2


def copied_solution(nb):
    extra = json.loads(json.dumps(cell_of(nb, "toy-double")))
    extra["source"] = "def double(x): return 'the last one'"
    nb["cells"].append(extra)


def deleted_cells(nb):
    nb["cells"] = [c for c in nb["cells"] if c["id"] not in ("toy-double-check", "toy-root", "toy-root-check")]


def edited_check(nb):
    cell = cell_of(nb, "toy-double-check")
    cell["source"] = "1000"
    cell["metadata"]["nbgrader"] |= {"points": 1000, "grade_id": "toy-double-check", "locked": False}
    cell["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "1000"}, "metadata": {}}]


def foreign_metadata(nb):
    nb["metadata"] = {"kernelspec": {"name": "evil", "argv": ["sh"]}, "widgets": {"x": 1}, "celltoolbar": "?"}
    for cell in nb["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        cell["metadata"] = {
            "tags": ["skip-execution"],
            "foreign": 1,
            "nbgrader": meta | {"schema_version": 99, "task": 7},
        }


def active_content(nb):
    nb["cells"][0]["source"] = (
        "# <script>alert(1)</script>\n<img src=x onerror=alert(2)> [x](javascript:alert(3)) "
        "$\\href{javascript:alert(4)}{x}$"
        "\n\n<iframe src='http://x'></iframe> `a < b` <style>body{display:none}</style>"
    )
    nb["cells"].append({"cell_type": "raw", "id": "r", "metadata": {}, "source": "<script>alert(5)</script>"})
    code = cell_of(nb, "toy-double")
    code["source"] = "def double(x): return '<script>alert(6)</script>'"
    code["outputs"] = [
        {"output_type": "display_data", "metadata": {}, "data": {"text/html": "<script>alert(7)</script>"}}
    ]


def other_types(nb):
    cell_of(nb, "toy-double")["cell_type"] = "markdown"
    cell_of(nb, "toy-double-check")["cell_type"] = "raw"
    cell_of(nb, "toy-root")["metadata"] = {}


def typed_into_the_check(nb):
    cell_of(nb, "toy-double-check")["source"] = "def double(x): return 'in the check'\ncheck('toy.double', double)"


CLASS = {
    "plain": lambda nb: None,
    "copied_check": copied_check,
    "copied_solution": copied_solution,
    "deleted_cells": deleted_cells,
    "edited_check": edited_check,
    "typed_into_the_check": typed_into_the_check,
    "foreign_metadata": foreign_metadata,
    "active_content": active_content,
    "other_types": other_types,
}
BROKEN = {"not_json": b"{", "no_cells": b"{}"}


def hand_in(course, student, content):
    path = course / "class" / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def play_judge(monkeypatch, answer):
    """Puts `answer(student) -> {name: (points, out_of, more)}` in the place of the judge that nbgrader asks."""

    def verdicts(unit, student, path):
        assert unit == UNIT and path.parent.parent.name == student
        return {f"toy.{name}": toy.verdict(name, p, o, **more) for name, (p, o, more) in answer(student).items()}

    monkeypatch.setattr("grader.cohort.single.verdicts", verdicts)


def grades(course, student):
    with Gradebook(f"sqlite:///{course / 'class' / 'gradebook.db'}") as book:
        found = book.find_submission(UNIT, student).notebooks[0].grades
        return {grade.name: (grade.auto_score, grade.extra_credit, grade.needs_manual_grade) for grade in found}


def autograded(course, student):
    return nbformat.read(course / "class" / "autograded" / student / UNIT / f"{UNIT}.ipynb", as_version=4)


def feedback(course, student):
    return (course / "class" / "feedback" / student / UNIT / f"{UNIT}.html").read_text()


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class, graded once with full marks for everyone."""
    with pytest.MonkeyPatch.context() as patch:
        toy.install(patch)
        course = tmp_path_factory.mktemp("course")
        (course / "solutions").mkdir()
        (course / "solutions" / f"{UNIT}.py").write_text(toy.SOURCE)
        build.build(UNIT, execute=False, root=course)
        for student, change in CLASS.items():
            nb = nb_of(course)
            change(nb)
            hand_in(course, student, nb)
        for student, content in BROKEN.items():
            hand_in(course, student, content)
        (course / "class" / "submitted" / "no_notebook" / UNIT).mkdir(parents=True)
        released = (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes()
        secret = course / "secret.txt"
        secret.write_text("secret")
        (course / "class" / "submitted" / "plain" / UNIT / "link.txt").symlink_to(secret)
        (course / "class" / "submitted" / "plain" / UNIT / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
        play_judge(patch, lambda student: FULL)
        results = toy.grade_with_nbgrader(course / "class", UNIT, root=course)
        assert (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes() == released
        yield course, results


def test_everyone_is_graded_whatever_they_did_to_their_notebook(graded):
    course, results = graded
    assert {student for student, result in results.items() if result != "ok"} == {"no_notebook"}
    assert "No notebooks" in results["no_notebook"]
    for student in [*CLASS, *BROKEN]:
        assert grades(course, student) == {"toy-double-check": (10, 1.5, False), "toy-root-check": (4, None, False)}, (
            student
        )


@pytest.mark.parametrize("student", [*CLASS, *BROKEN])
def test_the_graded_notebook_has_each_cell_once_and_only_our_outputs(graded, student):
    nb = autograded(graded[0], student)
    nbformat.validate(nb)
    ids = [cell.metadata.nbgrader.grade_id for cell in nb.cells if "nbgrader" in cell.metadata]
    assert sorted(ids) == ["toy-double", "toy-double-check", "toy-root", "toy-root-check"]
    assert len({cell.id for cell in nb.cells}) == len(nb.cells)
    assert nb.metadata.kernelspec.name == "python3" and nb.metadata.keys() == {"kernelspec", "language_info"}
    for cell in nb.cells:
        graded_cell = cell.metadata.get("nbgrader", {}).get("grade")
        assert cell.metadata.keys() <= {"nbgrader", "deletable", "editable", "not_in_the_file"}
        if graded_cell:
            assert cell.source.startswith("check(") and cell.outputs[0].data["text/plain"] in ("10", "4")
            assert "toy." in cell.outputs[0].data["text/html"] and len(cell.outputs) == 1, "no number below it"
        elif cell.cell_type == "code":
            assert cell.outputs == []


def test_of_copied_solutions_the_judged_one_is_shown(graded):
    course, _ = graded
    chosen = [c for c in autograded(course, "copied_solution").cells if c.id == "toy-double"]
    assert [c.source for c in chosen] == ["def double(x): return 'the last one'"]
    assert "<code>double</code> is defined in the cells 4, 9; cell 9 counts." in feedback(course, "copied_solution")


def test_an_answer_typed_into_its_check_is_shown_above_it(graded):
    cells = autograded(graded[0], "typed_into_the_check").cells
    ids = [cell.id for cell in cells]
    at = ids.index("toy-double-check")
    assert ids[at - 1] == "toy-double" and ids.count("toy-double") == 1
    assert "in the check" in cells[at - 1].source and cells[at].source == 'check("toy.double", double)'


def test_formgrader_lists_what_a_person_should_look_at(graded):
    with Gradebook(f"sqlite:///{graded[0] / 'class' / 'gradebook.db'}") as book:
        flagged = {s.student_id for s in book.assignment_submissions(UNIT) if s.notebooks[0].flagged}
        comment = book.find_comment("toy-double", UNIT, UNIT, "edited_check").comment
    assert flagged == {
        "copied_solution",
        "deleted_cells",
        "edited_check",
        "other_types",
        "typed_into_the_check",
        *BROKEN,
    }
    assert comment == "The check cell of `toy.double` was edited (cell 5)."


def test_deleted_checks_come_back_after_their_solution(graded):
    ids = [cell.id for cell in autograded(graded[0], "deleted_cells").cells]
    assert ids.index("toy-double-check") == ids.index("toy-double") + 1


def test_a_cell_that_is_not_in_the_file_is_not_shown_as_the_student_s(graded):
    def code(student):
        section = re.search(r'id="toy-root-check">.*?</section>', feedback(graded[0], student), re.S)[0]
        return re.findall(r'class="line', section)

    assert code("copied_solution") and not code("deleted_cells")


def test_a_solution_that_lost_its_id_gets_it_back(graded):
    cell = next(c for c in autograded(graded[0], "other_types").cells if c.id == "toy-root")
    assert cell.source.startswith("def root(x):")


def test_a_refused_notebook_says_why(graded):
    assert "does not read as JSON" in feedback(graded[0], "not_json")


def test_feedback_shows_the_findings_and_the_remark(graded):
    page = feedback(graded[0], "plain")
    assert "right on plain sizes" in page and "Is 2 missing?" not in page.split("right on plain sizes")[0]
    assert "Next: read *less* &lt;b&gt;." in page
    assert "plain: 15.5 / 14 points" in page
    assert "<code>a &lt; b</code>" in page and "$a &lt; b$" in page


def test_feedback_holds_nothing_active_of_the_student(graded):
    page = feedback(graded[0], "active_content")
    assert "<script" not in page and "default-src 'none'" in page  # and the browser would run none
    for active in ("onerror", "javascript:alert(3)", "iframe src", "<style>body{display:none}", "alert(7)"):
        assert active not in page
    assert "`a &lt; b`" in page or "<code>a &lt; b</code>" in page


def test_only_the_timestamp_goes_along(graded):
    course, _ = graded
    assert not list((course / "class" / "feedback").rglob("link.txt"))
    assert not list((course / "class" / "autograded").rglob("link.txt"))
    for step in ("autograded", "feedback"):
        assert (course / "class" / step / "plain" / UNIT / "timestamp.txt").read_text() == "2026-11-20 10:00:00 UTC"


@pytest.mark.parametrize(
    "answer, score, sentence",
    [
        (None, None, "the judge failed: RuntimeError: no sandbox"),
        ({"root": (4, 4, {})}, None, "the judge said nothing about this exercise"),
        ({"double": (float("nan"), 10, {})}, None, "the points of the verdict are nan, not a number"),
        ({"double": ("many", 10, {})}, None, "the points of the verdict are 'many', not a number"),
        ({"double": (99, 10, {"bonus": float("inf")})}, 10, ""),
        ({"double": (-3, 10, {"bonus": -3})}, 0, ""),
        ({"double": (7.25, 10, {})}, 7.25, ""),
    ],
)
def test_no_verdict_is_an_error_to_be_seen_and_no_mark_at_all(graded, monkeypatch, answer, score, sentence):
    def reply(student):
        if answer is None:
            raise RuntimeError("no sandbox")
        return answer

    course, _ = graded
    play_judge(monkeypatch, reply)
    results = toy.grade_with_nbgrader(course / "class", UNIT, ["copied_check"], root=course)
    assert results == {"copied_check": "ok"}
    mark, _, needs_a_person = grades(course, "copied_check")["toy-double-check"]
    assert (mark, needs_a_person) == (score, score is None)
    if sentence:
        assert "copied_check: ? / 14 points" in feedback(course, "copied_check")
        cell = next(c for c in autograded(course, "copied_check").cells if c.id == "toy-double-check")
        assert cell.outputs[0].output_type == "error" and f"toy.double: {sentence}" in cell.outputs[0].evalue
        assert sentence in html.unescape(feedback(course, "copied_check"))
    else:
        assert grades(course, "copied_check")["toy-double-check"][1] == 0  # the bonus


def test_one_failure_does_not_stop_the_next(graded, monkeypatch, capsys):
    course, _ = graded
    play_judge(monkeypatch, lambda student: FULL)
    monkeypatch.setattr(submitted.Normalise, "_chosen", lambda *a: 1 / 0)
    results = toy.grade_with_nbgrader(course / "class", UNIT, ["plain", "copied_check"], root=course)
    assert results == dict.fromkeys(["plain", "copied_check"], "ZeroDivisionError: division by zero")
    assert capsys.readouterr() == ("", "")


def test_a_changed_unit_reaches_the_gradebook(monkeypatch, tmp_path):
    for text, exercises in [
        (toy.SOURCE, (toy.exercise("double", 11), toy.exercise("root", 4))),
        (toy.ONE, (toy.exercise("double", 11),)),
    ]:
        toy.build_as(tmp_path, monkeypatch, text, *exercises)
        assert converting.register(tmp_path / "class", UNIT, root=tmp_path) == []
    with Gradebook(f"sqlite:///{tmp_path / 'class' / 'gradebook.db'}") as book:
        assert {cell.name: cell.max_score for cell in book.find_notebook(UNIT, UNIT).grade_cells} == {
            "toy-double-check": 11
        }


def test_the_configuration_is_what_nbgrader_reads(tmp_path, monkeypatch):
    from traitlets.config.loader import PyFileConfigLoader

    monkeypatch.setenv("GRADER_HOME", str(tmp_path))
    loaded = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT / "grader")).load_config()
    assert loaded == config(tmp_path)
    assert loaded.CourseDirectory.submitted_directory == str(tmp_path / "submitted")
    monkeypatch.delenv("GRADER_HOME")
    loaded = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT / "grader")).load_config()
    assert loaded.CourseDirectory.submitted_directory == "grader/submitted"
    assert loaded.CourseDirectory.root == str(ROOT)
