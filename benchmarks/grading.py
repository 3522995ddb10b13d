"""What grading costs: stock `nbgrader autograde` against `python -m grader autograde`, by `python benchmarks/grading.py`.

A synthetic class hands in a whole unit: a tenth of it nothing, a third the published solutions, the others solutions of which
some are wrong or wasteful. Stock executes each student's notebook, with its check cells, in a kernel of its own; a sample
of the class is enough for it. Ours grades everybody: the judge on all cases, hidden ones included, every kernel compiled
for every dtype and block size, then gradebook and feedback. The table goes to benchmarks/results/grading.md.

Costs are seconds of CPU, over all processes, so that a busy machine does not change them much; wall times stand beside.

    running      inputs drawn, the student's host code called, references computed and compared
    tracing      the student's kernels on the interpreter
    compiling    the student's kernels through Triton's compiler and NVIDIA's assembler
    overhead     all else: processes started, forked, sandboxed; messages; notebooks parsed; gradebook
    feedback     the pages for students, which stock's autograde does not write

Of stock, the time of the check cells counts as running, tracing and compiling together; its overhead is all else.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import nbformat  # noqa: E402

import grader  # noqa: E402
from course_lib.exercises import UNITS  # noqa: E402
from grader import samples, variants  # noqa: E402

UNIT = "04_memory_coalescing"
RESULT = ROOT / "benchmarks" / "results" / "grading.md"
TICK = os.sysconf("SC_CLK_TCK")


# ------------------------------------------------------------------------------------------------ the class


def hand_in(folder: Path, unit: str, count: int) -> list[str]:
    """Writes the synthetic class to folder/STUDENT/unit/; the same one every time. Returns the students."""
    chance = random.Random(4)
    blank = nbformat.read(grader.released(unit), as_version=4)
    patched = [v for v in variants.of_unit(UNITS[unit]) if v.patches]
    students = [f"s{number:04}" for number in range(count)]
    for number, student in enumerate(students):
        notebook = copy.deepcopy(blank)
        kind = number % 10  # 0: nothing; 1, 2, 3: all right; else a quarter of the exercises is one of their variants
        if kind:
            for exercise in grader.exercises(unit).values():
                own = [v for v in patched if v.exercise == exercise.id]
                wrong = kind > 3 and own and chance.random() < 0.25
                source = chance.choice(own).cells()[-1][1] if wrong else variants.solution_cell(exercise.id)
                cell = samples.cell_of(notebook, exercise.id)
                cell.source = source + f"\n# {student}"  # no two cells are the same
        path = folder / student / unit / f"{unit}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    return students


# ------------------------------------------------------------------------------------------------ what it costs


@dataclass
class Cost:
    """Seconds for `students` submissions. cpu: of all processes; work = the part that runs, traces and compiles."""

    what: str
    students: int
    cores: int
    wall: float
    cpu: float
    work: dict[str, float]
    feedback: float = 0.0

    @property
    def overhead(self) -> float:
        return self.cpu - sum(self.work.values()) - self.feedback

    def row(self) -> str:
        def each(seconds: float) -> str:
            return f"{seconds / self.students:.2f}"

        parts = [self.work.get(phase) for phase in ("running", "tracing", "compiling")]
        if parts == [None] * 3:
            parts = [sum(self.work.values()), None, None]
        cells = [each(p) if p is not None else "" for p in parts]
        feedback = each(self.feedback) if self.feedback else ""
        return (
            f"| {self.what} | {self.students} | {each(self.wall)} | {each(self.cpu - self.feedback)} | "
            f"{' | '.join(cells)} | {each(self.overhead)} | {feedback} |"
        )


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
    shutil.copy(ROOT / "solutions" / unit / f"{unit}.ipynb", folder / "source" / unit)
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
    if any([process.wait() for process in running]):
        raise SystemExit("stock nbgrader failed; its output says why when it is run by hand in the same folder")
    wall, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    checks = sum(checking(path) for path in (folder / "autograded").rglob("*.ipynb"))
    what = f"stock, {processes} at a time" if processes > 1 else "stock, one after another"
    # cells are timed by the clock: their share of the clock is their share of the CPU
    return Cost(what, len(students), processes, wall, cpu, {"cells": checks * cpu / (wall * processes)})


def checking(path: Path) -> float:
    """Seconds of the check cells of an executed notebook."""

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
    """What `python -m grader autograde` does, in a process of its own; and MB in memory after so many submissions."""
    command = [sys.executable, __file__, "--grade", str(home), "--unit", unit, "--workers", str(workers)]
    for student in students:
        shutil.copytree(home.parent / "class" / student, home / "submitted" / student)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    what = f"ours, {workers} worker{'s' * (workers > 1)}"
    cost = Cost(what, len(students), workers, found["wall"], found["cpu"], found["work"], found["feedback"])
    return cost, {int(count): megabytes for count, megabytes in found["memory"].items()}


def grade(home: Path, unit: str, workers: int) -> None:
    """In that process: grades, and prints what it took as a line of JSON."""
    from grader.books import Books
    from grader.classroom import Class

    started, memory = time.perf_counter(), {}
    books = Books(home, unit)
    with Class(home, workers=workers, accept_risk=True) as room:
        for count, graded in enumerate(room.grade(unit), 1):
            problem = books.enter(graded.student, graded.verdicts, graded.read)
            if problem != "ok":
                raise SystemExit(problem)
            if count in (5, 20, 50, 100, 200):
                memory[count] = memory_of(os.getpid())
        wall, cpu = time.perf_counter() - started, cpu_of(os.getpid())
    feedback = books.cpu["feedback"]
    print(json.dumps({"wall": wall, "cpu": cpu, "work": room.spent, "feedback": feedback, "memory": memory}))


# ------------------------------------------------------------------------------------------------ the table


def table(costs: list[Cost], memory: dict[int, float], unit: str) -> str:
    serial, own = costs[0], costs[-1]
    each = [c.cpu / c.students for c in costs]
    head = f"{date.today().isoformat()}, {len(os.sched_getaffinity(0))} CPU cores, no GPU, "
    head += ", ".join(f"{name} {version(name)}" for name in ("torch", "triton", "nbgrader")) + "."
    return "\n".join(
        [
            f"# What grading costs: {unit}, {len(grader.exercises(unit))} exercises",
            "",
            head
            + " Seconds per submission; `CPU` over all processes, feedback pages not among them. What the columns mean:"
            " benchmarks/grading.py.",
            "",
            "| | submissions | wall | CPU | running | tracing | compiling | overhead | feedback |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *[cost.row() for cost in costs],
            "",
            f"Per core ours grades {each[0] / (each[-1] - own.feedback / own.students):.1f} times as many submissions as "
            f"stock, on more cases; its overhead is {serial.overhead / serial.students / (own.overhead / own.students):.0f} "
            "times smaller. Of stock, running, tracing and compiling are one number, its check cells.",
            "",
            "Memory of all processes together: "
            + ", ".join(f"{megabytes:.0f} MB after {count} submissions" for count, megabytes in memory.items())
            + ".",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--sample", type=int, default=8, help="submissions that stock grades")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--unit", default=UNIT, choices=list(UNITS))
    parser.add_argument("--grade", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grade:
        return grade(options.grade, options.unit, options.workers)
    with tempfile.TemporaryDirectory() as folder:
        students = hand_in(Path(folder) / "class", options.unit, options.students)
        sample = students[:: max(1, len(students) // options.sample)][: options.sample]
        costs = [stock(Path(folder) / f"stock{n}", options.unit, sample, n) for n in (1, options.workers)]
        cost, memory = ours(Path(folder) / "home", options.unit, students, options.workers)
    text = table([*costs, cost], memory, options.unit)
    print(text)
    RESULT.write_text(text)


if __name__ == "__main__":
    main()
