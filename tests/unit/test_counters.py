"""The numbers measured on a GPU that the course shows next to the trace's."""

import pytest
from scripts import imported

from course_lib.figures import counters


@pytest.fixture(scope="module")
def comparison():
    with imported("trace_vs_counters") as [module]:
        yield module


def entries():
    return {entry["name"]: entry for entry in counters.measured("trace_vs_counters")["launches"]}


QUICK = ("copy, stride 8", "copy, shifted by one", "gather elements", "column sums", "matmul fp16, tile 128")


@pytest.mark.parametrize("name", QUICK)
def test_the_trace_still_predicts_what_was_compared(comparison, name):
    launch = next(launch for launch in comparison.LAUNCHES if launch.name == name)
    assert comparison.predict(launch) == entries()[name]["predicted"]


@pytest.mark.slow
def test_the_trace_still_predicts_all_that_was_compared(comparison):
    for launch in comparison.LAUNCHES:
        assert comparison.predict(launch) == entries()[launch.name]["predicted"], launch.name


DOOR = ("l1_load_sectors", "l1_store_sectors")  # what L1 was asked for, hits included: as lanes lie, not as blocks do
NARROW = (
    "copy, stride 4",
    "copy, shifted by one",
    "transpose, tile 64",
    "gather rows",
    "gather elements",
    "matmul fp32 as tf32, tile 64",
)


def at_the_door(comparison, launch):
    """Requests of warps to L1 by the compiler's layout, and what the GPU counted."""
    warps, counted = comparison.of_warps(launch), entries()[launch.name]["counted"]
    assert warps["whole"] and not warps["by_data"]
    return {name: (warps[name], counted[name]) for name in DOOR}


@pytest.mark.parametrize("name", NARROW)
def test_the_compilers_warps_ask_for_the_sectors_that_a_gpu_counted(comparison, name):
    launch = next(launch for launch in comparison.LAUNCHES if launch.name == name)
    assert [predicted == counted for predicted, counted in at_the_door(comparison, launch).values()] == [True, True]


@pytest.mark.slow
def test_the_compilers_warps_ask_for_the_sectors_of_every_launch(comparison):
    for launch in comparison.LAUNCHES:
        for name, (predicted, counted) in at_the_door(comparison, launch).items():
            assert predicted == counted, (launch.name, name)  # of TMA, which goes another way, both are 0


def test_warps_beside_counters_have_a_table_of_their_own(comparison):
    launch = next(launch for launch in comparison.LAUNCHES if launch.name == "column sums")
    warps = comparison.of_warps(launch)
    counted = {**warps, "shared_load_conflicts": 7.0}
    row = comparison.table_of_warps([{"name": launch.name, "warps": warps, "counted": counted}, {"name": "older"}])[-2]
    assert row.count(" / ") == 1 and f"{warps['shared_load_conflicts']:,} / 7 |" in row
    assert comparison.table_of_warps([{"name": "older"}]) == []


def test_every_launch_of_the_benchmark_was_measured(comparison):
    assert [launch.name for launch in comparison.LAUNCHES] == list(entries())


def test_the_counters_agree_except_where_a_reason_is_known(comparison):
    expected = {
        ("softmax, row read twice", "load_sectors"),  # L1 holds part of the row
        ("gather rows", "store_sectors"),  # L1 merges stores of two warps
        ("matmul fp32, tile 128", "store_sectors"),  # spills
        ("matmul fp32, tile 128", "dram_read_bytes"),
        ("store, stride 8", "dram_read_bytes"),  # sectors filled in part
    }
    in_some_runs = {("copy by columns", "dram_read_bytes")}  # likewise
    beside = set()
    for quantity in comparison.COMPARED:
        for name, predicted, counted in counters.pairs(quantity):
            if comparison.off(counted / predicted):
                beside.add((name, quantity))
    assert beside - in_some_runs == expected


def test_the_committed_table_is_that_of_the_numbers(comparison):
    assert comparison.TABLE.read_text() == comparison.table(counters.measured("trace_vs_counters"))


def test_the_figure_draws_every_pair_and_names_those_furthest_off():
    (ax,) = counters.predicted_against_counted().axes
    drawn = [line for line in ax.lines if line.get_linestyle() == "None" and line.get_transform() == ax.transData]
    for line, quantity in zip(drawn, counters.QUANTITIES, strict=True):
        pairs = [(predicted, counted) for _, predicted, counted in counters.pairs(quantity)]
        assert [*zip(line.get_xdata(), line.get_ydata(), strict=True)] == pairs
    everything = [pair for quantity in counters.QUANTITIES for pair in counters.pairs(quantity)]
    off = {name for name, predicted, counted in everything if not 0.9 < counted / predicted < 1.1}
    assert off == {text.get_text().split(":")[0] for text in ax.texts if text.get_text().endswith(" times")}
