"""Whether the kernels of record are right, before anyone times them, on a Hopper GPU: `python benchmarks/right.py`, a minute.

Each result is held against float64: sizes that no tile divides, scores that rise from key to key, of 150 either way and of -200, memory
that held NaN, and the same bits twice where that is promised. tests/gpu asks each kernel for more; these ask at once:

    python benchmarks/right.py                   one process
    python benchmarks/right.py --processes 8     eight at a time on one GPU, other numbers in each
    python benchmarks/right.py --sanitizer       under memcheck, synccheck and racecheck of compute-sanitizer, small sizes alone

The table goes to benchmarks/results/right.md. Exit status 1 if a kernel is wrong, a process fails, or a tool reports what is not on
benchmarks/results/compute_sanitizer.md: hazards of racecheck on a byte of Triton's own.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

from course_lib.criteria import roundings  # noqa: E402
from course_lib.exercises import attention, find, flash, flash_backward  # noqa: E402
from grader.published import published  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "right.md"
TOOLS = ("memcheck", "synccheck", "racecheck")
TRITONS_BYTE = re.compile(r"LDS\.U8|warp_specialize")  # how Triton tells warps which partition to run
Check = Callable[[int], bool]  # of a seed


def nan_everywhere() -> None:
    """Fill memory that the next kernel gets with NaN: what it does not store shows."""
    torch.full((1 << 26,), torch.nan, device="cuda")


def within(found: torch.Tensor, right: torch.Tensor, budget: torch.Tensor) -> bool:
    """Whether a result is no NaN and off by no more than its budget, everywhere."""
    return bool(((found.double() - right).abs() <= budget).all())


# ----------------------------------------------------------------------------------------------------- checks


def products(name: str, sizes: list[tuple[int, int, int]]) -> Iterator[tuple[str, Check]]:
    import matmul_persistent

    product = matmul_persistent.product if name == "matmul_persistent" else published(name, on_the_cpu=False)

    def right(size: tuple[int, int, int], seed: int) -> bool:
        (M, N, K), g = size, torch.Generator("cuda").manual_seed(seed)
        a, b = (torch.randn(shape, generator=g, device="cuda").bfloat16() for shape in ((M, K), (K, N)))
        nan_everywhere()
        expected = a.double() @ b.double()
        return within(product(a, b), expected, find("tiling.matmul").budget(expected, a.dtype, {"a": a, "b": b}))

    for size in sizes:
        yield f"{name}, {' x '.join(map(str, size))}", partial(right, size)


def given(length: int, d: int, causal: bool, scores: str, seed: int) -> dict:
    """Return q, k, v of six heads; scores: see attention.cases.qkv."""
    g = torch.Generator("cuda").manual_seed(seed)
    return attention.cases.qkv(length, length, d, torch.bfloat16, lead=(2, 3), scores=scores)(g) | {"causal": causal}


def forwards(name: str, lengths: list[int]) -> Iterator[tuple[str, Check]]:
    module = __import__(name)

    def right(length: int, d: int, causal: bool, scores: str, seed: int) -> bool:
        inputs = given(length, d, causal, scores, seed)
        nan_everywhere()
        results, again = module.launch(**inputs), module.launch(**inputs)
        if not all(map(torch.equal, results, again)):
            return False
        return all(
            within(found, expected, flash.oracles.kernel_budget(expected, torch.bfloat16, inputs))
            for found, expected in zip(results, flash.oracles.attend(**inputs), strict=True)
        )

    for length in lengths:
        for d, causal in ((64, False), (64, True), (128, False), (128, True)):
            for scores in ("rising", "large", "low"):
                what = f"{name}, {length} tokens, D {d}, {'causal' if causal else 'full'}, {scores}"
                yield what, partial(right, length, d, causal, scores)


def backwards(lengths: list[int]) -> Iterator[tuple[str, Check]]:
    import attention_backward_overlapped
    import attention_overlapped

    def right(length: int, d: int, causal: bool, deterministic: bool, seed: int) -> bool:
        inputs = given(length, d, causal, "rising", seed)
        o, lse = attention_overlapped.launch(**inputs)
        inputs["do"] = torch.randn(o.shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda").to(o)
        nan_everywhere()
        runs = [
            attention_backward_overlapped.launch(**inputs, o=o, lse=lse, deterministic=deterministic) for _ in range(2)
        ]
        if not all(map(torch.equal, *(run if deterministic else run[1:] for run in runs))):  # dq in any order otherwise
            return False
        expected = flash_backward.oracles.gradients(**inputs)
        budgets = flash_backward.oracles.allowances(**inputs, o_rounded=True)
        return all(
            within(found, gradient, roundings(gradient, torch.bfloat16, 1) + budget)
            for found, gradient, budget in zip(runs[0], expected, budgets, strict=True)
        )

    for length in lengths:
        for d, causal in ((64, True), (128, False), (128, True)):
            for fixed in (False, True):
                what = f"attention_backward_overlapped, {length} tokens, D {d}, {'causal' if causal else 'full'}"
                yield f"{what}{', in a fixed order' if fixed else ''}", partial(right, length, d, causal, fixed)


def decodes(name: str, lengths: list[int]) -> Iterator[tuple[str, Check]]:
    module = __import__(name)

    def right(keys: int, scale: float, seed: int) -> bool:
        g = torch.Generator("cuda").manual_seed(seed)
        q = (scale * torch.randn(2, 12, 128, generator=g, device="cuda")).bfloat16()
        k, v = (torch.randn(2, 3, keys, 128, generator=g, device="cuda").bfloat16() for _ in range(2))
        nan_everywhere()
        found, again = (module.launch(q, k, v, keys) for _ in range(2))
        wide, values = (x.double().repeat_interleave(4, 1) for x in (k, v))
        expected = ((q.double()[:, :, None] @ wide.mT * 128**-0.5).softmax(-1) @ values)[:, :, 0]
        return torch.equal(found, again) and within(found, expected, torch.full_like(expected, 2.0**-5))

    for keys in lengths:
        for scale in (1.0, 1e4):
            yield f"{name}, {keys} keys, q times {scale:g}", partial(right, keys, scale)


def checks(few: bool) -> Iterator[tuple[str, Check]]:
    """Yield (a kernel and its input, whether it is right there). few: small ones alone, for tools that take a hundred times as long."""
    sizes = [(130, 200, 72)] if few else [(1, 1, 1), (130, 200, 72), (1000, 1001, 1023), (4097, 4095, 4097)]
    yield from products("matmul_persistent", sizes)
    yield from products("tiling.matmul", sizes)
    for name in ("attention_overlapped", "attention_in_turns"):
        yield from forwards(name, [256] if few else [128, 384, 1024, 2176])
    yield from backwards([256] if few else [128, 384, 1024])
    for name in ("attention_decode", "attention_decode_registers"):
        yield from decodes(name, [300] if few else [1, 63, 1000, 4097])


# ----------------------------------------------------------------------------------------------------- ways to run them


def alone(seed: int, few: bool) -> list[str]:
    """Run all checks here, and return the wrong ones; each says on a line how it went."""
    wrong = []
    for what, right in checks(few):
        try:
            answer = "right" if right(seed) else "wrong"
        except Exception as error:  # an illegal access, say: later checks fail with it, and say so
            answer = " ".join(str(error).split())[:160] or type(error).__name__
        print(f"{what}: {answer}", flush=True)
        wrong += [] if answer == "right" else [f"{what}: {answer}"]
    return wrong


def together(processes: int) -> list[str]:
    """Run as many processes as that at a time on this GPU, and return what was wrong in any."""
    command = [sys.executable, __file__, "--seed"]
    running = [
        subprocess.Popen([*command, str(seed)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for seed in range(processes)
    ]
    wrong = []
    for seed, process in enumerate(running):
        said = process.communicate()[0].splitlines()
        wrong += [f"process {seed}: {line}" for line in said if ": " in line and not line.endswith(": right")]
        if process.returncode and not wrong:
            wrong.append(f"process {seed} ended with {process.returncode}: {said[-1] if said else ''}")
    return wrong


def under(tool: str) -> list[str]:
    """Run small checks under a tool of compute-sanitizer, and return its complaints that are not explained."""
    if not shutil.which("compute-sanitizer"):
        return ["compute-sanitizer is not on the PATH: it comes with the CUDA toolkit"]
    command = ["compute-sanitizer", "--tool", tool, sys.executable, __file__, "--few", "--seed", "0"]
    done = subprocess.run(command, text=True, capture_output=True)
    return complaints(done.stdout + done.stderr)


def complaints(said: str) -> list[str]:
    """Return the first line of each report of compute-sanitizer, but for those on Triton's own byte; and checks that were not right."""
    reports = re.split(r"^=+ *$", said, flags=re.M)
    found = [line for line in said.splitlines() if re.search(r", .*: (?!right$)", line) and not line.startswith("=")]
    for report in reports:
        lines = [re.sub(r"^=+ ", "", line) for line in report.splitlines() if line.startswith("=")]
        first = next(
            (line for line in lines if re.match(r"(Invalid|Error|Warning|Race|Barrier|Program hit)", line)), ""
        )
        if first and not TRITONS_BYTE.search(report):
            found.append(first)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=0, help="as many at a time, instead of one")
    parser.add_argument("--sanitizer", action="store_true", help="under the three tools of compute-sanitizer instead")
    parser.add_argument("--few", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("This benchmark needs a Hopper GPU, sm_90: its kernels are written for it.")
        return 0
    if options.seed is not None:
        return 1 if alone(options.seed, options.few) else 0
    if options.sanitizer:
        ways = {tool: partial(under, tool) for tool in TOOLS}
    elif options.processes:
        ways = {f"{options.processes} processes at a time": partial(together, options.processes)}
    else:
        ways = {"one process": partial(alone, 0, False)}
    rows = {name: way() for name, way in ways.items()}
    write(rows)
    return 1 if any(rows.values()) else 0


def write(rows: dict[str, list[str]]) -> None:
    """Give these rows their places in the table; others stay."""
    where = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}"
    before = RESULT.read_text("utf-8").splitlines()[6:] if RESULT.exists() else []
    kept = [line for line in before if line.startswith("|") and line.split(" | ")[0][2:] not in rows]
    new = [
        f"| {how} | {'; '.join(wrong) or 'right'} | {where} | {date.today().isoformat()} |"
        for how, wrong in rows.items()
    ]
    head = ["# Right before it is timed", "", "`python benchmarks/right.py` says what is asked.", ""]
    text = "\n".join([*head, "| how | outcome | where | when |", "| --- | --- | --- | --- |", *kept, *new, ""])
    RESULT.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    sys.exit(main())
