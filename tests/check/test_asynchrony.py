"""Criteria on what goes on at the same time in a kernel in Gluon, on evidence made by hand."""

import pytest
import torch
from sentences import says

from course_lib.evidence import Evidence
from course_lib.exercise import Case, Effort, Exercise, Trial
from course_lib.exercises.sm.criteria import InEveryOrder, NoConflicts, Overlapped, SharedBytes, Uses
from course_lib.exercises.sm.mistakes import LESSONS, lesson
from tritontrace.hopper import Kind
from tritontrace.replay import wire
from tritontrace.results import Access, Cause, Footprint, Hazard, Launch, Passes, Simulated

X = torch.zeros(1024)
EXERCISE = Exercise("unit.copy", "copy(x)", Effort(1, 1, 1), [], lambda x: x.double(), language="Gluon")


def trial(simulated=None, footprints=(), output=X, accesses=(), **evidence):
    launches = [Launch("k", (1, 1, 1), 1, list(accesses), list(footprints), simulated=simulated)]
    found = Evidence("a case", **({"outputs": [output], "launches": launches} | evidence))
    return Trial(Case("a case", "performance", None), [{"x": X}], found)


def judged(criterion, *trials):
    return criterion.judge(EXERCISE, trials)


RACE = Hazard(
    "overwritten while it is read", "overwritten while it is read: twice.", ["line 3", "line 5"], order="eager"
)
WAITS = Hazard("deadlock", "deadlock: nobody can go on.", ["line 7"], order="random:1")


def test_the_first_hazard_is_told_and_the_others_named():
    finding = judged(InEveryOrder(), trial(Simulated(6)), trial(hazards=[RACE, WAITS]))
    assert finding.lost
    facts = {"problem": RACE.sentence, "order": "eager", "case": "a case"}
    assert says(finding.seen, "sm.in_every_order.seen", **facts)
    assert says(finding.detail, "sm.in_every_order.others", others=["deadlock"])
    assert finding.cause == Cause("fault", "line 5", {"kind": "overwritten while it is read"})


def test_without_hazards_the_orders_are_counted():
    assert judged(InEveryOrder(), trial(Simulated(6)), trial(Simulated(2))).seen == "6 orders"
    assert judged(InEveryOrder(), trial()).status == "not_judged"


@pytest.mark.parametrize(
    "op, facts, passed",
    [
        ("TMA load", {"tma_read": 4096}, True),
        ("TMA load", {"tma_read": 3892}, True),  # 95 %
        ("TMA load", {"tma_read": 3891}, False),
        ("TMA load", {"async_read": 4096}, False),
        ("TMA load", {}, False),
        ("cp.async", {"async_read": 4096}, True),
        ("cp.async", {"tma_read": 4096}, False),
        ("TMA store", {"tma_written": 2048}, True),
        ("TMA store", {"tma_written": 1024}, False),
        ("wgmma", {"multiply_adds": 500}, True),
        ("wgmma", {"multiply_adds": 400}, False),
        ("wgmma", {"multiply_adds": 0}, False),
    ],
)
def test_what_goes_the_way_that_is_asked_for(op, facts, passed):
    moved = [Footprint("x", 4096, 4096, 4096), Footprint("out", 2048, 0, 0, 2048, 2048)]
    criterion = Uses(op, 2, needs=lambda x: 500)
    assert judged(criterion, trial(Simulated(6, **facts), moved)).passed is passed


def test_nothing_read_at_all_is_not_read_by_tma():
    assert judged(Uses("TMA load", 1), trial(Simulated(6))).lost


def test_more_instructions_than_are_wanted():
    facts = Simulated(6, {"TMA load": 5}, tma_read=64)
    moved = [Footprint("x", 64, 64, 64)]
    assert judged(Uses("TMA load", 1, most=5), trial(facts, moved)).passed
    assert judged(Uses("TMA load", 1, most=4), trial(facts, moved)).lost


def test_overlap_is_weighed_by_products_and_else_by_what_threads_load():
    both = Simulated(6, multiply_adds=100, overlapped=0.8, threads_read=64, read_ahead=0.1)
    assert judged(Overlapped(0.8, 1), trial(both)).passed
    assert judged(Overlapped(0.81, 1), trial(both)).lost
    loads = Simulated(6, threads_read=64, read_ahead=0.5)
    assert judged(Overlapped(0.5, 1), trial(loads)).passed
    assert judged(Overlapped(0.5, 1), trial(loads), trial(Simulated(6))).lost  # a case in which nothing was loaded


def test_shared_memory_has_a_limit():
    assert judged(SharedBytes(lambda x: 4096, 1), trial(Simulated(6, shared_bytes=4096))).passed
    finding = judged(SharedBytes(lambda x: 4096, 1), trial(Simulated(6, shared_bytes=4097)))
    assert finding.lost
    assert finding.spent.spent == 4097


def test_conflicts_are_those_of_the_worst_line():
    fine, bad = Passes("line 3", "store", 32, 32), Passes("line 4", "load", 64, 32)
    assert judged(NoConflicts(1), trial(Simulated(6, passes=[fine]))).passed
    finding = judged(NoConflicts(1), trial(Simulated(6, passes=[fine, bad])))
    assert finding.lost
    assert "load in line 4" in finding.detail
    assert judged(NoConflicts(1), trial(Simulated(6))).lost  # no tile at all
    assert says(
        judged(NoConflicts(1), trial(Simulated(6, passes=[Passes("l", "load", 0, 0)]))).seen, "sm.no_conflicts.unknown"
    )


@pytest.mark.parametrize("op", ["load", "store"])
def test_who_walks_down_columns_of_global_memory_avoids_no_conflict(op):
    fine = Simulated(6, passes=[Passes("line 3", "store", 32, 32)])
    row, column = (
        Access("x_ptr", op, 5, elements=1024, bytes=4096, useful_bytes=4096, sectors=n) for n in (160, 1024)
    )  # rows that begin in the midst of a sector, and a sector for each number
    assert judged(NoConflicts(1), trial(fine, accesses=[row])).passed
    finding = judged(NoConflicts(1), trial(fine, accesses=[row, column]))
    assert finding.lost and finding.spent.spent == 1024
    assert says(finding.missed, f"criteria.dense.missed_{op}")


def test_costs_of_a_wrong_result_are_not_credited():
    wrong = trial(Simulated(6, shared_bytes=1), output=X + 1)
    assert judged(SharedBytes(lambda x: 4096, 1), wrong).lost


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_what_a_hazard_teaches(kind):
    said = lesson([trial(hazards=[Hazard(kind.value, "a sentence")])])
    assert said == LESSONS.get(kind, "")


def test_evidence_of_the_simulator_crosses_a_border():
    found = trial(Simulated(6, {"wgmma": 1}, passes=[Passes("l", "load", 1, 1)]), hazards=[RACE]).evidence
    tree = wire.unpack(wire.pack(wire.to_tree(found)))
    back = wire.from_tree(Evidence, tree)
    assert (back.launches, back.hazards) == (found.launches, found.hazards)
