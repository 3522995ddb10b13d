"""Measure what grading costs: stock `nbgrader autograde` against `python -m grader autograde`, by `python
benchmarks/grading.py`.

A synthetic class hands in a whole unit: a tenth of it nothing, a third the published solutions, the others solutions of which
some are wrong or wasteful. Stock executes each student's notebook, with its check cells, in a kernel of its own; a sample
of the class is enough for it, of ten so that every kind of student is there. Ours grades everybody: the judge on all
cases, hidden ones included, every kernel compiled for every dtype and block size with which it could be refused, then gradebook
and feedback. The table takes its unit's place in benchmarks/results/grading.md.

Costs are seconds of CPU, over all processes; wall times stand next to them. Measure on a quiet machine: a second of CPU does half
as much where others use the same cores.

    running      inputs drawn, the student's host code called, references computed and compared
    tracing      the student's kernels, evaluated on the CPU
    compiling    the student's kernels through Triton's compiler, and through LLVM and NVIDIA's assembler where these decide
    overhead     all else: processes forked, sandboxed; messages; notebooks parsed; gradebook
    feedback     the pages for students, which stock's autograde does not write
    start        torch and Triton loaded by each process, once for a class; in no other column. Stock's are in its overhead

Each phase is measured where it happens, as the CPU of that process and of the children that it has waited for; `overhead`
is what remains of the CPU of all processes, so that the columns add up, and the part of it that is measured directly (the
gradebook, the judge's own process) is told below the table. Of stock, the time of the check cells counts as running,
tracing and compiling together; its overhead is all else.

Nothing is shared between submissions: a kernel is traced and compiled for each student, as if no other had written the same. But
each worker of a large class has traced and compiled the published kernels before, and of one that equals them neither front end
nor compiler is asked again. Two thirds of this class's answers are the published ones, more than in a real one. (Verdicts are kept
by what they depend on, the student's hidden inputs among it; a comment in each cell makes sure of it.)

What several GPUs bring is measured by benchmarks/class_on_gpus.py.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import grader  # noqa: E402
from course_lib.exercises import UNITS  # noqa: E402
from grader import published  # noqa: E402
from grader.audit import variants  # noqa: E402

UNIT = "04_memory_coalescing"
RESULT = ROOT / "benchmarks" / "results" / "grading.md"
TICK = os.sysconf("SC_CLK_TCK")


# ------------------------------------------------------------------------------------------------ the class


def answers(unit: str, count: int) -> Iterator[tuple[str, dict[str, list[tuple[str, str]]]]]:
    """(student, exercise -> the answer to it) of the synthetic class; the same one every time."""
    chance = random.Random(4)
    patched = [v for v in variants.of_unit(UNITS[unit]) if v.patches and not v.script]
    for number in range(count):
        kind, found = number % 10, {}  # 0: nothing; 1, 2, 3: all right; else a quarter of the exercises is a variant
        for exercise in grader.exercises(unit).values() if kind else ():
            own = [v for v in patched if v.exercise == exercise.id]
            wrong = kind > 3 and own and chance.random() < 0.25
            right = published.answer(exercise.id, published.solution_cell(exercise.id))
            *before, (name, source) = chance.choice(own).cells() if wrong else right
            found[exercise.id] = [*before, (name, f"{source}\n# s{number:04}")]
        yield f"s{number:04}", found


def hand_in(folder: Path, unit: str, count: int) -> list[str]:
    """Writes the synthetic class to folder/STUDENT/unit/. Returns the students."""
    import nbformat

    from grader.audit import samples

    blank, students = nbformat.read(grader.released(unit), as_version=4), []
    for student, answered in answers(unit, count):
        notebook = copy.deepcopy(blank)
        for exercise, cells in answered.items():
            samples.cell_of(notebook, exercise).source = cells[-1][1]
        path = folder / student / unit / f"{unit}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
        students.append(student)
    return students


# ------------------------------------------------------------------------------------------------ what it costs


@dataclass
class Cost:
    """Seconds for `students` submissions. cpu: of all processes, without `start`; work = the part that runs, traces and
    compiles; gradebook: a part of the overhead."""

    what: str
    students: int
    wall: float
    cpu: float
    work: dict[str, float]
    feedback: float = 0.0
    start: float = 0.0
    gradebook: float = 0.0

    @property
    def overhead(self) -> float:
        return self.cpu - sum(self.work.values()) - self.feedback

    def each(self, seconds: float) -> float:
        return seconds / self.students

    @property
    def throughput(self) -> float:
        """Submissions per second of one core, the start counted, feedback pages not."""
        return self.students / (self.cpu + self.start - self.feedback)

    def row(self) -> str:
        parts = [self.work.get(phase) for phase in ("running", "tracing", "compiling")]
        if parts == [None] * 3:
            parts = [sum(self.work.values()), None, None]
        numbers = [self.wall, self.cpu - self.feedback, *parts, self.overhead, self.feedback or None]
        cells = ["" if number is None else f"{self.each(number):.2f}" for number in numbers]
        start = f"{self.start:.0f} once" if self.start else ""
        return f"| {self.what} | {self.students} | {' | '.join(cells)} | {start} |"


def tree(pid: int) -> Iterator[int]:
    """A process and all that descends from it."""
    yield pid
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))
    except OSError:  # gone meanwhile
        return


def cpu_of(pid: int) -> float:
    """Seconds of CPU of a living process tree, of the children that it has waited for too."""
    total = 0
    for each in tree(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # utime, stime, and those of children that are gone
    return total / TICK


def memory_of(pid: int) -> float:
    """MB in memory of a process tree, what is shared counted once."""
    total = 0
    for each in tree(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


# ------------------------------------------------------------------------------------------------ stock


def stock(folder: Path, unit: str, students: list[str], processes: int) -> Cost:
    """nbgrader's own defaults: every notebook is executed by a kernel, one after another in each process."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "source" / unit).mkdir(parents=True)
    with_points(unit, folder / "source" / unit / f"{unit}.ipynb")
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.ClearSolutions.code_stub = {'python': '...  # your code here'}\nc.Execute.timeout = 120\n"
        f"c.CourseDirectory.root = {str(folder)!r}\nc.Autograde.permissions = 644\n"
    )
    for number, student in enumerate(students):  # a glob for each process
        shutil.copytree(folder.parent / "class" / student, folder / "submitted" / f"{number % processes}{student}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    options = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(ROOT), "PATH": path}}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["nbgrader", "generate_assignment", unit], check=True, **options, **quiet)
    started, before = time.perf_counter(), os.times()
    running = [
        subprocess.Popen(["nbgrader", "autograde", unit, f"--student={process}*"], **options, **quiet)
        for process in range(processes)
    ]
    if any(process.wait() for process in running):
        raise SystemExit("stock nbgrader failed; its output says why when it is run by hand in the same folder")
    wall, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    checks = sum(checking(path) for path in (folder / "autograded").rglob("*.ipynb"))
    what = f"stock, {processes} at a time" if processes > 1 else "stock, one after another"
    # cells are timed by the clock: their share of the clock is their share of the CPU
    return Cost(what, len(students), wall, cpu, {"cells": checks * cpu / (wall * processes)})


def with_points(unit: str, path: Path) -> None:
    """Write the instructor's notebook with the points of every exercise. One that is not on the path has none in the notebook, and a check
    that gives more than its cell is worth ends stock's whole submission."""
    import nbformat

    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    points = {exercise.check_id: exercise.points for exercise in grader.exercises(unit).values()}
    for cell in notebook.cells:
        marked = cell.metadata.get("nbgrader", {})
        if marked.get("grade"):
            marked["points"] = points[marked["grade_id"]]
    nbformat.write(notebook, path)


def checking(path: Path) -> float:
    """Seconds of the check cells of an executed notebook."""
    import nbformat

    def at(moment: str) -> datetime:
        return datetime.fromisoformat(moment.replace("Z", "+00:00"))

    total = 0.0
    for cell in nbformat.read(path, as_version=4).cells:
        times = cell.metadata.get("execution", {})
        if cell.metadata.get("nbgrader", {}).get("grade") and "iopub.status.idle" in times:
            total += (at(times["iopub.status.idle"]) - at(times["iopub.status.busy"])).total_seconds()
    return total


# ------------------------------------------------------------------------------------------------ ours


def ours(home: Path, unit: str, students: list[str], workers: int) -> tuple[Cost, dict[int, float]]:
    """Run `python -m grader autograde` in a process of its own. Return its cost, and MB in memory by the number of
    submissions graded."""
    command = [sys.executable, __file__, "--grade", str(home), "--unit", unit, "--workers", str(workers)]
    for student in students:
        shutil.copytree(home.parent / "class" / student, home / "submitted" / student)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    memory = {int(count): megabytes for count, megabytes in found.pop("memory").items()}
    return Cost(f"ours, {workers} worker{'s' * (workers > 1)}", len(students), **found), memory


def grade(home: Path, unit: str, workers: int) -> None:
    """Grade in this process, and print what it took as a line of JSON."""
    from grader.cohort.classroom import ClassGrader
    from grader.gradebook.books import Books

    memory = {}
    books = Books(home, unit)
    with ClassGrader(home, workers=workers, accept_risk=True) as room:
        start = started(room, unit, workers)
        before = time.perf_counter()
        for count, graded in enumerate(room.grade(unit), 1):
            problem = books.enter(graded.student, graded.verdicts, graded.read)
            if problem != "ok":
                raise SystemExit(problem)
            if count in (5, 20, 50, 100, 200):
                memory[count] = memory_of(os.getpid())
        wall, cpu = time.perf_counter() - before, cpu_of(os.getpid()) - start
    cost = {"wall": wall, "cpu": cpu, "work": room.spent, "start": start, "memory": memory}
    print(json.dumps(cost | {name: books.cpu[name] for name in ("gradebook", "feedback")}))


def started(room: Any, unit: str, workers: int) -> float:
    """Has every worker judge one small exercise. Seconds of CPU until then: what a class costs once."""
    exercise = min(grader.exercises(unit).values(), key=lambda exercise: exercise.kind == "kernel")
    cells = published.answer(exercise.id, published.solution_cell(exercise.id))
    jobs = [room.jobs(name, [room.answer(exercise, cells, name)])[0] for name in map(str, range(workers))]
    list(room.judge(jobs))
    room.spent.clear()
    room.judged = 0
    return cpu_of(os.getpid())


# ------------------------------------------------------------------------------------------------ the table


def table(costs: list[Cost], memory: dict[int, float], unit: str) -> str:
    serial, own = costs[0], costs[-1]
    head = f"{date.today().isoformat()}, {len(os.sched_getaffinity(0))} CPU cores, no GPU, "
    head += ", ".join(f"{name} {version(name)}" for name in ("torch", "triton", "nbgrader")) + "."
    return "\n".join(
        [
            f"## {unit}, {len(grader.exercises(unit))} exercises",
            "",
            head
            + " Seconds per submission; `CPU` over all processes, feedback pages not among them. What the columns mean:"
            " benchmarks/grading.py.",
            "",
            "| | submissions | wall | CPU | running | tracing | compiling | overhead | feedback | start |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *[cost.row() for cost in costs],
            "",
            f"Per core ours grades {own.throughput / serial.throughput:.1f} times as many submissions as stock, on more "
            f"cases, its start counted; its overhead is {serial.each(serial.overhead) / own.each(own.overhead):.0f} times smaller. Of that "
            f"overhead the gradebook is {own.each(own.gradebook):.2f} s. Of stock, running, tracing and compiling are one "
            "number, its check cells.",
            "",
            class_of_400(own.start, own.cpu / own.students),
            "",
            "Memory of all processes together: "
            + ", ".join(f"{megabytes:.0f} MB after {count} submissions" for count, megabytes in memory.items())
            + ".",
            "",
        ]
    )


def class_of_400(start: float, each: float) -> str:
    """A sentence, from seconds of CPU once and for each submission."""
    two, eight = ((start + 400 * each) / cores / 60 for cores in (2, 8))
    return f"At this cost, all cores busy, 400 submissions take {two:.0f} minutes on 2 cores and {eight:.1f} on 8 (computed)."


def with_section(page: str, text: str, title: str = "What grading costs") -> str:
    """The page with this section in the place of that of the same unit."""
    sections = {part.split(",")[0]: f"## {part.strip()}" for part in re.split(r"^## ", page, flags=re.M)[1:]}
    sections[text[3:].split(",")[0]] = text.strip()
    return "\n\n".join([f"# {title}", *(sections[unit] for unit in sorted(sections))]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--sample", type=int, default=10, help="submissions that stock grades")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--unit", default=UNIT, choices=list(UNITS))
    parser.add_argument("--grade", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grade:
        return grade(options.grade, options.unit, options.workers)
    with tempfile.TemporaryDirectory() as folder:
        students = hand_in(Path(folder) / "class", options.unit, options.students)
        sample = students[: options.sample]
        costs = [stock(Path(folder) / f"stock{n}", options.unit, sample, n) for n in (1, options.workers)]
        cost, memory = ours(Path(folder) / "home", options.unit, students, options.workers)
    text = table([*costs, cost], memory, options.unit)
    print(text)
    RESULT.write_text(with_section(RESULT.read_text() if RESULT.exists() else "", text))


if __name__ == "__main__":
    main()
