"""A notebook of an earlier release: read as what was handed out, and excused from what was not."""

import json
import subprocess

import pytest
import toy
from test_preprocessors import cell_of, nb_of
from toy import UNIT

import grader
from course_lib import criteria
from course_lib.exercise import Verdict
from grader.building import build
from grader.judging import excused, submission
from grader.judging.submission import Submission

SOLVED = "def double(x):\n    return 2 * x\n"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A clone in which the toy unit was released with one exercise, and then with two and another stub of the first."""
    folder = tmp_path_factory.mktemp("clone")
    with pytest.MonkeyPatch.context() as patch:
        git(folder, "init", "-q")
        toy.build_as(folder, patch, toy.ONE, toy.exercise("double", 10, bonus=2))
        commit(folder, "2026-11-20")
        older = nb_of(folder)
        toy.install(patch)
        source = toy.SOURCE.replace('"""2 x"""', '"""twice x"""\n    assert x is not None')
        (folder / "solutions" / f"{UNIT}.py").write_text(source)
        build.build(UNIT, execute=False, root=folder)
        commit(folder, "2026-11-27")
        patch.setattr("grader.released", lambda unit: folder / "notebooks" / unit / f"{unit}.ipynb")
        yield older, nb_of(folder)


def git(folder, *words, **more):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, env={"PATH": "/usr/bin:/bin", **more})


def commit(folder, day):
    git(folder, "add", "notebooks")
    git(folder, "commit", "-qm", day, GIT_COMMITTER_DATE=f"{day}T12:00:00Z", GIT_AUTHOR_DATE=f"{day}T12:00:00Z")


def read(tmp_path, nb):
    path = tmp_path / f"{UNIT}.ipynb"
    path.write_text(json.dumps(nb))
    return submission.read(path, list(grader.exercises(UNIT).values()), grader.released(UNIT))


def without_metadata(nb):
    """Drop what a hosted service drops."""
    nb["metadata"] = {"colab": {"provenance": []}}
    for cell in nb["cells"]:
        cell["metadata"] = {}
        cell.pop("id")
    return nb


def without_title(nb):
    nb["cells"] = nb["cells"][1:]
    return nb


@pytest.mark.parametrize("kept_of", [lambda nb: nb, without_metadata, without_title])
def test_what_was_not_handed_out_is_excused_and_said_once(course, tmp_path, kept_of):
    nb = json.loads(json.dumps(course[0]))
    cell_of(nb, "toy-double")["source"] = SOLVED
    found = read(tmp_path, kept_of(nb))
    assert found.excused == ["toy.root"] and found.attempted == ["toy.double"]
    assert [(id, "2026-11-20" in said, "toy.root" in said) for id, said in found.flags] == [("", True, True)]


def test_a_stub_of_then_is_no_work(course, tmp_path):
    """And work that looks like a stub of today is work."""
    assert read(tmp_path, json.loads(json.dumps(course[0]))).attempted == []
    nb = json.loads(json.dumps(course[0]))
    cell_of(nb, "toy-double")["source"] = cell_of(course[1], "toy-double")["source"]
    assert read(tmp_path, nb).attempted == ["toy.double"]


def test_todays_notebook_owes_everything(course, tmp_path):
    nb = json.loads(json.dumps(course[1]))
    nb["cells"] = [cell for cell in nb["cells"] if "root" not in str(cell["metadata"])]
    found = read(tmp_path, nb)
    assert found.excused == [] and "root" in found.refused["toy.root"]


def release_of(nb):
    return nb["metadata"]["course"]["release"]


def named(nb, release):
    return json.loads(json.dumps(nb).replace(release_of(nb), release))


def test_a_release_that_is_only_said_excuses_nothing(course, tmp_path):
    """Neither one that git does not have, nor an older one on a notebook that shows more, by a cell or by work."""
    older, today = course
    assert release_of(older) != release_of(today)
    forged = read(tmp_path, named(today, release_of(older)))
    assert forged.excused == [] and forged.flags
    nb = without_metadata(named(today, release_of(older)))
    nb["cells"] = [cell for cell in nb["cells"] if "check(" not in "".join(cell["source"])]
    assert read(tmp_path, nb).excused == []
    unknown = read(tmp_path, named(older, "0123456789ab"))
    assert unknown.excused == [] and "history" in unknown.flags[0][1]


def test_what_is_excused_changes_no_percentage():
    double, root, more = toy.exercise("double", 10), toy.exercise("root", 4), toy.exercise("more", 3)
    found = {e.id: criteria.refused(e, "no such function") for e in (double, root, more)}
    found["toy.double"] = Verdict("toy.double", 7.5, 10, [])
    worth = {"toy.double": 10.0, "toy.root": 4.0, "toy.more": 0.0}
    settled = excused.apply(Submission(excused=["toy.root", "toy.more"]), found, worth)
    assert {id: v.points for id, v in settled.items()} == {"toy.double": 7.5, "toy.root": 3.0, "toy.more": 0.0}
    assert [v.outcome for v in settled.values()] == ["right", "excused", "excused"]
    assert all(verdict.judged for verdict in settled.values())
    assert excused.apply(Submission(), found, worth) == found


def test_text_alone_makes_no_other_release(tmp_path, monkeypatch):
    toy.build_as(tmp_path, monkeypatch, toy.SOURCE)
    before = release_of(nb_of(tmp_path))
    toy.build_as(tmp_path, monkeypatch, toy.SOURCE.replace("# More.", "# More words."))
    assert release_of(nb_of(tmp_path)) == before
    toy.build_as(tmp_path, monkeypatch, toy.SOURCE.replace("import math", "import math, os"))
    assert release_of(nb_of(tmp_path)) != before
