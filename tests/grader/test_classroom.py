"""A class at scale: what is judged is kept, workers may die, and one submission's death sentence is its own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import dying
import nbformat
import pytest
from nbgrader.api import Gradebook

import grader
from course_lib import criteria
from course_lib.execution import gpu_lock
from course_lib.exercises import find
from grader.audit import samples
from grader.cohort import classroom, workers
from grader.gradebook import books, marks
from grader.judging import releases, submission, verdicts
from grader.published import answer, solution_cell
from tritontrace.replay import wire

UNIT = "04_memory_coalescing"
COUNT = len(grader.exercises(UNIT))
QUICK = [find(f"coalescing.{name}") for name in ("padded_stride", "divergence_passes", "sectors_touched")]
TESTS = Path(__file__).resolve().parent


def full(exercise):
    return answer(exercise.id, solution_cell(exercise.id))


class Table:
    """Workers that judge nothing: `answer(student, exercise, time)` gives the points, all of them unless it gives (points,
    out of) - or raises what a worker would.

    asked: (student, exercise) of each program, in order; jobs: each job; on: the machine that it says it is
    """

    died = (workers.WorkerDied,)
    slots, on = 4, "a machine"

    def __init__(self, answer=lambda student, exercise, time: 1.0):
        self.answer, self.asked, self.jobs, self.closed = answer, [], [], None

    def device(self, mode):
        return verdicts.NO_GPU

    def places(self, mode):
        return [self.on]

    def submit(self, job):
        future, found = Future(), []
        self.jobs.append(job)
        self.asked += [(job.student, answer.exercise) for answer in job.answers]
        try:
            for answer in job.answers:
                verdict = criteria.refused(find(answer.exercise), "judged")
                time = self.asked.count((job.student, answer.exercise))
                given = self.answer(job.student, answer.exercise, time)
                verdict.points, verdict.out_of = given if isinstance(given, tuple) else (given, given)
                verdict.on = self.on
                found.append(verdict)
            future.set_result((wire.to_tree(found), {"running": 0.5}))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self, *, now=False):
        self.closed = now


@pytest.fixture
def home(tmp_path):
    """Three students who handed in what they were given."""
    samples_of_three = [s for s in samples.of_unit(UNIT) if s.student in ("blank", "full-marks", "torch-call")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "of_unit", lambda unit: samples_of_three)
        samples.write(UNIT, grader.released(UNIT), tmp_path / "submitted")
    return tmp_path


def graded(home, table, **options):
    with classroom.ClassGrader(home, workers=table, accept_risk=True, **options) as room:
        return {g.student: g for g in room.grade(UNIT)}


def test_everybody_is_graded_and_a_second_run_judges_nothing(home):
    first, again = Table(), Table()
    found = graded(home, first)
    assert found.keys() == {"blank", "full-marks", "torch-call"}
    assert len(first.jobs) == 3 and len(set(first.asked)) == len(first.asked) == 3 * COUNT
    assert all(g.complete and list(g.verdicts) == list(grader.exercises(UNIT)) for g in found.values())
    assert graded(home, again).keys() == found.keys() and again.asked == []


def test_what_was_not_handed_out_is_judged_by_nobody_and_counts_as_the_rest_does(home, monkeypatch):
    """A student who got the notebook before an exercise of it was there. (How that is told: test_releases.py.)"""
    new = find("coalescing.transpose")
    path = home / "submitted" / "full-marks" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    of_new = {new.grade_id, new.check_id}
    notebook.cells = [cell for cell in notebook.cells if cell.id not in of_new]
    nbformat.write(notebook, path)
    cells = [cell for cell in submission.given_cells(grader.released(UNIT)) if cell.grade_id not in of_new]
    earlier = releases.HandedOutRelease(tuple(cells), "2026-11-20")
    monkeypatch.setattr(
        releases, "of", lambda path, *today: earlier if "full-marks" in path.parts else releases.HandedOutRelease()
    )
    table = Table(lambda student, exercise, time: (find(exercise).points / 2, find(exercise).points))
    found = graded(home, table)
    assert ("full-marks", new.id) not in table.asked and ("blank", new.id) in table.asked
    assert (found["full-marks"].verdicts[new.id].outcome, found["full-marks"].verdicts[new.id].points) == (
        "excused",
        new.points / 2,
    )


def test_what_changed_is_judged_again_and_nothing_else(home):
    graded(home, Table())
    path = home / "submitted" / "blank" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cell = samples.cell_of(notebook, "coalescing.transpose")
    cell.source = cell.source.replace("...  # your code here", "pass")
    nbformat.write(notebook, path)
    table = Table()
    graded(home, table)
    assert table.asked == [("blank", "coalescing.transpose")]


@pytest.mark.parametrize("name", ["my solution.ipynb", f"{UNIT}.ipynb.txt"])
def test_what_is_handed_in_under_a_wrong_name_is_reported_and_the_rest_graded(home, name):
    notebook = home / "submitted" / "blank" / UNIT / f"{UNIT}.ipynb"
    notebook.rename(notebook.with_name(name))
    (home / "submitted" / "torch-call").rename(home / "submitted" / "*")
    assert set(classroom.submissions(home, UNIT)) == {"full-marks"}
    star, blank = classroom.misnamed(home, UNIT)
    assert "is not a student's name" in star
    assert f"submitted/blank/{UNIT} holds '{name}' and no {UNIT}.ipynb" in blank


def test_where_there_are_gpus_kernels_are_a_job_of_their_own(home):
    table = Table()
    table.device = lambda mode: "NVIDIA H200"
    graded(home, table)
    there = {answer.exercise for job in table.jobs if job.kernels for answer in job.answers}
    assert there == {e.id for e in grader.exercises(UNIT).values() if e.kind == "kernel"} and len(table.jobs) == 6


def test_one_timing_at_a_time_on_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    inside, most = [], []

    def wait(name, devices):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
        with gpu_lock.alone():
            inside.append(name)
            most.append(len(inside))
            time.sleep(0.05)
            inside.remove(name)

    threads = [threading.Thread(target=wait, args=(n, "0")) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 5 and max(most) == 1
    with gpu_lock.alone():
        wait("another GPU", "1")  # does not wait for the first


def test_a_verdict_is_on_disk_before_anyone_hears_of_it(home):
    with classroom.ClassGrader(home, workers=Table(), accept_risk=True) as room:
        jobs = [room.jobs(student, [room.answer(e, full(e), student) for e in QUICK])[0] for student in ("ada", "bob")]
        for number, (job, found) in enumerate(room.judge(jobs), 1):
            assert {p.exercise: room.store.get(room.key(p)) for p in job.answers} == found
            assert len(list((home / "verdicts").glob("*.json"))) >= number * len(QUICK)


def test_ctrl_c_keeps_what_is_done(home):
    def answer(student, exercise, time):
        if len(table.asked) > 20:
            raise KeyboardInterrupt
        return 1.0

    table = Table(answer)
    table.slots = 1
    with pytest.raises(KeyboardInterrupt):
        graded(home, table)
    assert table.closed is True  # at once
    kept = len(list((home / "verdicts").glob("*.json")))
    table = Table()
    graded(home, table)
    assert kept > 0 and len(table.asked) == 3 * COUNT - kept


def test_a_job_whose_worker_died_is_judged_piece_by_piece_after_the_others(home):
    def answer(student, exercise, time):
        if (student, exercise, time) == ("blank", QUICK[0].id, 1):
            raise workers.WorkerDied
        return 1.0

    table = Table(answer)
    found = graded(home, table)
    assert [len(job.answers) for job in table.jobs] == [COUNT] * 3 + [1] * COUNT
    assert {job.student for job in table.jobs[3:]} == {"blank"}
    assert found["blank"].verdicts[QUICK[0].id].points == 1 and not found["blank"].poison


def test_poison_is_recorded_and_the_class_goes_on(home):
    def answer(student, exercise, time):
        if (student, exercise) == ("blank", QUICK[0].id):
            raise workers.WorkerDied
        return 1.0

    found = graded(home, Table(answer))
    assert found["blank"].poison == [QUICK[0].id]
    assert sum(v.points for g in found.values() for v in g.verdicts.values()) == 3 * COUNT - 1
    retried, again = Table(), Table()
    assert graded(home, retried)["blank"].poison == [QUICK[0].id] and retried.asked == []  # recorded
    assert graded(home, again, again=True)["blank"].poison == [] and len(again.asked) == 1


def test_a_failure_of_ours_is_shown_and_not_kept(home):
    def answer(student, exercise, time):
        raise RuntimeError("no space left")

    found = graded(home, Table(answer))
    assert "no space left" in found["blank"].verdicts[QUICK[0].id].findings[0].seen
    assert not list((home / "verdicts").glob("*.json"))


def test_a_worker_of_another_version_stops_the_run_in_a_sentence(home):
    with classroom.ClassGrader(home, workers=Table(), accept_risk=True) as room:
        (job,) = room.jobs("ada", [room.answer(QUICK[0], full(QUICK[0]), "ada")])
    with pytest.raises(workers.OtherVersion, match="another version"):
        workers.judge(workers.JudgingJob(**(vars(job) | {"version": "older"})), True)


def test_no_more_submissions_are_held_than_are_at_work(home):
    table = Table()
    for i in range(40):
        path = home / "submitted" / f"s{i}" / UNIT / f"{UNIT}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes((home / "submitted" / "blank" / UNIT / f"{UNIT}.ipynb").read_bytes())
    with classroom.ClassGrader(home, workers=table, accept_risk=True) as room:
        for number, _ in enumerate(room.grade(UNIT), 1):
            assert len(table.jobs) <= number + 2 * table.slots  # read ahead, but not the class
    assert number == 43


def test_a_worker_that_holds_too_much_is_replaced_and_loses_nothing(monkeypatch):
    monkeypatch.setattr(workers, "judge", dying.hoard)
    local = workers.Local(1, accept_risk=True)
    try:
        job = workers.JudgingJob("ada", (), "")
        pids = [local.submit(job).result()[0][0] for _ in range(3)]
        assert len(set(pids)) == 1
        hoarder = workers.JudgingJob("hoarder", (), "")
        heavy = [local.submit(hoarder).result()[0][0] for _ in range(2)]
        assert heavy[0] == pids[0] and heavy[1] != heavy[0]  # it judged, and then it went
        assert local.submit(job).result()[0][0] not in heavy
        assert not Path(f"/proc/{heavy[0]}").exists()
    finally:
        local.close()


# ------------------------------------------------------------------------------------------------ keys


def test_a_verdict_has_another_name_when_anything_that_it_depends_on_changes():
    timed = next(e for e in grader.exercises(UNIT).values() if e.bonus)
    cells = full(timed)
    keys = {
        verdicts.key_of(timed, cells, 1, "no GPU"),
        verdicts.key_of(timed, cells, 2, "no GPU"),
        verdicts.key_of(timed, cells, 1, "H200"),
        verdicts.key_of(timed, [*cells, ("<more>", "")], 1, "no GPU"),
        verdicts.key_of(QUICK[0], cells, 1, "no GPU"),
    }
    assert len(keys) == 5
    assert verdicts.key_of(QUICK[0], cells, 1, "no GPU") == verdicts.key_of(
        QUICK[0], cells, 1, "H200"
    )  # it has no kernel


def test_a_damaged_verdict_is_no_verdict(tmp_path):
    store = verdicts.VerdictStore(tmp_path)
    store.put("a", criteria.refused(QUICK[0], "why"))
    assert store.get("a").points == 0 and store.get("b") is None
    (tmp_path / "a.json").write_text("{")
    assert store.get("a") is None


# ------------------------------------------------------------------------------------------------ the books


def test_an_unchanged_submission_is_not_entered_again(home, monkeypatch):
    found = graded(home, Table())["blank"]
    written = home / "feedback" / "blank" / UNIT / f"{UNIT}.html"
    first = books.Books(home, UNIT)
    assert first.enter("blank", found.verdicts, found.read) == "ok"
    stamp = written.stat().st_mtime_ns
    second = books.Books(home, UNIT)
    assert second.enter("blank", found.verdicts, found.read) == "ok" and written.stat().st_mtime_ns == stamp
    found.verdicts[QUICK[0].id].points = 3.0
    third = books.Books(home, UNIT)
    assert third.enter("blank", found.verdicts, found.read) == "ok" and written.stat().st_mtime_ns > stamp


def test_a_submission_is_entered_whole_or_not_at_all(home, monkeypatch):
    found = graded(home, Table())
    ledger = books.Books(home, UNIT)

    def entered():
        with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
            return {s.student_id: s.score for s in book.assignment_submissions(UNIT)}

    def fail(*arguments):
        raise RuntimeError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(marks.SaveExtras, "preprocess", fail)  # after the scores
        assert "no space left" in ledger.enter("blank", found["blank"].verdicts, found["blank"].read)
    assert entered() == {}
    assert ledger.enter("blank", found["blank"].verdicts, found["blank"].read) == "ok"
    assert entered() == {"blank": COUNT}


# ------------------------------------------------------------------------------------------------ real workers


def wait_for(condition, seconds=180):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def judged_while_one_is_killed(folder, chosen, kill):
    """Judges four students and one who kills her worker; calls `kill` when one has her verdicts."""
    with classroom.ClassGrader(folder, workers=chosen, accept_risk=True) as room:
        given = [("mallory", QUICK[:1])] + [(student, QUICK) for student in ("ada", "bob", "cyd", "dan")]
        jobs = [
            job for student, of in given for job in room.jobs(student, [room.answer(e, full(e), student) for e in of])
        ]
        found = {}
        for job, verdicts_of_job in room.judge(jobs):
            found |= {(job.student, exercise): verdict for exercise, verdict in verdicts_of_job.items()}
            if len(found) == len(QUICK):
                kill()
    assert classroom.is_poison(found.pop(("mallory", QUICK[0].id)))
    points = {(student, e.id): e.points for student, of in given[1:] for e in of}
    assert {key: verdict.points for key, verdict in found.items()} == points


def test_processes_of_this_machine_die_and_the_class_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "judge", dying.judge)
    local = workers.Local(2, accept_risk=True)
    judged_while_one_is_killed(
        tmp_path, local, lambda: os.kill(next(iter(local.processes.values())).pid, signal.SIGKILL)
    )


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and three workers with nannies: (address, processes). What they say goes to tmp_path/cluster.log."""
    pytest.importorskip("distributed", reason="needs the extra `cluster`")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, path = f"tcp://127.0.0.1:{port}", os.pathsep.join([str(grader.ROOT), str(TESTS)])
    common = {"env": os.environ | {"PYTHONPATH": path}, "cwd": tmp_path, "start_new_session": True}
    with open(tmp_path / "cluster.log", "w") as log:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"]
        processes = [subprocess.Popen(command, stdout=log, stderr=log, **common)]
        for _ in range(3):
            command = [
                sys.executable,
                "-m",
                "distributed.cli.dask_worker",
                address,
                "--nthreads",
                "1",
                "--no-dashboard",
            ]
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, **common))
        yield address, processes
        for process in reversed(processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.slow
def test_a_cluster_of_three_workers_loses_one_and_the_class_goes_on(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(workers, "judge", dying.judge)
    address, processes = cluster
    dask = workers.Dask(address, accept_risk=True, seconds=120)
    dask.client.wait_for_workers(3, timeout=120)
    judged_while_one_is_killed(tmp_path / "home", dask, lambda: os.killpg(processes[1].pid, signal.SIGKILL))


def test_without_a_scheduler_there_is_a_sentence():
    pytest.importorskip("distributed", reason="needs the extra `cluster`")
    with pytest.raises(workers.NoCluster, match=r"No Dask scheduler answers at tcp://127.0.0.1:9"):
        workers.Dask("tcp://127.0.0.1:9", seconds=0.5)


@pytest.mark.slow
def test_autograde_is_stopped_by_ctrl_c_and_goes_on_from_there(home):
    command = [sys.executable, "-m", "grader", "autograde", UNIT, "--workers", "1", "--accept-risk"]
    options = {"cwd": grader.ROOT, "env": os.environ | {"GRADER_HOME": str(home)}, "text": True}
    shutil.rmtree(home / "submitted" / "torch-call")
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background inherits deafness to Ctrl-C
    run = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=heard, **options)
    wait_for(lambda: list((home / "feedback").rglob("*.html")))  # of one of two; the published solutions came before
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 130 and "the same command goes on from there" in said and "Traceback" not in said
    kept = {path: path.stat().st_mtime_ns for path in (home / "verdicts").glob("*.json")}
    assert 20 <= len(kept) < 3 * COUNT
    done = subprocess.run(command, stdout=subprocess.PIPE, **options)
    assert done.returncode == 0 and "blank" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(list((home / "verdicts").glob("*.json"))) == 3 * COUNT
