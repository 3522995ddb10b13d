"""Mutants are made and killed, and every survivor over the published kernels is explained."""

import ast

import pytest

from course_lib.exercises import UNITS
from grader.audit import mutations
from grader.audit.mutations import Mutant, Report, alternatives, explained, lost, mutants


def changed(expression):
    return {ast.unparse(other) for other in alternatives(ast.parse(expression, mode="eval").body)}


@pytest.mark.parametrize(
    "expression, others",
    [
        ("a + b", {"a - b"}),
        ("a * b", {"a + b", "a // b"}),
        ("(a < b) & c", {"a < b", "c", "(a < b) | c"}),
        ("a < b", {"a <= b", "a != b"}),
        ("0", {"1"}),
        ("64", {"65", "63"}),
        ("True", {"False"}),
        ("tl.load(p, mask=m, other=0)", {"tl.load(p, mask=m)", "tl.load(p, other=0)"}),
        ("x.to(tl.float32)", {"x"}),
        ("tl.float32", {"tl.float16"}),
        ("tl.atomic_add", {"tl.store"}),
        ("min", {"max"}),
        ("'text'", set()),
    ],
)
def test_what_may_stand_in_a_places_place(expression, others):
    assert changed(expression) == others


def test_each_mutant_is_one_change_in_a_kernel():
    found = mutants("coalescing.transpose")
    assert len(found) > 25 and len({m.source for m in found}) == len(found)
    assert all(m.kernel == "transpose_kernel" and ast.parse(m.source) for m in found)
    assert {str(m) for m in found} >= {
        "coalescing.transpose, transpose_kernel, `inside = (rows < M) & (cols < N)` -> `inside = rows < M`",
        "coalescing.transpose, transpose_kernel, `rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]` -> "
        "`rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[:, None]`",
    }
    for mutant in found:  # the host code stays
        assert mutant.source.rpartition("def transpose(")[2] == found[0].source.rpartition("def transpose(")[2]


def test_a_mutant_is_killed_and_the_original_survives():
    killed = next(m for m in mutants("coalescing.transpose") if m.change.endswith("`inside = rows < M`"))
    assert lost(killed) == "right on ragged inputs"
    original = mutations.variants.solution_cell("coalescing.transpose")
    assert lost(Mutant("coalescing.transpose", "transpose_kernel", "none", original)) == ""


def test_survivors_must_be_explained_and_explanations_hold():
    alive, dead = Mutant("u.e", "k", "a -> b", ""), Mutant("u.e", "k", "c -> d", "")
    report = Report([(alive, ""), (dead, "right")], {"u.e, k, c -> d": "so", "v.e, k, a -> b": "of another unit"})
    assert (report.unexplained, report.stale) == (["u.e, k, a -> b"], ["u.e, k, c -> d"])


def test_what_is_explained_is_a_mutant_and_has_a_reason():
    known = {str(mutant) for unit in UNITS for mutant in mutations.of_unit(unit)}
    reasons = explained()
    assert set(reasons) <= known and all(len(reason) > 30 for reason in reasons.values())


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_every_survivor_is_explained(unit):
    """Judge 20 mutants, spread evenly; `python -m grader mutations` judges them all."""
    report = mutations.report(unit, at_most=20)
    killed = [str(mutant) for mutant, title in report.outcomes if title]
    assert (report.unexplained, [mutant for mutant in killed if mutant in report.reasons]) == ([], [])
