"""The picture of one's own kernels on one's own card: what a check timed, else what is recorded."""

from importlib import import_module

import pytest
from matplotlib.colors import to_hex

from course_lib import logbook
from course_lib.evidence import Timing
from course_lib.exercise import Verdict
from course_lib.exercises import find
from course_lib.figures import timed
from course_lib.hardware.measurements import measured
from course_lib.render.cells import KEEP_VERDICTS
from tritontrace.colours import OURS

PICTURES = {"on_your_card": ("coalescing",)}
UNITS = ("coalescing", "tiling", "fusion", "recomputation", "flash", "flash_backward")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


def dots(figure):
    """(recorded, one's own) shares by row."""
    (ax,) = figure.axes
    lines = [line for line in ax.lines if line.get_marker() == "o"]
    own = [line for line in lines if to_hex(line.get_color()) == OURS.lower()]
    return [
        {int(line.get_ydata()[0]): float(line.get_xdata()[0]) for line in which}
        for which in ([line for line in lines if line not in own], own)
    ]


@pytest.mark.parametrize("unit", UNITS)
def test_the_published_answers_stand_as_recorded(unit):
    exercises = [e for e in import_module(f"course_lib.exercises.{unit}").EXERCISES.values() if e.bonus]
    recorded, own = dots(timed.on_your_card(unit))
    assert [recorded[row] for row in range(len(exercises))] == [
        measured("answers")["answers"][e.id]["ratio"] for e in exercises
    ]
    assert own == {} and len(exercises) > 1


def test_what_a_check_timed_stands_beside_it(monkeypatch):
    exercise = find("coalescing.transpose")
    timing = Timing(exercise.bonus[0].case.name, "copy", 0.5, 0.01, "T1000", microseconds=260.0)
    logbook.record_best(Verdict(exercise.id, 10.0, 10.0, [], timing=timing))
    figure = timed.on_your_card("coalescing")
    assert list(dots(figure)[1].values()) == [0.5] and "T1000" in figure.words
    monkeypatch.setenv(KEEP_VERDICTS, "1")  # a build shows everybody the same
    assert dots(timed.on_your_card("coalescing"))[1] == {}
