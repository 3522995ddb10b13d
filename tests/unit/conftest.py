"""Helpers of the tests of the units' pictures and verdicts."""

from __future__ import annotations

from types import SimpleNamespace

import pictures
import pytest

from course_lib import criteria
from course_lib.evidence import Evidence
from course_lib.exercise import Trial, Verdict
from course_lib.exercises import find


@pytest.fixture(scope="module")
def picture(request):
    """A picture of the unit under test, by name, drawn once with the arguments in PICTURES."""
    unit = request.module.F.__name__.rpartition(".")[2]
    return lambda name: pictures.drawn(unit, name)


@pytest.fixture
def notebook():
    """The test runs as a cell of a notebook; images() are the pictures that it has put out so far."""
    InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    from IPython.utils.capture import capture_output

    pytest.importorskip("ipywidgets")
    InteractiveShell.instance()
    try:
        with capture_output() as shown:
            yield SimpleNamespace(
                images=lambda: [o for o in shown.outputs if "<svg role" in o.data.get("text/html", "")]
            )
    finally:
        InteractiveShell.clear_instance()


@pytest.fixture
def spoiled():
    """spoiled(exercise_id, *patches): the verdict of a check on the published solution with these (old, new) replacements."""
    from course_lib.execution import observe
    from grader.audit.variants import Variant
    from tritontrace.replay import load

    def verdict(exercise_id: str, *patches: tuple[str, str]) -> Verdict:
        exercise = find(exercise_id)
        function = load(Variant(exercise_id, "spoiled", (), patches).cells(), exercise.entry)
        return criteria.judge(exercise, observe(exercise, function, 3, seconds=120))

    return verdict


@pytest.fixture
def answered():
    """answered(exercise_id, formula): the verdict of a check on the numbers that this formula gives."""

    def verdict(exercise_id: str, formula) -> Verdict:
        exercise, trials = find(exercise_id), []
        for case in exercise.cases:
            arguments = case.arguments(3)
            trials.append(Trial(case, [arguments], Evidence(case.name, outputs=[formula(**arguments)])))
        return criteria.judge(exercise, trials)

    return verdict
