"""Two versions of kernels, compared: what changed is named at its line, and nothing that changed is called equal."""

import contextlib
import json
import runpy

import pytest

from tritontrace import diff, trace
from tritontrace.diffs.compare import NotComparable, compare
from tritontrace.diffs.show import annotated
from tritontrace.diffs.statements import matched, statements
from tritontrace.tracing import KernelFault
from tritontrace.tracing.as_on_a_gpu import as_on_a_gpu
from tritontrace.tracing.saved import as_data

HEAD = """\
import torch, triton, triton.language as tl
x, y = torch.ones(4000), torch.zeros(4000)

@triton.jit
def part(p, offs, mask):
    return tl.load(p + offs, mask=mask, other=0.0)

"""
COPY = """\
@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    tl.store(y_ptr + offs, x, mask=mask)

"""
ADD = """\
@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = part(x_ptr, offs, mask)
    b = part(y_ptr, offs, mask)
    tl.store(y_ptr + offs, a + b, mask=mask)

"""
RUN_COPY = "copy[(4,)](x, y, 4000, BLOCK=1024)\n"
RUN_ADD = "add[(4,)](x, y, 4000, BLOCK=1024)\n"
BOTH = HEAD + COPY + ADD + RUN_COPY + RUN_ADD


@pytest.fixture
def traced(tmp_path):
    """Trace a script of this text."""

    def traced(text, number=[0]):  # noqa: B006 - counts
        number[0] += 1
        script = tmp_path / f"v{number[0]}.py"
        script.write_text(text)
        with as_on_a_gpu(), trace() as t, contextlib.suppress(KernelFault):
            runpy.run_path(str(script))
        return t

    return traced


@pytest.fixture
def changed(traced):
    """The Diff of BOTH and of what comes of it by replacements."""

    def changed(*replacements, text=BOTH):
        new = text
        for old, other in replacements:
            assert old in new
            new = new.replace(old, other)
        return diff(traced(text), traced(new))

    return changed


def different(found):
    """(kernel, operation, tensors, bytes, sectors) of each row that is not equal."""
    return [
        (
            k.name,
            x.op,
            x.before and x.before.tensor,
            x.after and x.after.tensor,
            x.counted("bytes"),
            x.counted("sectors"),
        )
        for k in found.kernels
        for x in k.lines
        if not x.equal
    ]


def lines(found):
    """The line of each row that is not equal, before and after, counted from the `def`."""
    first = {kernel.name: kernel.text[0] for kernel in found.kernels}
    return [
        tuple(
            side and int(side.where.rpartition(":")[2]) - start + 1
            for side, start in zip((x.before, x.after), (first[k.name].before, first[k.name].after), strict=True)
        )
        for k in found.kernels
        for x in k.lines
        if not x.equal
    ]


# ------------------------------------------------------------------------------------------------ changes


def test_a_file_that_nobody_touched(changed):
    found = changed()
    assert found.equal and [kernel.status for kernel in found.kernels] == ["equal", "equal"]
    assert found.bytes == (80000, 80000) and found.flops == (4096, 4096) and not found.exceeded(1)


def test_a_stride_moves_more_sectors_and_the_same_bytes(changed):
    found = changed(
        ("tl.load(x_ptr + offs, mask=mask, other=0.0)", "tl.load(x_ptr + (offs * 8) % 4000, mask=mask, other=0.0)")
    )
    assert different(found) == [("copy", "load", "x_ptr", "x_ptr", (16000, 16000), (500, 4000))]
    assert lines(found) == [(4, 4)]
    assert [(e.kernel, e.count) for e in found.exceeded(3)] == [("copy", "sectors")]
    assert [kernel.status for kernel in found.kernels] == ["changed", "equal"]


def test_a_stride_that_another_line_makes_is_told_where_it_is_paid(changed):
    """The text that changed stands in the diff; the line that moves more is the load."""
    more = "    there = offs % 8 * 500 + offs // 8\n    x = tl.load(x_ptr + there % n,"
    found = changed(("    x = tl.load(x_ptr + offs,", more))
    assert lines(found) == [(4, 5)]
    assert next(t.before for t in found.kernels[0].text if t.changed) == 0


def test_a_second_read_is_a_line_of_its_own(changed):
    found = changed(
        (
            "    tl.store(y_ptr + offs, x,",
            "    z = tl.load(x_ptr + offs, mask=mask, other=0.0)\n    tl.store(y_ptr + offs, x + z,",
        )
    )
    load, again = (x for x in found.kernels[0].lines if x.op == "load")
    assert (load.counted("bytes"), again.counted("bytes"), again.before) == ((16000, 16000), (0, 16000), None)
    assert (load.before.per_byte, load.after.per_byte) == (1, 2)  # of the tensor, by both lines
    assert [(e.kernel, e.count, e.ratio) for e in found.exceeded(1.4)] == [
        ("copy", "bytes", 1.5),
        ("copy", "sectors", 1.5),
    ]
    assert not found.exceeded(1.5)


def test_a_second_read_in_the_same_statement(changed):
    found = changed(("b = part(y_ptr, offs, mask)", "b = part(y_ptr, offs, mask) + part(y_ptr, offs, mask)"))
    load, addition = different(found)
    assert load == ("add", "load", "y_ptr", "y_ptr", (16000, 32000), (500, 1000))
    assert addition[:2] == ("add", "compute") and lines(found) == [(5, 5), (None, 5)]
    assert found.flops == found.counted("flops") == (4096, 8192)


def test_flops_that_move_to_another_line_are_told_there(changed):
    found = changed(
        ("    b = part(y_ptr, offs, mask)\n", "    b = part(y_ptr, offs, mask)\n    c = b * 2.0\n"), ("a + b", "a + c")
    )
    row = next(x for x in found.kernels[1].lines if not x.equal)
    assert (row.op, row.before, row.after.text, row.counted("flops")) == ("compute", None, "c = b * 2.0", (0, 4096))
    assert row.after.counts == {"flops": 4096, "dot": 0, "float": 4096, "special": 0, "reduction": 0}
    view = " ".join(str(found).split())
    assert "compute 0 → 4,096 (new)" in view and "0 → 4,096" in found.markdown()
    assert (("", "4,096"), True) in [(x[:2], x[2].startswith("+")) for x in annotated(found.kernels[1])]


def test_without_lines_of_flops_kernels_are_compared(traced):
    """An older version has written one of the reports."""
    old, new = as_data(traced(BOTH)), as_data(traced(BOTH.replace("a + b", "a * b + 1.0")))
    for launch in old["launches"]:
        del launch["line_flops"]
    found = compare(old, new)
    assert not different(found) and found.kernels[1].status == "changed" and found.flops == (4096, 8192)


def test_a_lost_mask_is_a_new_fault(changed):
    found = changed(("tl.load(x_ptr + offs, mask=mask, other=0.0)", "tl.load(x_ptr + offs)"))
    assert [(f.kind, f.kernel, f.tensor) for f in found.new_faults] == [("out of bounds", "copy", "x_ptr")]
    assert found.new_faults[0].where.endswith(".py:12") and not found.gone_faults and not found.equal
    back = changed(("tl.load(x_ptr + offs)", "tl.load(x_ptr + offs, mask=mask, other=0.0)"), text=BOTH.replace(
        "tl.load(x_ptr + offs, mask=mask, other=0.0)", "tl.load(x_ptr + offs)"))  # fmt: skip
    assert not back.new_faults and len(back.gone_faults) == 1


def test_a_fault_that_moved_to_another_line_is_no_new_one(changed):
    text = BOTH.replace("y_ptr + offs, x, mask=mask)", "y_ptr + offs * 0, x, mask=mask)")
    found = changed(("    mask = offs < n\n    x = ", "    # longer\n    mask = offs < n\n\n    x = "), text=text)
    assert found.equal and not found.new_faults and not found.gone_faults


def test_reads_without_other_are_told(changed):
    found = changed(("mask=mask, other=0.0)\n    tl.store", "mask=mask)\n    tl.store"))
    assert [(f.kind, f.kernel) for f in found.new_faults] == [("masked without other", "copy")] and not found.equal


# ------------------------------------------------------------------------------------------------ what is no change


def test_a_reformatted_kernel_is_equal(changed):
    found = changed(
        ("    x = tl.load(x_ptr + offs, mask=mask, other=0.0)\n", '''
    x = tl.load(  # wrapped
        x_ptr+offs,
        mask = mask,
        other=0.0,
    )
'''),
        ("copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):", 'copy(\n    x_ptr, y_ptr,\n    n, BLOCK: tl.constexpr,\n):\n    "Copy."'),
        ("b = part(y_ptr, offs, mask)", "b = part( y_ptr, offs, mask )"),
    )  # fmt: skip
    assert found.equal and all(kernel.same_text for kernel in found.kernels)


def test_a_tuple_of_one_is_another_text():
    keys = [
        statements([f"x = {text}\n"])[0].key for text in ("f((a,))", "f((a))", "f(a,)", "f(a)", "[a, b,]", "[a, b]")
    ]
    assert keys[0] != keys[1] and keys[2] == keys[3] and keys[4] == keys[5]


# ------------------------------------------------------------------------------------------------ what may hide


def test_a_load_that_moved_into_a_loop(changed):
    """Its text is the same but for the indentation."""
    load = "    x = tl.load(x_ptr + offs, mask=mask, other=0.0)"
    text = HEAD + COPY.replace(load, f"    x = tl.zeros((BLOCK,), tl.float32)\n{load}") + RUN_COPY
    found = changed((load, f"    for i in range(3):\n    {load}"), text=text)
    assert different(found) == [("copy", "load", "x_ptr", "x_ptr", (16000, 48000), (500, 1500))]
    assert lines(found) == [(5, 6)] and not found.kernels[0].same_text


def test_two_launches_swapped_are_equal_and_two_whose_sums_alone_are_alike_are_not(changed):
    two = HEAD + COPY + "copy[(1,)](x, y, 960, BLOCK=1024)\ncopy[(1,)](x, y, 256, BLOCK=1024)\n"
    assert changed(("960", "AAA"), ("256", "960"), ("AAA", "256"), text=two).equal
    other = changed(("960", "800"), ("256", "416"), text=two)
    assert not different(other) and other.bytes == (9728, 9728)
    assert not other.equal and other.kernels[0].reordered


def test_a_helper_called_from_two_places(changed):
    found = changed(("tl.load(p + offs, mask=mask, other=0.0)", "tl.load(p + offs // 2 * 2, mask=mask, other=0.0)"))
    assert lines(found) == [(4, 4), (5, 5)]
    assert found.kernels[1].helpers == ["part"] and not found.kernels[1].same_text
    assert found.kernels[0].status == "equal"


def test_a_constant_of_the_launch_makes_the_difference(changed):
    found = changed(("copy[(4,)](x, y, 4000, BLOCK=1024)", "copy[(4000,)](x, y, 4000, BLOCK=1)"))
    assert found.kernels[0].same_text and found.kernels[0].status == "changed"
    assert found.kernels[0].grids == ([[4, 1, 1]], [[4000, 1, 1]])
    assert [row[5] for row in different(found)] == [(500, 4000)] * 2


def test_an_autotuned_kernel(changed):
    tuned = "@triton.autotune([triton.Config({'BLOCK': 1024}), triton.Config({'BLOCK': 512})], key=['n'])\n" + COPY
    text = HEAD + tuned + "copy[lambda m: (triton.cdiv(4000, m['BLOCK']),)](x, y, 4000)\n"
    assert changed(text=text).equal
    found = changed(
        ("other=0.0)\n    tl.store(y_ptr + offs, x", "other=0.0)\n    tl.store(y_ptr + offs // 2, x"), text=text
    )
    assert lines(found)[-1] == (5, 5)


def test_two_kernels_of_one_name_are_told(traced):
    again = COPY.replace("x = tl.load(x_ptr + offs, ", "x = tl.load(x_ptr + offs * 0, ")
    found = diff(*[traced(HEAD + COPY + RUN_COPY + again + RUN_COPY)] * 2)
    assert found.kernels[0].mixed


# ------------------------------------------------------------------------------------------------ kernels


def test_kernels_added_removed_and_renamed(changed):
    renamed = changed(("def copy(", "def copied("), ("copy[", "copied["), ("x_ptr, y_ptr, n", "src, y_ptr, n"),
                      ("x_ptr + offs", "src + offs"), ("part(x_ptr", "part(src"))  # fmt: skip
    assert [kernel.names for kernel in renamed.kernels] == [("copy", "copied"), ("add", "add")]
    assert renamed.equal  # the parameter's name is nothing that is moved
    added = changed((RUN_COPY, ""))
    assert [(k.names, k.status) for k in added.kernels] == [(("copy", ""), "removed"), (("add", "add"), "equal")]
    assert added.bytes == (80000, 48000) and not added.equal


def test_an_added_kernel_counts_in_the_sum(traced):
    found = diff(traced(HEAD + COPY + ADD + RUN_COPY), traced(BOTH))
    assert [kernel.status for kernel in found.kernels] == ["equal", "added"]
    assert [(e.kernel, e.count, e.ratio) for e in found.exceeded(2)] == [("", "bytes", 2.5), ("", "sectors", 2.5)]


def test_another_kernel_of_another_name_is_not_taken_for_it():
    def report(name, *body):
        text = [f"def {name}(x):\n", *(f"    {line}\n" for line in body)]
        launch = dict(kernel=name, where=f"{name}.py:1", grid=[1, 1, 1], lines=[], tensors=[], flops={}, faults=[])
        kernels = {name: dict(file=f"{name}.py", first_line=1, source=text, helpers={})}
        return dict(kernels=kernels, launches=[launch], masked_without_other=[])

    one, other = report("a", "y = x + 1", "z = y"), report("b", "while x:", "    pass")
    assert [k.names for k in compare(one, other).kernels] == [("a", ""), ("", "b")]
    assert [k.names for k in compare(one, report("c", "y = x + 1", "z = y")).kernels] == [("a", "c")]


def test_statements_are_matched_as_in_a_diff():
    old = statements("def f(x):\n    a = g(x)\n    b = g(a, 1)\n    return b\n".splitlines(keepends=True))
    new = statements("def f(x):\n    c = 7\n    a = g(x)\n    b = g(a, 2)\n    return b\n".splitlines(keepends=True))
    assert matched(old, new) == [(0, 0), (None, 1), (1, 2), (2, 3), (3, 4)]


# ------------------------------------------------------------------------------------------------ data and views


def test_the_data(changed):
    found = changed(("x_ptr + offs, mask", "x_ptr + offs * 0, mask"))
    data = json.loads(json.dumps(found.to_dict()))
    assert data["schema"] == 1 and data["equal"] is False and data["bytes"] == [80000, 80000]
    assert data["kernels"][0]["status"] == "changed" and data["kernels"][0]["same_text"] is False
    (line,) = [x for x in data["kernels"][0]["lines"] if x["before"]["counts"] != x["after"]["counts"]]
    assert (line["before"]["counts"]["sectors"], line["after"]["counts"]["sectors"]) == (500, 125)
    assert (line["before"]["distinct"], line["after"]["distinct"]) == (16000, 4)


def test_views_say_the_same(changed):
    found = changed(("x_ptr + offs, mask", "x_ptr + offs * 0, mask"))
    for view in (str(found), found.markdown().replace("\\", ""), found._repr_html_()):
        assert "500 → 125 (×0.25)" in view and "x_ptr" in view and view.count("y_ptr") <= 1 + ("<caption" in view) * 9
    assert "| line | op | tensor |" in found.markdown()
    assert "- " in found._repr_html_() and "+ " in found._repr_html_()


def test_what_is_no_report_is_refused(traced):
    data = as_data(traced(HEAD + COPY + RUN_COPY))
    with pytest.raises(NotComparable):
        compare(data, {"a": 1})
    with pytest.raises(NotComparable):
        compare({name: value for name, value in data.items() if name != "kernels"}, data)
