"""The sentences of the course: each is said by some code, with its parameters, and a check says them in another language as well."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sentences import accented, misfits

import course_lib
import grader
from course_lib import criteria
from course_lib.evidence import Evidence, Formula, GPURun, SmallestFault
from course_lib.exercise import Criterion, Trial, Verdict
from course_lib.exercises import UNITS, find, twists
from course_lib.handin.cells import Problem
from course_lib.render import verdicts
from grader.judging import submission
from tritontrace.messages import LANGUAGE, Catalogue, Message
from tritontrace.replay import wire

FOLDERS = {package.__name__: Path(package.__file__).parent for package in (course_lib, grader)}
ALL = {name: Catalogue.read(folder / "catalogue").sentences for name, folder in FOLDERS.items()}
SENTENCES = {id: sentence for sentences in ALL.values() for id, sentence in sentences.items()}


@pytest.mark.parametrize("package", FOLDERS)
def test_each_sentence_is_said_and_with_its_parameters(package):
    assert set(misfits(ALL[package], FOLDERS[package].rglob("*.py"))) <= {f"{id} is said nowhere" for id in titles()}


def titles() -> set[str]:
    """The ids of titles of groups, which criteria.correct puts together."""
    exercises = [e for unit in UNITS.values() for e in import_module(f"course_lib.exercises.{unit}").EXERCISES.values()]
    return {getattr(c.title, "id", "") for e in exercises for c in e.criteria if isinstance(c, criteria.Correct)}


@pytest.mark.parametrize("module", UNITS.values())
def test_what_an_exercise_says_of_itself_stands_in_a_catalogue(module):
    exercises = import_module(f"course_lib.exercises.{module}").EXERCISES.values()
    criteria_of = {e.id: [*e.gates, *e.criteria, *e.bonus] for e in exercises}
    shown = {f"{id}, {c.key}": (c.title, c.missed, *advice(c)) for id, of in criteria_of.items() for c in of}
    shown |= {e.id: (e.blank, *(twist.asks for twist in twists.of(e.id))) for e in exercises}
    written = {
        place: [t for t in texts if t and not t.isidentifier()] for place, texts in shown.items()
    }  # names are data
    assert {place for place, texts in written.items() if not all(isinstance(t, Message) for t in texts)} == set()


def advice(criterion: Criterion) -> list[str]:
    """Sentences that a criterion holds ready besides."""
    return [getattr(criterion, name, "") for name in ("advice", "what", "of")]


# ------------------------------------------------------------------------------------------------- another language


def judged() -> list[dict]:
    """Verdicts as JSON holds them: of an answer that forgets the offset, of one that returns nothing, of a wrong one of which an
    evaluation, a search and a GPU said more, of a wrong one of another unit, and of a notebook that cannot be read."""
    exercise, tile, trees = find("strides.flat_index"), find("tiling.best_tile"), []
    nothing: dict[str, Any] = {}
    more = {
        "formula": Formula(True),
        "smallest": SmallestFault([("x", (1, 2))], 3, "out", "store"),
        "on_gpu": GPURun("", not_run="busy", waiting=2),
    }
    for asked, answer, facts in (
        (exercise, lambda index, strides, offset: sum(map(int.__mul__, index, strides)), nothing),
        (exercise, lambda **_: None, nothing),
        (exercise, lambda **_: -1, more),
        (tile, lambda **_: [256, 256], nothing),
    ):
        trials = []
        for case in asked.cases:
            arguments = case.arguments(0)
            trials.append(Trial(case, [arguments], Evidence(case.name, outputs=[answer(**arguments)], **facts)))
        trees.append(wire.to_tree(criteria.judge(asked, trials, gpu_counts=False)))
    with pytest.raises(Problem) as problem:
        submission.load(Path("nowhere.ipynb"))
    return [*trees, wire.to_tree(criteria.refused(exercise, problem.value.message))]


@pytest.fixture(scope="module")
def in_another_language(tmp_path_factory) -> list[dict]:
    """The same verdicts of a process that finds the sentences of course and grader in another language."""
    home = tmp_path_factory.mktemp("language")
    for package, sentences in ALL.items():
        tables: dict[str, dict[str, list[str]]] = {}
        for id, sentence in sentences.items():
            name, table, key = id.split(".")
            line = f"{key} = {json.dumps(accented(sentence), ensure_ascii=False)}"
            tables.setdefault(name, {}).setdefault(table, []).append(line)
        (home / package).mkdir()
        for name, parts in tables.items():
            written = "\n".join(f"[{table}]\n" + "\n".join(lines) for table, lines in parts.items())
            (home / package / f"{name}.toml").write_text(written)
    asked = f"import json, {Path(__file__).stem} as test; print(json.dumps(test.judged()))"
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, LANGUAGE: str(home), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def messages(tree) -> dict[tuple, dict]:
    """The messages in what JSON holds, by their place, those in other messages included."""
    own = {(): tree} if isinstance(tree, dict) and tree.keys() == {"text", "id", "parameters"} else {}
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return own | {(key, *place): each for key, part in parts for place, each in messages(part).items()}


def plain(tree, name: str = "") -> set[str]:
    """The texts that a verdict shows and that are no messages."""
    if isinstance(tree, dict):
        parts = {} if tree.keys() == {"text", "id", "parameters"} else tree
        return {text for key, part in parts.items() for text in plain(part, key)}
    if isinstance(tree, list):
        return {text for part in tree for text in plain(part, name)}
    return {tree} if tree and name in ("title", "missed", "seen", "expected", "detail", "remark") else set()


def test_another_language_changes_texts_and_no_data(in_another_language):
    ours, theirs = messages(judged()), messages(in_another_language)
    assert {place: each["id"] for place, each in ours.items()} == {place: each["id"] for place, each in theirs.items()}
    assert {each["id"].split(".")[0] for each in ours.values()} == {"criteria", "strides", "tiling", "judging"}
    assert {"formula", "smallest", "gpu"} <= {each["id"].split(".")[1] for each in ours.values()}
    assert plain(in_another_language) == set()
    for place, each in theirs.items():
        assert each["text"] != ours[place]["text"] or accented(SENTENCES[each["id"]]) == SENTENCES[each["id"]], each
    forgets = "strides.flat_index.forgets_the_offset"
    assert in_another_language[0]["remark"]["text"] == accented(SENTENCES[forgets])
    assert [tree["points"] for tree in in_another_language] == [tree["points"] for tree in judged()]


def test_a_verdict_is_shown_in_the_language_in_which_it_was_given(in_another_language):
    verdict = wire.from_tree(Verdict, in_another_language[0])
    assert verdict.remark.id == "strides.flat_index.forgets_the_offset" and verdict.remark in verdicts.text(
        verdict
    ).replace("\n", " ")


def test_a_verdict_of_texts_alone_is_still_read():
    """Verdicts that were saved before messages had ids."""

    def texts(tree):
        if isinstance(tree, dict) and tree.keys() == {"text", "id", "parameters"}:
            return tree["text"]
        if isinstance(tree, dict):
            return {key: texts(part) for key, part in tree.items()}
        return [*map(texts, tree)] if isinstance(tree, list) else tree

    for tree in judged():
        old, new = wire.from_tree(Verdict, texts(tree)), wire.from_tree(Verdict, tree)
        assert old == new and verdicts.text(old) == verdicts.text(new)
        assert not isinstance(old.findings[0].seen, Message) and isinstance(new.findings[0].seen, Message)
