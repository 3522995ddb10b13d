import dataclasses
import json
import re

import nbformat
import pytest
import toy
from toy import SOURCE, UNIT

import grader
from course_lib.criteria import Speed
from course_lib.exercise import Effort
from course_lib.exercises import UNITS
from grader.building import announce, build, dependencies, index


@pytest.fixture
def course(tmp_path, monkeypatch):
    toy.install(monkeypatch)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / f"{UNIT}.py").write_text(SOURCE)
    return tmp_path


def rebuild(course, source=None, execute=False):
    if source:
        (course / "solutions" / f"{UNIT}.py").write_text(source)
    return build.build(UNIT, execute=execute, root=course)


def cells(path):
    return {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}


def test_the_students_notebook_has_no_solutions_and_no_outputs(course):
    _, students = rebuild(course)
    text = students.read_text()
    assert "SOLUTION" not in text and "2 * x" not in text and "math.sqrt" not in text and "noqa" not in text
    nb = nbformat.read(students, as_version=4)
    assert all(c.outputs == [] and c.execution_count is None for c in nb.cells if c.cell_type == "code")
    assert set(nb.metadata.pop("course")) == {"release"}
    assert nb.metadata == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert cells(students)["toy-double"].source == 'def double(x):\n    """2 x"""\n    ...  # your code here'
    assert cells(students)["toy-guess"].source == "guess = ..."


def test_nothing_marks_the_place_of_a_solution_below_a_dict_of_answers(course, monkeypatch):
    values = dataclasses.replace(toy.exercise("root", 4), kind="values")
    toy.install(monkeypatch, toy.exercise("double", 10), values)
    answers = 'root = {"of 4": ...}\n### BEGIN SOLUTION\nroot = {"of 4": 2}\n### END SOLUTION\n'
    _, students = rebuild(course, re.sub(r"def root[^#]*### BEGIN.*?### END SOLUTION\n", answers, SOURCE, flags=re.S))
    assert cells(students)["toy-root"].source == 'root = {"of 4": ...}'
    assert cells(students)["toy-double"].source.endswith("...  # your code here")


def test_metadata_come_from_the_exercise(course):
    made = cells(rebuild(course)[1])
    solution, check = made["toy-double"].metadata.nbgrader, made["toy-double-check"].metadata.nbgrader
    assert (solution.grade, solution.solution, solution.locked, solution.grade_id) == (False, True, False, "toy-double")
    assert (check.grade, check.solution, check.locked, check.points) == (True, False, True, 10)
    assert check.grade_id == "toy-double-check"
    assert made["toy-double-check"].source == 'check("toy.double", double)'
    assert made["toy-double-check"].metadata.editable is False
    assert "nbgrader" not in made["toy-guess"].metadata


def test_building_twice_gives_the_same_bytes_and_stable_ids(course):
    first = [path.read_bytes() for path in rebuild(course)]
    assert [path.read_bytes() for path in rebuild(course)] == first
    before = set(cells(course / "notebooks" / UNIT / f"{UNIT}.ipynb"))
    rebuild(course, SOURCE.replace("# More.", "# More.\n\n# %% [markdown]\n# A new cell.\n\n# %% [markdown]\n# More."))
    after = set(cells(course / "notebooks" / UNIT / f"{UNIT}.ipynb"))
    assert before < after and len(after) == len(before) + 2


def test_building_leaves_no_gradebook_behind(course):
    rebuild(course)
    assert sorted(p.name for p in course.rglob("*") if p.is_file()) == [f"{UNIT}.ipynb", f"{UNIT}.ipynb", f"{UNIT}.py"]


def test_execution_stores_outputs_and_whose_they_are(course):
    source = SOURCE.replace("from course_lib import check  # noqa: F401", "check = lambda name, f: print(name)")
    instructors, students = rebuild(course, source, execute=True)
    check = cells(instructors)["toy-double-check"]
    assert check.metadata.course.keys() == {"inputs", "gpu", "date"} and check.outputs[0].text == "toy.double\n"
    assert str(course) not in instructors.read_text()
    assert build.check(UNIT, course) == []

    executed = instructors.read_bytes()
    rebuild(course)  # of the same source: outputs stay
    assert instructors.read_bytes() == executed


def test_check_names_what_differs(course, monkeypatch):
    instructors, students = rebuild(course)
    never = f"solutions/{UNIT}.py:5, 10, 13, 20, 26, 32: no output of this code yet. `grader build {UNIT}` makes it."
    assert build.check(UNIT, course) == [never]

    nb = json.loads(students.read_text())
    nb["cells"][1]["source"] = ["import os"]
    nb["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "secret"}]
    students.write_text(json.dumps(nb))
    found = " ".join(build.check(UNIT, course))
    assert "differs from its source in source" in found and "'toy-guess' differs from its source in outputs" in found

    rebuild(course)
    toy.install(monkeypatch, toy.exercise("double", 11, bonus=2), toy.exercise("root", 4))
    found = build.check(UNIT, course)
    assert len(found) == 3 and all("'toy-double-check'" in line and "metadata" in line for line in found[:2])

    toy.install(monkeypatch)
    (course / "solutions" / f"{UNIT}.py").write_text(SOURCE + "\n# %%\nprint(1)\n")
    found = " ".join(build.check(UNIT, course))
    assert "of the source is missing" in found and "no output of this code yet" in found

    students.unlink()
    assert f"notebooks/{UNIT}/{UNIT}.ipynb is missing." in build.check(UNIT, course)


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        ('exercise="toy.root"', 'exercise="toy.roof"', r"90_toy.py:26: 90_toy has no exercise 'toy.roof'"),
        ('# %% check="toy.root"', "# %%", r'90_toy.py: no cell with check="toy.root"'),
        ('exercise="toy.root"', 'exercise="toy.double"', r'90_toy.py:26: a second cell with exercise="toy.double"'),
        ('check("toy.root", root)', "root", r"90_toy.py:32: a check cell must call"),
        ("### BEGIN SOLUTION\n    return math", "return math", r"90_toy.py:26: an exercise needs"),
        (
            "return math",
            "return math  # {{unit points}}\n    math",
            r"90_toy.py:2\d: {{unit points}} stands in a code cell",
        ),
        ("# %% [markdown]\n# More", '# %% given="toy.root"\n\n# %% [markdown]\n# More', r"90_toy.py:23: an empty cell"),
        ("# %% [markdown]\n# More", '# %% [markdown] exercise="toy.x"\n# More', r"90_toy.py:23: one of exercise"),
    ],
)
def test_a_wrong_source_is_named_with_its_line(course, old, new, sentence):
    assert old in SOURCE
    with pytest.raises(build.BuildError, match=sentence):
        rebuild(course, SOURCE.replace(old, new))
    assert len(build.check(UNIT, course)) == 1


ANNOUNCED = """{{exercise toy.double}}
#
# * right ({{worth.right}}), in one launch ({{worth.launch}}), together {{worth.right +
#   worth.launch}}; {{all / 20}} for each of twenty.
#
# Extra credit on a GPU: {{speed}} at {{speed.full}}, a share from {{speed.none}} on.
#
# {{exercise toy.root}}
#
# Write numbers. The unit has {{unit points}} in {{unit exercises}}: {{unit minutes}}, {{unit hours}}.
# You lose {{toy.double worth.launch}}.
"""


@dataclasses.dataclass
class Named(toy.Worth):
    """A criterion worth points, known by its name."""

    name: str = ""
    key = property(lambda self: f"worth.{self.name}")


def announced(monkeypatch, launch):
    """The toy unit with an exercise of two criteria and extra credit, and another of one criterion."""
    criteria = [Named(9, name="right"), Named(launch, name="launch")]
    speed = Speed(points=2, vs="copy", case=None, needed=None, full=0.8, none=0.5)
    double = dataclasses.replace(toy.exercise("double", 10), criteria=criteria, bonus=[speed], effort=Effort(1, 1, 2))
    root = dataclasses.replace(toy.exercise("root", 4), kind="values", effort=Effort(7, 4, 5))
    toy.install(monkeypatch, double, root)
    return SOURCE.replace("# More.", f"# {ANNOUNCED}")


def told(path):
    return next(cell.source for cell in cells(path).values() if "Extra credit" in cell.source)


def test_a_point_is_changed_in_one_place(course, monkeypatch):
    for path in rebuild(course, announced(monkeypatch, launch=1)):
        assert "`toy.double` · main path · 10 points · about 1 minute · about 1 line · difficulty ●●○○○\n" in told(path)
        assert "`toy.root` · main path · 4 points · about 7 minutes · 4 answers · difficulty ●●●●●\n" in told(path)
        assert "right (9 points), in one launch (1 point), together 10 points; half a point for each" in told(path)
        assert "GPU: 2 points at 0.8, a share from 0.5 on" in told(path)
        assert "has 14 points in two exercises: 8 minutes, half an hour.\nYou lose 1 point." in told(path)
    source = announced(monkeypatch, launch=3)
    assert [line for line in build.check(UNIT, course) if "md-" in line]
    for path in rebuild(course, source):
        assert "`toy.double` · main path · 12 points" in told(
            path
        ) and "in one launch (3 points), together 12 points" in told(path)
        assert "has 16 points" in told(path) and "You lose 3 points." in told(path)
        assert cells(path)["toy-double-check"].metadata.nbgrader.points == 12


@pytest.mark.parametrize(
    "minutes, said",
    [
        (16, "half an hour"),
        (60, "one hour"),
        (89, "one and a half hours"),
        (120, "two hours"),
        (266, "four and a half hours"),
        (1020, "17 hours"),
        (1050, "17 and a half hours"),
    ],
)
def test_hours_are_said_to_the_half(minutes, said):
    assert announce.hours(minutes) == said


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_begins_with_hours_that_its_exercises_decide(unit):
    intro = (
        (grader.ROOT / "solutions" / f"{unit}.py")
        .read_text("utf-8")
        .partition("# %% [markdown]")[2]
        .partition("# %%")[0]
    )
    assert "{{unit" not in intro, "the card says them"
    assert not re.search(r"\b(half|one|two|three|four|five|six)\s+(#\s+)?(and a half\s+)?(hours?|sittings?)\b", intro)


def test_no_output_is_lost_when_a_point_changes(course, monkeypatch):
    instructors, _ = rebuild(course, announced(monkeypatch, launch=1))
    nb = nbformat.read(instructors, as_version=4)
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    last, now = code[-1], dependencies.inputs(code)
    last.outputs = [nbformat.v4.new_output("stream", text="seen")]
    last.metadata["course"] = {"inputs": now[last.id].digest, "gpu": "", "date": "2026-11-23"}
    nbformat.write(nb, instructors)
    announced(monkeypatch, launch=3)
    rebuild(course)
    assert cells(instructors)[last.id].outputs == last.outputs


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        ("({{worth.launch}})", "(1 point)", "90_toy.py:26: '1 point' is typed by hand. Write {{KEY}} of the criterion"),
        ("{{all / 20}}", "Half a point", "90_toy.py:27: 'Half a point' is typed by hand."),
        ("has {{unit points}}", "has 14\n# points", "90_toy.py:33: '14 points' is typed by hand."),
        (
            "({{worth.right}})",
            "({{worth.wrong}})",
            "90_toy.py:26: `toy.double` has no criterion 'worth.wrong'. It has: worth.right, worth",
        ),
        (
            "exercise toy.root",
            "exercise toy.roof",
            "90_toy.py:31: 90_toy has no exercise 'toy.roof'. It has: toy.double, toy.root.",
        ),
        ("{{speed.none}}", "0.5", "90_toy.py:24: `toy.double` is announced without {{speed.none}}."),
        (" / 20}}", " / 0}}", "90_toy.py:27: {{all / 0}}: behind the / stands the number of answers, a whole one."),
        (
            "{{exercise toy.double}}",
            "{{worth.right}}",
            "90_toy.py:24: {{worth.right}} stands before the first {{exercise ...}}.",
        ),
        (
            "{{unit minutes}}",
            "{{unit days}}",
            "90_toy.py:33: {{unit days}}: of a unit there are more, points, exercises, minutes, hours.",
        ),
        ("({{worth.right}})", "({{worth.right)", "90_toy.py:26: a {{ without its }}."),
        ("{{exercise toy.root}}", "{{exercise toy.double}}", "90_toy.py:31: `toy.double` is announced a second time."),
    ],
)
def test_an_announcement_that_does_not_fit_its_exercise_is_refused(course, monkeypatch, old, new, sentence):
    source = announced(monkeypatch, launch=1)
    assert old in source
    with pytest.raises(build.BuildError, match=re.escape(sentence)):
        rebuild(course, source.replace(old, new))


def test_a_criterion_that_nobody_announces_is_named(course, monkeypatch):
    source = announced(monkeypatch, launch=1).replace(", in one launch ({{worth.launch}})", "")
    source = re.sub(r", together.*twenty", "", source, flags=re.S)
    with pytest.raises(build.BuildError, match=r"90_toy.py:24: `toy.double` is announced without {{worth.launch}}\."):
        rebuild(course, source)


def test_an_edit_that_moves_lines_leaves_links_to_solutions(course, monkeypatch):
    monkeypatch.setattr(index, "UNITS", {UNIT: "toy"})
    instructors, _ = rebuild(course)
    page = index.text(course)
    links = re.findall(rf"\]\(\.\./solutions/{UNIT}/{UNIT}\.ipynb#cell-id=([\w-]+)\)", page)
    assert links == ["toy-double", "toy-root"] and set(links) < cells(instructors).keys()
    rebuild(course, SOURCE.replace("# More.", "# More.\n# And more."))
    assert index.text(course) == page


def test_an_unknown_unit_is_named():
    with pytest.raises(ValueError, match=r"There is no unit '99_none'. There are: .*04_memory"):
        build.exercises("99_none")
