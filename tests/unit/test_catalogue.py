"""The sentences of the course: each is said by some code, with its parameters, and a check says them in another language as well."""

import json
import os
import string
import subprocess
import sys
from pathlib import Path

import pytest
from sentences import misfits

import course_lib
from course_lib import criteria
from course_lib.evidence import Evidence
from course_lib.exercise import Trial, Verdict
from course_lib.exercises import find
from course_lib.render import verdicts
from tritontrace.messages import LANGUAGE, Catalogue, Message
from tritontrace.replay import wire

PACKAGE = Path(course_lib.__file__).parent
SENTENCES = Catalogue.read(PACKAGE / "catalogue").sentences


def test_each_sentence_is_said_and_with_its_parameters():
    assert misfits(SENTENCES, PACKAGE.rglob("*.py")) == []


# ------------------------------------------------------------------------------------------------- another language


def judged() -> dict:
    """The verdict on an answer that forgets the offset and, beside it, on one that returns nothing, as JSON holds them."""
    exercise, trees = find("strides.flat_index"), []
    for answer in (lambda index, strides, offset: sum(map(int.__mul__, index, strides)), lambda **_: None):
        trials = []
        for case in exercise.cases:
            arguments = case.arguments(0)
            trials.append(Trial(case, [arguments], Evidence(case.name, outputs=[answer(**arguments)])))
        trees.append(wire.to_tree(criteria.judge(exercise, trials)))
    return trees


def accented(sentence: str) -> str:
    """A pseudo-translation: other letters around the same parameters."""
    other, parts = str.maketrans("aeiouAEIOU", "áéíóúÁÉÍÓÚ"), []
    for text, name, spec, _ in string.Formatter().parse(sentence):
        parts.append(text.translate(other).replace("{", "{{").replace("}", "}}"))
        parts += [] if name is None else [f"{{{name}:{spec}}}" if spec else f"{{{name}}}"]
    return "".join(parts)


@pytest.fixture(scope="module")
def in_another_language(tmp_path_factory) -> list[dict]:
    """The same verdicts of a process that finds the sentences of a unit, and of criteria, in another language."""
    folder = tmp_path_factory.mktemp("language") / "course_lib"
    folder.mkdir()
    for name in ("strides", "criteria"):
        tables: dict[str, list[str]] = {}
        for id, sentence in SENTENCES.items():
            unit, table, key = id.split(".")
            if unit == name:
                tables.setdefault(table, []).append(f"{key} = {json.dumps(accented(sentence), ensure_ascii=False)}")
        (folder / f"{name}.toml").write_text("\n".join(f"[{t}]\n" + "\n".join(lines) for t, lines in tables.items()))
    asked = f"import json, {Path(__file__).stem} as test; print(json.dumps(test.judged()))"
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, LANGUAGE: str(folder.parent), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def messages(tree) -> dict[tuple, dict]:
    """The messages in what JSON holds, by their place."""
    if isinstance(tree, dict) and tree.keys() == {"text", "id", "parameters"}:
        return {(): tree}
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return {(key, *place): each for key, part in parts for place, each in messages(part).items()}


def test_another_language_changes_texts_and_no_data(in_another_language):
    ours, theirs = messages(judged()), messages(in_another_language)
    assert {place: each["id"] for place, each in ours.items()} == {place: each["id"] for place, each in theirs.items()}
    assert {each["id"].split(".")[0] for each in ours.values()} == {"criteria", "strides"}
    for place, each in theirs.items():
        assert (each["text"] != ours[place]["text"]) == (accented(SENTENCES[each["id"]]) != SENTENCES[each["id"]]), each
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
