"""The views that people see of a trace: the table and the source as text and as HTML, and the pictures."""

import io
import re
from html.parser import HTMLParser

import matplotlib.image
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from matplotlib.text import Text
from sentences import refusing

from tritontrace.picture import SMALLEST, WIDTH, Picture
from tritontrace.results import Flops, LineFlops
from tritontrace.tracing import trace


@triton.jit
def every_other(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + 2 * offs)
    tl.store(o_ptr + offs, x, mask=offs < n)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    """c = a b for 4 x 2 tiles; program p takes tile (p % GROUP, p // GROUP) of its group of GROUP rows of tiles."""
    group, within = tl.program_id(0) // (2 * GROUP), tl.program_id(0) % (2 * GROUP)
    m = (group * GROUP + within % GROUP) * BLOCK + tl.arange(0, BLOCK)
    n = (within // GROUP) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        kk = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + m[:, None] * K + kk[None, :])
        b = tl.load(b_ptr + kk[:, None] * N + n[None, :])
        acc += tl.sum(a[:, :, None] * b[None, :, :], axis=1)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def copy_blocks(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Program (x, y, z) copies the block of its number, x fastest."""
    program = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    i = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i))


@triton.jit
def accumulate(x_ptr, sum_ptr, STEPS, BLOCK: tl.constexpr):
    """Sums all of x into sum[0], block after block; then halves what is in x."""
    i = tl.arange(0, BLOCK)
    for step in range(STEPS):
        tl.atomic_add(sum_ptr, tl.sum(tl.load(x_ptr + step * BLOCK + i)))
    tl.store(x_ptr + i, 0.5)


def copied(shape, grid, block, dtype=torch.float32):
    x, o = torch.ones(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
    with trace() as t:
        copy_blocks[grid](x, o, BLOCK=block)
    return x, o, t


@pytest.fixture(scope="module")
def traced():
    x = torch.randn(16, 16)
    with trace() as t:
        every_other[(2,)](x, torch.empty(128), 128, BLOCK=64)
        every_other[(1,)](x, torch.empty(64), 40, BLOCK=64)
    return x, t


@pytest.fixture(scope="module")
def multiplied():
    a, b, c = torch.randn(16, 12), torch.randn(12, 8), torch.empty(16, 8)
    with trace() as t:
        matmul[(8,)](a, b, c, 8, 12, BLOCK=4, GROUP=2)
    assert torch.allclose(c, a @ b, atol=1e-5)
    return a, b, c, t


# ------------------------------------------------------------------------------------------------------- the table


def test_table(traced):
    lines = traced[1].table().splitlines()
    assert [line.split() for line in lines[1:7]] == [
        ["every_other,", "grid", "(2,)"],
        ["x_ptr", "load", "3", "2", "512", "0", "32", "50%", "1.0", "◄", "wastes", "most:", "line", "3"],
        ["o_ptr", "store", "4", "2", "512", "0", "16", "100%"],
        ["every_other,", "grid", "(1,)"],
        ["x_ptr", "load", "3", "1", "256", "0", "16", "50%", "1.0"],
        ["o_ptr#2", "store", "4", "1", "160", "24", "5", "100%"],
    ]
    assert lines[0].split()[-7:] == ["masked", "positions", "sectors", "efficiency", "reads", "per", "byte"]
    assert lines[7] == "2 launches, 3 programs, 768 bytes loaded, 672 bytes stored"
    assert lines[8] == (
        "Wastes most: kernel `every_other`, line 3: `x = tl.load(x_ptr + 2 * offs)` uses 50% of the bytes in the 32 "
        "sectors it touches."
    )
    assert str(traced[1]) == repr(traced[1]) == traced[1].table()


def test_columns_of_the_table_are_aligned(traced):
    lines = traced[1].table().splitlines()
    for column in ("instructions", "bytes", "sectors", "efficiency"):
        end = lines[0].index(column) + len(column)
        assert all(re.match(r"[\d,%]+$", lines[i][:end].split()[-1]) for i in (2, 3, 5, 6)), column


def test_the_worst_line_has_the_most_wasted_bytes_not_the_lowest_share():
    with trace() as t:
        every_other[(8,)](torch.ones(4096), torch.empty(1024), 1024, BLOCK=128)  # 50 % of 8192 bytes
        copy_blocks[(1,)](torch.ones(4), torch.empty(4), BLOCK=4)  # a sector for 16 bytes: 50 % of 32 twice
        copy_blocks[(1,)](torch.ones(2), torch.empty(2), BLOCK=2)  # 25 % of 32 bytes
    marked = [line for line in t.table().splitlines() if "◄" in line]
    assert [line.split()[:2] for line in marked] == [["x_ptr", "load"]] and "1,024 " not in marked[0]
    assert "◄ wastes most: line 3" in marked[0] and "4,096" in marked[0]


def test_nothing_is_marked_where_nothing_is_wasted_but_single_elements():
    with trace() as t:
        copy_blocks[(2,)](torch.ones(64), torch.empty(64), BLOCK=32)
        copy_blocks[(4,)](torch.ones(4), torch.empty(4), BLOCK=1)
    assert "◄" not in t.table() and "wastes" not in t._repr_html_() and "wastes" not in t.source()


def test_equal_launches_share_their_rows():
    x = torch.ones(64)
    with trace() as t:
        for _ in range(12):
            copy_blocks[(2,)](x, torch.empty(64), BLOCK=32)
        copy_blocks[(1,)](x, torch.empty(64), BLOCK=32)
    lines = t.table().splitlines()
    assert lines[1] == "copy_blocks, grid (2,) × 12 launches, counted together"
    assert lines[2].split()[:6] == ["x_ptr", "load", "5", "24", "3,072", "0"] and lines[2].split()[-1] == "1.0"
    assert lines[3].split()[:7] == ["o_ptr", "and", "11", "more", "store", "5", "24"]
    assert lines[4] == "copy_blocks, grid (1,)"
    assert len(lines) == 8


def test_a_kernel_launched_in_many_ways_is_one_group():
    with trace() as t:
        for programs in range(1, 9):
            copy_blocks[(programs,)](torch.ones(64), torch.empty(64), BLOCK=8)
    lines = t.table().splitlines()
    assert lines[1] == "copy_blocks, 8 launches of different kinds, counted together"
    assert lines[2].split()[:7] == ["x_ptr", "and", "7", "more", "load", "5", "36"]
    assert len(lines) == 5


def test_a_chain_keeps_its_tensors_apart():
    """A launch's tensors bear the names of its kernel's parameters, wherever they come from."""
    first = torch.ones(64)
    with trace() as t:
        x = first
        for _ in range(3):
            o = torch.empty(64)
            copy_blocks[(2,)](x, o, BLOCK=32)
            x = o
    assert [[(a.tensor, a.op) for a in launch.accesses] for launch in t.launches] == [
        [("x_ptr", "load"), ("o_ptr", "store")],
        [("x_ptr#2", "load"), ("o_ptr#2", "store")],
        [("x_ptr#3", "load"), ("o_ptr#3", "store")],
    ]
    rows = [line.split()[:5] for line in t.table().splitlines()[1:4]]
    assert rows == [
        ["copy_blocks,", "grid", "(2,)", "×", "3"],
        ["x_ptr", "and", "2", "more", "load"],
        ["o_ptr", "and", "2", "more", "store"],
    ]


def test_two_tensors_of_one_name_are_two_rows():
    @triton.jit
    def add(x_ptr, y_ptr, o_ptr):
        i = tl.arange(0, 16)
        tl.store(o_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))

    x, one, two, three = torch.ones(16), torch.empty(16), torch.empty(16), torch.empty(16)
    with trace() as t:
        add[(1,)](x, x, one)  # o_ptr
        add[(1,)](x, x, two)  # o_ptr#2
        add[(1,)](one, two, three)
    rows = [line.split()[:2] for line in t.table().splitlines()[4:8]]
    assert rows == [["add,", "grid"], ["x_ptr#2", "load"], ["y_ptr", "load"], ["o_ptr#3", "store"]]


def test_the_summary_names_flops_by_kind_and_their_share_of_a_byte(traced):
    x, o, t = copied((64,), (2,), 32)
    t.launches[0].line_flops = [
        LineFlops("copy", 5, "", Flops(dot=2_000_000)),
        LineFlops("copy", 6, "", Flops(special=48)),
    ]
    (line,) = [line for line in t.table().splitlines() if "FLOPs" in line]
    # 2,000,048 / (256 + 256 bytes)
    assert line == "2,000,048 FLOPs (2,000,000 in dots, 48 exp, log and the like): 3.91e+03 for each byte moved"
    assert line in t._repr_html_()


def test_large_numbers_have_separators_and_a_unit():
    x, o, t = copied((1 << 20,), (1,), 1 << 19)
    t.launches[0].accesses[0].bytes = 5 << 30
    assert "5,368,709,120 bytes (5 GiB) loaded, 2,097,152 bytes (2 MiB) stored" in t.table()


def test_faults_and_loads_without_other_stand_below_the_table():
    with trace() as t:
        every_other[(2,)](torch.empty(256), torch.empty(128), 128, BLOCK=64)
        sum_of_some[(1,)](torch.ones(5), torch.zeros(1), 5, BLOCK=8)
    for shown in (t.table(), t._repr_html_().replace("<code>", "`").replace("</code>", "`")):
        assert "nothing has written" in shown
        assert "which line 3 loads without `other`" in shown


@triton.jit
def sum_of_some(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n)))


def test_an_empty_trace_can_be_shown():
    with trace() as t:
        pass
    assert t.table() == "0 launches, 0 programs, 0 bytes loaded, 0 bytes stored"
    assert "0 launches" in t._repr_html_() and t.source() == ""


# ---------------------------------------------------------------------------------------------------------- HTML


class Rows(HTMLParser):
    """The text of each row's cells, and each tag with its attributes."""

    def __init__(self, html: str):
        super().__init__()
        self.rows, self.tags, self.open = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag != "br":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def test_html_says_what_the_text_says(traced):
    page = Rows(traced[1]._repr_html_())
    assert page.open == []
    text = traced[1].table().splitlines()
    assert [" ".join(row).split() for row in page.rows] == [line.split() for line in text[:7]]
    assert text[7] in traced[1]._repr_html_()


def test_html_is_escaped():
    x = torch.ones(64)
    with trace(names={"<b>&": x}) as t:
        every_other[(1,)](x, torch.empty(16), 16, BLOCK=16)
    assert "&lt;b&gt;&amp;" in t._repr_html_() and "<b>" not in t._repr_html_()
    assert "mask=offs &lt; n" in t.source()._repr_html_()


def test_html_serves_a_screen_reader(traced):
    tags = Rows(traced[1]._repr_html_()).tags
    assert [tag for tag, _ in tags].count("caption") == 1
    scopes = [attributes.get("scope") for tag, attributes in tags if tag == "th"]
    assert scopes == ["col"] * 9 + ["rowgroup", "row", "row"] * 2


def test_html_takes_its_colours_from_the_page(traced):
    for html in (traced[1]._repr_html_(), traced[1].source()._repr_html_()):
        assert not re.search(r"#[0-9a-fA-F]{3}", html)
        for name, value in re.findall(r"(color|background): ([^;\"]+)", html):
            see_through = ("inherit", "transparent", "var(--jp-", "rgba(", "linear-gradient(to right, rgba(")
            assert value.startswith(see_through), (name, value)


# ------------------------------------------------------------------------------------------------------- the source


def test_source_is_text_with_bytes_and_efficiency(traced):
    source = traced[1].source()
    lines = source.splitlines()
    assert lines[0].split() == ["bytes", "efficiency", "every_other"]
    assert lines[1].split()[0] == "1" and "def every_other" in lines[1]
    assert re.fullmatch(r" +768 +50% +3 +x = tl.load\(x_ptr \+ 2 \* offs\)  ◄ wastes most", lines[3])
    assert lines[4].split()[:3] == ["672", "100%", "4"] and "◄" not in lines[4]
    assert repr(source) == str(source) == source, "at a prompt and in a log it is the text"


@triton.jit
def doubled(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(x_ptr + i, x + x)


def test_source_has_flops_where_a_kernel_computes():
    with trace() as t:
        for _ in range(2):
            doubled[(1,)](torch.ones(1024), N=1024)
    lines = t.source().splitlines()
    assert lines[0].split() == ["bytes", "efficiency", "FLOPs", "doubled"]
    assert lines[3].split()[:3] == ["8,192", "100%", "3"] and lines[4].split()[:4] == ["8,192", "100%", "2,048", "4"]
    assert len({line.rindex(f" {number} ") for number, line in enumerate(lines) if number}) == 1, (
        "lines stand below one another"
    )
    page = Rows(t.source()._repr_html_())
    assert page.rows[0] == ["bytes", "efficiency", "FLOPs", "line", "source"]
    assert page.rows[4][:4] == ["8,192", "100%", "2,048", "4"] and page.rows[3][:4] == ["8,192", "100%", "", "3"]


def test_source_in_a_notebook(traced):
    page = Rows(traced[1].source()._repr_html_())
    assert page.open == []
    assert page.rows[0] == ["bytes", "efficiency", "line", "source"]
    assert page.rows[3] == ["768", "50% ◄ wastes most", "3", "    x = tl.load(x_ptr + 2 * offs)"]
    assert page.rows[4] == ["672", "100%", "4", "    tl.store(o_ptr + offs, x, mask=offs < n)"]
    grounds = [attributes["style"] for tag, attributes in page.tags if tag == "td"]
    assert "100.0%" in grounds[11] and "87.5%" in grounds[15] and " 0.0%" in grounds[3]  # 672 / 768


# ------------------------------------------------------------------------------------------------------- heat maps


def drawn(figure) -> np.ma.MaskedArray:
    return figure.axes[0].images[0].get_array()


def test_heatmap_of_a_matrix(traced):
    x, t = traced
    figure = t.heatmap(x)
    assert isinstance(figure, Picture) and figure._repr_png_().startswith(b"\x89PNG")
    ax = figure.axes[0]
    assert drawn(figure)[0].tolist() == [2, 0] * 8 and drawn(figure)[15].tolist() == [1, 0] * 8
    assert (drawn(figure) == t.read_counts(x)).all()
    assert (drawn(t.heatmap(x.T)) == t.read_counts(x).T).all()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("column, elements", "row, elements")
    assert ax.images[0].colorbar.ax.get_ylabel() == "times loaded"
    assert ax.get_title("left") == "loads of each element of x_ptr"
    assert figure.get_supxlabel() == "128 of 256 elements of x_ptr are loaded, each 1 to 2 times, 1.5 on average."
    assert "128 of 256 elements" in repr(figure)


def test_heatmap_of_one_launch_and_of_stores(multiplied, traced):
    x, t = traced
    assert drawn(t.heatmap(x, launch=0)).sum() == 128 and drawn(t.heatmap(x, launch=-1)).sum() == 64
    a, b, c, t = multiplied
    assert (drawn(t.heatmap(a)) == 2).all() and (drawn(t.heatmap(b)) == 4).all()
    figure = t.heatmap(c)
    assert (drawn(figure) == 1).all() and figure.get_supxlabel() == "Each element of c_ptr is stored once."
    assert figure.axes[0].get_title("left") == "stores of each element of c_ptr"
    nothing = t.heatmap(c, op="load")
    assert not drawn(nothing).any() and nothing.get_supxlabel() == "No element of c_ptr is loaded."


def test_a_constant_heatmap_is_small_and_says_the_number(multiplied):
    a, _, c, t = multiplied
    constant, other = t.heatmap(c), t.heatmap(a, program=3)
    assert constant.get_figheight() < 2 < other.get_figheight()
    assert not constant.axes[0].child_axes and not constant.axes[0].texts, "no scale of colours, no number in each cell"
    assert constant.get_supxlabel() == "Each element of c_ptr is stored once."


def test_footprint_of_one_program(multiplied):
    a, b, c, t = multiplied
    expected = np.zeros((16, 12), int)
    expected[4:8] = 1  # program 3 of a group of 2 x 2 tiles has row 1, column 1
    figure = t.heatmap(a, program=3)
    assert (drawn(figure) == expected).all()
    assert figure.get_supxlabel() == "48 of 192 elements of a_ptr are loaded by program 3, each once."
    expected = np.zeros((16, 8), int)
    expected[4:8, 4:8] = 1
    assert (drawn(t.heatmap(c, program=(3,))) == expected).all()


def test_footprint_by_position_in_the_grid():
    x, o, t = copied((6, 4), (2, 3), 4)
    for index, number in (((1, 0), 1), ((0, 1), 2), ((1, 2), 5)):
        expected = [[int(row == number)] * 4 for row in range(6)]
        assert drawn(t.heatmap(x, program=index)).tolist() == expected
        assert drawn(t.heatmap(x, program=number)).tolist() == expected
        assert t.heatmap(x, program=number).axes[0].get_title("left").endswith(f"by program {index}")


def test_heatmap_of_a_vector():
    x, o, t = copied((20,), (2,), 8)
    figure = t.heatmap(x)
    assert drawn(figure).tolist() == [[1] * 16 + [0] * 4]
    assert figure.axes[0].get_xlabel() == "elements" and list(figure.axes[0].get_yticks()) == []
    assert [text.get_text() for text in figure.axes[0].texts] == ["1"] * 16 + ["0"] * 4

    x, o, t = copied((1000,), (1,), 512)
    figure = t.heatmap(x)
    assert drawn(figure).shape == (32, 32)
    assert drawn(figure).count() == 1000  # the rest of the last row is no element
    assert (drawn(figure)[:16] == 1).all() and not drawn(figure)[16:].any()
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("element within a row of 32", "first element of the row")
    assert ax.yaxis.get_major_formatter()(3, 0) == "96"


def test_heatmap_stacks_leading_dimensions():
    x, o, t = copied((2, 3, 4, 8), (3,), 32)  # the first batch of three heads
    figure = t.heatmap(x)
    assert drawn(figure).shape == (24, 8)
    assert (drawn(figure)[:12] == 1).all() and not drawn(figure)[12:].any()
    ax = figure.axes[0]
    assert ax.get_ylabel() == "dimensions 0, 1; 4 rows each"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0, 0", "0, 1", "0, 2", "1, 0", "1, 1", "1, 2"]
    assert list(ax.get_yticks()) == [1.5, 5.5, 9.5, 13.5, 17.5, 21.5]
    assert drawn(t.heatmap(x[1, 2])).shape == (4, 8) and not drawn(t.heatmap(x[1, 2])).any()


def test_heatmap_of_a_view_with_other_elements():
    x, o, t = copied((8, 8), (2,), 16, torch.float16)
    assert drawn(t.heatmap(x.view(torch.float32))).tolist() == [[1] * 4] * 4 + [[0] * 4] * 4
    assert drawn(t.heatmap(x.view(torch.int8))).tolist() == [[1] * 16] * 4 + [[0] * 16] * 4


def test_lanes_that_share_an_element_count_each():
    @triton.jit
    def broadcast(x_ptr, o_ptr):
        i = tl.arange(0, 8)
        tl.store(o_ptr + i, tl.load(x_ptr + i // 4))

    x = torch.ones(4)
    with trace() as t:
        broadcast[(1,)](x, torch.empty(8))
    assert drawn(t.heatmap(x)).tolist() == [[4, 4, 0, 0]]


def test_questions_that_have_no_answer_are_refused_with_a_sentence(traced):
    x, t = traced
    with refusing("asked.picture.other_tensor", shape="(3,)"):
        t.heatmap(torch.ones(3))
    with refusing("asked.picture.no_tensor", value="'x_ptr'"):
        t.heatmap("x_ptr")
    with refusing("asked.picture.no_program", program=7, grid="(1,)", launch=1, count=1, last=0):
        t.heatmap(x, program=7)
    with refusing("asked.picture.no_place", program="(0, 1)", grid="(2,)", launch=0):
        t.timeline((0, 1), launch=0)
    with refusing("asked.picture.no_launch", launch=2, count=2, last=1):
        t.order(launch=2)
    with refusing("asked.picture.no_stores", launch=1, kernel="every_other", tensor="'x_ptr'"):
        t.order(x)
    with trace() as empty:
        pass
    with refusing("asked.picture.no_launch_at_all", launch=-1):
        empty.timeline()


# ----------------------------------------------------------------------------------------------------------- order


def numbers(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_order_over_a_tensor_shows_grouping(multiplied):
    a, b, c, t = multiplied
    figure = t.order(c)
    tiles = drawn(figure)[::4, ::4]
    assert tiles.tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]  # groups of two rows of tiles, downwards first
    assert (drawn(figure) == np.kron(tiles, np.ones((4, 4), int))).all()
    ax = figure.axes[0]
    assert ax.images[0].colorbar.ax.get_ylabel() == "start number of the program"
    assert numbers(figure) == list("01234567")
    assert [text.get_position() for text in ax.texts[:3]] == [(1.5, 1.5), (1.5, 5.5), (5.5, 1.5)]
    assert [(p.get_xy(), p.get_width(), p.get_height()) for p in ax.patches[1:2]] == [((-0.5, 3.5), 4, 4)]


def test_order_leaves_out_what_nobody_stores():
    x, o, t = copied((4, 4), (3,), 4)
    assert drawn(t.order(o)).tolist() == [[0] * 4, [1] * 4, [2] * 4, [None] * 4]


def test_of_several_programs_the_last_to_store_is_shown():
    @triton.jit
    def count(o_ptr):
        tl.atomic_add(o_ptr + tl.program_id(0) + tl.arange(0, 2), 1.0)

    o = torch.zeros(5)
    with trace() as t:
        count[(3,)](o)
    assert drawn(t.order(o)).tolist() == [[0, 1, 2, 2, None]]
    assert drawn(t.heatmap(o)).tolist() == [[1, 2, 2, 1, 0]]  # atomics are stores


def test_programs_that_do_not_fill_rectangles_have_no_frames():
    x, o, t = copied((4, 6), (4,), 4)  # the second program ends one row and begins the next
    assert drawn(t.order(o))[0].tolist() == [0, 0, 0, 0, 1, 1]
    assert not t.order(o).axes[0].patches and not numbers(t.order(o))


def test_a_launch_without_programs_has_no_order():
    x, o, t = copied((4,), (0,), 4)
    with refusing("asked.picture.no_programs", grid="(0,)", launch=0, kernel="copy_blocks"):
        t.order()
    assert not drawn(t.heatmap(x)).any() and "0 programs" in t.table()


def test_order_over_the_grid():
    x, o, t = copied((64,), (2, 3), 4)
    figure = t.order()
    assert drawn(figure).tolist() == [[0, 1], [2, 3], [4, 5]]
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("program_id(0)", "program_id(1)")
    assert ax.get_title("left") == "copy_blocks: grid (2, 3)" and numbers(figure) == list("012345")

    x, o, t = copied((64,), (2, 1, 3), 4)
    figure = t.order()
    assert drawn(figure).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert figure.axes[0].get_ylabel() == "program_id(2); 1 rows each"

    x, o, t = copied((64,), (5,), 4)
    assert drawn(t.order()).tolist() == [[0, 1, 2, 3, 4]] and t.order().axes[0].get_xlabel() == "programs"

    x, o, t = copied((64,), (40,), 1)
    assert drawn(t.order()).shape == (5, 8) and t.order().axes[0].get_ylabel() == "first program of the row"


# -------------------------------------------------------------------------------------------------------- timeline


def bars(figure) -> list[tuple[float, float, float]]:
    """(middle, bottom, top) of each bar."""
    found = [bar for bars in figure.axes[0].containers for bar in bars]
    return [
        (round(b.get_x() + b.get_width() / 2, 6), round(b.get_y(), 3), round(b.get_y() + b.get_height(), 3))
        for b in found
    ]


def test_timeline_of_a_matmul(multiplied):
    a, b, c, t = multiplied
    figure = t.timeline(5)
    loads, stores = bars(figure)[:6], bars(figure)[6:]
    # a on line 2, b on 1, c on 0; three steps along K, 64 bytes each, then 64 bytes stored below the line
    assert loads == [(0, 2, 2.33), (1, 1, 1.33), (2, 2, 2.33), (3, 1, 1.33), (4, 2, 2.33), (5, 1, 1.33)]
    assert stores == [(6, -0.33, 0)]
    ax = figure.axes[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["c_ptr\nstore: line 12", "b_ptr\nload: line 10", "a_ptr\nload: line 9"]
    assert numbers(figure) == ["9", "10"] * 3 + ["12"]
    assert ax.get_xlabel().startswith("step of the program") and ax.get_ylabel() == "tensor"
    assert ax.get_title("left") == "matmul, program 5"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["load, above the line", "store, below it"]
    loaded, stored = (container[0] for container in ax.containers)
    assert (loaded.get_hatch() or "", stored.get_hatch()) == ("", "///"), "told apart without colour"
    assert figure.get_supxlabel().replace("\n", " ").startswith("7 steps, 384 bytes loaded, 64 bytes stored. The tall")


def test_timeline_of_atomics_and_of_bars_of_different_height():
    x, total = torch.ones(64), torch.zeros(1)
    with trace() as t:
        accumulate[(1,)](x, total, 2, BLOCK=32)
    loads, stores, atomics = bars(t.timeline())[:2], bars(t.timeline())[2:3], bars(t.timeline())[3:]
    assert loads == [(0, 1, 1.33), (2, 1, 1.33)] and stores == [(4, 0.67, 1)]
    assert atomics == [(1, -0.05, 0.05), (3, -0.05, 0.05)], "4 of 128 bytes: as low as still shows, on both sides"
    labels = [label.get_text() for label in t.timeline().axes[0].get_yticklabels()]
    assert labels == ["sum_ptr\natomic: line 5", "x_ptr\nload: line 5\nstore: line 6"]


def test_a_long_timeline_has_no_numbers():
    x, total = torch.ones(150 * 8), torch.zeros(1)
    with trace() as t:
        accumulate[(1,)](x, total, 150, BLOCK=8)
    figure = t.timeline()
    assert len(bars(figure)) == 301 and numbers(figure) == []
    assert figure.get_figwidth() == WIDTH and "Small numbers" not in figure.get_supxlabel()


def test_a_program_that_touches_nothing_has_no_timeline():
    @triton.jit
    def idle(x_ptr):
        if tl.program_id(0) == 0:
            tl.store(x_ptr, 1.0)

    with trace() as t:
        idle[(2,)](torch.zeros(1))
    with refusing("asked.picture.no_memory", program="program 1", launch=0, kernel="idle"):
        t.timeline(1)


# --------------------------------------------------------------------------------------------------------- pictures


def test_pictures_have_dark_ink_on_white_in_any_style(multiplied):
    a, b, c, t = multiplied
    dark = {"text.color": "white", "axes.labelcolor": "white", "xtick.color": "white", "axes.facecolor": "black"}
    with matplotlib.rc_context({**dark, "ytick.color": "white", "savefig.facecolor": "black"}):
        figures = [t.heatmap(a), t.order(c), t.order(), t.timeline()]
        for figure in figures:
            image = matplotlib.image.imread(io.BytesIO(figure._repr_png_()))
            assert (image[0, 0, :3] == 1).all()
    for figure in figures:
        ax = figure.axes[0]
        words = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]
        assert {word.get_color() for word in words} <= {"#222222", "black"}
        assert ax.get_facecolor() == (1, 1, 1, 1)


def test_labels_of_a_picture_lie_inside_it_and_apart(multiplied):
    a, b, c, t = multiplied
    for figure in (t.heatmap(a), t.heatmap(a, 3), t.order(c), t.order(), t.timeline()):
        figure.draw_without_rendering()
        ax = figure.axes[0]
        page = figure.bbox
        words = [ax.xaxis.label, ax.yaxis.label, ax._left_title, figure._supxlabel]
        boxes = [word.get_window_extent() for word in words if word.get_text()]
        assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 for box in boxes)
        assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_a_notebook_gets_the_picture_and_its_words(multiplied):
    figure = multiplied[3].heatmap(multiplied[0])
    data, metadata = figure._repr_mimebundle_()
    words = "loads of each element of a_ptr. Each element of a_ptr is loaded twice."
    assert data["image/png"].startswith(b"\x89PNG") and data["text/plain"] == f"Picture: {words}"
    assert metadata == {"image/png": {"alt": words, "width": round(100 * figure.get_figwidth())}}


def test_a_bitmap_has_two_dots_for_each_pixel_of_the_page(multiplied):
    figure = multiplied[3].heatmap(multiplied[0])
    height, width, _ = matplotlib.image.imread(io.BytesIO(figure._repr_png_())).shape
    assert (width, height) == tuple(int(200 * inches) for inches in figure.get_size_inches())


def test_a_live_notebook_gets_a_drawing_and_its_caption_as_text(multiplied, monkeypatch):
    figure = multiplied[3].heatmap(multiplied[0])
    before = figure._repr_png_()
    monkeypatch.setattr("tritontrace.picture.live", lambda: True)
    page = figure._repr_mimebundle_()[0]["text/html"]
    assert (
        re.search(r'<svg role="img" aria-label="loads of each element of a_ptr', page) and "twice.</figcaption>" in page
    )
    monkeypatch.setenv("TRITONTRACE_STILL", "1")  # as when notebooks are built
    assert figure._repr_mimebundle_()[0]["image/png"] == before, "the caption is drawn again"


def test_what_was_shown_holds_no_bitmap(multiplied, monkeypatch):
    monkeypatch.setattr("tritontrace.picture.live", lambda: True)
    figure = multiplied[3].heatmap(multiplied[0])
    shown = figure._repr_mimebundle_(), figure._repr_png_()  # as IPython asks for both
    assert all(shown) and {id(text._renderer) for text in figure.findobj(Text)} == {id(None)}
    assert not hasattr(figure.canvas, "renderer")


def test_long_captions_are_wrapped():
    figure = Picture(4, 3)
    figure.subplots()
    figure.caption("word " * 40)
    figure.draw_without_rendering()
    assert figure._supxlabel.get_window_extent().width <= figure.bbox.width


@pytest.mark.parametrize("shape, grid, block", [((64,), (4,), 16), ((25_600,), (100,), 256), ((128, 32), (8,), 512)])
def test_pictures_fit_a_page_in_letters_that_can_be_read(shape, grid, block):
    x, _, t = copied(shape, grid, block)
    for figure in (t.heatmap(x), t.order(), t.timeline()):
        assert figure.get_figwidth() <= WIDTH
        assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= SMALLEST
