"""Attention on a GPU, against its peers: `python benchmarks/attention.py [PART ...]`, all parts if none is named.

    forward     TFLOP/s of every contender at every shape, forward pass
    backward    likewise, backward pass alone
    ladder      the unit's kernel and what makes it faster, step by step (attention_ladder.py)
    lengths     speed and peak memory against sequence length, up to 128 K tokens
    decode      one token against a long cache, by the number of splits
    counters    what keeps an SM busy, by Nsight Compute (`ncu`)

All contenders of a shape are timed in turns in one run, round after round, on random data; a number is the median. FlashAttention-4 is
one of them where it can be imported (peers.py). Each part updates its share of course_lib/hardware/measured/attention.json,
and the tables and the figure are written anew from all of it: benchmarks/results/attention.md and attention.png.
`--dims 128 --lengths 1024 4096` does these shapes alone.

To add a contender, add a function to FORWARD, (q, k, v, causal) -> a function to time, or to BACKWARD, (q, k, v, do, causal) ->
likewise. Unit 10's backward pass is found in its solution by the name in OWN["backward"].
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

import attention_ladder  # noqa: E402
import peers  # noqa: E402
from attention_contenders import (  # noqa: E402
    CUDNN,
    FA2,
    FA3,
    FA4,
    FORWARD_ONLY,
    INSTALLED,
    PEERS,
    Work,
    backward_of,
    flops,
    in_turns,
    own_both,
    own_overlapped,
    solution,
    torchs,
)

from course_lib import figures  # noqa: E402
from course_lib.hardware import measurements  # noqa: E402
from tritontrace.profiling import bench, nsight  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
TOKENS, WIDTH = 16384, 2048  # batch * length, heads * D
SHAPES = [(d, length, causal) for d in (64, 128) for length in (1024, 4096, 16384) for causal in (False, True)]
OFF = 0.03  # how far results may be from one another
LENGTHS = [1 << p for p in range(10, 18)]
RIVALS = {"of FA-2": FA2, "of cuDNN": CUDNN, "of FA-4": FA4, "of FA-3": FA3}  # columns of ratios
COUNTED = (
    "By Nsight Compute, `ncu --clock-control none`: "
    "sm__pipe_tensor_op_hmma_cycles_active, sm__inst_executed_pipe_xu and smsp__issue_active in percent of their peak, and "
    "lts__t_bytes per second. In the first two kernels nothing is saturated: products and softmax of a program take turns. The warps "
    "of the other two do them at the same time; their tiles of 128 queries halve the traffic with L2."
)
COUNTERS = {
    "tensor": "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "special": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "issued": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "l2": "lts__t_bytes.sum.per_second",
}

# ------------------------------------------------------------------------------------------------ contenders


FORWARD = PEERS | {"unit 09": attention_ladder.own_forward, "the ladder's best": attention_ladder.best}
DIFFERENTIATED = {name: make for name, make in PEERS.items() if name not in FORWARD_ONLY} | {"unit 10": own_both}
BACKWARD = {name: backward_of(make) for name, make in DIFFERENTIATED.items()}
BACKWARD |= {"overlapped": own_overlapped, "in a fixed order": partial(own_overlapped, deterministic=True)}

# ------------------------------------------------------------------------------------------------ measuring


def inputs(d: int, length: int, batch: int | None = None, heads: int | None = None) -> list[torch.Tensor]:
    """q, k, v and do of (batch, heads, length, d), bfloat16, random: zeros would be timed too fast."""
    g = torch.Generator("cuda").manual_seed(9)
    shape = (batch or max(1, TOKENS // length), heads or WIDTH // d, length, d)
    return [torch.randn(shape, generator=g, device="cuda", dtype=torch.bfloat16) for _ in range(4)]


def peak_bytes(work: Work) -> int:
    """The most bytes that a call holds at once, beyond what was there before it."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def contend(
    contenders: Mapping[str, Callable[..., Work]],
    given: list,
    causal: bool,
    factor: float,
    right: torch.Tensor | None = None,
) -> dict[str, dict]:
    """name -> TFLOP/s and peak bytes; a contender that fails, or gives another result than `right`, has its reason instead."""
    works, found = {}, {}
    for name, make in contenders.items():
        try:
            work = make(*given, causal)
            out = work()
            if right is not None and not (off := float((out.float() - right.float()).abs().max())) < OFF:
                found[name] = {"failed": f"wrong by {off:.3g}"}
                continue
            found[name] = {"peak_bytes": peak_bytes(work)}
            works[name] = work
        except Exception as error:  # of another project: it may raise any
            memory = isinstance(error, torch.OutOfMemoryError)
            found[name] = {"failed": "out of memory" if memory else peers.reason(error)[:80]}
            torch.cuda.empty_cache()
    for name, ms in in_turns(works).items():
        found[name]["tflops"] = factor * flops(given[0], causal) / ms / 1e9
    return found


def wrong(d: int, length: int, causal: bool) -> str:
    """ "" if the unit's forward passes agree with torch's FlashAttention-2 here."""
    q, k, v, _ = inputs(d, length)
    expected = torchs(FA2)(q, k, v, causal)().float()
    for name in ("unit 09", "the ladder's best"):
        off = float((FORWARD[name](q, k, v, causal)().float() - expected).abs().max())
        if not off < OFF:
            return f"{name} differs from {FA2} by {off:.3g} at D {d}, length {length}, causal {causal}"
    return ""


def wrong_backward(d: int, length: int, causal: bool) -> str:
    """ "" if the unit's gradients agree with torch's FlashAttention-2 here, and have the same bits in two runs."""
    given = inputs(d, length)
    names = (FA2, "unit 10", "unit 10", "overlapped", "in a fixed order", "in a fixed order")
    expected, own, again, overlapped, *in_order = (BACKWARD[name](*given, causal)() for name in names)
    where = f"at D {d}, length {length}, causal {causal}"
    for name, found in (("unit 10", own), ("overlapped", overlapped), ("in a fixed order", in_order[0])):
        off = max(float((x.float() - y.float()).abs().max()) for x, y in zip(found, expected, strict=True))
        if not off < 0.05:
            return f"{name}: gradients differ from {FA2} by {off:.3g} {where}"
    for name, (one, other) in {"unit 10": (own, again), "in a fixed order": in_order}.items():
        if not all(map(torch.equal, one, other)):
            return f"{name}: gradients differ from run to run {where}"
    return ""


def ceiling() -> float:
    """TFLOP/s of torch's bfloat16 product of 8192: the most that an honest kernel can hope for."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / in_turns({"matmul": lambda: a @ b}, rounds=20)["matmul"] / 1e9


# ------------------------------------------------------------------------------------------------ parts


def passes(which: str, record: dict[str, Any], shapes: list[tuple]) -> Iterator[None]:
    """Every contender at every shape, forward or backward."""
    rows = {(r["d"], r["length"], r["causal"]): r for r in record.get(which, [])}
    for d, length, causal in shapes:
        given = inputs(d, length)
        given = given[:3] if which == "forward" else given
        contenders = dict(FORWARD if which == "forward" else BACKWARD)
        for peer in INSTALLED:
            if peer.problem:
                contenders.pop(peer.name, None)
        if length > 4096:  # the matrix of scores does not fit
            contenders.pop("naive")
        factor = 1.0 if which == "forward" else 2.5
        right = torchs(FA2)(*given, causal)() if which == "forward" else None
        found = contend(contenders, given, causal, factor, right)
        row = {"d": d, "length": length, "causal": causal, "contenders": found}
        rows[d, length, causal] = row
        record[which] = [rows[shape] for shape in SHAPES if shape in rows]
        present = [peer for peer in INSTALLED if which == "forward" or peer.name not in FORWARD_ONLY]
        record.setdefault("peers", {})[which] = peers.here(present)
        failed = {name: each["failed"] for name, each in found.items() if "failed" in each}
        peers.note(present, failed, torch.cuda.get_device_name())
        print(which, d, length, causal, spoken(row), flush=True)
        yield


def spoken(row: dict[str, Any]) -> dict[str, int]:
    return {name: round(found.get("tflops", 0)) for name, found in row["contenders"].items()}


def lengths(record: dict[str, Any]) -> Iterator[None]:
    """One causal sequence of 16 heads of 128, forward: speed and memory against its length."""
    record["lengths"] = []
    for length in LENGTHS:
        given = inputs(128, length, batch=1, heads=16)[:3]
        contenders = {name: FORWARD[name] for name in (FA2, CUDNN, "naive", "unit 09", "the ladder's best")}
        if 3 * 16 * length**2 * 2 > torch.cuda.get_device_properties(0).total_memory:  # scores, weights, a mask
            contenders.pop("naive")
        row = {"length": length, "contenders": contend(contenders, given, True, 1.0)}
        record["lengths"].append(row)
        print("lengths", length, spoken(row), flush=True)
        yield


def ladder(record: dict[str, Any], shapes: list[tuple]) -> Iterator[None]:
    """Measure the steps of attention_ladder.py next to torch's two."""
    rows = {(r["d"], r["length"], r["causal"]): r for r in record.get("ladder", [])}
    for d, length, causal in [shape for shape in shapes if shape[1] > 1024]:
        steps = attention_ladder.STEPS | {FA2: torchs(FA2), CUDNN: torchs(CUDNN)}
        row = {"d": d, "length": length, "causal": causal}
        row["contenders"] = contend(steps, inputs(d, length)[:3], causal, 1.0)
        row["tuned"] = describe(attention_ladder.TUNED[d, causal])
        rows[d, length, causal] = row
        record["ladder"] = [rows[shape] for shape in SHAPES if shape in rows]
        print("ladder", d, length, causal, spoken(row), row["tuned"], flush=True)
        yield


def counted() -> dict[str, Callable[..., Work]]:
    """The functions that `counters` looks at, in order."""
    names = ("unit 09", "descriptors", "overlapped")
    return {name: attention_ladder.STEPS[name] for name in names} | {CUDNN: torchs(CUDNN)}


def launch_counted() -> None:
    """Each of them once, heads of 128, 16,384 tokens, full; for the profiler that this process runs under."""
    q, k, v, _ = inputs(128, 16384)
    for make in counted().values():
        work = make(q, k, v, False)
        work()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        work()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def counters(record: dict[str, Any]) -> Iterator[None]:
    rows = nsight.counted([sys.executable, __file__, "--launch"], list(COUNTERS.values()))
    shares = {key: 1.0 if key == "l2" else 0.01 for key in COUNTERS}
    record["counters"] = [
        {"name": name} | {key: shares[key] * row[metric] for key, metric in COUNTERS.items()}
        for name, row in zip(counted(), rows, strict=True)
    ]
    print("counters", record["counters"], flush=True)
    yield


def describe(choice: tuple[Any, tuple[int, ...]]) -> str:
    kernel, (bm, bn, warps, stages) = choice
    return f"{kernel.fn.__name__}, tiles of {bm} x {bn}, {warps} warps, {stages} stages"


def decode(record: dict[str, Any]) -> Iterator[None]:
    """Milliseconds of one token of 32 heads on 8 heads of k and v, by splits; and its speed as a share of a copy of as many bytes."""
    record["decode"] = []
    for keys in (8192, 65536):
        g = torch.Generator("cuda").manual_seed(1)
        q = torch.randn(32, 128, generator=g, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(8, keys, 128, generator=g, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        nbytes = k.nbytes + v.nbytes
        copy = bench.copy_of(nbytes)
        for splits in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            found = bench.ratio(partial(solution("flash.flash_decode"), q, k, v, splits), copy, pairs=12)
            row = {"keys": keys, "splits": splits, "ms": found.own_ms, "of_copy": found.speedup, "bytes": nbytes}
            record["decode"].append(row)
            print("decode", row, flush=True)
        yield


# ------------------------------------------------------------------------------------------------ tables


def table(record: dict[str, Any], which: str) -> list[str]:
    rows = record.get(which, [])
    names = list(dict.fromkeys(n for row in rows for n in row["contenders"]))
    rivals = {column: name for column, name in RIVALS.items() if name in names}
    columns = ["D", "length", "mask", *names, "of the ceiling", *rivals, "peak MB"]
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in rows:
        found = row["contenders"]
        speed = {n: found.get(n, {}).get("tflops", 0.0) for n in names}
        shown = [f"{speed[n]:.0f}" if speed[n] else found.get(n, {}).get("failed", "") for n in names]
        own = [n for n in names if n not in PEERS]
        ratios = [
            " / ".join(f"{speed[n] / of:.2f}" if of else "" for n in own)
            for of in (record["ceiling"], *map(speed.get, rivals.values()))
        ]
        memory = " / ".join(f"{found.get(n, {}).get('peak_bytes', 0) / 1e6:.0f}" for n in own)
        mask = "causal" if row["causal"] else "full"
        lines.append(f"| {row['d']} | {row['length']} | {mask} | {' | '.join([*shown, *ratios])} | {memory} |")
    return [*lines, ""]


def report(record: dict[str, Any]) -> str:
    parts = [
        f"# Attention, {record['machine']}",
        "",
        f"{record['date']}, torch {record['torch']}, triton {record['triton']}. TFLOP/s, bfloat16, batch x length = {TOKENS}, heads x D = "
        f"{WIDTH}; the median of runs in turns. FLOPs are 4 B H N^2 D forward and 2.5 times that backward, half of it if causal. The "
        f"ceiling is torch's product of 8192 in the same run: {record['ceiling']:.0f} TFLOP/s. Where several kernels are ours, "
        "ratios and memory are given for each, in the order of the columns.",
        "",
    ]
    for which in ("forward", "backward", "ladder"):
        if record.get(which):
            parts += [f"## {which.capitalize()}", "", *table(record, which)]
            if said := peers.told(record.get("peers", {}).get(which, {})):
                parts += [said, ""]
    if record.get("lengths"):
        names = list(record["lengths"][0]["contenders"])
        parts += ["## One causal sequence, 16 heads of 128: TFLOP/s, and MB held at most beyond q, k, v", ""]
        parts += ["| tokens | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
        for row in record["lengths"]:
            found = row["contenders"]
            shown = [
                f"{found[n]['tflops']:.0f}, {found[n]['peak_bytes'] / 1e6:.0f}" if "tflops" in found.get(n, {}) else ""
                for n in names
            ]
            parts.append(f"| {row['length']} | {' | '.join(shown)} |")
        parts.append("")
    if record.get("counters"):
        parts += ["## What the hardware counted: D 128, 16,384 tokens, full", "", COUNTED, ""]
        parts += [
            "| kernel | tensor cores | exponentials and the like | instructions issued | SM and L2, TB/s |",
            "| --- | --- | --- | --- | --- |",
        ]
        parts += [
            f"| {r['name']} | {r['tensor']:.0%} | {r['special']:.0%} | {r['issued']:.0%} | {r['l2'] / 1e12:.1f} |"
            for r in record["counters"]
        ]
        parts.append("")
    if record.get("decode"):
        parts += [
            "## One token, 32 heads on 8 of k and v, D 128",
            "",
            "| keys | splits | us | of a copy's speed |",
            "| --- | --- | --- | --- |",
        ]
        parts += [
            f"| {r['keys']} | {r['splits']} | {1000 * r['ms']:.0f} | {r['of_copy']:.2f} |" for r in record["decode"]
        ]
        parts.append("")
    return "\n".join(parts)


def save(record: dict[str, Any]) -> None:
    """The record, its tables, and the figure where there is something to draw."""
    (RESULTS / "attention.md").write_text(report(measurements.write("attention", record)))
    if record.get("lengths"):
        (RESULTS / "attention.png").write_bytes(figures.flash.against_length()._repr_png_())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["forward", "backward", "ladder", "lengths", "decode", "counters"]
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--dims", type=int, nargs="*", default=[64, 128])
    parser.add_argument("--lengths", type=int, nargs="*", default=[1024, 4096, 16384])
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(parts):
        parser.error(f"no part {', '.join(unknown)}: there are {', '.join(parts)}")
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    if asked.launch:
        launch_counted()
        return 0
    shapes = [shape for shape in SHAPES if shape[0] in asked.dims and shape[1] in asked.lengths]
    record = measurements.measured("attention") if measurements.path("attention").exists() else {}
    checks = [(look, d, causal) for look in (wrong, wrong_backward) for d in asked.dims for causal in (False, True)]
    problems = [problem for look, d, causal in checks if (problem := look(d, 4096, causal))]
    record |= {"machine": torch.cuda.get_device_name(), "date": date.today().isoformat()}
    record |= {"torch": torch.__version__, "triton": triton.__version__, "ceiling": ceiling()}
    work = {
        "forward": lambda: passes("forward", record, shapes),
        "backward": lambda: passes("backward", record, shapes),
        "ladder": lambda: ladder(record, shapes),
        "lengths": lambda: lengths(record),
        "decode": lambda: decode(record),
        "counters": lambda: counters(record),
    }
    for part in asked.parts or parts:
        for _ in work[part]():  # what is measured is kept, should the rest be cut short
            save(record)
    print(report(record), *problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
