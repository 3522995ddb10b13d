"""The judge and its children: what a hostile or broken program costs, and that verdicts can be reproduced."""

import contextlib
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course_lib import checking, criteria
from course_lib.exercises import find
from grader.child import sandbox
from grader.cohort.single import judge_submission
from grader.judging import judge as judging
from grader.judging.cases import all_cases
from grader.judging.secret import seed_of
from grader.published import IMPORTS, answer, solution_cell
from tritontrace.replay import load
from tritontrace.results import Cause

TRANSPOSE = find("coalescing.transpose")
SOLUTION = answer(TRANSPOSE.id, solution_cell(TRANSPOSE.id))


def cells(source):
    return [("<cell 1>", IMPORTS), ("<cell 2>", source)]


def seen(verdict):
    return next(f.seen for f in verdict.findings if f.judged and not f.passed)


def test_the_solution_gets_full_marks_and_the_verdict_is_kept(judge):
    verdict = judge.verdict(TRANSPOSE, SOLUTION, "ada")
    assert (verdict.points, verdict.out_of) == (10, 10)
    assert len(list((judge.folder / "verdicts").glob("*.json"))) == 1
    judge.judge_all = None  # what is on disk is not judged again
    assert judge.verdict(TRANSPOSE, SOLUTION, "ada") == verdict
    del judge.judge_all


@pytest.mark.parametrize("lines", [0, 3])
def test_what_an_exercise_gives_may_stand_in_any_line(judge, lines):
    exercise = find("flash.online_update")
    *before, (name, source) = answer(exercise.id, solution_cell(exercise.id))
    verdict = judge.verdict(exercise, [*before, (name, "\n" * lines + source)], "ada")
    assert verdict.points == verdict.out_of


HOSTILE = {
    "ends its process": ("def transpose(x):\n    import os\n    os._exit(0)", "ended its own process"),
    "leaves with sys.exit": ("def transpose(x):\n    raise SystemExit(0)", "SystemExit"),
    "ends at import": ("import os\ntranspose = os._exit(0)", "ended its own process"),
    "crashes": ("def transpose(x):\n    import ctypes\n    ctypes.string_at(0)", "crashed"),
    "writes to every descriptor": (
        "import os\n\n\ndef transpose(x):\n    for fd in range(3, 200):\n        try:\n            os.write(fd, b'10 / 10')\n"
        "        except OSError:\n            pass\n    os._exit(0)",
        "cannot be read",
    ),
    "takes all memory": ("def transpose(x):\n    return torch.full((1 << 33,), 1.0)", "can't allocate memory"),
    "looks for the answers": ("from course_lib.exercises import coalescing\ntranspose = 1", "ModuleNotFoundError"),
    "fails at import": ("transpose = 1 / 0", "ZeroDivisionError"),
    "returns numpy": ("def transpose(x):\n    return x.T.numpy()", "numpy"),
    "does it in a thread": (
        "import threading\n\n\ndef transpose(x):\n    out = []\n"
        "    t = threading.Thread(target=lambda: out.append(x.T.contiguous()))\n    t.start()\n    t.join()\n    return out[0]",
        "neither passed to the function nor made",
    ),
    "remembers answers": (
        "known = {}\n\n\ndef transpose(x):\n    known[x.data_ptr()] = x.T.contiguous()\n    return known[x.data_ptr()]",
        "a copy",
    ),
    "turns a view": ("def transpose(x):\n    return x.T", "returns its input `x`, or a view of it"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_costs_itself_alone(judge, name):
    source, sentence = HOSTILE[name]
    verdict = judge.verdict(TRANSPOSE, cells(source), "mallory")
    assert verdict.points == 0
    assert sentence in seen(verdict)
    assert "Traceback" not in seen(verdict)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("ends its process", "exited"),
        ("ends at import", "exited"),
        ("crashes", "crashed"),
        ("writes to every descriptor", "unreadable"),
    ],
)
def test_how_a_child_ended_is_the_cause_of_its_verdict(judge, name, kind):
    verdict = judge.verdict(TRANSPOSE, cells(HOSTILE[name][0]), "mallory")
    assert verdict.cause.kind == kind


def test_an_endless_loop_and_a_flood_of_output_end(judge, monkeypatch):
    monkeypatch.setattr(judging, "RECORD_SECONDS", 2.0)
    verdict = judge.verdict(
        TRANSPOSE, cells("def transpose(x):\n    while True:\n        print('x' * 10_000)"), "mallory"
    )
    assert verdict.points == 0 and "did not finish within 2 seconds" in seen(verdict)
    assert verdict.findings[0].cause == Cause("timeout", details={"seconds": "2"})


def test_after_all_that_an_honest_program_still_passes(judge):
    assert judge.verdict(TRANSPOSE, SOLUTION, "bob").points == 10


def test_what_the_code_printed_is_kept_and_cut(judge):
    source = solution_cell(TRANSPOSE.id).replace(
        "M, N = x.shape", "M, N = x.shape\n    print('shape', M, N, '!' * 5000)"
    )
    verdict = judge.verdict(TRANSPOSE, cells(source), "ada")
    assert verdict.points == 10
    printed, _, note = verdict.printed.rpartition("\n")
    assert printed.startswith("shape 256 128") and len(printed) <= 2000 and note == criteria.NOT_YET


def test_files_of_others_cannot_be_read(judge, tmp_path):
    if judge.level == "none":
        pytest.skip("no sandbox on this machine")
    private = tmp_path / "solution.txt"
    private.write_text("the answer")
    for path in (private, judge.folder / "secret", judging.grader.ROOT / "course_lib/exercises/coalescing/__init__.py"):
        verdict = judge.verdict(
            TRANSPOSE, cells(f"def transpose(x):\n    return open({str(path)!r}).read()"), "mallory"
        )
        assert "PermissionError" in seen(verdict) or "FileNotFoundError" in seen(verdict), path


def test_the_network_is_closed(judge):
    if judge.level == "none":
        pytest.skip("no sandbox on this machine")
    source = "import socket\n\n\ndef transpose(x):\n    socket.create_connection(('127.0.0.1', 22), timeout=1)"
    assert any(
        word in seen(judge.verdict(TRANSPOSE, cells(source), "m")) for word in ("PermissionError", "Network", "refused")
    )


# ------------------------------------------------------------------------------------------------ secrets


def test_the_secret_is_private_and_lasts(tmp_path):
    secret = judging.course_secret(tmp_path)
    assert judging.course_secret(tmp_path) == secret and len(secret) == 32
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_seeds_depend_on_secret_student_and_exercise():
    seeds = {
        seed_of(secret, student, exercise)
        for secret in (b"a" * 32, b"b" * 32)
        for student in ("ada", "bob")
        for exercise in ("coalescing.transpose", "coalescing.row_copy")
    }
    assert len(seeds) == 8
    assert seed_of(b"a" * 32, "ada", "x.y") == seed_of(b"a" * 32, "ada", "x.y")


def test_hidden_cases_differ_between_students_and_repeat_for_one():
    sizes = [[c.name for c in all_cases(TRANSPOSE, seed)] for seed in (1, 1, 2)]
    assert sizes[0] == sizes[1] != sizes[2]
    assert len(sizes[0]) > len(TRANSPOSE.cases)


def test_threads_that_start_together_share_one_secret(tmp_path):
    for trial in range(20):
        folder = tmp_path / str(trial)
        folder.mkdir()
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(judging.course_secret, [folder] * 4))
        assert len(found) == 1 and len(found.pop()) == 32
        assert [p.name for p in folder.iterdir()] == ["secret"]


# ------------------------------------------------------------------------------------- what costs what


def test_a_case_that_fails_costs_its_own_criterion(judge):
    source = solution_cell(TRANSPOSE.id).replace("M, N = x.shape", "M, N = x.shape\n    assert M > 1")
    verdict = judge.verdict(TRANSPOSE, cells(source), "ada")
    assert {f.title for f in verdict.findings if f.judged and not f.passed} == {"right on ragged inputs"}
    assert verdict.points == 8


def test_a_kernel_for_one_dtype_that_does_not_compile_is_refused_by_check_and_by_the_judge(judge):
    good = solution_cell(TRANSPOSE.id)
    bad = good.replace("transpose_kernel", "bad_kernel").replace("def transpose(", "def transpose32(")
    bad = bad.replace("tile = tl.load(", "while True:\n        break\n    tile = tl.load(")
    source = good.replace(
        "M, N = x.shape", "if x.dtype == torch.float32:\n        return transpose32(x)\n    M, N = x.shape"
    )
    answer = cells(bad + "\n\n" + source)
    verdicts = [judge.verdict(TRANSPOSE, answer, "ada"), checking.verdict(TRANSPOSE, load(answer, "transpose"))]
    for verdict in verdicts:
        assert verdict.points == 0 and "bad_kernel" in seen(verdict)


def test_a_lost_zygote_is_no_verdict(judge, monkeypatch):
    lost = {"result": None, "error": "the grading process was lost", "cause": Cause("grader_failed"), "used": 0.0}
    monkeypatch.setattr(judge.zygote, "ask", lambda request: lost)
    with pytest.raises(judging.GraderFailed):
        judge.verdict(TRANSPOSE, SOLUTION, "carol")
    monkeypatch.undo()
    assert judge.verdict(TRANSPOSE, SOLUTION, "carol").points == 10


# --------------------------------------------------------------------------------- what a submission may cost


def test_what_children_use_is_charged_to_the_submission(judge):
    budget = judging.CpuBudget()
    judge.judge(TRANSPOSE, SOLUTION, 1, budget)
    once = judging.SUBMISSION_SECONDS - budget.seconds
    assert 0 < once < judging.SUBMISSION_SECONDS
    judge.judge(TRANSPOSE, SOLUTION, 2, budget)
    assert judging.SUBMISSION_SECONDS - budget.seconds > once


def test_nothing_is_asked_for_a_submission_that_has_used_up_its_time(judge, monkeypatch):
    asked, ask = [], judge.zygote.ask
    monkeypatch.setattr(judge.zygote, "ask", lambda request: asked.append(request["role"]) or ask(request))
    budget = judging.CpuBudget(seconds=1e-9)
    verdicts = [judge.judge(TRANSPOSE, SOLUTION, seed, budget) for seed in (1, 2)]
    assert asked == ["record"], "the first child may take what it needs"
    assert [(verdict.points, verdict.cause.kind) for verdict in verdicts] == [(0, "used_up")] * 2


def test_all_answers_of_a_notebook_share_one_budget(judge, monkeypatch):
    monkeypatch.setattr(judging, "SUBMISSION_SECONDS", 1e-9)
    unit = "04_memory_coalescing"
    notebook = judging.grader.ROOT / "solutions" / unit / f"{unit}.ipynb"
    verdicts = judge_submission(judge, unit, "dora", notebook)
    ran = [verdict for id, verdict in verdicts.items() if find(id).kind != "values"]
    assert len(ran) > 2 and {verdict.cause.kind for verdict in ran} == {"used_up"}


def test_nothing_that_a_child_starts_outlives_its_request(judge, monkeypatch):
    monkeypatch.setattr(judging, "RECORD_SECONDS", 2.0)
    name = "orphan-of-test"
    source = (
        "import ctypes, os, time\n\n\ndef transpose(x):\n    for _ in range(5):\n        if os.fork() == 0:\n"
        f"            ctypes.CDLL(None).prctl(15, {name.encode()!r})  # PR_SET_NAME\n"
        "            os.setsid()\n            time.sleep(600)\n    return x"
    )
    judge.verdict(TRANSPOSE, cells(source), "mallory")
    names = []
    for process in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            names.append(process.read_text().strip())
    assert name not in names and names


def test_a_course_in_a_readable_place_is_refused(tmp_path):
    assert sandbox.exposed([Path("/usr/share/course")]) and not sandbox.exposed([tmp_path])
    if sandbox.level() != "none":
        with pytest.raises(sandbox.NoSandbox, match="student code may read"):
            sandbox.require(False, Path("/usr/share/course"))


def test_a_long_answer_is_cut(judge):
    source = "def transpose(x):\n    raise ValueError('x' * 1_000_000)"
    assert len(seen(judge.verdict(TRANSPOSE, cells(source), "mallory"))) < 2_000
