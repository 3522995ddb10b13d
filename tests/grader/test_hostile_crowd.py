"""Everything that is known to make a class stand still, at once: thirty honest submissions lose nothing.

How long they wait is measured by benchmarks/crowd.py.
"""

import json
import time

import pytest

import grader
from course_lib.exercises import find
from grader.cohort import classroom
from grader.gradebook import pages
from grader.judging import judge as judging
from grader.judging import submission
from grader.published import IMPORTS, solution_cell
from grader.reporting import sources

pytestmark = pytest.mark.slow  # two classes; test_submission.py and test_shown_pages.py have each limit

UNIT = "04_memory_coalescing"
QUICK = [find(f"coalescing.{name}") for name in ("padded_stride", "divergence_passes", "sectors_touched")]
HONEST = 30


def code(source, grade_id=""):
    metadata = {"nbgrader": {"grade_id": grade_id}} if grade_id else {}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def text(source):
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def notebook(*cells, bodies="", adds=""):
    """The published answers to QUICK, or functions with these bodies, or answers that hold an expression, too; and more cells."""
    own = []
    for e in QUICK:
        source = f"def {e.entry}(*args, **kwargs):\n    {bodies}" if bodies else solution_cell(e.id)
        own.append(code(source + (f"\n{e.entry} = ({e.entry}, {adds})[0]" if adds else ""), e.grade_id))
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [code(IMPORTS), *own, *cells]}


SENDS = """
    import json, os, struct
    header = json.dumps({{"storages": {storages}, "body": {body}}}).encode()
    message = b"strides1" + struct.pack("<Q", len(header)) + header + {blob}
    for fd in range(3, 64):
        try:
            view = memoryview(message)
            while view:
                view = view[os.write(fd, view):]
        except OSError:
            pass
    os._exit(0)""".strip()


def spread(count, times):
    """An answer of `times` tensors, in which one number stands for `count`."""
    one = {"dtype": "float32", "size": [count], "stride": [0], "offset": 0, "storage": 0}
    return {"result": {"value": [{"$tensor": one}] * times, "spent": {}}, "error": "", "printed": ""}


READ = {  # reading them costs
    "deep_condition": notebook(adds="1 if 0 else " * 2_500 + "2"),
    "deep_not": notebook(adds="not " * 2_500 + "1"),
    "deep_attribute": notebook(adds="IMPORTS" + ".a" * 2_500),
    "deep_sum": notebook(adds="+".join("1" * 2_500)),
    "fstrings": notebook(code("x = (" + "f'{a}{b}{c}' " * 37_000 + ")")),
    "one_fstring": notebook(code("x = f'" + "{a}" * 160_000 + "'")),
    "tabs": notebook(code(("\t" * 99 + "\n") * 4_900)),
    "decorators": notebook(code("@a\n" * 19_000)),
    "brackets": notebook(code("[" * 490_000)),
    "emphasis": notebook(text("*a _b " * 3_000), text("[" * 19_999), text("![" * 9_999), text("<" * 19_999)),
}
RUN = {  # running them costs
    "asleep": notebook(bodies="import time; time.sleep(1000)"),
    "napping": notebook(bodies="import time\n    while True: time.sleep(0.01)"),
    "locked": notebook(bodies="import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"),
    "asleep_at_import": notebook(adds="__import__('time').sleep(1000)"),
    "many_storages": notebook(bodies=SENDS.format(storages="[0] * 1_000_000", body="1", blob="b''")),
    "many_lists": notebook(bodies=SENDS.format(storages="[]", body="[[]] * 2_000_000", blob="b''")),
    "spread": notebook(bodies=SENDS.format(storages="[4]", body=spread(1 << 28, 1), blob="bytes(4)")),
    "many_spread": notebook(bodies=SENDS.format(storages="[4]", body=spread(1 << 25, 9), blob="bytes(4)")),
}

SOLVED = solution_cell("coalescing.row_copy")
LINE = "    inside = (rows < M) & (cols < N)\n"
KERNELS = {  # which cost all the seconds that one exercise may take
    "unrolled": SOLVED.replace(LINE, f"{LINE}    for _ in tl.static_range(1000000):\n        rows += 0\n"),
    "barrier": SOLVED.replace(
        LINE,
        f"{LINE}    tl.atomic_add(out_ptr, 1.0)\n    while tl.atomic_add(out_ptr, 0.0) < tl.num_programs(0) * 1000:\n        pass\n",
    )
    .replace("min(1024, triton.next_power_of_2(N))", "8")
    .replace("4096 // BLOCK_N", "1"),
    "prints": SOLVED.replace(LINE, LINE + '    tl.device_print("x", rows)\n' * 64)
    .replace("min(1024, triton.next_power_of_2(N))", "8")
    .replace("4096 // BLOCK_N", "1"),
}


def hand_in(home, student, content):
    path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


def hand_in_all(home, hostile, honest):
    """Lay out a class in which all hostile submissions come before HONEST copies of an honest one."""
    for student, content in hostile.items():
        hand_in(home, f"a-{student}", content)
    for number in range(HONEST):
        hand_in(home, f"honest-{number:02}", honest)


def graded(home):
    """(student -> graded, seconds until all honest students had their verdicts) of the class in `home`."""
    found, waited, started = {}, 0.0, time.monotonic()
    with classroom.ClassGrader(home, workers=2, accept_risk=True) as room:
        for one in room.grade(UNIT):
            found[one.student] = one
            pages.render([("code" if cell.kind == "code" else "markdown", cell.source) for cell in one.read.cells])
            if one.student.startswith("honest"):
                waited = time.monotonic() - started
    return found, waited


def points(graded_one):
    return {e.id: graded_one.verdicts[e.id].points for e in QUICK}


def test_thirty_honest_submissions_lose_nothing(tmp_path):
    hand_in_all(tmp_path, READ | RUN, notebook())
    found, _ = graded(tmp_path)
    assert len(found) == HONEST + len(READ | RUN) and all(one.complete for one in found.values())
    full = {e.id: e.points for e in QUICK}
    assert [points(one) for s, one in found.items() if s.startswith("honest")] == [full] * HONEST
    for student in RUN:
        assert sum(points(found[f"a-{student}"]).values()) == 0 and not found[f"a-{student}"].poison, student
        for verdict in found[f"a-{student}"].verdicts.values():
            assert not any("the grader" in finding.seen for finding in verdict.findings), verdict.findings


@pytest.mark.parametrize("student", READ)
def test_reading_and_showing_one_costs_seconds_at_most(tmp_path, student):
    hand_in(tmp_path, student, READ[student])
    path = tmp_path / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    started = time.process_time()
    read = submission.read(path, QUICK, grader.released(UNIT))
    pages.render([("code", cell.source) for cell in read.cells])
    sources.handin(path, UNIT, student)
    assert time.process_time() - started < 2  # in this process
    assert read.problem or len(read.answers) == len(QUICK)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_costs_the_seconds_of_an_exercise_at_most(tmp_path, monkeypatch, name):
    """Ends at its limit, here a shorter one, earns nothing, and leaves the others of its submission what they need."""
    monkeypatch.setattr(judging, "REPLAY_SECONDS", 4.0)
    judge, budget = judging.Judge(tmp_path, accept_risk=True), judging.CpuBudget()
    exercise = find("coalescing.row_copy")
    found = judge.judge(exercise, [("", IMPORTS), (exercise.grade_id, KERNELS[name])], 7, budget)
    judge.close()
    assert found.points == 0 and not any(finding.status == "unjudged" for finding in found.findings)
    assert (
        judging.SUBMISSION_SECONDS - budget.seconds < 3 * judging.REPLAY_SECONDS
    )  # of CPU: public cases, hidden ones, compilers
