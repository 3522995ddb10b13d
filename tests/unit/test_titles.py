"""Titles of exercises: each has words of its own at the head of its cell, and what is no exercise of a unit keeps its id."""

import grader
from course_lib.exercises import UNITS, titles


def test_every_exercise_is_called_by_words_and_not_by_its_id():
    for unit in UNITS:
        found = {id: titles.title(id) for id in grader.exercises(unit)}
        assert len(found) == len(set(found.values())), unit
        assert [id for id, title in found.items() if not title or "_" in title or title == id] == []
        assert titles.of(unit).startswith(f"{unit[:2]} · ")


def test_a_heading_is_the_title_and_the_text_above_is_what_to_read_again():
    assert titles.title("coalescing.column_sum") == "column sums without slow reads"
    assert titles.section("coalescing.column_sum") == "Summing the slow axis"
    assert titles.section("coalescing.strided_efficiency") == "", "nothing stands above it but the word More"


def test_what_no_notebook_heads_keeps_its_name():
    assert titles.title("toy.double") == "toy.double" and titles.section("toy.double") == ""
    assert titles.of("99_toy") == "99_toy"
