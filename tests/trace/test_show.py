"""A trace as text, as HTML, as annotated source and as a picture."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib.tracing import trace


@triton.jit
def every_other(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + 2 * offs)
    tl.store(o_ptr + offs, x, mask=offs < n)


@pytest.fixture(scope="module")
def traced():
    x = torch.randn(16, 16)
    with trace() as t:
        every_other[(2,)](x, torch.empty(128), 128, BLOCK=64)
        every_other[(1,)](x, torch.empty(64), 64, BLOCK=64)
    return x, t


def test_table(traced):
    lines = traced[1].table().splitlines()
    assert lines[0].split()[:4] == ["kernel", "tensor", "op", "instructions"]
    assert lines[1].split() == ["every_other", "x_ptr", "load", "2", "512", "32", "50%", "1.0"]
    assert "2 launches, 3 programs, 768 bytes loaded, 768 stored" in lines
    assert lines[-1].startswith(
        "Least efficient: kernel `every_other`, line 3: `x = tl.load(x_ptr + 2 * offs)` uses 50%"
    )


def test_html_has_the_same_rows_and_no_colours_of_its_own(traced):
    html = traced[1]._repr_html_()
    assert html.count("<tr") == 1 + 4
    assert "50%" in html and "background: transparent" in html
    assert "#" not in html.replace("o_ptr#2", "")


def test_annotated_source(traced):
    lines = traced[1].source().splitlines()
    assert lines[3].split()[:3] == ["768", "50%", "3"]
    assert lines[4].split()[:3] == ["768", "100%", "4"]
    assert lines[1].split()[0] == "1" and "def every_other" in lines[1]


def test_heatmap(traced):
    x, t = traced
    counts = t.read_counts(x)
    assert counts.shape == (16, 16)
    assert counts[0].tolist() == [2, 0] * 8 and counts[15].tolist() == [1, 0] * 8
    assert (t.read_counts(x.T) == counts.T).all()
    figure = t.heatmap(x)
    axes, bar = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("column", "row", "times read")
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="expected a 2-D tensor"):
        t.heatmap(x.view(-1))


def test_an_empty_trace_can_be_shown():
    with trace() as t:
        pass
    assert "0 launches" in t.table() and "0 launches" in t._repr_html_() and t.source() == ""


def test_faults_stand_below_the_table():
    with trace() as t:
        every_other[(2,)](torch.empty(256), torch.empty(128), 128, BLOCK=64)
    assert "nothing has written" in t.table() and "nothing has written" in t._repr_html_()


@triton.jit
def sum_of_some(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n)))


def test_a_masked_load_without_other_is_named():
    with trace() as t:
        sum_of_some[(1,)](torch.ones(5), torch.zeros(1), 5, BLOCK=8)
    assert "Kernel `sum_of_some`, line 3 loads masked lanes without `other`" in t.table()
