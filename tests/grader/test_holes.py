"""Random changes of published answers: drawn, and told from those that mean the same."""

from __future__ import annotations

import ast

import pytest

from course_lib.exercises import UNITS
from grader import published
from grader.audit import holes
from grader.audit.holes import Hole, Search
from grader.audit.mutations import Mutant

TRANSPOSE = "coalescing.transpose"


def with_change(before: str, after: str) -> Mutant:
    source = published.solution_cell(TRANSPOSE)
    assert before in source
    return Mutant(TRANSPOSE, "transpose_kernel", f"`{before}` -> `{after}`", source.replace(before, after))


def test_the_same_changes_for_the_same_seed():
    first, again, other = (holes.drawn(TRANSPOSE, 30, seed) for seed in (1, 1, 2))
    assert first == again and first != other and len({m.source for m in first}) == 30
    assert all(ast.parse(m.source) for m in first)
    assert any(m.kernel == "transpose" for m in first) and any(" and " in m.change for m in first)


def test_of_what_loses_nothing_another_formula_is_a_hole(monkeypatch):
    monkeypatch.setattr(holes, "lost", lambda mutant: "")
    assert holes.hole(with_change("BLOCK = 64", "BLOCK = 32")) is None
    found = holes.hole(with_change("tile = ", "tile = 2 * "))
    assert found and not found.case.startswith("not compared")


def test_what_loses_points_is_no_hole():
    assert holes.hole(with_change("x.stride(0), x.stride(1)", "x.stride(1), x.stride(0)")) is None


def test_a_hole_needs_a_reason():
    one, other = Mutant("u.e", "k", "a -> b", ""), Mutant("u.e", "k", "c -> d", "")
    found = Search(9, [Hole(one, "N = 1"), Hole(other, "N = 2")])
    assert [h.mutant for h in found.unexplained({"u.e, k, a -> b": "so"})] == [other]
    assert all(len(reason) > 30 for reason in holes.explained().values())


@pytest.mark.slow
@pytest.mark.parametrize("unit", [unit for unit, module in UNITS.items() if module != "hopper"])
def test_some_random_changes_show_no_hole(unit):
    """One of each exercise; `python -m grader holes` tries more, each week others."""
    found = holes.search(holes.of_unit(unit, 1, seed=1))
    assert found.unexplained(holes.explained()) == []
