"""GitHub Classroom: the files of an assignment's template repository, and what its workflow runs.

A student can change the workflow of a repository and read whatever it is given. So no secret of the class is there: each run draws
hidden inputs anew, and the points are advice; marks come from `grader autograde` on what was pushed. No student is named there
either: who has more time sees points taken off that the class does not take.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import zipfile
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import grader
from grader.cohort import single
from grader.gradebook import counts
from grader.judging import submission
from grader.packing.gradescope import only_notebook, said
from grader.packing.rules import Rules, rules_of

# The reporter is GitHub Classroom's own: https://github.com/classroom-resources/autograding-grading-reporter
WORKFLOW = """\
name: points
on: [push, workflow_dispatch]
permissions:
  actions: read
  checks: write
  contents: read
jobs:
  points:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/checkout@v4
        with:
          repository: COURSE
          path: .course
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - uses: actions/cache@v4
        with:
          path: ~/.cache/uv
          key: uv-${{ runner.os }}-${{ hashFiles('.course/constraints.txt', '.course/pyproject.toml') }}
      - name: set up
        # torch's CPU build: a runner has no GPU, and the CUDA build has gigabytes
        run: >-
          python -P -m pip install --quiet uv && python -P -m uv pip install --quiet --system --torch-backend=cpu
          -c .course/constraints.txt -e .course/tritontrace -e ".course[grader]"
      - name: check
        id: course
        # -P: nothing is imported from the repository. The run's date is the service's; a commit's is whatever its author says
        run: >-
          python -P -m grader.packing.github . --rules .github/rules.json
          --pushed "$(gh api "repos/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID" --jq .created_at)"
        env:
          GH_TOKEN: ${{ github.token }}
          GRADER_HOME: ${{ runner.temp }}/class
          STUDENT: ${{ github.actor }}
      - name: report
        uses: classroom-resources/autograding-grading-reporter@v1
        env:
          COURSE_RESULTS: ${{ steps.course.outputs.result }}
        with:
          runners: course
"""


README = """\
# UNIT

Work in `UNIT.ipynb`, save it, commit and push. Each push is checked, and the points stand under *Actions*. They are advice: your mark
comes from your instructor's grader, on hidden inputs, and with what your instructor says of late work.
"""


def pack(unit: str, home: Path, to: Path, repository: str) -> None:
    """Write a zip with the template repository. repository: "owner/name" on GitHub, from which the course is installed."""
    rules = rules_of(home, unit).public  # what is there, every student of the class can read
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(f"{unit}.ipynb", grader.released(unit).read_bytes())
        made.writestr(".github/workflows/points.yml", WORKFLOW.replace("COURSE\n", f"{repository}\n"))
        made.writestr(".github/rules.json", json.dumps(asdict(rules), indent=1))
        made.writestr("README.md", README.replace("UNIT", unit))
        made.writestr(".gitignore", ".course/\n.ipynb_checkpoints/\n")


# ------------------------------------------------------------------------------------------------- what runs there


def main(arguments: list[str] | None = None) -> int:
    """Judge the notebook of a repository and print its points; return 1 if nothing could be judged."""
    parser = argparse.ArgumentParser(prog="python -m grader.packing.github")
    parser.add_argument("repository", type=Path)
    parser.add_argument("--rules", type=Path, required=True)
    parser.add_argument("--pushed", type=datetime.fromisoformat, required=True)
    options = parser.parse_args(arguments)
    rules = Rules(**json.loads(options.rules.read_text("utf-8")))
    student = os.environ.get("STUDENT", "student")
    try:
        notebook = only_notebook(options.repository, rules.unit)
        graded = single.grade(notebook, student, unit=rules.unit, counting=counts.made(rules.unit, rules.counts))
    except submission.Problem as problem:
        print(problem)
        return 1
    except Exception as error:
        print(f"The grader failed, so nothing is known of the work: {type(error).__name__}: {error}")
        return 1
    earned = graded.points + graded.bonus
    penalty = rules.penalty(earned, options.pushed, rules.due_for(student))
    score = round(max(0.0, earned - penalty), 2)
    print(graded.text())
    if penalty:
        print(f"Late: {penalty:g} points are taken off, which leaves {score:g}.")
    if where := os.environ.get("GITHUB_OUTPUT"):
        encoded = base64.b64encode(json.dumps(result(graded, penalty)).encode()).decode()
        with open(where, "a", encoding="utf-8") as file:
            file.write(f"result={encoded}\n")
    print(f"Points {score:g}/{graded.out_of:g}" if graded.judged else "Points ?: the grader failed on an exercise.")
    return 0 if graded.judged else 1


def result(graded: single.GradedNotebook, penalty: float) -> dict[str, Any]:
    """Return the data that GitHub Classroom's reporter reads, and whose scores it adds up: one test for each criterion, one for what counts
    of More, and lateness as one that takes points."""
    tests = [
        {
            "name": f"{verdict.exercise}: {finding.title}",
            "status": "pass" if finding.passed else "fail",
            "score": finding.points if graded.counting.ways[verdict.exercise] == "path" or finding.bonus else 0,
            "message": said(verdict, finding),
        }
        for verdict in graded.verdicts
        for finding in verdict.findings
    ]
    earned = {verdict.exercise: verdict.points for verdict in graded.verdicts}
    if more := sum(graded.counting.extra(earned).values()):
        tests.append({"name": "more", "status": "pass", "score": more, "message": f"{more:g} points of More count"})
    if penalty:
        tests.append(
            {"name": "late", "status": "fail", "score": -penalty, "message": f"{penalty:g} points are taken off"}
        )
    all_passed = all(test["status"] == "pass" for test in tests)
    return {"version": 1, "status": "pass" if all_passed else "fail", "max_score": graded.out_of, "tests": tests}


if __name__ == "__main__":
    sys.exit(main())
