"""A model of 1.1 B parameters, in bfloat16, on one GPU: `python benchmarks/model.py [PART ...]`, all parts if none is named.

    right       losses and gradients of the course's kernels against torch's
    training    forward pass and training step, at 4 x 4096 tokens: tokens a second, MFU, peak memory
    scores      the same at 1 x 2048, where attention that has its scores in memory fits too
    optimizer   AdamW of all parameters
    prefill     a prompt of 4000 tokens into the caches
    decode      one more token after 4000, launched from Python and as a CUDA graph: tokens a second, MBU
    compiled    torch.compile, with cuDNN's attention and with the course's; then all of `training` in turns once more

The model is course_lib/workloads/gpt.py, the kernels are those of the published solutions of units 06 to 11, and SwiGLU's two stand
here. All ways of a part are timed in turns on one set of weights, round after round; a number is the median. What does not fit
into memory, and a part for which no time is left (`--seconds`), is said and left out. Writes course_lib/hardware/measured/model.json, also
into $OUT, and benchmarks/results/model.md, which `--tables` makes of it; `--dry` runs everything at toy size on a CPU.
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
import triton.language as tl
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from course_lib import trace  # noqa: E402
from course_lib.hardware import bench, gpu, measurements  # noqa: E402
from course_lib.workloads import shared_heads  # noqa: E402
from course_lib.workloads.gpt import GPT, LARGE, TORCH, TOY, Config, Ops  # noqa: E402
from grader.audit.variants import published  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "model.md"
DRY = not torch.cuda.is_available()
DEVICE = "cpu" if DRY else "cuda"
C = replace(TOY, vocab=64, context=64) if DRY else LARGE
BATCH, LENGTH = (2, 32) if DRY else (4, 4096)
SHORT = (1, 32) if DRY else (1, 2048)
PROMPT = 40 if DRY else 4000
BATCHES = (1, 2) if DRY else (1, 16, 64)
ROUNDS = 1 if DRY else 7
FLASH, CUDNN = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION

# ------------------------------------------------------------------------------------------------ the course's kernels


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, stride, H, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    up = tl.load(up_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    tl.store(out_ptr + row * H + cols, gate * tl.sigmoid(gate) * up, mask=cols < H)


@triton.jit
def swiglu_backward_kernel(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, stride, H, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + row * H + cols, mask=cols < H, other=0).to(tl.float32)
    gate = tl.load(gate_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    up = tl.load(up_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    s = tl.sigmoid(gate)
    tl.store(dgate_ptr + row * H + cols, dy * up * s * (1 + gate * (1 - s)), mask=cols < H)
    tl.store(dup_ptr + row * H + cols, dy * gate * s, mask=cols < H)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    H, out = gate.shape[-1], dense_as(gate)
    swiglu_kernel[(out.numel() // H, triton.cdiv(H, 1024))](gate, up, out, gate.stride(-2), H, BLOCK=1024)
    return out


def swiglu_backward(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    H = gate.shape[-1]
    dgate, dup = dense_as(gate), dense_as(up)
    grid = (dgate.numel() // H, triton.cdiv(H, 1024))
    swiglu_backward_kernel[grid](dy.contiguous(), gate, up, dgate, dup, gate.stride(-2), H, BLOCK=1024)
    return dgate, dup


def on_device(f: Callable) -> Callable:
    """f, or without a GPU f under a trace."""

    def traced(*given: Any, **more: Any) -> Any:
        with trace():
            return f(*given, **more)

    return traced if DRY else f


@cache
def course(exercise: str, name: str = "") -> Callable:
    return on_device(published(exercise, name, on_the_cpu=DRY))


@cache
def of_norm() -> tuple[Callable, Callable]:
    """norm_forward and norm_backward of unit 11, out of one cell: it registers an operator, which can be done once."""
    cell = published("model.operator_norm", "norm_forward", on_the_cpu=DRY).__globals__
    return on_device(cell["norm_forward"]), on_device(cell["norm_backward"])


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        out, rstd = of_norm()[0](x.flatten(0, -2), weight)
        ctx.save_for_backward(x, weight, rstd)
        return out.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        dx, dweight = of_norm()[1](x.flatten(0, -2), weight, rstd, dy.flatten(0, -2))
        return dx.view(x.shape), dweight


class Rotary(torch.autograd.Function):
    """Turned by the positions 0, 1, ...; the way back turns by the same angles the other way."""

    @staticmethod
    def forward(ctx, x):
        return course("model.rotary")(x, positions(x.shape[2]))

    @staticmethod
    def backward(ctx, dy):
        return course("model.rotary")(dy, -positions(dy.shape[2]))


@cache
def positions(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.int32, device=DEVICE)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return on_device(swiglu)(gate, up)

    @staticmethod
    def backward(ctx, dy):
        return on_device(swiglu_backward)(dy, *ctx.saved_tensors)


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        losses = course("fusion.cross_entropy")(logits, targets)
        lse = losses + logits.gather(1, targets[:, None])[:, 0]
        ctx.save_for_backward(logits, targets, lse)
        return losses.mean()

    @staticmethod
    def backward(ctx, dloss):
        logits, targets, lse = ctx.saved_tensors
        rows = (dloss / len(targets)).expand(len(targets)).contiguous()
        return course("recomputation.cross_entropy_backward")(logits, targets, lse, rows), None


@cache
def both_ways() -> tuple[Callable, Callable]:
    """Attention forward and backward, for heads that share k and v."""
    names = ("flash_backward.delta", "flash_backward.dq", "model.grouped_backward")
    return shared_heads.forward(course("flash.flash_attention_forward")), shared_heads.backward(*map(course, names))


def in_gluon() -> Callable:
    """Attention of this folder's two kernels in Gluon, which know no shared heads: k and v are repeated, dk and dv summed by torch."""
    import attention_backward_overlapped
    import attention_in_turns

    def for_each_head(x: Tensor, heads: int) -> Tensor:
        return x.repeat_interleave(heads // x.shape[1], 1)

    def there(q: Tensor, k: Tensor, v: Tensor, scale: None) -> tuple[Tensor, Tensor]:
        return attention_in_turns.launch(q, *(for_each_head(x, q.shape[1]) for x in (k, v)), True)

    def back(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, scale: None) -> tuple[Tensor, ...]:
        wide = [for_each_head(x, q.shape[1]) for x in (k, v)]
        dq, *others = attention_backward_overlapped.launch(q, *wide, o, lse, do.contiguous(), True)
        return dq, *(x.unflatten(1, (k.shape[1], -1)).sum(2) for x in others)

    return shared_heads.differentiable(there, back)


def dense_as(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@cache
def as_operator() -> Callable:
    """The same attention as an operator that torch.compile knows."""
    there, back = both_ways()
    names = ", ".join(f"Tensor {name}" for name in ("do", "q", "k", "v", "o", "lse"))
    attention = torch.library.custom_op(
        "course_model::attention", there, mutates_args=(), schema="(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)"
    )
    backward = torch.library.custom_op(
        "course_model::attention_backward", back, mutates_args=(), schema=f"({names}) -> (Tensor, Tensor, Tensor)"
    )
    attention.register_fake(lambda q, k, v: (dense_as(q), q.new_empty(q.shape[:-1], dtype=torch.float32)))
    backward.register_fake(lambda do, q, k, v, o, lse: tuple(map(dense_as, (q, k, v))))
    attention.register_autograd(
        lambda ctx, do, _: backward(do, *ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, *output),
    )
    return lambda q, k, v: attention(q.contiguous(), k.contiguous(), v.contiguous())[0]


def of_course() -> Ops:
    return Ops(
        norm=Norm.apply,
        rotary=lambda x, cos, sin: Rotary.apply(x),
        attention=shared_heads.differentiable(*both_ways()),
        swiglu=SwiGLU.apply,
        loss=Loss.apply,
    )


class Adam:
    """The course's AdamW, a launch for each parameter, with float32 masters: the same for all ways."""

    def __init__(self, model: GPT) -> None:
        self.parameters, self.step_ = list(model.parameters()), 0
        self.state = [
            (p.detach().float(), *(torch.zeros_like(p, dtype=torch.float32) for _ in "mv")) for p in self.parameters
        ]

    def step(self) -> None:
        self.step_ += 1
        for p, (master, m, v) in zip(self.parameters, self.state, strict=True):
            flat = (x.view(-1) for x in (master, p.grad, m, v, p.detach()))
            course("model.adamw_step")(*flat, 1e-5, 0.9, 0.95, 1e-8, 0.1 * (p.dim() > 1), self.step_)
            p.grad = None


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
    """Keys and values of one layer in their places, (2, B, Hkv, slots, D): unit 11's, without a ring."""

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
        return course("model.decode_step")(q, k, v, cos, sin, kept.k, kept.v, kept.length - 1)

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


# ------------------------------------------------------------------------------------------------ tables


def tables(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    peak_flops, bandwidth = found["peak_flops"], found["bandwidth"]
    lines = [
        "# A model of 1.1 B parameters",
        "",
        f"{found['gpu']}, {found['date']}, torch {found['torch']}, Triton {found['triton']}, cuDNN {found['cudnn']}; "
        f"{found['parameters'] / 1e9:.2f} B parameters in bfloat16; by `python benchmarks/model.py`. MFU: useful FLOPs, of the "
        f"datasheet's {peak_flops / 1e12:.0f} TFLOP/s; what a kernel computes twice counts once. MBU: bytes of weights and caches, each "
        f"once, of {bandwidth / 1e12:.2f} TB/s. All ways of a table were timed in turns; numbers are medians. Attention in Gluon is "
        "that of attention_in_turns.py and attention_backward_overlapped.py in this folder, for which k and v are repeated.",
    ]
    if t := found.get("training"):
        lines += ["", f"## Training, {t['batch']} texts of {t['length']} tokens", ""]
        lines += [
            "A step is forward, backward and AdamW with float32 masters, the course's in all rows.",
            "",
            *of_steps(t, found),
        ]
    if t := found.get("under_compile"):
        lines += [
            "",
            "## Attention alone is another, all else is torch.compile's",
            "",
            *of_steps(t, found, "torch.compile, cuDNN"),
        ]
    if t := found.get("scores"):
        lines += ["", f"## The same, {t['batch']} x {t['length']} tokens", "", *of_steps(t, found)]
    if t := found.get("prefill"):
        lines += ["", f"## Prefill: {t['batch']} x {t['length']} tokens into the caches", ""]
        rows = []
        for name, way in t["ways"].items():
            seconds = way["ms"] / 1e3
            tokens, mfu = t["batch"] * t["length"] / seconds, t["flops"] / seconds / peak_flops
            rows.append([name, f"{way['ms']:.2f}", f"{tokens:,.0f}", f"{mfu:.3f}"])
        lines += table(["way", "ms", "tokens/s", "MFU"], rows)
    if t := found.get("decode"):
        lines += ["", f"## Decoding: one more token after {t['after']}", ""]
        rows = []
        for row in t["rows"]:
            seconds = row["ms"] / 1e3
            rate = row["bytes"] / seconds
            of_a_copy = f"{rate / t['copy']:.3f}" if "copy" in t else ""
            numbers = f"{row['ms']:.3f}", f"{row['batch'] / seconds:,.0f}", f"{rate / bandwidth:.3f}", of_a_copy
            rows.append([row["batch"], row["way"], *numbers])
        lines += table(["texts", "way", "ms", "tokens/s", "MBU", "of a copy"], rows)
        if "copy" in t:
            lines += ["", f"A copy of 1 GiB in the same run reads and writes {t['copy'] / 1e12:.2f} TB/s."]
        apart = ", ".join(f"{row['logits_apart']:.1e}" for row in t["rows"] if "logits_apart" in row)
        lines += ["", f"Logits, the course's and torch's, relative difference: {apart}."]
    if t := found.get("optimizer"):
        lines += ["", "## AdamW, 28 bytes per parameter", ""]
        rows = [[name, f"{way['ms']:.2f}", f"{t['bytes'] / way['ms'] / 1e9:.2f}"] for name, way in t["ways"].items()]
        lines += table(["way", "ms", "TB/s"], rows)
    if t := found.get("right"):
        lines += ["", "## How far from torch with FlashAttention-2", ""]
        numbers = ("loss_apart", "median_gradient", "worst_gradient")
        rows = [[name, *(f"{off[each]:.1e}" for each in numbers)] for name, off in t.items()]
        lines += table(["way", "loss", "gradients, median", "worst"], rows)
    return "\n".join(lines) + "\n"


def table(heads: list[str], rows: list[list[Any]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows)]


def of_steps(t: dict[str, Any], found: dict[str, Any], one: str = "torch, cuDNN") -> list[str]:
    """A row for each way; speeds are medians of the ratio to that of `one`, round by round."""
    base, rows = t["ways"].get(one, {}).get("step_all_ms"), []
    for name, way in t["ways"].items():
        if "step_ms" not in way:
            rows.append([name, "does not fit", *[""] * 5])
            continue
        seconds = way["step_ms"] / 1e3
        ratio = statistics.median(a / b for a, b in zip(base, way["step_all_ms"], strict=True)) if base else math.nan
        rates = f"{t['batch'] * t['length'] / seconds:,.0f}", f"{t['flops'] / seconds / found['peak_flops']:.3f}"
        forward = f"{way['forward_ms']:.1f}" if "forward_ms" in way else ""
        rows.append([name, forward, f"{way['step_ms']:.1f}", f"{ratio:.2f}", *rates, f"{way['peak_bytes'] / 1e9:.1f}"])
    return table(["way", "forward ms", "step ms", f"speed ({one}: 1)", "tokens/s", "MFU", "peak GB"], rows)


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
