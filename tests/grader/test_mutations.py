"""Mutants are made and killed, and every survivor over the published kernels is explained."""

import ast

import pytest

from course_lib.exercises import UNITS
from grader.audit import mutations
from grader.audit.mutations import Mutant, MutationReport, alternatives, explained, in_gluon, lost, mutants, swaps


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


@pytest.mark.parametrize(
    "expression, others",
    [
        ("i % SIZE", {"(i + 1) % SIZE"}),
        ("x_desc.block_type.nbytes", {"x_desc.block_type.nbytes + 16"}),
        ("range(steps)", {"range(steps - 1)"}),
        ("tma_load(d, at, b, t, pred=there)", {"tma_load(d, at, b, t)"}),
        ("1", {"0"}),
        ("True", set()),
        ("full", {"empty"}),
    ],
)
def test_what_may_stand_in_a_places_place_in_gluon(expression, others):
    assert {ast.unparse(other) for other in in_gluon(ast.parse(expression, mode="eval").body)} == others


def test_neighbours_change_places_in_gluon():
    source = "def k():\n    x = 1\n    y = 2\n    wait(b)\n    acc = mma_wait(0, deps=[acc])\n    arrive(b)\n"
    pairs = [tuple(map(ast.unparse, pair)) for pair in swaps(ast.parse(source).body[0])]
    acc = "acc = mma_wait(0, deps=[acc])"
    assert pairs == [("y = 2", "wait(b)"), ("wait(b)", acc), (acc, "arrive(b)")]


def test_mutants_in_gluon_are_of_what_is_to_be_written():
    found = mutants("hopper.overlapped_attention")
    assert {m.kernel for m in found} == {"walk"} and sum("<->" in m.change for m in found) > 10


@pytest.mark.parametrize(
    "change, criterion",
    [
        ("`store_wait(0)` -> `pass`", "no race and no deadlock, in any order"),
        ("`mbarrier.wait(come.index(0), 0)` -> `pass`", "no race and no deadlock, in any order"),
    ],
)
def test_a_mutant_in_gluon_is_named(change, criterion):
    (mutant,) = [m for m in mutants("hopper.tma_copy") if m.change == change]
    assert lost(mutant) == criterion


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
    original = mutations.published.solution_cell("coalescing.transpose")
    assert lost(Mutant("coalescing.transpose", "transpose_kernel", "none", original)) == ""


def test_survivors_must_be_explained_and_explanations_hold():
    alive, dead = Mutant("u.e", "k", "a -> b", ""), Mutant("u.e", "k", "c -> d", "")
    report = MutationReport(
        [(alive, ""), (dead, "right")], {"u.e, k, c -> d": "so", "v.e, k, a -> b": "of another unit"}
    )
    assert (report.unexplained, report.stale) == (["u.e, k, a -> b"], ["u.e, k, c -> d"])


def test_what_is_explained_is_a_mutant_and_has_a_reason():
    known = {str(mutant) for unit in UNITS for mutant in mutations.of_unit(unit)}
    reasons = explained()
    assert set(reasons) <= known and all(len(reason) > 30 for reason in reasons.values())


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_every_survivor_is_explained(unit):
    """Judge 10 mutants, spread evenly; `python -m grader mutations` judges them all."""
    report = mutations.report(unit, at_most=10)
    killed = [str(mutant) for mutant, title in report.outcomes if title]
    assert (report.unexplained, [mutant for mutant in killed if mutant in report.reasons]) == ([], [])
