"""Work logs: what a formula may say, when a round holds, what was stated before its version was there, and the page of it all."""

import json

import pytest
import torch
import triton
import triton.language as tl

from course_lib import check, criteria, logbook, worklog
from course_lib.evidence import GPURun
from course_lib.execution import observe, on_gpu
from course_lib.exercises import UNITS, find
from course_lib.exercises.rounds import OnOneSize, counted, for_nobody, off
from course_lib.work_logs import log, page, picture
from course_lib.workloads.stated import CALLED, COUNTED, LONGEST, evaluated, written
from grader import exercises, published
from tritontrace import trace

NAME = "coalescing.transpose_log"
LOGS = [e.id for unit in UNITS for e in exercises(unit).values() if e.called == CALLED]


@pytest.fixture(autouse=True)
def own_logbook(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


@pytest.fixture(scope="module")
def rounds():
    return published.published(NAME)()


# ------------------------------------------------------------------------------------------------------ formulas


@pytest.mark.parametrize(
    "formula, value",
    [
        ("8*M*N", 8000),
        (" 8 * M * N ", 8000),
        ("M*N/4 + M", 350),
        ("cdiv(M, 64) * cdiv(N, 3)", 8),
        ("M // 64 - -1", 2),
        ("M**2", 10000),
        ("3", 3),
        ("1e3 / 2", 500),
    ],
)
def test_a_formula_has_a_value(formula, value):
    assert evaluated(formula, {"M": 100, "N": 10}) == value


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "K",
        "8*M*",
        "8 if M > 1 else 3",
        "M > 3",
        "max(M, N)",
        "M.real",
        "__import__('os').getpid()",
        "(lambda: 3)()",
        "M**N",
        "9**9",
        "M / 0",
        "M // (N - 10)",
        "cdiv(M, 0)",
        "cdiv(M)",
        "[M][0]",
        "'M'",
        "M\nN",
        "(" * 150 + "M" + ")" * 49,
        "1e308 * 1e308 // 1",
        "0 + " * LONGEST + "1",
    ],
)
def test_what_is_no_formula_is_told_so(formula):
    with pytest.raises(ValueError, match=r"^(is|has) "):
        evaluated(formula, {"M": 100, "N": 10})


def test_what_is_written_is_text_whatever_it_was():
    class Changing(str):
        def __str__(self):
            return "8*M*N"

    rows = written([{"bytes": 3, "sectors": 2.5, "launches": None}, {"bytes": print}, 7, {"bytes": Changing("1")}])
    assert [row["bytes"] for row in rows] == ["3", "", "", "8*M*N"]
    assert {type(text) for row in rows for text in row.values()} == {str}
    assert written(None) == [] and written("abc") == [] and len(written([{}] * 40)) < 10
    assert len(written([{"bytes": "1" * 10_000}])[0]["bytes"]) == LONGEST + 1


# --------------------------------------------------------------------------------------------------- a round holds


def on(first, *versions, M=64):
    named = [dict(zip(COUNTED, each, strict=True)) for each in (first, *versions)]
    return OnOneSize(f"M = {M}", {"M": M}, dict(enumerate(named)))


STATED = {"bytes": "10*M", "sectors": "M", "launches": "1"}


@pytest.mark.parametrize(
    "sizes, holds",
    [
        ([on((1280, 64, 1), (640, 64, 1))], True),
        ([on((1280, 64, 1), (700, 68, 1))], True),  # a tenth off
        ([on((1280, 64, 1), (720, 64, 1))], False),
        ([on((1280, 64, 1), (640, 64, 2))], False),
        ([on((640, 64, 1), (640, 64, 1))], False),  # saves nothing
        ([on((690, 64, 1), (640, 64, 1))], False),  # or less than a tenth
        ([on((640, 64, 4), (640, 64, 1))], True),
        ([on((300, 64, 4), (640, 64, 1))], True),  # more bytes for fewer launches, and both were known
        ([on((1280, 64, 1), (640, 64, 1)), on((1280, 64, 1), (640, 64, 1), M=128)], False),  # true of one size alone
        ([on((1280, 64, 1), (640, 64, 1)), on((2560, 128, 1), (1280, 128, 1), M=128)], True),
        (
            [on((1280, 64, 1), (640, 64, 1)), on((1280, 128, 2), (1280, 128, 1), M=128)],
            False,
        ),  # saves bytes, then launches
    ],
)
def test_a_round_holds_if_its_numbers_do_and_one_fell(sizes, holds):
    assert (off(STATED, 1, sizes) == "") == holds


def test_what_an_earlier_round_saved_is_saved():
    """Waste that is put in and taken out again is below the version before, and not below every version before."""
    back_and_forth = on((1280, 64, 1), (640, 64, 1), (1280, 64, 1), (640, 64, 1))
    assert off(STATED, 3, [back_and_forth]) and not off(STATED, 1, [back_and_forth])


@triton.jit
def store_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


def stored(*pairs):
    """The sentence on launches that copy from one tensor to another; "out" is what is returned."""
    tensors = {name: torch.zeros(64) for pair in pairs for name in pair}
    with trace() as seen:
        for name, tensor in tensors.items():
            seen.name(name, tensor)
        for source, target in pairs:
            store_kernel[(1,)](tensors[source], tensors[target], BLOCK=64)
    return for_nobody(seen.launches)


@pytest.mark.parametrize(
    "pairs, waste",
    [
        ([("x", "out")], ""),
        ([("x", "buffer 1"), ("buffer 1", "out")], ""),
        ([("x", "out"), ("out", "out")], ""),  # in place
        ([("x", "out"), ("x", "out")], "`out`"),
        ([("x", "buffer 1"), ("x", "out")], "`buffer 1`"),
    ],
)
def test_what_nobody_reads_is_stored_for_nobody(pairs, waste):
    assert waste in stored(*pairs) and bool(stored(*pairs)) == bool(waste)


# --------------------------------------------------------------------------------------------- every published log


@pytest.mark.parametrize("name", LOGS)
def test_the_first_version_is_shown_is_right_and_is_never_as_good_as_a_round(name):
    exercise = find(name)
    shown = worklog(name)
    assert isinstance(shown, page.FirstVersion)
    compile(shown.source, name, "exec")
    assert repr(shown).count("@triton.jit") == shown.source.count("@triton.jit") > 0 and "pyright" not in repr(shown)
    _, arguments = log.arguments_of(exercise)
    seen, result = log._traced(log.task_of(exercise).first, arguments)
    assert log._wrong(exercise, arguments, result) == ""
    assert all(f"{number:,}" in repr(shown) for number in counted(seen.launches).values())


@pytest.mark.parametrize("name", LOGS)
def test_every_round_of_the_published_log_holds(name):
    shown = worklog(name, published.published(name))
    assert [each.problem for each in shown.log.rounds] == ["", "", ""] and shown.log.held == 3
    assert all(each.changed and not each.changed.equal for each in shown.log.rounds)


def test_there_are_six_in_units_four_to_ten():
    assert len(LOGS) == 6 and {find(name).track for name in LOGS} == {"more"}
    assert {name.partition(".")[0] for name in LOGS} <= {UNITS[unit] for unit in UNITS if "04" <= unit[:2] <= "10"}


# ------------------------------------------------------------------------------------------------------- the page


def test_the_page_counts_what_a_trace_counts(rounds):
    shown = worklog(NAME, lambda: rounds)
    x = log.arguments_of(find(NAME))[1]["x"]
    with trace() as seen:
        rounds[0]["version"](x)
    first = shown.log.rounds[0]
    assert first.counts == counted(seen.launches) == dict(zip(COUNTED, (262_144, 36_864, 1), strict=True))
    lines = [side.where for kernel in first.changed.kernels for line in kernel.lines if (side := line.before)]
    assert lines and all(where.startswith("course_lib/") for where in lines)
    assert first.changed.bytes == (524_288, 262_144) and first.changed.sectors == (45_056, 36_864)
    assert [row[3:] for row in shown.rows(first)] == [("262,144",) * 2, ("36,864",) * 2, ("1", "1")]
    assert [row[1] for row in shown.rows(first)] == ["524,288", "45,056", "2"]
    assert [row[1] for row in shown.rows(shown.log.rounds[1])] == ["262,144", "36,864", "1"]


def test_a_page_of_its_own_has_all_rounds_and_the_picture(rounds):
    text = worklog(NAME, lambda: rounds).document()
    assert text.startswith("<!doctype html>") and text.count("data:image/png;base64,") == 1 and 'alt="' in text
    assert text.count("<h4>") == 3 and text.count("<details open>") == 3
    evil = worklog(NAME, lambda: [rounds[0] | {"change": "<script>alert(1)</script>", "bytes": "<b>"}]).document()
    assert "<script>" not in evil and "<b>&lt;" not in evil.replace("<b>coal", "") and "&lt;script&gt;" in evil


def test_the_picture_has_a_bar_for_each_version_and_a_line_for_each_statement(rounds):
    shown = worklog(NAME, lambda: [rounds[0], {"change": "tiles", "bytes": "8*M*N"}])
    drawn = picture.rounds(shown.log)
    nbytes, sectors, launches = drawn.axes
    assert [bar.get_height() for bar in nbytes.patches] == [524_288, 262_144]
    assert [segment[0][1] for segment in nbytes.collections[0].get_segments()] == [262_144, 262_144]
    assert len(sectors.collections[0].get_segments()) == 1 and "524,288 to 262,144" in drawn.words.replace("\n", " ")


def test_what_does_not_hold_is_told(rounds):
    def raises(x):
        raise KeyError("no")

    def shut(x):
        return torch.empty(128, 256)

    listed = [
        rounds[0] | {"sectors": "M*N"},
        rounds[1] | {"version": raises},
        rounds[1] | {"version": shut},
        rounds[1] | {"version": lambda x: None},
        rounds[1] | {"version": 7},
    ]
    problems = [each.problem for each in worklog(NAME, lambda: listed).log.rounds]
    assert all(problems) and "KeyError" in problems[1] and "M*N" in problems[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("coalescing.transpose",),
        ("nothing.at_all",),
        (NAME, lambda: None),
        (NAME, lambda: [1, 2]),
        (NAME, lambda: "abc"),
    ],
)
def test_what_is_no_work_log_gets_one_sentence(arguments, capsys):
    assert worklog(*arguments) is None
    assert capsys.readouterr().out.count("\n") == 1


# ------------------------------------------------------------------------------------- stated before, or afterwards


def kept(shown):
    return [(each.first.before, each.first.traced, each.first.formulas["sectors"]) for each in shown.log.rounds]


def test_a_statement_that_stood_before_its_version_is_known_by_that(rounds):
    planned = [{**rounds[0], "version": None}]
    assert kept(worklog(NAME, lambda: planned)) == [(True, False, "M*N/8 + M*N")]
    assert kept(worklog(NAME, lambda: rounds[:2])) == [(True, True, "M*N/8 + M*N"), (False, True, "M*N/2")]


def test_a_statement_can_be_thought_over_until_its_version_is_there(rounds):
    worklog(NAME, lambda: [{**rounds[0], "version": None, "sectors": "M"}])
    worklog(NAME, lambda: [{**rounds[0], "version": None}])
    assert kept(worklog(NAME, lambda: rounds[:1])) == [(True, True, "M*N/8 + M*N")]


def test_a_statement_that_changes_together_with_its_version_did_not_stand_before(rounds):
    worklog(NAME, lambda: [{**rounds[0], "version": None, "sectors": "M"}])
    assert kept(worklog(NAME, lambda: rounds[:1])) == [(False, True, "M*N/8 + M*N")]


def test_what_was_stated_first_stays_after_the_trace(rounds):
    worklog(NAME, lambda: [{**rounds[0], "sectors": "M*N"}])
    shown = worklog(NAME, lambda: rounds[:1])
    assert kept(shown) == [(False, True, "M*N")] and "M*N/8 + M*N" in " ".join(shown.remarks(shown.log.rounds[0]))
    assert [row[2] for row in shown.rows(shown.log.rounds[0])][1] == "M*N"


@pytest.mark.parametrize(
    "content",
    ["", "[1]", "{", '{"coalescing.transpose_log": 3}', '{"coalescing.transpose_log": {"no copy": {"a": 1}}}'],
)
def test_a_damaged_file_is_no_statement(content, rounds):
    (logbook.path().parent / "statements.json").write_text(content)
    assert kept(worklog(NAME, lambda: rounds[:1])) == [(False, True, "M*N/8 + M*N")]
    assert json.loads((logbook.path().parent / "statements.json").read_text())[NAME]["no copy"]["traced"]


# ------------------------------------------------------------------------------------------------------- the check


def test_a_log_that_is_half_done_earns_its_part(rounds, capsys):
    assert check(NAME, lambda: [*rounds[:1], {**rounds[1], "version": None}]) == 3
    assert check(NAME, lambda: None) == 0 and check(NAME, lambda: rounds) == 9


def test_statements_leave_points_alone(rounds):
    worklog(NAME, lambda: rounds)
    assert not logbook.path().exists()


def test_what_a_gpu_found_is_judged_like_a_trace(rounds):
    """A statement is a result like others: it comes back from the GPU's process as it went there."""
    exercise = find(NAME)
    trials = observe(exercise, lambda: rounds, seed=3)
    for trial in trials:
        trial.evidence.on_gpu = GPURun("a card", outputs=[on_gpu.moved_back(each) for each in trial.evidence.outputs])
    assert criteria.judge(exercise, trials).points == 9
    last = next(trial for trial in trials if trial.case.name.startswith("version 3"))
    last.evidence.on_gpu = GPURun("a card", outputs=[each + 1 for each in last.evidence.outputs])
    verdict = criteria.judge(exercise, trials)
    assert [finding.key for finding in verdict.findings if finding.lost] == ["right_on_gpu"] and verdict.points == 0
