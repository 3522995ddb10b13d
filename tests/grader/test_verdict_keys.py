"""A verdict's key changes with what can change the verdict, for which a class is judged anew, and with nothing else."""

from __future__ import annotations

import shutil

import pytest

import grader
from course_lib.exercises import find
from grader.judging import provided, verdicts

UNIT = "coalescing"
EXERCISES, HIDDEN = f"course_lib/exercises/{UNIT}", f"grader/judging/hidden/{UNIT}.py"
COPIED = ("course_lib", "grader/judging", "grader/child")

# a file, what stands there, and what takes its place
MATTERS = {
    "a public case": (f"{EXERCISES}/kernels.py", "matrix(512, 1024)", "matrix(512, 1025)"),
    "how cases are drawn": ("course_lib/exercises/cases.py", "torch.full(", "torch.full_like("),
    "a hidden case": (HIDDEN, "rng.randrange(65, 200, 2)", "rng.randrange(65, 300, 2)"),
    "points": (f"{EXERCISES}/kernels.py", 'Coalesced("store", 3)', 'Coalesced("store", 4)'),
    "how a criterion judges": ("course_lib/criteria/__init__.py", "\nfrom ", "\nassert True\nfrom "),
    "an allowance": (f"{EXERCISES}/formulas.py", "rel_tol=1e-6", "rel_tol=1e-5"),
    "an oracle": (f"{EXERCISES}/kernels.py", "x.T.contiguous().double()", "x.T.contiguous().float()"),
    "how a remark is chosen": (f"{EXERCISES}/mistakes.py", "\nfrom ", "\nassert True\nfrom "),
    "what a criterion says": ("course_lib/catalogue/criteria.toml", "sectors", "sector"),
    "what an oracle reads": ("course_lib/hardware/measured/mystery_plot.json", "{", "{ "),
    "what decides what is observed": ("course_lib/checking.py", "\nfrom ", "\nassert True\nfrom "),
    "how an answer is run": ("grader/child/sandbox.py", "\nfrom ", "\nassert True\nfrom "),
    "the version of the engine": ("tritontrace/src/tritontrace/__init__.py", '"0.1.0"', '"0.2.0"'),
}
SHOWN = {
    "a hint": (f"course_lib/exercises/hints/{UNIT}.md", "1. ", "1. Look closely: "),
    "a comment": (f"{EXERCISES}/kernels.py", "\ntranspose = ", "\n# turned\ntranspose = "),
    "the layout of a line": (f"{EXERCISES}/kernels.py", "matrix(512, 1024)", "matrix(\n512,\n1024)"),
    "a docstring": (f"{EXERCISES}/cases.py", '"""Count the bytes of every', '"""Count all bytes of every'),
    "a docstring where none was": (f"{EXERCISES}/twists.py", "-> Twist:\n", '-> Twist:\n    """A twist."""\n'),
    "a module's docstring": (f"{EXERCISES}/kernels.py", '"""Kernels', '"""Some kernels'),
    "a hidden case of another unit": ("grader/judging/hidden/flops.py", "\nfrom ", "\nassert True\nfrom "),
    "an exercise of another unit": ("course_lib/exercises/flops/cases.py", "\nfrom ", "\nassert True\nfrom "),
    "what is said in another unit": ("course_lib/catalogue/flops.toml", "elements", "numbers"),
    "a picture": ("course_lib/figures/coalescing.py", "\nfrom ", "\nassert True\nfrom "),
    "how a verdict is shown": ("course_lib/render/verdict_card.py", "\nfrom ", "\nassert True\nfrom "),
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of all that a verdict may depend on, with an engine of one line."""
    root = tmp_path_factory.mktemp("course")
    for room in COPIED:
        shutil.copytree(grader.ROOT / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))
    engine = root / "tritontrace/src/tritontrace/__init__.py"
    engine.parent.mkdir(parents=True)
    engine.write_text('__version__ = "0.1.0"\n')
    return root


@pytest.fixture
def key(course, monkeypatch):
    """Returns the key of one answer to unit 04's transpose, as the copy has it now."""
    monkeypatch.setattr(verdicts, "ROOT", course)
    monkeypatch.setattr(verdicts, "ENGINE", course / "tritontrace" / "src")

    def read():
        verdicts.code_version.cache_clear()
        verdicts.checkout.cache_clear()
        return verdicts.key_of(find(f"{UNIT}.transpose"), [("<cell>", "def transpose(x): ...")], 1, verdicts.NO_GPU)

    yield read
    monkeypatch.undo()
    verdicts.code_version.cache_clear()
    verdicts.checkout.cache_clear()


def changed(course, key, file, old, new):
    """Returns whether the key is another one once `old` is `new` in the file."""
    before, text = key(), (course / file).read_text("utf-8")
    assert old in text, "the test changes something that is there"
    (course / file).write_text(text.replace(old, new, 1), "utf-8")
    try:
        return key() != before
    finally:
        (course / file).write_text(text, "utf-8")


@pytest.mark.parametrize("what", MATTERS)
def test_what_can_change_a_verdict_changes_its_key(course, key, what):
    assert changed(course, key, *MATTERS[what])


@pytest.mark.parametrize("what", MATTERS)
def test_workers_with_other_code_have_another_checkout(course, key, what):
    def checkout():
        verdicts.checkout.cache_clear()
        return verdicts.checkout()

    assert changed(course, checkout, *MATTERS[what])


@pytest.mark.parametrize("what", SHOWN)
def test_what_is_shown_alone_judges_nothing_anew(course, key, what):
    assert not changed(course, key, *SHOWN[what])


def test_what_an_exercise_gives_in_place_of_the_answer_s_counts(monkeypatch):
    def key():
        return verdicts.key_of(find("tiling.tune"), [("<cell>", "def configuration(): ...")], 1, verdicts.NO_GPU)

    before = key()
    definitions = provided.definitions("tiling.tune")
    monkeypatch.setattr(
        provided, "definitions", lambda exercise_id: definitions | {"tuned_matmul": "def tuned_matmul(): ..."}
    )
    assert key() != before


def test_hidden_cases_count_for_their_unit_and_what_they_are_drawn_with(course, key):
    def version():
        verdicts.code_version.cache_clear()
        return verdicts.code_version("hopper")

    more = ("\nfrom ", "\nassert True\nfrom ")
    assert changed(course, version, "grader/judging/hidden/hopper/pipelines.py", *more), "they are a package"
    assert changed(course, version, "course_lib/exercises/sm/cases.py", *more), "they take it from there"
    assert not changed(course, version, "grader/judging/hidden/sm.py", *more)
