"""attempt(): what is right is kept with what it moves, what is wrong is no entry, and a picture shows both next to the published one."""

import json

import pytest
import torch
import triton
import triton.language as tl

from course_lib import attempt, logbook, open_tasks
from course_lib.exercise import Case, Verdict
from course_lib.exercises.fusion.cases import rows
from course_lib.hardware.measurements import measured
from course_lib.logbook import Attempt
from course_lib.open_tasks.tasks import TASKS, OpenTask, softmax_bytes
from grader.published import published

NAME = "fusion.online_softmax"
PUBLISHED_TASKS = dict(TASKS)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, KEPT: tl.constexpr, FACTOR: tl.constexpr):
    """Program m: row m, of which the first KEPT elements stay in registers and as many others are read twice."""
    first = tl.program_id(0) * N + tl.arange(0, KEPT)
    kept, rest = tl.load(x_ptr + first), tl.load(x_ptr + first + KEPT)
    m = tl.maximum(tl.max(kept, 0), tl.max(rest, 0))
    l = tl.sum(tl.exp(kept - m), 0) + tl.sum(tl.exp(rest - m), 0)
    tl.store(out_ptr + first, FACTOR * tl.exp(kept - m) / l)
    again = tl.load(x_ptr + first + KEPT, volatile=True)
    tl.store(out_ptr + first + KEPT, FACTOR * tl.exp(again - m) / l)


def softmax(x, factor=1):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], KEPT=x.shape[1] // 2, FACTOR=factor)
    return out


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """The task of unit 06 on short rows, and a logbook of its own."""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    case = Case("32 x 512", "performance", rows(32, 512))
    monkeypatch.setitem(TASKS, NAME, OpenTask(TASKS[NAME].exercise, case, case, softmax_bytes))


def test_a_right_answer_is_kept_with_its_bytes_and_drawn(capsys):
    figure = attempt(NAME, softmax)
    (kept,) = logbook.attempts(NAME)
    assert (kept.bytes, kept.programs, kept.launches) == (32 * 512 * 4 * 5 // 2, 32, 1)
    (ax,) = figure.axes
    assert [list(line.get_ydata()) for line in ax.lines if line.get_marker() == "o"] == [[kept.bytes / 1e6]]
    levels = {text.get_text(): text.xy[1] * 1e6 for text in ax.texts}
    assert levels == pytest.approx({"published": measured("open_tasks")[NAME]["bytes"], "each byte once": 32 * 512 * 8})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "entry",
    [
        lambda x: softmax(x, factor=2),
        lambda x: softmax(x)[:, :1],
        lambda x: torch.softmax(x, 1),
        lambda x: None,
        lambda x: 1 / 0,
        lambda: 0,
        None,
        ...,
        7,
        softmax_kernel,
    ],
    ids=["wrong", "a part", "torch", "nothing", "raises", "takes nothing", "None", "...", "a number", "the kernel"],
)
def test_what_is_not_right_is_no_entry(entry, capsys):
    assert attempt(NAME, entry) is None
    assert logbook.attempts(NAME) == []
    assert capsys.readouterr().out.startswith(open_tasks.NO_ENTRY)


def test_one_program_that_does_it_all_is_no_entry():
    @triton.jit
    def alone(x_ptr, out_ptr, M, N: tl.constexpr):
        for row in range(M):
            at = row * N + tl.arange(0, N)
            x = tl.load(x_ptr + at)
            e = tl.exp(x - tl.max(x, 0))
            tl.store(out_ptr + at, e / tl.sum(e, 0))

    def entry(x):
        out = torch.empty_like(x)
        alone[(1,)](x, out, *x.shape)
        return out

    found = open_tasks.count(TASKS[NAME], entry)
    assert isinstance(found, Verdict) and [f.key for f in found.findings if f.lost] == ["read_together.performance"]


def test_what_is_no_open_task_is_told_their_names(capsys):
    assert attempt("fusion.softmax", softmax) is None and attempt(softmax, NAME) is None
    assert all(said.count(NAME) == 1 for said in capsys.readouterr().out.splitlines())


def spent(nbytes, ms=0.0):
    return Attempt("2026-11-29", nbytes, 32, 1, ms, "a card" if ms else "")


def test_the_same_again_is_no_new_attempt_unless_it_was_timed():
    for each in (spent(9), spent(9), spent(8), spent(9), spent(9, 0.5), spent(9, 0.5)):
        logbook.record_attempt(NAME, each)
    assert [each.bytes for each in logbook.attempts(NAME)] == [9, 8, 9, 9, 9]


def test_attempts_leave_the_points_alone():
    """A release that knows no attempts reads progress.json as one of numbers."""
    logbook.record_attempt(NAME, spent(9))
    assert not logbook.path().exists() and logbook.best() == {}


@pytest.mark.parametrize(
    "content", ["", "[1]", "{", '{"fusion.online_softmax": 3}', '{"fusion.online_softmax": [{"a": 1}]}']
)
def test_a_damaged_file_is_no_attempt(content):
    (logbook.path().parent / "attempts.json").write_text(content)
    assert logbook.attempts(NAME) == []
    logbook.record_attempt(NAME, spent(9))
    assert logbook.attempts(NAME) == [spent(9)]


def test_times_have_a_panel_of_their_own():
    from course_lib.open_tasks import picture

    figure = picture.attempts(TASKS[NAME], [spent(9_000_000), spent(8_000_000, 0.5), spent(8_000_000, 0.4)])
    _, right = figure.axes
    assert [list(line.get_xdata()) for line in right.lines if line.get_marker() == "o"] == [[2, 3]]


def test_every_task_has_a_recorded_answer_that_can_be_beaten():
    recorded = measured("open_tasks")
    assert recorded.keys() == PUBLISHED_TASKS.keys()
    assert all(recorded[name]["bytes"] > task.least_bytes for name, task in PUBLISHED_TASKS.items())


@pytest.mark.parametrize("name", PUBLISHED_TASKS)
def test_the_published_answers_move_what_is_recorded(name):
    found = open_tasks.count(PUBLISHED_TASKS[name], published(name))
    assert isinstance(found, Attempt) and found.bytes == measured("open_tasks")[name]["bytes"]


def test_the_logbook_is_plain_data():
    logbook.record_attempt(NAME, spent(9))
    kept = json.loads((logbook.path().parent / "attempts.json").read_text())
    assert kept == {NAME: [{"date": "2026-11-29", "bytes": 9, "programs": 32, "launches": 1, "ms": 0.0, "gpu": ""}]}


def test_where_there_is_a_gpu_the_time_is_kept_and_a_wrong_result_there_is_no_entry(monkeypatch):
    """A stand-in for the clock: no GPU runs here."""

    def wrong(*_):
        raise ValueError("the result is wrong on this GPU")

    monkeypatch.setattr(open_tasks.bench, "has_gpu", lambda: True)
    monkeypatch.setattr(open_tasks, "_timed", lambda *_: (0.5, "a card"))
    kept = open_tasks.count(TASKS[NAME], softmax)
    assert isinstance(kept, Attempt) and (kept.ms, kept.gpu) == (0.5, "a card")
    monkeypatch.setattr(open_tasks, "_timed", wrong)
    lost = open_tasks.count(TASKS[NAME], softmax)
    assert isinstance(lost, Verdict) and "on this GPU" in lost.findings[0].seen
