"""nbgrader's settings for this course. nbgrader finds them from here: `cd grader && nbgrader autograde 04_...`.

Sources and released notebooks are the repository's solutions/ and notebooks/. What grading writes (submitted/,
autograded/, feedback/, gradebook.db) lies in the folder named by GRADER_HOME, which is this one unless said otherwise.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import nbgrader
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = Path(__file__).resolve().parent / "templates"
NBGRADER_TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"
STUB = "...  # your code here"


def scripts_on_path() -> None:
    """Add this Python's scripts to PATH: nbgrader starts `alembic` by its name for a new gradebook, also where no venv is activated."""
    scripts = str(Path(sys.executable).parent)
    if scripts not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)])


def config(home: Path, *, root: Path = ROOT, **extra: dict) -> Config:
    """Return nbgrader's settings for a class whose state lies in `home`. `extra` adds to sections: Autograde={"force": True}."""
    home = Path(home).resolve()
    home.mkdir(parents=True, exist_ok=True)  # nbgrader would fail at its gradebook, and have removed what it replaces
    scripts_on_path()
    c = Config()
    c.CourseDirectory.root = str(root)
    c.CourseDirectory.course_id = "strides-to-flashattention"
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "notebooks"
    state = str(home.relative_to(root)) if home.is_relative_to(root) else str(home)
    for step in ("submitted", "autograded", "feedback", "source_with_tests", "solution"):
        c.CourseDirectory[f"{step}_directory"] = os.path.join(state, step)
    c.CourseDirectory.db_url = f"sqlite:///{home / 'gradebook.db'}"
    # A submission is its notebook alone. nbgrader would copy every other file into the feedback, through symlinks too.
    # trap: nbgrader copies through links; what must travel goes through feedback.carry_notes and exchange.py
    c.CourseDirectory.ignore = ["*"]

    c.ClearSolutions.code_stub = {"python": STUB}
    c.GenerateAssignment.preprocessors = [
        "grader.gradebook.release.SetPoints",
        "nbgrader.preprocessors.LockCells",
        "grader.gradebook.release.ClearSolutions",
        "nbgrader.preprocessors.ClearOutput",
        "nbgrader.preprocessors.CheckCellMetadata",
        "nbgrader.preprocessors.ComputeChecksums",
        "nbgrader.preprocessors.SaveCells",
        "grader.gradebook.release.StripMetadata",
        "grader.gradebook.release.NameRelease",
    ]

    c.Exporter.optimistic_validation = True  # once, not after each of the steps that follow
    c.Autograde.exporter_class = "grader.gradebook.submitted.SubmissionExporter"
    # Its cells and their metadata are the gradebook's: OverwriteCells and CheckCellMetadata would have nothing to do.
    c.Autograde.sanitize_preprocessors = ["grader.gradebook.submitted.Normalise"]
    c.Autograde.autograde_preprocessors = [  # no Execute: nothing here starts a kernel
        "grader.gradebook.marks.WriteVerdicts",
        "grader.gradebook.marks.SaveAutoGrades",
        "grader.gradebook.marks.SaveExtras",
        "grader.gradebook.marks.AssignLatePenalties",
    ]
    c.WriteVerdicts.judge = "grader.cohort.single.verdicts"
    # What a late day costs: percent of the points earned. Due dates and extensions stand in the gradebook (grader/gradebook/late.py).
    c.AssignLatePenalties.plugin_class = "grader.gradebook.late.ByTheDay"
    c.ByTheDay.percent = 0.0
    # `ignore` would keep everything out of the exchange.
    c.ExchangeFactory.release_assignment = "grader.gradebook.exchange.Release"
    c.ExchangeFactory.collect = "grader.gradebook.exchange.Collect"
    # It finds submissions and feedback by two notes, which `ignore` has kept behind.
    c.Autograde.post_convert_hook = "grader.gradebook.feedback.carry_notes"
    c.GenerateFeedback.post_convert_hook = "grader.gradebook.feedback.carry_notes"
    c.HTMLExporter.template_name = "course_feedback"
    c.HTMLExporter.extra_template_basedirs = [str(TEMPLATES), str(NBGRADER_TEMPLATES)]
    c.HTMLExporter.filters = {
        "markdown2html": "grader.gradebook.pages.safe_markdown",
        "highlight_code": "grader.gradebook.pages.highlighted",
        "numbered": "grader.gradebook.pages.numbered",
        "unit_title": "course_lib.exercises.titles.of",
        "title_of": "course_lib.exercises.titles.title",
        "section_of": "course_lib.exercises.titles.section",
    }
    c.HTMLExporter.preprocessors = ["grader.gradebook.pages.Render"]  # of formgrader's pages, too
    c.GenerateFeedback.exporter_class = "grader.gradebook.pages.FeedbackPage"
    c.GenerateFeedback.preprocessors = [
        "grader.gradebook.feedback.GetGrades",
        "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    ]

    for section, options in extra.items():
        c[section].update(options)
    return c


if "get_config" in globals():  # read by nbgrader as a configuration file
    if (
        find_spec("grader") is None
    ):  # not installed; a copy of this file may lie in a folder `grader` that is no package
        sys.path.insert(0, str(ROOT))
    import grader

    get_config().merge(config(grader.home()))  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
