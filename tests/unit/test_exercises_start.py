"""Unit 00's statements open with their right answers alone; its numbers are those of a hand count."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton
from sentences import says
from stopped import raised

from course_lib.evidence import Evidence
from course_lib.exercise import Trial
from course_lib.exercises import start
from grader.judging.hidden.start import MYTHS, sealed

KEYS = list(MYTHS)


def verdict(key: str, answers: object):
    trial = Trial(start.myths.cases[0], [{}], Evidence("the statements", outputs=[answers]))
    return start.Statement(key).judge(start.myths, [trial])


def test_the_seals_are_those_of_the_plain_text():
    assert sealed() == start.SEALED


def test_the_first_kernel_is_written_within_ten_minutes():
    """The question and a picture come first; then as many words as are read in seven minutes, at 150 words a minute, and
    the first kernel exercise. How the course works stands behind it."""
    notebook = Path(__file__).resolve().parents[2] / "notebooks" / "00_start_here" / "00_start_here.ipynb"
    cells = [(c["cell_type"], "".join(c["source"])) for c in json.loads(notebook.read_text("utf-8"))["cells"]]
    text = [source for kind, source in cells if kind == "markdown"]
    assert "## The question" in text[0] and "How this course works" not in text[0]
    pictures = [i for i, (kind, source) in enumerate(cells) if kind == "code" and source.startswith("figures.")]
    kernel = next(i for i, (_, source) in enumerate(cells) if "def add_one_kernel" in source)
    assert pictures[0] <= 4 and pictures[0] < kernel
    words = [word for kind, source in cells[:kernel] if kind == "markdown" for word in source.split()]
    assert len(words) <= 7 * 150
    assert kernel < next(i for i, (_, source) in enumerate(cells) if "## How this course works" in source)


@pytest.mark.parametrize("key", KEYS)
def test_an_explanation_opens_with_the_right_answer_alone(key):
    answer, text = MYTHS[key]
    assert start.opened(key, answer) == text and start.opened(key, not answer) is None


def test_an_explanation_is_shown_after_either_answer():
    for answer in (True, False):
        found = verdict("eager_compiles", {"eager_compiles": answer})
        assert found.seen == "False." and found.detail == MYTHS["eager_compiles"][1] and found.passed is not answer
        assert found.points == (0 if answer else 0.5)


@pytest.mark.parametrize("answers", [{}, {"eager_compiles": 0}, {"eager_compiles": "False"}, None, [False]])
def test_what_is_no_answer_is_not_explained(answers):
    found = verdict("eager_compiles", answers)
    assert not found.passed and found.points == 0 and MYTHS["eager_compiles"][1] not in found.seen


@pytest.mark.parametrize(
    "answers, said",
    [
        ({"eager_compiles": "True"}, "(you: 'True', a string)"),
        ({"eager_compiles": 1}, "(you: 1)"),
        ({"eager_compiles": {"unsupported": "a ellipsis"}}, "(you: no answer)"),
        ({}, "(you: no answer)"),
    ],
)
def test_what_is_no_answer_is_shown_as_it_was_written(answers, said):
    assert verdict("eager_compiles", answers).seen == f"`eager_compiles` is neither True nor False {said}"


def test_no_answer_to_everything_earns_more_than_two_thirds():
    true = sum(answer for answer, _ in MYTHS.values())
    assert 0.4 <= true / len(MYTHS) <= 0.6


def test_oracles_equal_hand_counts():
    assert [start.fewest_warps(*a) for a in ((400, 40), (399, 40), (401, 40), (0, 5), (1, 100))] == [11, 11, 12, 1, 2]
    assert start.traced_doubling() == {
        "programs": 5,
        "masked_positions": 120,
        "bytes_loaded": 10_000,
        "bytes_stored": 20_000,
    }


def test_a_wrong_formula_is_named_when_every_result_is_its():
    def trials(formula):
        return [SimpleNamespace(calls=[(a, formula(**a))]) for a in drawn]

    drawn = [case.arguments(0) for case in start.num_programs.cases]
    said = [next(filter(None, (m(trials(f)) for m in start.num_programs.mistakes)), "") for f in (
        lambda n, block: n // block,
        lambda n, block: n // block + 1,
        lambda n, block: -(-n // block),
    )]  # fmt: skip
    assert "full blocks" in said[0] and said[1].id == "start.num_programs.one_too_many" and said[2] == ""


def test_a_power_of_two_of_programs_is_too_many(answered):
    found = answered(
        "start.num_programs", lambda n, block: triton.next_power_of_2(n) // block if n >= block else min(n, 1)
    )
    assert [f.title for f in found.findings if not f.passed] == ["where blocks do not divide n"]


def kernel_trial(x, output=None, faults=(), error="", cause=None, programs=0):
    outputs = [] if output is None else [output]
    evidence = SimpleNamespace(
        outputs=outputs, faults=list(faults), error=error, cause=cause, launches=[SimpleNamespace(programs=programs)]
    )
    return SimpleNamespace(calls=[({"x": x}, output) for output in outputs], evidence=evidence)


def test_a_result_that_ends_early_is_told_from_one_that_is_wrong():
    x = torch.randn(5000)
    whole, cut, holed = x[:4096] + 1, x + 1, x + 1
    cut[4096:], holed[:1024] = torch.nan, torch.nan
    look = start.ends_early(lambda x: x.double() + 1)
    right = kernel_trial(x[:4096], whole, programs=4)
    assert (
        look([right, kernel_trial(x, cut, programs=4), kernel_trial(x[:1], x[:1] + 1)]).id
        == "start.add_one.only_whole_blocks"
    )
    assert look([right]) == look([right, kernel_trial(x, holed)]) == look([]) == ""
    assert look([right, kernel_trial(x, cut, faults=["a race"])]) == ""


GRID = "triton.cdiv(n, BLOCK),"
PLACE = "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"


@pytest.mark.parametrize("exercise", ["start.add_one", "start.fixed_copy"])
@pytest.mark.parametrize(
    "patches, said",
    [
        ([(GRID, "64,")], "start.kernel.fixed_grid"),
        ([(GRID, "8,")], "start.kernel.fixed_grid"),
        ([(GRID, "1,"), ("1024", "65536")], "start.kernel.fixed_grid"),
        ([(GRID, "max(1, n // BLOCK),")], "start.add_one.only_whole_blocks"),
        ([(GRID, "max(1, min(n // BLOCK, 16)),")], "start.kernel.too_few_programs"),
        ([(PLACE, "tl.arange(0, BLOCK)")], "start.add_one.every_program_does_it_all"),
        ([(PLACE, "tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)")], "start.add_one.every_program_does_it_all"),
        ([(PLACE, "tl.program_id(0) + tl.arange(0, BLOCK)")], "start.fixed_copy.blocks_overlap"),
        ([(PLACE, "tl.program_id(0) // 2 * BLOCK + tl.arange(0, BLOCK)")], "start.fixed_copy.blocks_overlap"),
        ([(PLACE, f"({PLACE}) % n")], "criteria.race.lanes"),
        ([(PLACE, f"tl.minimum({PLACE}, n - 1)")], "criteria.race.lanes"),
    ],
)
def test_what_is_said_of_a_kernel_and_its_grid_is_so(spoiled, exercise, patches, said):
    found = spoiled(exercise, *patches)
    assert found.remark.id == said and found.points < found.out_of


def test_a_launch_without_a_grid_is_named():
    stopped = raised("Cannot call @triton.jit'd outside of the scope of a kernel")
    assert says(start.WITHOUT_A_GRID([kernel_trial(torch.ones(1), **stopped)]), "start.kernel.no_grid")
    assert start.WITHOUT_A_GRID([kernel_trial(torch.ones(1), **raised("", "TypeError"))]) == ""
