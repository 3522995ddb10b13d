"""A model of 1.1 B parameters, in bfloat16, on one GPU: `python benchmarks/model.py [PART ...]`, all parts if none is named.

    right       losses and gradients of the course's kernels against torch's
    training    forward pass and training step, at 4 x 4096 tokens: tokens a second, MFU, peak memory
    scores      the same at 1 x 2048, where attention that has its scores in memory fits too
    optimizer   AdamW of all parameters
    prefill     a prompt of 4000 tokens into the caches
    decode      one more token after 4000, launched from Python and as a CUDA graph: tokens a second, MBU
    compiled    torch.compile, with cuDNN's attention and with the course's; then all of `training` in turns once more

The model is course_lib/workloads/gpt.py, and model_operations.py brings the course's kernels into it. All ways of a part are timed in
turns on one set of weights, round after round; a number is the median. What does not fit into memory, and a part for which no time is
left (`--seconds`), is said and left out. Writes course_lib/hardware/measured/model.json, also into $OUT, and benchmarks/results/model.md,
which `--tables` makes of it by model_tables.py; `--dry` runs everything at toy size on a CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
import triton
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

from model_operations import DEVICE, DRY, Adam, as_operator, course, in_gluon, of_course  # noqa: E402
from model_tables import tables  # noqa: E402

from course_lib.hardware import measurements  # noqa: E402
from course_lib.workloads.gpt import GPT, LARGE, TORCH, TOY, Config, Ops  # noqa: E402
from tritontrace import gpu  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "model.md"
C = replace(TOY, vocab=64, context=64) if DRY else LARGE
BATCH, LENGTH = (2, 32) if DRY else (4, 4096)
SHORT = (1, 32) if DRY else (1, 2048)
PROMPT = 40 if DRY else 4000
BATCHES = (1, 2) if DRY else (1, 16, 64)
ROUNDS = 1 if DRY else 7
FLASH, CUDNN = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION

# ------------------------------------------------------------------------------------------------ ways, and time


@dataclass(frozen=True)
class Way:
    """A way to run the model. backend: of torch's attention, None where that is not used."""

    name: str
    ops: Ops
    backend: SDPBackend | None = None
    compiled: bool = False

    @contextlib.contextmanager
    def chosen(self) -> Iterator[None]:
        with sdpa_kernel(self.backend) if self.backend and not DRY else contextlib.nullcontext():
            yield


def scores_in_memory(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention in torch's operations, all scores in memory."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = (q @ k.mT) * q.shape[-1] ** -0.5
    hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
    return torch.softmax(s.masked_fill(hidden, -math.inf), -1) @ v


def ways() -> list[Way]:
    found = [
        Way("torch, FlashAttention-2", TORCH, FLASH),
        Way("torch, cuDNN", TORCH, CUDNN),
        Way("the course's kernels", of_course()),
    ]
    if not DRY and torch.cuda.get_device_capability() == (9, 0):  # lengths must be multiples of 128
        found.append(Way("the course's, attention in Gluon", replace(of_course(), attention=in_gluon())))
    return found


def compiled_ways() -> list[Way]:
    return [
        Way("torch.compile, cuDNN", TORCH, CUDNN, True),
        Way("torch.compile, the course's attention", replace(TORCH, attention=as_operator()), None, True),
    ]


@cache
def weights() -> GPT:
    """The model whose parameters all ways share."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = GPT(C)
    return model.to(torch.bfloat16)


def model_of(way: Way) -> Callable:
    """A model on the shared parameters with this way's slots."""
    with torch.device("meta"):
        model = GPT(C, way.ops)
    model.load_state_dict(weights().state_dict(keep_vars=True), assign=True)
    return torch.compile(model, backend="aot_eager" if DRY else "inductor") if way.compiled else model


def milliseconds(f: Callable[[], Any]) -> float:
    if DRY:
        started = time.perf_counter()
        f()
        return 1e3 * (time.perf_counter() - started)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    f()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def in_turns(work: dict[str, Callable[[], Any]], warm_up: int = 2, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Milliseconds of each, round after round."""
    for f in work.values():
        for _ in range(warm_up):
            f()
    found: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, f in work.items():
            found[name].append(milliseconds(f))
    return found


def tidy() -> None:
    gc.collect()
    if not DRY:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak() -> int:
    return 0 if DRY else torch.cuda.max_memory_allocated()


# ------------------------------------------------------------------------------------------------ what must be done


def matrices(c: Config = C) -> int:
    """Weights that multiply: no embedding, no norms."""
    block = c.width * (c.heads + 2 * c.kv_heads) * c.head_dim + c.width * c.width + 3 * c.width * c.hidden
    return c.vocab * c.width + c.layers * block


def flops(batch: int, n: int) -> int:
    """FLOPs of a training step, attention causal, nothing counted twice; a forward pass does a third of them."""
    return 6 * matrices() * batch * n + 12 * C.layers * C.width * batch * n * (n + 1) // 2


def decode_bytes(batch: int, n: int) -> int:
    """Bytes of one more token for each text: all weights that multiply, and n tokens of each cache."""
    return 2 * matrices() + 2 * 2 * C.layers * batch * C.kv_heads * n * C.head_dim


# ------------------------------------------------------------------------------------------------ parts


def right() -> dict[str, Any]:
    """Relative differences of the loss and of gradients from torch's with FlashAttention-2; with cuDNN they are the noise of bfloat16."""
    torch.manual_seed(1)
    tokens = torch.randint(C.vocab, (2, 1, 32 if DRY else 512), device=DEVICE)
    found = {}
    for way in ways():
        with way.chosen():
            model = model_of(way)
            loss = model(tokens[0], tokens[1])
            found[way.name] = loss.item(), torch.autograd.grad(loss, list(weights().parameters()))
    base_loss, base = found["torch, FlashAttention-2"]
    apart = {}
    for name, (loss, gradients) in found.items():
        off = [((a.float() - b.float()).norm() / b.float().norm()).item() for a, b in zip(gradients, base, strict=True)]
        apart[name] = {"loss": loss, "loss_apart": abs(loss - base_loss)}
        apart[name] |= {"worst_gradient": max(off), "median_gradient": statistics.median(off)}
    return {"right": apart}


class Steps:
    """Training steps of some ways at one size, timed in turns."""

    def __init__(self, batch: int, n: int, adam: Adam) -> None:
        self.batch, self.n, self.adam = batch, n, adam
        self.tokens, self.targets = torch.randint(C.vocab, (2, batch, n), device=DEVICE)
        self.forwards: dict[str, Callable] = {}
        self.steps: dict[str, Callable] = {}
        self.found: dict[str, dict[str, Any]] = {}

    def add(self, way: Way) -> None:
        """Run a way twice, for its peak of memory; one that does not fit is left out."""
        model = model_of(way)

        def forward() -> None:
            with way.chosen(), torch.no_grad():
                model(self.tokens, self.targets)

        def step() -> None:
            with way.chosen():
                model(self.tokens, self.targets).backward()
            self.adam.step()

        tidy()
        began = time.perf_counter()
        try:
            step()
            first = time.perf_counter() - began
            tidy()
            step()
        except torch.OutOfMemoryError:
            weights().zero_grad(set_to_none=True)
            self.found[way.name] = {"out_of_memory": True}
            return
        except Exception as error:  # of a compiler, say: the other ways may go
            print(f"{way.name} failed: {type(error).__name__}: {str(error)[:600]}", flush=True)
            weights().zero_grad(set_to_none=True)
            return
        self.found[way.name] = {"peak_bytes": peak(), "first_step_s": first}
        self.steps[way.name] = step
        if not way.compiled:  # it would be compiled once more
            self.forwards[way.name] = forward

    def run(self, rounds: int = ROUNDS) -> dict[str, Any]:
        for what, work in ("forward", self.forwards), ("step", self.steps):
            for name, times in in_turns(work, 1, rounds).items():
                self.found[name] |= {f"{what}_ms": statistics.median(times), f"{what}_all_ms": times}
        return {"batch": self.batch, "length": self.n, "flops": flops(self.batch, self.n), "ways": dict(self.found)}


def training(run: Run) -> dict[str, Any]:
    run.steps = Steps(BATCH, LENGTH, run.adam)
    for way in ways():
        run.steps.add(way)
    return {"training": run.steps.run()}


def compiled(run: Run) -> dict[str, Any]:
    steps = run.steps or Steps(BATCH, LENGTH, run.adam)
    for way in compiled_ways():
        if run.left() < 45:
            print(f"no time left for {way.name}", flush=True)
            continue
        steps.add(way)
        print(f"{way.name}: first step {steps.found.get(way.name, {}).get('first_step_s', 0):.0f} s", flush=True)
    found = {"training": steps.run()}
    both = {way.name: steps.found[way.name] for way in compiled_ways() if way.name in steps.found}
    return found | ({"under_compile": {**found["training"], "ways": both}} if len(both) == 2 else {})


def scores(run: Run) -> dict[str, Any]:
    steps = Steps(*SHORT, run.adam)
    for way in [Way("scores in memory", replace(TORCH, attention=scores_in_memory)), *ways()]:
        steps.add(way)
    return {"scores": steps.run(3)}


def optimizer(run: Run) -> dict[str, Any]:
    """The course's AdamW, bfloat16 gradients and float32 masters, and torch's fused one on float32 parameters: 28 bytes each way."""
    count = sum(p.numel() for p in weights().parameters())
    gradients = [torch.randn_like(p) for p in weights().parameters()]

    def own() -> None:
        for p, g in zip(weights().parameters(), gradients, strict=True):
            p.grad = g
        run.adam.step()

    work = {"the course's": own}
    if not DRY:
        wide = [nn.Parameter(master) for master, _, _ in run.adam.state]
        for p, g in zip(wide, gradients, strict=True):
            p.grad = g.float()
        work["torch, fused"] = torch.optim.AdamW(wide, 1e-5, fused=True).step
    times = in_turns(work)
    return {"optimizer": {"bytes": 28 * count, "ways": {k: {"ms": statistics.median(t)} for k, t in times.items()}}}


class Cache:
    """Keys and values of one layer in their places, (2, B, Hkv, slots, D): unit 12's, without a ring."""

    def __init__(self, places: Tensor) -> None:
        self.k, self.v = places
        self.length = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Any, Any]:
        start, self.length = self.length, self.length + k.shape[2]
        self.k[:, :, start : self.length], self.v[:, :, start : self.length] = k, v
        return self.k[:, :, : self.length], self.v[:, :, : self.length]


class Fused(Cache):
    """The same for decode_step, which turns and writes itself: k goes to attention as it came, and the cache with it."""

    def append(self, k: Tensor, v: Tensor) -> tuple[Any, Any]:
        return (self, k), v


def places(batch: int) -> list[Tensor]:
    """Room for the prompt and some tokens, for each layer, filled with random numbers."""
    size = (2, batch, C.kv_heads, PROMPT + 64, C.head_dim)
    return [torch.randn(size, device=DEVICE, dtype=torch.bfloat16) for _ in range(C.layers)]


def decoding_ops() -> Ops:
    cos, sin = weights().turns(0, PROMPT + 64)

    def attention(q: Tensor, k: tuple[Fused, Tensor], v: Tensor) -> Tensor:
        kept, k = k
        kept.length += 1
        return course("serving.decode_step")(q, k, v, cos, sin, kept.k, kept.v, kept.length - 1)

    return replace(of_course(), rotary=lambda x, cos, sin: x, attention=attention)


def prefill(run: Run) -> dict[str, Any]:
    ids = torch.randint(C.vocab, (1, PROMPT), device=DEVICE)
    caches = [Cache(each) for each in places(1)]
    work = {}
    for way in ways():
        if "Gluon" in way.name and PROMPT % 128:
            continue
        model = model_of(way)

        def one(way=way, model=model) -> None:
            for each in caches:
                each.length = 0
            with way.chosen(), torch.no_grad():
                model(ids, caches=caches)

        work[way.name] = one
    times = {k: {"ms": statistics.median(t)} for k, t in in_turns(work).items()}
    return {"prefill": {"batch": 1, "length": PROMPT, "flops": flops(1, PROMPT) // 3, "ways": times}}


def decode(run: Run) -> dict[str, Any]:
    kinds = {"torch": (TORCH, Cache), "the course's kernels": (decoding_ops(), Fused)}
    found: dict[str, Any] = {"after": PROMPT, "rows": []}
    if not DRY:
        moved = 2 << 30  # bytes: half of them read, half written
        found["copy"] = moved / statistics.median(in_turns({"copy": bench.copy_of(moved)})["copy"]) * 1e3
    for batch in BATCHES:
        filled, logits, work = places(batch), [], {}
        for name, (ops, kind) in kinds.items():
            one = next_token(model_of(Way(name, ops)), [kind(each) for each in filled], batch)
            logits.append(one().float())
            work[f"{name}, launched"] = one
            if not DRY:
                work[f"{name}, as a graph"] = captured(one).replay
        for name, times in in_turns(work, 3, ROUNDS if DRY else 20).items():
            row = {
                "batch": batch,
                "way": name,
                "ms": statistics.median(times),
                "bytes": decode_bytes(batch, PROMPT + 1),
            }
            found["rows"].append(row)
        found["rows"][-1]["logits_apart"] = ((logits[0] - logits[1]).norm() / logits[0].norm()).item()
    return {"decode": found}


def next_token(model: Callable, caches: list[Cache], batch: int) -> Callable[[], Tensor]:
    """A function that gives the logits of the token after the prompt, each time of that one."""
    token = torch.zeros(batch, 1, dtype=torch.int64, device=DEVICE)

    def one() -> Tensor:
        for each in caches:
            each.length = PROMPT
        with torch.no_grad():
            return model(token, caches=caches)

    return one


def captured(f: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            f()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f()
    return graph


# ------------------------------------------------------------------------------------------------ a run


class Run:
    """The state that parts share: the optimizer, the steps that are compiled later, the time."""

    def __init__(self, seconds: float) -> None:
        self.until, self.steps = time.monotonic() + seconds, None

    def left(self) -> float:
        return self.until - time.monotonic()

    @cached_property
    def adam(self) -> Adam:
        return Adam(weights())


PARTS: dict[str, tuple[Callable[[Run], dict[str, Any]], float]] = {  # and the seconds without which it is not begun
    "right": (lambda run: right(), 15),
    "training": (training, 20),
    "scores": (scores, 10),
    "optimizer": (optimizer, 5),
    "prefill": (prefill, 10),
    "decode": (decode, 15),
    "compiled": (compiled, 60),
}


def machine() -> dict[str, Any]:
    known = gpu.current()
    return {
        "gpu": "CPU" if DRY else torch.cuda.get_device_name(),
        "date": str(date.today()),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cudnn": 0 if DRY else torch.backends.cudnn.version(),
        "parameters": sum(p.numel() for p in weights().parameters()),
        "peak_flops": known.bf16_flops if known else 989.4e12,
        "bandwidth": known.hbm_bandwidth if known else 3.35e12,
    }


def measure(parts: list[str], seconds: float) -> None:
    path = measurements.path("model")
    kept = measurements.measured("model") if path.exists() and not DRY else {}
    found, run = {**kept, **machine()}, Run(seconds)
    for name in parts:
        part, needs = PARTS[name]
        if run.left() < needs:
            print(f"{name}: no time left", flush=True)
            continue
        began = time.monotonic()
        try:
            found |= part(run)
        except Exception as error:  # one part's failure costs that part alone
            if DRY:
                raise
            print(f"{name} failed: {type(error).__name__}: {str(error)[:600]}", flush=True)
        tidy()
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        if not DRY:
            measurements.write("model", found)
            if out := os.environ.get("OUT"):
                shutil.copy(path, out)
    text = tables(found if DRY else measurements.measured("model"))
    print("\n" + text)
    if not DRY:
        RESULT.write_text(text)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all")
    options.add_argument("--seconds", type=float, default=240.0, help="no part is begun that would take longer")
    options.add_argument("--dry", action="store_true", help="toy sizes on a CPU; nothing is written")
    options.add_argument("--tables", action="store_true", help="write the tables from what is recorded")
    given = options.parse_args()
    if unknown := set(given.parts) - PARTS.keys():
        options.error(f"no part is called {min(unknown)!r}; there are {', '.join(PARTS)}")
    if given.tables:
        RESULT.write_text(tables(measurements.measured("model")))
    elif DRY and not given.dry:
        sys.exit("There is no GPU here. `--dry` runs everything at toy size on a CPU, to see whether it runs.")
    else:
        measure(given.parts or list(PARTS), given.seconds)


if __name__ == "__main__":
    main()
