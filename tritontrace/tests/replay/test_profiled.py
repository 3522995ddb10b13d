"""A profile: what is predicted without a GPU, what is said of counters, and the launches that another process repeats.

`ncu` is a script here that writes what a real one writes: a recorded answer, in the format of `--csv --page raw`.
"""

import csv
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl

from tritontrace import profile, trace
from tritontrace.profiling import bench, nsight, profiled

N = 10_000


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


@triton.jit
def gather(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + tl.load(index_ptr + offs)))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, B: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=PRECISION).to(tl.float32))


class Sum:
    """x + y in one launch; out is there afterwards."""

    def __init__(self):
        self.x, self.y, self.out = torch.randn(N), torch.randn(N), torch.empty(N)

    def __call__(self):
        add[(triton.cdiv(N, 1024),)](self.x, self.y, self.out, N, BLOCK=1024)


def ncu(monkeypatch, folder, rows=(), error="", status=0):
    """A GPU on which `ncu` counts these rows, or says what is wrong."""
    answer = folder / "answer.csv"
    with answer.open("w", newline="") as file:
        file.write("==PROF== Connected to process 4711 (python3.11)\n")
        file.write(f"==ERROR== {error}\n" if error else "")
        columns = ["ID", "Kernel Name", "Grid Size", *profiled.METRICS]
        out = csv.writer(file, quoting=csv.QUOTE_ALL)
        out.writerow(columns)
        out.writerow(["", "", "", *["%" if "pct" in metric else "" for metric in profiled.METRICS]])
        for number, row in enumerate(rows):
            values = [f"{row[m]:,}" if m in row else "n/a" for m in profiled.METRICS]
            out.writerow([str(number), "add", "(10, 1, 1)", *values])
    script = folder / "ncu"
    script.write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        f"shutil.copy({str(answer)!r}, sys.argv[sys.argv.index('--log-file') + 1])\nsys.exit({status})\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(bench, "has_gpu", lambda: True)


def row(again=1, microseconds=2, **shares):
    """The counters of an addition of N float32 that reads each so many times, with these shares of the peak."""
    found = {name: 0.0 for name in nsight.names(nsight.SUMS) if "tma" not in name}
    found |= {
        "l1tex__m_xbar2l1tex_read_sectors_mem_lg_op_ld.sum": 2500 * again,
        "l1tex__m_l1tex2xbar_write_sectors.sum": 1250,
        "dram__bytes_read.sum": 80_128,
        profiled.NANOSECONDS: 1_000 * microseconds,
        profiled.WARPS: 31.4,
    }
    return found | {metric: shares.get(part, 5.0) for part, metric in profiled.SHARES.items()}


# ------------------------------------------------------------------------------------------------- without a GPU


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_prediction_stands_alone_and_says_so():
    work = Sum()
    found = profile(work)
    (launch,) = found.launches
    assert torch.equal(work.out, work.x + work.y)
    assert launch.predicted | {"by_request": 0} == {
        "load_sectors": 2 * N * 4 // 32,
        "store_sectors": N * 4 // 32,
        "dram_read_bytes": 2 * (-(-N * 4 // 64) * 64),
        "dot_flops": 0,
        "other_flops": 10 * 1024,
        "by_request": 0,
    }
    assert launch.needed_bytes == 3 * N * 4
    assert launch.counted is None and launch.limit is None and launch.roofline.limit == "memory"
    assert launch.roofline.memory == 3 * N * 4 / 4.8e12
    assert found.not_counted.endswith("here to count on: this is the prediction and the roofline alone.")
    assert str(found).splitlines()[-1] == found.not_counted and "Roofline, H200: 25 ns to move" in str(found)
    assert "add, grid (10, 1, 1)" in found._repr_html_()


@pytest.mark.parametrize(
    "dtype, precision, peak",
    [(torch.float16, "tf32", 989.4e12), (torch.float32, "tf32", 494.7e12), (torch.float32, "ieee", 67e12)],
)
def test_the_roofline_of_products_is_that_of_their_dtype(dtype, precision, peak):
    a = torch.randn(64, 64, dtype=dtype)
    (launch,) = profile(lambda: product[(1,)](a, a, torch.empty(64, 64), B=64, PRECISION=precision)).launches
    assert launch.roofline.products == pytest.approx(2 * 64**3 / peak)


def test_what_many_accesses_read_comes_from_memory_once(monkeypatch):
    monkeypatch.setattr(profiled, "TOGETHER", 3)
    index = torch.randint(1000, (4096,), dtype=torch.int32)
    with trace() as t:
        gather[(16,)](torch.randn(1024), index, torch.empty(4096), BLOCK=256)
    assert profiled.predicted(t)["dram_read_bytes"] == 64 * (index // 16).unique().numel() + index.nbytes


def test_what_is_no_launch_is_a_sentence():
    with pytest.raises(ValueError, match="wants a function"):
        profile(torch.ones(3))
    with pytest.raises(ValueError, match="launched no kernel"):
        profile(lambda: torch.ones(3))


@pytest.mark.parametrize("written, seconds", [(b"[2e-06]\n", 2e-6), (b"[1, 2]\n", None), (b"", None), (None, None)])
def test_without_ncu_a_launch_is_timed(monkeypatch, written, seconds):
    def run(command, **more):
        if written is None:
            raise subprocess.CalledProcessError(1, command)  # as where the GPU stops it
        assert command[-1] == "times"
        return subprocess.CompletedProcess(command, 0, written)

    monkeypatch.setattr(bench, "has_gpu", lambda: True)
    monkeypatch.setattr(nsight.shutil, "which", lambda name: None)
    monkeypatch.setattr(profiled.subprocess, "run", run)
    found = profile(Sum())
    (launch,) = found.launches
    assert found.not_counted.startswith("Nsight Compute (`ncu`) is not on this machine's PATH: ")
    assert launch.seconds == seconds and launch.counted is None and launch.limit is None
    assert ("Took 2 µs, 80.0 times that." in str(found)) == (seconds is not None)


# ------------------------------------------------------------------------------------------------- with counters


def test_the_counters_stand_beside_the_prediction(monkeypatch, tmp_path):
    ncu(monkeypatch, tmp_path, [row(dram=82.4)])
    found = profile(Sum())
    (launch,) = found.launches
    assert found.not_counted == ""
    assert (launch.counted["load_sectors"], launch.counted["store_sectors"]) == (2500, 1250)
    assert launch.seconds == 2e-6 and launch.warps == 31.4 and launch.limit == "dram"
    text = str(found)
    assert "bytes read from DRAM                    80,000          80,128" in text
    assert "Took 2 µs, 80.0 times that." in text
    assert "The limit is DRAM, at 82 % of its peak. Only fewer bytes make it faster" in text


@pytest.mark.parametrize("part", profiled.SHARES)
def test_the_busiest_part_is_the_limit(part, monkeypatch, tmp_path):
    again = 3 if part == "l2" else 1
    ncu(monkeypatch, tmp_path, [row(again, **{part: 71.0})])
    found = profile(Sum())
    assert found.launches[0].limit == part and (profiled.ADVICE[part] in str(found) or part == "l2")
    assert ("denser accesses" in str(found)) == (part == "l2")


def test_where_nothing_is_busy_the_kernel_waits(monkeypatch, tmp_path):
    spills = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
    ncu(monkeypatch, tmp_path, [row(dram=59.0, microseconds=20) | {spills: 1_024.0}])
    found = profile(Sum())
    assert found.launches[0].limit == "waiting"
    assert "31 % of the warps" in str(found) and "Registers spill: 1,024 sectors" in str(found)


def test_a_launch_that_is_over_at_once_has_its_own_length_as_its_limit(monkeypatch, tmp_path):
    ncu(monkeypatch, tmp_path, [row(dram=5.0)])
    assert profile(Sum()).launches[0].limit == "launch"


def test_what_only_passes_the_l2_is_drams_limit():
    """A sum of two vectors on an H100: DRAM 68 %, the L2 79 %. A kernel that reads the same again and again: 90 % of the L2."""
    counted = {"load_sectors": 2.0}
    one = profiled.Profiled("add", (1, 1, 1), {}, profiled.Roofline(1, 0, 0), counted, {}, needed_bytes=32)
    quiet = {"tensor": 0.0, "special": 0.0, "issued": 5.0}
    assert replace(one, busy={"dram": 68.0, "l2": 79.0} | quiet).limit == "dram"
    assert replace(one, busy={"dram": 61.0, "l2": 90.0} | quiet).limit == "l2"
    assert replace(one, busy={"dram": 40.0, "l2": 70.0} | quiet).limit == "l2"
    once = replace(one, counted={"load_sectors": 1.0}, busy={"dram": 40.0, "l2": 70.0} | quiet)
    assert once.limit == "dram"  # nothing is read twice: what must move is what takes the time


@pytest.mark.parametrize(
    "answer, said",
    [
        ({"error": "ERR_NVGPUCTRPERM - The user does not have permission", "status": 1}, "ERR_NVGPUCTRPERM"),
        ({"status": 9}, "exit status 9"),
        ({"rows": []}, "counted 0 of 1 launches"),
    ],
)
def test_what_ncu_refuses_leaves_the_prediction(answer, said, monkeypatch, tmp_path):
    ncu(monkeypatch, tmp_path, **answer)
    found = profile(Sum())
    assert said in found.not_counted and found.launches[0].predicted["store_sectors"] == 1250


# ------------------------------------------------------------------------------------------------- the other process


def repeated(work):
    """(the trace of a profile, that of the launches which its message repeats)."""
    launches = profiled._Launches()
    with profiled.launches_go_to(launches.launch):
        work()
    with trace() as again:
        profiled.launch_again(launches.message(), "cpu")
    return launches.trace, again


def test_the_other_process_launches_the_same_twice():
    first, again = repeated(Sum())
    assert [launch.kernel for launch in again.launches] == ["add"] * 2
    assert {launch.grid for launch in again.launches} == {(10, 1, 1)}
    assert again.bytes == 2 * first.bytes and not again.faults


def test_a_tensor_gets_there_with_its_content():
    """A gather from elsewhere would touch other sectors."""
    index = torch.randint(0, 4096, (256,), generator=torch.Generator().manual_seed(1))
    first, again = repeated(lambda: gather[(4,)](torch.randn(4096), index, torch.empty(256), BLOCK=64))
    assert again.loads.l2_sectors == 2 * first.loads.l2_sectors > 0
