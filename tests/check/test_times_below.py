"""Times on a GPU come after the verdict. The card is played by a program that answers what is written here; a real one: tests/gpu."""

import sys
import threading

import pytest

from course_lib import checking, logbook, render
from course_lib.evidence import Timing
from course_lib.execution import gpu_lock, on_gpu, progress
from course_lib.exercises import find
from course_lib.render import afterwards
from grader.published import published
from tritontrace.replay import wire

EXERCISE = find("coalescing.row_copy")
TIMING = Timing(EXERCISE.bonus[0].case.name, "copy", 0.97, 0.01, "H200", microseconds=137.0)
PLAYS = """
import struct, sys, time
message = sys.stdin.buffer.read(*struct.unpack("<Q", sys.stdin.buffer.read(8)))
if b"logs" not in message:  # it is asked for times
    time.sleep(float(sys.argv[2]))
    sys.stdout.buffer.write(open(sys.argv[1], "rb").read())
"""


@pytest.fixture
def card(tmp_path, monkeypatch, places):
    """Plays a card that takes so many seconds to measure TIMING. Returns where notebooks show what comes later."""
    (tmp_path / "timing").write_bytes(wire.pack(wire.to_tree(TIMING)))

    def play(seconds):
        command = (sys.executable, "-c", PLAYS, str(tmp_path / "timing"), str(seconds))
        monkeypatch.setattr(gpu_lock, "COMMAND", command)
        monkeypatch.setattr(gpu_lock, "_prepared", [])
        return places

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(on_gpu, "can_run", lambda exercise: True)
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(render, "shell", lambda: object())
    return play


def wait():
    for thread in threading.enumerate():
        if thread.name == afterwards.BELOW:
            thread.join()


def extra():
    return logbook.best().get(f"{EXERCISE.id} extra", 0.0)


def test_the_verdict_does_not_wait_for_times(card, capsys):
    places = card(seconds=3)
    assert checking.check(EXERCISE.id, published(EXERCISE.id)) == EXERCISE.points
    (place,) = places
    assert len(place.shown) == 1 and extra() == 0
    assert "ten to twenty seconds" not in capsys.readouterr().out
    wait()
    assert "137 µs" in place.shown[1] and "H200" in place.shown[1]
    assert extra() == EXERCISE.bonus[0].points and logbook.time_of(EXERCISE.id) == TIMING


def test_the_next_check_takes_the_gpu_from_the_times_of_the_last(card):
    places = card(seconds=60)
    checking.check(EXERCISE.id, published(EXERCISE.id))
    card(seconds=0)
    checking.check(EXERCISE.id, published(EXERCISE.id))
    wait()
    assert [place.shown[1:] == [afterwards.NOT_TIMED] for place in places] == [True, False]
    assert extra() == EXERCISE.bonus[0].points


def test_where_nobody_looks_on_a_check_waits_for_its_times(card, monkeypatch):
    places = card(seconds=0)
    monkeypatch.setattr(progress, "is_watched", lambda: False)
    points = checking.check(EXERCISE.id, published(EXERCISE.id))
    assert "137 µs" in points.text and not places and logbook.time_of(EXERCISE.id) == TIMING


def test_a_time_that_cannot_be_read_is_none(card):
    assert logbook.time_of(EXERCISE.id) is None
    logbook._times_path().write_text('{"coalescing.row_copy": {"ratio": 1}}')
    assert logbook.time_of(EXERCISE.id) is None
