"""A trace whose compiler was asked how warps access memory: what it says of kernels as in public questions, and when it is quiet."""

import json
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing

from tritontrace import KernelError, as_data, from_data, trace
from tritontrace.cli import main
from tritontrace.results import Slow
from tritontrace.tracing import report, schema, warps
from tritontrace.tracing.pattern import LAST_OF_EQUALS
from tritontrace.tracing.show import looked_at, with_code

X = torch.randn(256, 256)
# of axes that the compiler does not see to be contiguous, it lays lanes along the last, or the first before Triton 3.7
SEEN, UNSEEN = ((256, 1), (1, 256)) if LAST_OF_EQUALS else ((1, 256), (256, 1))

MEET = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8)  # partial sums of several warps, in a bank


@triton.jit(do_not_specialize=["s0", "s1", "t0", "t1"])
def transpose(x_ptr, o_ptr, s0, s1, t0, t1, BLOCK: tl.constexpr):
    """As in a question of 2021: "why is my transpose slow, each tile is dense"."""
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    cols = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    x = tl.load(x_ptr + rows * s0 + cols * s1)
    tl.store(o_ptr + rows * t0 + cols * t1, x)


@triton.jit
def column_sum(x_ptr, o_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """As in a question of 2022: a sum whose layout is the cause."""
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :])
        total += tl.sum(x, axis=0)
    tl.store(o_ptr + cols, total)


@triton.jit
def add_one(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def column(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * N)
    tl.store(o_ptr + i, x)


def slow(kernel, grid, *args, gpu="sm_90", **constants):
    """What is told, as data, and the trace."""
    with trace() as t:
        kernel[grid](*args, **constants)
    before = t.table()
    t.warps(gpu)
    told = warps.slow(t.launches[0])
    shown = t.table(), t._repr_html_()
    assert all(each.sentence in shown[0] and with_code(each.sentence) in shown[1] for each in told)
    assert told or t.table() == "\n".join([before, *looked_at(t)])
    return [(each.kind, each.line.split(":")[0], each.op, each.times) for each in told], t


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_a_transpose_that_is_dense_and_strided_in_the_warp(gpu):
    args = X, torch.empty(256, 256)
    told, t = slow(transpose, (4, 4), *args, *SEEN, *UNSEEN, BLOCK=64, gpu=gpu)
    assert t.stores.efficiency == t.loads.efficiency == 1.0
    assert told == [("strided", "line 6", "store", 8.0)]
    seen = warps.slow(t.launches[0])[0].sentence
    assert "1,024 bytes apart" in seen and "32 sectors where 4 would do" in seen
    assert slow(transpose, (4, 4), *args, *SEEN, *SEEN, BLOCK=64, gpu=gpu)[0] == []  # a copy


def test_a_sum_whose_partial_sums_meet_in_one_bank():
    told, t = slow(column_sum, (8,), X, torch.empty(256), 256, 256, BLOCK_M=64, BLOCK_N=32)
    assert t.loads.efficiency == 1.0
    of_sums = [(kind, line) for kind, line, _, times in told if times > 2]
    assert of_sums == [("conflicts", "line 8")] * MEET
    # of one warp the lanes that add up one column hold its rows: nothing meets in shared memory
    assert slow(column_sum, (8,), X, torch.empty(256), 256, 256, BLOCK_M=64, BLOCK_N=32, num_warps=1)[0] == []


def test_a_size_that_keeps_lanes_narrow():
    x = torch.randn(1000)
    told, t = slow(add_one, (1,), x, torch.empty(1000), 1000, BLOCK=1024)
    assert t.loads.efficiency == 1.0
    assert told == [("narrow", "line 3", "load", 4.0), ("narrow", "line 3", "store", 4.0)]
    assert "`n`" in warps.slow(t.launches[0])[0].sentence
    assert slow(add_one, (1,), torch.randn(1024), torch.empty(1024), 1024, BLOCK=1024)[0] == []


def test_a_stride_that_sectors_show_is_not_told_twice():
    told, t = slow(column, (1,), X, torch.empty(256), 256, BLOCK=256)
    assert t.loads.efficiency == 0.125 and told == []
    assert t.launches[0].warps.requests[0].apart == 2 * 1024  # two rows for each of 128 threads


def test_a_trace_compiles_nothing_unless_it_is_asked(monkeypatch):
    def refuse(*args, **more):
        raise AssertionError("compiled")

    monkeypatch.setattr(triton, "compile", refuse)
    with trace() as t:
        add_one[(1,)](torch.randn(1000), torch.empty(1000), 1000, BLOCK=1024)
    assert t.table() and t.source() and as_data(t)["launches"][0]["warps"] is None


def test_launches_that_are_alike_are_compiled_once(monkeypatch):
    asked = []
    monkeypatch.setattr(warps, "warps_all", lambda jobs, seconds: asked.extend(jobs) or [None] * len(jobs))
    with trace() as t:
        for n in (1024, 1024, 1000):
            add_one[(1,)](torch.randn(1024), torch.empty(1024), n, BLOCK=1024)
        add_one[(1,)](torch.randn(1025)[1:], torch.empty(1024), 1024, BLOCK=1024)
    assert len(t.warps("sm_90")) == 4 and len(asked) == 3


def test_a_launch_that_is_refused_is_passed_over():
    with trace() as t:
        with pytest.raises(KernelError):
            add_one[(1,)](torch.randn(64), {}, 64, BLOCK=64)
        add_one[(1,)](torch.randn(64), torch.empty(64), 64, BLOCK=64)
    (warps_of_it,) = t.warps("A100 80GB")
    assert (
        warps_of_it.gpu == "sm_80"
        and t.launches[-1].warps is warps_of_it
        and t.launches[0].warps in (None, warps_of_it)
    )
    with refusing("compiler.asked.gpu", gpu="'sm_1'"):
        t.warps("sm_1")


@pytest.fixture(scope="module")
def asked():
    with trace() as t:
        add_one[(1,)](torch.randn(1000), torch.empty(1000), 1000, BLOCK=1024)
        transpose[(4, 4)](X, torch.empty(256, 256), *SEEN, *UNSEEN, BLOCK=64)
    t.warps("sm_80")
    return t


def test_the_source_has_the_numbers_of_each_line(asked):
    text = asked.source()
    rows = {line.rpartition("  ")[2].strip(): line.split() for line in text.splitlines()}
    assert rows["tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)"][3:6] == ["4", "15.6", "(4)"]
    assert rows["tl.store(o_ptr + rows * t0 + cols * t1, x)"][2:5] == ["4", "32", "(4)"]
    assert all(f">{name}</th>" in text.html for name in ("lane bytes", "sectors (needed)", "bank conflicts"))


def test_it_is_saved_with_the_schema_and_read_back(asked):
    data = json.loads(json.dumps(as_data(asked)))
    jsonschema.validate(data, schema(), cls=jsonschema.Draft202012Validator)
    found = data["launches"][1]["warps"]
    assert (found["gpu"], found["requests"][1]["apart"]) == ("sm_80", 1024)
    assert [Slow(**each) for each in found["slow"]] == warps.slow(asked.launches[1])
    back = from_data(data)
    assert back.launches[1].warps == asked.launches[1].warps and as_data(back) == as_data(asked)
    assert back.source() == asked.source() and report.table(back) == report.table(asked)
    with refusing("asked.trace.no_kernels"):
        back.warps()


@triton.jit
def to_fp8(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(tl.float8e4nv))


def test_a_kernel_that_this_gpu_refuses_says_so():
    with trace() as t:
        to_fp8[(1,)](torch.randn(64), torch.empty(64, dtype=torch.float8_e4m3fn), BLOCK=64)
    (found,) = t.warps("sm_80")
    assert found.complaint and t.table().count(found.complaint) == 1 and not found.requests


def test_the_command_asks_where_it_is_told_to(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("slow.py").write_text(
        "import torch, triton, triton.language as tl\n@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n"
        "    i = tl.arange(0, B)\n    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)\n"
        "k[(1,)](torch.ones(1000), torch.empty(1000), 1000, B=1024)\n"
    )
    told = Counter()
    for options in ([], ["--warps"]):
        assert main([*options, "slow.py"]) == 0
        table = capfd.readouterr().out
        assert main([*options, "--format", "json", "--gpu", "A100 80GB", "slow.py"]) == 0
        found = json.loads(capfd.readouterr().out)["launches"][0]["warps"]
        told[table.count("slow.py:5: "), found and found["gpu"]] += 1
    assert told == {(0, None): 1, (2, "sm_80"): 1}
