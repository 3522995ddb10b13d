"""Programs of one student share children, and each gets the verdict that it would get alone."""

import pytest
from sentences import says

import grader
from course_lib.evidence import Evidence
from course_lib.execution import relays
from course_lib.exercises import find
from grader.judging import judge as judging
from grader.published import answer, solution_cell
from tritontrace.replay.wire import to_tree
from tritontrace.results import Cause

UNIT = "04_memory_coalescing"
COUNTS, STRIDE, PASSES = (find(f"coalescing.{n}") for n in ("sectors_touched", "padded_stride", "divergence_passes"))
TRANSPOSE, COPY = find("coalescing.transpose"), find("coalescing.row_copy")


@pytest.fixture
def asked(judge, monkeypatch):
    """(role, how many programs) of each request."""
    requests, ask = [], judge.zygote.ask
    monkeypatch.setattr(
        judge.zygote, "ask", lambda request: requests.append((request["role"], len(request["parts"]))) or ask(request)
    )
    return requests


def right(exercise):
    return exercise, answer(exercise.id, solution_cell(exercise.id)), 1


def of(exercise, source):
    return exercise, answer(exercise.id, source), 1


def test_a_whole_unit_takes_three_children(judge, asked):
    found = judge.judge_all([right(exercise) for exercise in grader.exercises(UNIT).values()])
    assert [verdict.points for verdict in found] == [e.points for e in grader.exercises(UNIT).values()]
    hidden = len([e for e in grader.exercises(UNIT).values() if e.kind != "values" and e.called not in relays.ONCE])
    kernels = len([e for e in grader.exercises(UNIT).values() if e.kind == "kernel"])
    # the second of them with what is hidden
    assert asked == [("record", len(found)), ("record", hidden), ("replay", kernels)]


def test_verdicts_in_company_are_those_alone(judge, asked):
    wrong = of(STRIDE, "def padded_stride(n, itemsize):\n    print('here')\n    return n")
    wasteful = of(COPY, solution_cell(COPY.id).replace("mask=inside", "mask=inside & (rows < 5)"))
    answers = [right(COUNTS), wrong, right(TRANSPOSE), wasteful]
    together = judge.judge_all(answers)
    assert ("record", 1) in asked and ("replay", 1) not in asked  # recorded once more, to the same effect
    assert together == [judge.judge(*one) for one in answers]
    assert together[1].points < STRIDE.points and together[2].points == TRANSPOSE.points


DISTURBING = {
    "ends the process": "import os\nos._exit(0)",
    "crashes": "import ctypes\nctypes.string_at(0)",
    "takes the memory": "hold = torch.empty(3 << 28)\nglobals()['kept'] = hold\nraise MemoryError",
    "changes what the others call": "torch.empty = torch.empty_like = torch.full = None\nreturn 1",
    "raises what nobody expects": "raise KeyboardInterrupt",
}


@pytest.mark.parametrize("statements", DISTURBING.values(), ids=DISTURBING)
def test_who_disturbs_the_company_disturbs_nobody(judge, statements):
    body = "\n    ".join(statements.splitlines())
    disturbing = of(COUNTS, f"import torch\n\n\ndef sectors_touched(addresses, itemsize):\n    {body}")
    lost, *others = judge.judge_all([disturbing, right(TRANSPOSE), right(PASSES)])
    assert lost == judge.judge(*disturbing) and lost.points == 0
    assert [verdict.points for verdict in others] == [TRANSPOSE.points, PASSES.points]


def test_a_case_that_ended_early_in_company_is_run_again_alone(judge, monkeypatch):
    """Company leaves less memory to each: what could not be repeated there may well be repeated alone."""
    ask, roles = judge.zygote.ask, []

    def short_of_memory(request):
        reply = ask(request)
        roles.append((request["role"], len(request["parts"])))
        if roles[-1] == ("replay", 2):
            evidence = Evidence("a case", error="the recorded calls cannot be repeated", cause=Cause("raised"))
            reply["result"][1][0] = to_tree(evidence)
        return reply

    monkeypatch.setattr(judge.zygote, "ask", short_of_memory)
    found = judge.judge_all([right(TRANSPOSE), right(COPY)])
    assert [verdict.points for verdict in found] == [TRANSPOSE.points, COPY.points]
    assert roles.count(("replay", 2)) == roles.count(("replay", 1)) == 1


def test_an_endless_loop_costs_itself_alone(judge, monkeypatch):
    monkeypatch.setattr(judging, "RECORD_SECONDS", 3.0)
    endless = of(COUNTS, "def sectors_touched(addresses, itemsize):\n    while True:\n        pass")
    lost, other = judge.judge_all([endless, right(PASSES)])
    assert "did not finish within 3 seconds" in lost.findings[0].seen and other.points == PASSES.points


def test_an_answer_that_ends_itself_did_not_run_in_one_word_or_many(judge):
    ends = of(STRIDE, "import sys\ndef padded_stride(n, itemsize):\n    sys.exit()")
    verdict = judge.judge(*ends)
    assert verdict.outcome == "did_not_run" and says(verdict.findings[0].missed, "criteria.seen.does_not_run")


def test_what_one_prints_is_not_anothers(judge):
    loud = of(
        TRANSPOSE, solution_cell(TRANSPOSE.id).replace("    M, N = x.shape", "    print('loud')\n    M, N = x.shape")
    )
    first, second = judge.judge_all([loud, right(COPY)])
    assert first.printed.startswith("loud") and second.printed == ""


def test_no_program_at_all(judge, asked):
    assert judge.judge_all([]) == [] and asked == []
