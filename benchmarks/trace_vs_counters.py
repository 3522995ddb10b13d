"""Compare the trace's predictions with an NVIDIA GPU's own counters: `python benchmarks/trace_vs_counters.py`.

Each launch of benchmarks/course_kernels.py, and of benchmarks/liger.py where `liger_kernel` can be imported, is traced on the CPU
and run on the GPU under Nsight Compute (`ncu`), once, from cold caches. The table goes to
benchmarks/results/trace_vs_counters.md, the numbers to course_lib/hardware/measured/trace_vs_counters.json, which unit 04 plots
(without Liger's), and the plot to docs/. `--table` writes the table and the plot anew from those numbers.

Predicted and counted:
    loads     Access.l2_sectors  |  sectors that L1 receives from L2, for loads and for descriptors (TMA)
    stores    Access.l2_sectors  |  sectors that L1 sends to L2
    DRAM      distinct 64-byte units loaded  |  bytes read from DRAM, which it fetches 64 at a time
    dots      Flops.dot          |  operations of the tensor cores

And what the compiler says of warps (warps_for), in a table of its own:
    requests  instructions of warps at global memory  |  requests at L1, for loads (with cp.async) and stores
    sectors   of these requests                       |  sectors that L1 was asked for
    passes    at shared memory                        |  wavefronts there;  conflicts  |  bank conflicts
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

from course_kernels import LAUNCHES, Launch  # noqa: E402

from course_lib import trace  # noqa: E402
from course_lib.figures import counters  # noqa: E402
from course_lib.figures.counters import TOLERANCE  # noqa: E402
from course_lib.hardware import measurements  # noqa: E402
from tritontrace import warps_for  # noqa: E402
from tritontrace.profiling import nsight, predicted  # noqa: E402

TABLE = ROOT / "benchmarks" / "results" / "trace_vs_counters.md"
PLOT = ROOT / "docs" / "trace_vs_counters.png"

METRICS: dict[str, tuple[str, ...]] = nsight.SUMS | {  # each is the sum of these counters
    "l2_lookups": ("lts__t_sectors_srcunit_tex_op_read",),
    "coalesced_in": ("lrc__xbar2gpc_sectors_op_read",),
    "coalesced_out": ("lrc__lts2lrc_sectors_op_read",),
    "fill_sectors": ("lts__d_sectors_fill_device",),
    "dram_written_bytes": ("dram__bytes_write",),
    "fp32_adds": ("smsp__sass_thread_inst_executed_op_fadd_pred_on",),
    "fp32_multiplications": ("smsp__sass_thread_inst_executed_op_fmul_pred_on",),
    "fp32_fmas": ("smsp__sass_thread_inst_executed_op_ffma_pred_on",),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st",),
    "shared_load_passes": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld",),
    "shared_store_passes": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st",),
    "shared_load_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld",),
    "shared_store_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st",),
}
# of these the numbers get all that this GPU counts: those of cp.async and ldmatrix have other names on other cards
MORE = re.compile(
    r"^(?:l1tex__|smsp__|sm__)\w*(?:bank_conflicts|wavefronts|requests)\w*(?:shared|ldgsts|ldsm)\w*", re.M
)

NO_LIGER = "liger_kernel cannot be imported here, so Liger's 24 launches are left out: pip install --no-deps liger-kernel==0.8.5"


def of_liger(device: str) -> list[Launch]:
    """Liger-Kernel's launches as it makes them on this device; none where it is not installed."""
    try:
        import liger
    except ImportError:
        return []
    return liger.launches(device)


def predict(launch: Launch) -> dict[str, int]:
    with trace() as t:
        launch.run("cpu")
    return predicted(t)


def of_warps(launch: Launch) -> dict[str, int]:
    """All that its warps do, as the compiler lays their lanes for this GPU; an sm_90 where there is none."""
    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (9, 0)
    found = warps_for(
        launch.kernel, *launch.on("cpu"), grid=launch.grid, gpu=f"sm_{major}{minor}", programs=None, **launch.constants
    )
    numbers = {"by_data": int(any(each.by_data for each in found.requests)), "whole": int(found.whole)}
    for op in ("load", "store"):
        requests = [each for each in found.requests if each.op == op]
        passes = [each for each in found.passes if each.op == op]
        numbers |= {
            f"{op}_requests": sum(each.requests for each in requests),
            f"l1_{op}_sectors": sum(each.sectors for each in requests),
            f"shared_{op}_passes": sum(each.passes for each in passes),
            f"shared_{op}_conflicts": sum(each.passes - each.needed for each in passes),
        }
    return numbers


def metrics() -> tuple[list[str], list[str]]:
    """The METRICS that this GPU has, and its other counters of shared memory."""
    text = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True).stdout
    known = set(re.findall(r"^\w+", text, re.M))
    wanted = [name for name in nsight.names(METRICS) if not known or name.removesuffix(".sum") in known]
    return wanted, sorted({f"{name}.sum" for name in MORE.findall(text)} - set(wanted))


def launch_all() -> None:
    """Launch each kernel twice under Nsight Compute: first uncounted, so that it is compiled, then counted."""
    for launch in [*LAUNCHES, *of_liger("cuda")]:
        for counted in (False, True):
            arguments = launch.on("cuda")
            torch.cuda.synchronize()
            if counted:
                torch.cuda.profiler.start()
            launch.kernel[launch.grid](*arguments, **launch.constants)
            torch.cuda.synchronize()
            if counted:
                torch.cuda.profiler.stop()


def count(launches: int) -> list[dict[str, float]]:
    """The counters of each launch, in order; those that METRICS does not name by their own names."""
    wanted, others = metrics()
    rows = nsight.counted([sys.executable, __file__, "--launch"], wanted + others)
    if len(rows) != launches:
        raise SystemExit(f"Nsight Compute counted {len(rows)} launches, expected {launches}. Is profiling allowed?")
    return [nsight.added(row, METRICS) | {name: row[name] for name in others if row.get(name)} for row in rows]


# ----------------------------------------------------------------------------------------------------- reasons


def explained(what: str, predicted: dict[str, int], counted: dict[str, float]) -> tuple[float, str]:
    """The count without what the trace cannot know of, and the sentence with the counter that shows it."""
    c, value = counted, counted[what]
    if what == "load_sectors" and c["spill_loads"]:
        return value - c["spill_loads"], f"registers spill, and L1 was asked for {c['spill_loads']:,.0f} local sectors"
    if what == "load_sectors":
        return value + c["l1_hits"], f"L1 still held {c['l1_hits']:,.0f} sectors that an earlier instruction had loaded"
    if what == "store_sectors" and c["spill_stores"]:
        return value - c["spill_stores"], f"registers spill: {c['spill_stores']:,.0f} sectors of local stores"
    if what == "store_sectors":
        return c[
            "l1_store_sectors"
        ], f"{c['l1_store_sectors']:,.0f} sectors entered L1, which merged some that two warps share"
    if what == "dram_read_bytes":
        needed = predicted[what] // 32
        return value - 32 * (c["fill_sectors"] - needed), (
            f"L2 filled {c['fill_sectors']:,.0f} sectors, {needed:,} for these loads; the others complete what stores wrote in part"
        )
    return value, "the dot ran on ordinary cores"


def ratio(counted: float, predicted: float) -> float:
    return counted / predicted if predicted else float("nan")


def off(value: float) -> bool:
    return abs(value - 1) > TOLERANCE


# ----------------------------------------------------------------------------------------------------- report

COMPARED = {"load_sectors": "loads", "store_sectors": "stores", "dram_read_bytes": "DRAM", "dot_flops": "dots"}


def table(numbers: dict) -> str:
    lines, notes = [], []
    entries = numbers["launches"] + numbers.get("liger", [])
    for entry in entries:
        name, p, c = entry["name"], entry["predicted"], entry["counted"]
        cells = [name, f"{p['load_sectors']:,}", f"{p['store_sectors']:,}"]
        for what, title in COMPARED.items():
            if what == "dot_flops" and not c[what]:
                cells.append("")  # no dot, or not on tensor cores
                continue
            value = ratio(c[what], p[what])
            mark = ""
            if off(value):
                notes.append(note(name, title, what, p, c))
                mark = f" [{len(notes)}]"
            cells.append(f"{value:.3f}{mark}")
        fp32 = c["fp32_adds"] + c["fp32_multiplications"] + 2 * c["fp32_fmas"]
        flops = p["other_flops"] + (0 if c["dot_flops"] else p["dot_flops"])
        cells += [f"{ratio(c['l2_lookups'], p['load_sectors']):.3f}", f"{c['dram_written_bytes'] / 1e6:.2f}"]
        cells.append(f"{flops / 1e6:,.2f} / {fp32 / 1e6:,.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    head = [
        f"# The trace against the counters of an {numbers['machine']}",
        "",
        f"{numbers['date']}, torch {numbers['torch']}, triton {numbers['triton']}, `ncu --clock-control none`, cold caches. "
        "Ratios are counter / trace. *loads* and *stores*: sectors between L1 and L2; *DRAM*: bytes read; *dots*: FLOPs on tensor "
        "cores. The last three columns are for information.",
        "",
        "| kernel | trace: load sectors | store sectors | loads | stores | DRAM | dots | L2 look-ups / loads | MB written to DRAM "
        "| MFLOP elsewhere: trace / fp32 instructions |",
        "| --- " * 10 + "|",
    ]
    saved = sum(e["counted"]["coalesced_in"] - e["counted"]["coalesced_out"] for e in entries)
    tail = [
        "",
        f"*L2 look-ups* below 1: SMs that ask for one sector at the same moment are served by one look-up. The L2 request coalescer "
        f"between them counts it: it handed on {saved:,.0f} sectors more than L2 gave it. The trace predicts what SMs receive.",
        "",
        f"Ratios that are off by more than {TOLERANCE:.0%}, and the counter that says why:",
        "",
        *[f"{i}. {text}" for i, text in enumerate(notes, start=1)],
        "",
    ]
    return "\n".join([*head, *lines, *tail, *table_of_warps(entries)])


OF_WARPS = {
    "load_requests": "load requests", "l1_load_sectors": "sectors", "store_requests": "store requests",
    "l1_store_sectors": "sectors", "shared_load_passes": "shared load passes", "shared_load_conflicts": "conflicts",
    "shared_store_passes": "shared store passes", "shared_store_conflicts": "conflicts",
}  # fmt: skip


def table_of_warps(entries: list[dict]) -> list[str]:
    """The compiler's warps against the counters, where they were compared; a row for each kernel, "predicted / counted" unless equal."""
    lines = []
    for entry in (entry for entry in entries if "warps" in entry):
        w, c = entry["warps"], entry["counted"]
        cells = [f"{w[k]:,}" if w[k] == c[k] else f"{w[k]:,} / {c[k]:,.0f}" for k in OF_WARPS]
        lines.append(f"| {entry['name']}{', addresses by data' * w['by_data']} | {' | '.join(cells)} |")
    head = [
        "## Warps, as the compiler lays their lanes",
        "",
        "Where both are equal there is one number, else *predicted / counted*.",
        "",
        f"| kernel | {' | '.join(OF_WARPS.values())} |",
        "| --- " * (1 + len(OF_WARPS)) + "|",
    ]
    return [*head, *lines, ""] if lines else []


def note(name: str, title: str, what: str, predicted: dict, counted: dict) -> str:
    corrected, why = explained(what, predicted, counted)
    if what == "load_sectors" and abs(ratio(corrected, predicted[what]) - 1) > TOLERANCE:
        # sectors that several requests of one instruction share are hits, too: then L1 was asked for more than it passes on
        asked, known = counted["l1_load_sectors"], predicted["by_request"]
        return (
            f"{name}, {title}: L1 was asked for {asked:,.0f} sectors, the trace counts {known:,} request by request "
            f"({ratio(asked, known):.3f}), and L1 still held {counted['l1_hits']:,.0f} of them. Where a row of an odd length is loaded "
            "by narrower instructions, there are more requests."
        )
    return f"{name}, {title}: {why}. Without that, counter / trace is {ratio(corrected, predicted[what]):.3f}."


def main() -> int:
    if sys.argv[1:] == ["--launch"]:
        launch_all()
        return 0
    if sys.argv[1:] != ["--table"]:
        if not torch.cuda.is_available() or not shutil.which("ncu"):
            print("This benchmark needs an NVIDIA GPU and Nsight Compute (`ncu`) on the PATH.")
            return 0
        liger = of_liger("cuda")
        if not liger:
            print(NO_LIGER)
        counted = count(len(LAUNCHES) + len(liger))
        rows = [
            {"name": launch.name, "predicted": predict(launch), "warps": of_warps(launch), "counted": c}
            for launch, c in zip([*LAUNCHES, *liger], counted, strict=True)
        ]
        numbers = {
            "machine": torch.cuda.get_device_name(),
            "date": date.today().isoformat(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "launches": rows[: len(LAUNCHES)],
        }
        if liger:
            numbers["liger"] = rows[len(LAUNCHES) :]
        measurements.path("trace_vs_counters").write_text(json.dumps(numbers, indent=1) + "\n")
    text = table(counters.measured("trace_vs_counters"))
    TABLE.write_text(text)
    counters.predicted_against_counted().savefig(PLOT)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
