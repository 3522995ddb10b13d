"""Metadata of notebooks have one schema, and nothing else of ours is there, whoever writes: build, `make lab`, autograde."""

import json

import pytest
import toy
import toyclass

from course_lib import metadata
from course_lib.exercise import Finding, Verdict
from course_lib.exercises import UNITS
from course_lib.metadata import CellRun, GradedOutput, HandedOut
from grader import ROOT
from grader.gradebook import results
from strides.handout import sign

GRADED = GradedOutput({"exercise": "toy.double", "points": 6.0}, "0123abcd", 1.5)
RAN = CellRun("0123abcd", "NVIDIA H200", "2026-11-28")
OF_OTHERS = {"nbgrader", "editable", "deletable", "jupyter", "cellView", "tags"}  # in a cell's


def test_what_is_written_is_read_and_dropped():
    for what in (RAN, HandedOut("0.2.0"), GRADED):
        there = {"kernelspec": {}}
        metadata.write(there, what)
        assert metadata.read(json.loads(json.dumps(there)), type(what)) == what
        metadata.drop(there)
        assert there == {"kernelspec": {}} and metadata.read(there, type(what)) is None


@pytest.mark.parametrize("said", [None, "0.2.0", [], {}, {"release": 2}, {"release": "0.2.0", "more": ""}, vars(RAN)])
def test_what_is_not_of_the_form_is_not_read(said):
    assert metadata.read({"course": said}, HandedOut) is None


@pytest.mark.parametrize("change", [{"verdict": "6 of 10"}, {"answer": 1}, {"extra": "1.5"}, {"extra": None}])
def test_each_field_has_a_form_of_its_own(change):
    assert metadata.read({"course": vars(GRADED) | change}, GradedOutput) is None


@pytest.mark.parametrize("room, kinds", [("notebooks", {HandedOut}), ("solutions", {CellRun})])
def test_the_course_s_notebooks_say_nothing_else(room, kinds):
    for unit in UNITS:
        assert ours(ROOT / room / unit / f"{unit}.ipynb") <= kinds


def test_a_copy_that_is_handed_out_says_its_release(tmp_path):
    copy = tmp_path / "mine.ipynb"
    copy.write_bytes((ROOT / "notebooks" / "00_start_here" / "00_start_here.ipynb").read_bytes())
    sign(copy)
    assert ours(copy) == {HandedOut}


def test_a_graded_notebook_has_data_with_each_verdict_and_nothing_else(tmp_path, monkeypatch):
    lost = [Finding("runs", 0, 10, "not_judged", seen="the grader failed", gate=True)]
    unjudged = {"toy.double": Verdict("toy.double", 0.0, 10.0, lost), "toy.root": Verdict("toy.root", 0.0, 4.0, lost)}
    home = toyclass.make(monkeypatch, tmp_path, {"ada": toyclass.RIGHT, "ben": unjudged})
    for student in ("ada", "ben"):
        assert ours(home / "autograded" / student / toy.UNIT / f"{toy.UNIT}.ipynb") == {GradedOutput}


def ours(path):
    """The kinds of what the course says in a notebook. All that stands in its metadata is somebody's, and has its form."""
    notebook = json.loads(path.read_text("utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    rooms = [
        (HandedOut, {"kernelspec", "language_info", "widgets"}, [notebook]),
        (CellRun, OF_OTHERS, notebook["cells"]),
        (GradedOutput, {"image/png"}, outputs),  # Jupyter's, of a picture: its size, and the alternative text
    ]
    found = set()
    for kind, others, places in rooms:
        for said in (place.get("metadata", {}) for place in places):
            assert said.keys() <= others | {metadata.KEY}, path
            if metadata.KEY in said:
                assert metadata.read(said, kind), path
                found.add(kind)
    return found


def test_verdicts_of_an_earlier_version_which_had_fewer_fields_are_read(tmp_path, monkeypatch):
    home = toyclass.make(monkeypatch, tmp_path, {"ada": toyclass.RIGHT})
    path = home / "autograded" / "ada" / toy.UNIT / f"{toy.UNIT}.ipynb"
    nb = json.loads(path.read_text())
    graded = [o["metadata"]["course"] for cell in nb["cells"] for o in cell.get("outputs", ()) if o.get("metadata")]
    for each in graded:
        del each["verdict"]["asked"], each["verdict"]["on"]
    path.write_text(json.dumps(nb))
    assert graded and results.verdicts(home, toy.UNIT, "ada").keys() == toyclass.RIGHT.keys()
