"""Gradescope: the zip that its autograder takes, and what runs there.

It unpacks the zip to /autograder/source, calls setup.sh once and run_autograder for each submission, which lies in
/autograder/submission; /autograder/submission_metadata.json says whose it is, when it came and when it was due. What we write to
/autograder/results/results.json is what students see: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grader
from course_lib import render
from course_lib.exercise import Finding, Verdict
from grader import ENGINE, ROOT, disk
from grader.cohort import single
from grader.gradebook import counts
from grader.judging import judge, submission, twists
from grader.packing.rules import Rules, rules_of

SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as it builds the image.
set -euo pipefail
cd "${AUTOGRADER:-/autograder}/source"
export DEBIAN_FRONTEND=noninteractive
# gcc: Triton compiles its launchers with it. bubblewrap: a sandbox, where the host allows one
command -v apt-get > /dev/null && apt-get update -qq && apt-get install -qq -y bubblewrap gcc libc6-dev || true
for python in python3.13 python3.12 python3.11; do command -v $python > /dev/null && break; done
if ! command -v $python > /dev/null; then apt-get install -qq -y python3.11; fi
apt-get install -qq -y $python-venv $python-dev || true
$python -P -m venv venv
course=(-c course/constraints.txt -e course/tritontrace -e "course[grader]")
# uv knows PyTorch's own index, which has the CPU build; where that does not answer, torch comes with CUDA
venv/bin/python -P -m pip install --quiet uv
venv/bin/python -P -m uv pip install --quiet --python venv/bin/python --torch-backend=cpu "${course[@]}" ||
  venv/bin/python -P -m pip install --quiet "${course[@]}"
# the image is proven here: published solutions are judged in the sandbox, or the build fails
GRADER_HOME="$PWD/class" venv/bin/python -P -m grader doctor UNIT
"""
RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission.
set -euo pipefail
here="${AUTOGRADER:-/autograder}"
export GRADER_HOME="$here/source/class"
RISK
exec "${PYTHON:-$here/source/venv/bin/python}" -P -m grader.packing.gradescope "$here"
"""
RISK = "export GRADER_ACCEPT_RISK=1"
TIMES = (2026, 1, 1, 0, 0, 0)  # the same pack is the same bytes


def pack(unit: str, home: Path, to: Path, *, accept_risk: bool = False) -> Rules:
    """Write the zip for a unit, with the rules, which are returned, and the secret of the class in `home`. Only its owner can read the
    file, since the secret gives hidden inputs away.

    accept_risk    grade even where a sandbox is not to be had: there a student's code can read the secret
    """
    secret, rules_of_unit = judge.course_secret(home), rules_of(home, unit)
    rules = json.dumps(asdict(rules_of_unit), indent=1)
    setup = SETUP.replace("UNIT", f"{unit} --accept-risk" if accept_risk else unit)
    run = RUN.replace("RISK\n", f"{RISK}\n" if accept_risk else "")
    draft = to.with_name(f".{to.name}.draft")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content, mode in (
            ("setup.sh", setup.encode(), 0o755),
            ("run_autograder", run.encode(), 0o755),
            ("class/rules.json", rules.encode(), 0o600),
            ("class/secret", secret.hex().encode(), 0o600),
            *_twists(home),
            *((f"course/{path.relative_to(ROOT)}", path.read_bytes(), 0o644) for path in course_files(unit)),
        ):
            entry = zipfile.ZipInfo(name, TIMES)
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            made.writestr(entry, content)
    draft.replace(to)
    return rules_of_unit


def _twists(home: Path) -> Iterator[tuple[str, bytes, int]]:
    """The file that says in which units the class asks for tasks of one's own, if it asks for some."""
    if of := twists.units(home):
        yield f"class/{twists.FILE}", json.dumps({"units": of}).encode(), 0o600


def course_files(unit: str) -> Iterator[Path]:
    """Yield the files of the course that grading a unit needs, without a class's data and without the wrong answers of grader/audit."""
    yield from (ROOT / name for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"))
    for package in (ROOT / "course_lib", ROOT / "grader"):
        # rooms are packages; folders of a class, such as submitted/, are none
        rooms = [path for path in package.iterdir() if path.is_dir() and ((path / "__init__.py").exists())]
        rooms = [room for room in rooms if room.name != "audit"]
        kept = [*package.glob("*.py"), *(path for room in rooms for path in room.rglob("*") if path.is_file())]
        yield from sorted(path for path in kept if path.suffix in (".py", ".json", ".toml"))
    yield from grader.sources(ENGINE / "tritontrace")
    yield from (ROOT / "tritontrace" / name for name in ("pyproject.toml", "README.md", "LICENSE"))
    for folder in (ROOT / "course_lib" / "jupyter", ROOT / "grader" / "templates"):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())
    yield from sorted((ROOT / "solutions").glob("*.py"))  # judged before anything that is handed in
    yield grader.released(unit)


# ------------------------------------------------------------------------------------------------- what runs there


def main(autograder: Path) -> int:
    """Grade the submission in Gradescope's folder, and write results.json. Return 1 if the grader failed: then nothing is written, since 0
    would be a mark, and Gradescope reports that its autograder failed."""
    told = json.loads((autograder / "submission_metadata.json").read_text("utf-8"))
    rules = Rules(**json.loads((autograder / "source" / "class" / "rules.json").read_text("utf-8")))
    results = autograder / "results" / "results.json"
    results.parent.mkdir(exist_ok=True)
    results.unlink(missing_ok=True)
    try:
        notebook = only_notebook(autograder / "submission", rules.unit)
        counting = counts.made(rules.unit, rules.counts)
        risk = bool(os.environ.get("GRADER_ACCEPT_RISK"))
        graded = single.grade(notebook, _student(rules, told), unit=rules.unit, counting=counting, accept_risk=risk)
    except submission.Problem as problem:
        found = {"score": 0, "output": str(problem), "tests": []}
    except Exception as error:
        print(f"The grader failed: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    else:
        if not graded.judged:
            print("The grader failed on an exercise. Nothing is marked; run the autograder again.", file=sys.stderr)
            return 1
        found = result(graded, rules, told)
    disk.write({results: json.dumps(found, indent=1).encode()})
    return 0


def only_notebook(folder: Path, unit: str) -> Path:
    """Return the notebook that was handed in. Raises submission.Problem, with a message to the student, if that is not clear."""
    found = sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    named = [path for path in found if path.name == f"{unit}.ipynb"] or found
    if len(named) != 1:
        there = ", ".join(path.name for path in named) or "none"
        raise submission.Problem(f"Hand in one notebook, {unit}.ipynb. There is: {there}.")
    return named[0]


def result(graded: single.GradedNotebook, rules: Rules, told: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of results.json: one test for each criterion, and the score with extra credit and without what lateness takes."""
    earned = graded.points + graded.bonus
    due = max(filter(None, (_due(rules, told, user) for user in told["users"])), default=None)
    penalty = rules.penalty(earned, datetime.fromisoformat(told["created_at"]), due)
    lines = [f"{graded.mark} of {graded.out_of:g} points."]
    if due and penalty:
        lines.append(f"Handed in after {due.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {penalty:g} points are taken off.")
    return {
        "score": round(max(0.0, earned - penalty), 2),
        "output": " ".join(lines),
        "stdout_visibility": "hidden",  # the grader's own words, which are for instructors
        "tests": [
            test for verdict in graded.verdicts for test in tests(verdict, graded.counting.ways[verdict.exercise])
        ],
    }


def tests(verdict: Verdict, way: counts.Counting) -> Iterator[dict[str, Any]]:
    """Yield a test for each criterion of an exercise, gates among them, named and explained as in its verdict; unjudged ones are hidden.
    way: how the exercise counts; only the path has a maximum."""
    for number, finding in enumerate(verdict.findings, start=1):
        yield {
            "number": f"{verdict.exercise}.{number}",
            "name": f"{verdict.exercise}: {finding.title}",
            "score": finding.points,
            "max_score": 0 if finding.bonus or way != "path" else finding.out_of,
            "status": "passed" if finding.passed else "failed",
            "output": said(verdict, finding),
            "output_format": "text",
            "visibility": "hidden" if finding.status in ("not_judged", "not_measured") else "visible",
        }


def said(verdict: Verdict, finding: Finding) -> str:
    """Return the text on a criterion for the student; the remark stands once, at the first lost one."""
    first = next((each for each in verdict.findings if each.lost), None)
    return "\n".join(filter(None, [render.of_finding(finding), verdict.remark if finding is first else ""]))


def _student(rules: Rules, told: dict[str, Any]) -> str:
    """The student whose hidden inputs a submission gets: of a group the first by name, whoever handed in."""
    return min(_id(rules, user) for user in told["users"])


def _id(rules: Rules, user: dict[str, Any]) -> str:
    """The id in the class of one of a submission's users, by the student's number if Gradescope has it, else by the email address."""
    return rules.ids.get(str(user.get("sid") or "").casefold()) or rules.student(user["email"])


def _due(rules: Rules, told: dict[str, Any], user: dict[str, Any]) -> datetime | None:
    """The date until which one of a group has time; the group has until the latest of them."""
    date = user.get("assignment", {}).get("due_date") or told.get("assignment", {}).get("due_date")
    return rules.due_for(_id(rules, user), datetime.fromisoformat(date) if date else None)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
