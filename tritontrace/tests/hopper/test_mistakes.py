"""Every mistake is named, with its lines, and by a name that says what it is."""

import pytest
from mistakes import ATTENTION, MISTAKES, PUBLIC
from runs import RIGHT, module_of
from sentences import says

from tritontrace.hopper import Kind
from tritontrace.hopper.orders import ORDERS, seeds


def report_of(name, orders):
    found = MISTAKES[name]
    path, run = RIGHT[found.kernel]
    return run(module_of(path, *found.edits), orders=orders)[0], found.kinds


def test_there_are_many():
    assert len(ATTENTION) == 32
    assert len(PUBLIC) >= 30
    assert all(found.source for found in PUBLIC.values())


@pytest.mark.parametrize("name", MISTAKES)
def test_a_check_names_it(name):
    report, kinds = report_of(name, ORDERS)
    assert report.fault is not None
    assert report.fault.kind in kinds, report.fault
    assert report.fault.lines, report.fault
    assert all(spot.source for spot in report.fault.lines)


ONE_ORDER_MAY_MISS = {
    "somebody arrives twice",  # which is right, as long as each phase is seen before it is over
    "tiles are fetched beyond the end",  # and they have come when it does
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_so_does_every_order(name):
    report, _ = report_of(name, ("eager", "lazy", "timed", *seeds(20)))
    runs = [run for run in report.runs if run.fault is None]
    assert not runs or name in ONE_ORDER_MAY_MISS, [run.order for run in runs]


def test_what_a_fault_says_as_data():
    fault = report_of("keys are released before they are read", ("lazy",))[0].fault
    assert fault.kind is Kind.OVERWRITTEN
    assert (fault.buffer, fault.who, fault.order, fault.program) == ("ks.tiles[0]", "produce", "lazy", 0)
    assert fault.other.startswith("consume#")
    assert fault.second.function == "fetch" and fault.second.source.startswith("tma.async_copy_global_to_shared(")
    assert fault.second.caller.function == "produce" and fault.second.caller.caller is None
    assert fault.first.function == "consume" and fault.first.source.startswith("s = mma(q, tile_of(ks, i)")
    assert says(fault.sentence, "hopper.memory.arrived_early", barrier="ks.empty[0]")

    fault = report_of("the parity flips with each tile", ("lazy",))[0].fault
    assert (fault.kind, fault.phase_passed, fault.phase_wanted) == (Kind.PHASE, -1, 0)

    fault = report_of("keys are not released", ("lazy",))[0].fault
    assert fault.kind is Kind.DEADLOCK
    first = fault.waiting[0]
    assert (first.who, first.what, first.wanted, first.completed, first.arrived, first.count) == (
        "produce", "ks.empty[1]", 0, 0, 0, 2,
    )  # fmt: skip
    assert first.who_came == ()
    assert {each.who for each in fault.waiting} == {"produce", "consume#0", "consume#1"}


@pytest.mark.parametrize(
    "name, id, what, source",
    [
        ("one group of copies too many may be under way", "spared", "cp.async", "`wait_group(2)`"),
        ("copies are not committed", "no_group", "cp.async", ""),
        ("an operand is overwritten while it is multiplied", "spared", "wgmma", "`acc = mma_wait(2, deps=[acc])`"),
        ("the last product is not waited for", "spared", "wgmma", "`acc = mma_wait(1, deps=[acc])`"),
        ("a tile is overwritten while it is stored", "never", "TMA store", ""),
    ],
)
def test_it_names_the_wait_that_was_not_enough(name, id, what, source):
    why = report_of(name, ("lazy",))[0].fault.sentence.parameters["why"]
    assert says(why, f"hopper.unwaited.{id}", what=what) and source in why.parameters.get("spot", "")


def test_a_barrier_that_opens_too_early_names_the_line_that_expects_too_little():
    sentence = report_of("bytes of one copy of two are expected", ("lazy",))[0].fault.sentence
    assert sentence.id == "hopper.memory.fewer_bytes_in"
    assert "mbarrier.expect(full.index(i % 3), a_desc.block_type.nbytes, pred=there)" in sentence.parameters["spot"]


def test_a_copy_that_overtakes_a_reader_does_not_blame_its_parity():
    sentence = report_of("an operand of two readers is overwritten after the first", ("lazy",))[0].fault.sentence
    assert sentence.id == "hopper.memory.overtaken"


def test_a_deadlock_says_of_each_barrier_how_many_have_come():
    sentence = report_of("three readers are counted", ("lazy",))[0].fault.sentence
    others = [other.parameters["waiting"].parameters for other in sentence.parameters["others"]]
    assert (2, 3) in [(other.get("arrived"), other.get("count")) for other in others]
