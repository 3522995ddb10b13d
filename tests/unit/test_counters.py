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
