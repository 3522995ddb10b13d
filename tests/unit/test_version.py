"""The version: which course this is: one number, in one place, on all that is handed back."""

import re
import tomllib
from pathlib import Path

import course_lib
from course_lib import criteria
from course_lib.exercises import find

ROOT = Path(__file__).resolve().parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def test_the_version_is_pyprojects_and_the_changelogs_latest():
    (latest, *_) = re.findall(
        r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M
    )
    assert course_lib.__version__ == DECLARED == latest


def test_a_verdict_says_which_course_judged_it():
    exercise = find("coalescing.transpose")
    for verdict in (
        criteria.refused(exercise, "why"),
        criteria.unjudged(exercise, "why"),
        criteria.judge(exercise, []),
    ):
        assert verdict.version == DECLARED
