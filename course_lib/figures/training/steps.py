"""Pictures of training: what a block launches and moves, what a step holds, how losses fall.

Each function returns a matplotlib Figure. What a picture counts is counted when it is drawn, on a CPU. Colours are Okabe and Ito's,
and none means anything alone: there is a number, a hatch or a word too.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from course_lib.exercises.training.accounting import parameters_of
from course_lib.exercises.training.oracles import SavedBytes, differentiable
from course_lib.exercises.training.steps import scheduled
from course_lib.figures.widgets import Sliders, explore, slider, stops
from course_lib.workloads import text
from course_lib.workloads.activations import Live
from course_lib.workloads.gpt import GPT, LARGE, TORCH, TOY, Config, Ops, TransformerBlock
from course_lib.workloads.launched import ALL, Kernels
from tritontrace import gpu
from tritontrace.colours import EDGE, FAINT, FOUR, IDLE, INK, LIBRARIES, ONE, OURS, THREE, TWO
from tritontrace.picture import WIDTH, Picture, bare, on_white
from tritontrace.threads import one_thread
from tritontrace.tracing import trace

KINDS = {  # what an operation of torch belongs to -> its colour and hatch
    "products": (IDLE, ""),
    "kernels": (ONE, ""),
    "copies": (TWO, "//"),
    "elementwise": (FOUR, ".."),
    "sums": (THREE, "\\\\"),
}
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
COPIES = ("clone", "copy_", "cat", "_to_copy", "slice_backward", "split_backward", "select_backward")
SUMS = ("sum", "mean", "_softmax", "_log_softmax", "logsumexp")


class CountTraffic(TorchDispatchMode):
    """Dispatch mode that counts launches and bytes of torch's operations, by kind: none for a view, each tensor read or written once."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        given, made = (
            [t for t in tree_leaves(of) if isinstance(t, torch.Tensor)] for of in ((args, kwargs or {}), out)
        )
        known = {t.untyped_storage()._cdata for t in given}
        name = function.overloadpacket.__name__
        moves = function._schema.is_mutable or any(t.untyped_storage()._cdata not in known for t in made)
        if moves and not name.startswith(("empty", "new_empty")):
            kind = (
                "products"
                if name in PRODUCTS
                else "copies"
                if name in COPIES
                else "sums"
                if name in SUMS
                else "elementwise"
            )
            self.add(kind, [*given, *made])
        return out

    def add(self, kind: str, tensors: list[torch.Tensor]) -> None:
        self.launches[kind] += 1
        self.bytes[kind] += sum(t.numel() * t.element_size() for t in tensors)


@lru_cache
def counted(kernels: bool, batch: int = 2, n: int = 64) -> CountTraffic:
    """Count forward and backward of one block, with torch's operations alone or with kernels in its slots."""
    moved = CountTraffic()

    def launch(name: str) -> Callable:
        def run(*tensors: torch.Tensor):
            with _disable_current_modes():
                out = ALL[name](*tensors)
            moved.add("kernels", [*tensors, *(out if isinstance(out, tuple) else (out,))])
            return out

        return run

    by_hand = Ops(norm=_norm_by_hand, attention=_attention_by_hand, swiglu=TORCH.swiglu)
    ops = differentiable(Kernels(**{name: launch(name) for name in ALL})) if kernels else by_hand
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        block, x = TransformerBlock(TOY), torch.randn(batch, n, TOY.width, requires_grad=True)
        cos, sin = GPT(TOY).turns(0, n)
        with torch.enable_grad(), moved:
            out = block(x, ops, cos, sin)
            out.backward(torch.ones_like(out))
    return moved


def _norm_by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMSNorm in torch's operations, as models write it that do not call a fused one."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _attention_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention in torch's operations, the scores and all."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.mT * q.shape[-1] ** -0.5
    mask = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(s.masked_fill(mask, -torch.inf), -1) @ v


@on_white
def block() -> Figure:
    """Draw one block of the toy, forward and backward, as launches and as bytes: torch's operations, and kernels in its slots."""
    found = {"torch, operation\nby operation": counted(False), "kernels in\nthe slots": counted(True)}
    figure = Picture(WIDTH, 3.4)
    for ax, what in zip(figure.subplots(1, 2, sharey=True), ("launches", "bytes"), strict=True):
        scale = 1 if what == "launches" else 1e-6
        for row, moved in enumerate(found.values()):
            left = 0.0
            for kind, (colour, hatch) in KINDS.items():
                size = getattr(moved, what)[kind] * scale
                ax.barh(
                    row, size, left=left, color=colour, hatch=hatch, edgecolor="white", label=kind if not row else None
                )
                left += size
            ax.text(left, row, f" {left:.0f}" if scale == 1 else f" {left:.1f} MB", va="center")
        ax.set(yticks=range(len(found)), yticklabels=found, xlabel=what if scale == 1 else "MB read and written")
        ax.set_xlim(0, 1.2 * max(sum(getattr(moved, what).values()) * scale for moved in found.values()))
        bare(ax)
    figure.axes[0].invert_yaxis()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=5, frameon=False)
    one, other = found.values()
    figure.caption(
        f"{sum(one.launches.values())} operations of torch, or {sum(other.launches.values())} launches. Both rows have the products with "
        "weights. With kernels, attention's products are inside its kernels, and the elementwise operations that stay are those of "
        f"rotary positions and residuals. Counted for {2 * 64} tokens of width {TOY.width}, each tensor once for each operation."
    )
    return figure


# ------------------------------------------------------------------------------------------------ memory


@lru_cache
def _step_of_the_toy() -> tuple[list[int], int, int, int]:
    """(bytes alive after each operation, operations forward, operations back, predicted bytes of activations)."""
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GPT(TOY, differentiable(Kernels()))
        tokens, targets = torch.randint(0, TOY.vocab, (2, 4, 64)).unbind()
        optimizer = model.optimizer(1e-3)
        with torch.enable_grad():
            with SavedBytes(*model.parameters(), tokens) as kept:
                model(tokens, targets).backward()
            optimizer.step()
            with Live() as live:
                for p in model.parameters():
                    p.grad = torch.zeros_like(p)  # memory for gradients, made in sight
                loss = model(tokens, targets)
                forward = len(live.bytes)
                loss.backward()
                back = len(live.bytes)
                optimizer.step()
    return live.bytes, forward, back, kept.bytes


@on_white
def memory_of_a_step() -> Figure:
    """Draw the bytes alive over the operations of one training step of the toy, counted, and what a formula of them says."""
    alive, forward, back, kept = _step_of_the_toy()
    parameters = 4 * parameters_of(TOY)
    state = 4 * parameters  # float32: weights, gradients, m, v
    total = (np.array(alive) + 3 * parameters) / 1e6  # weights, m and v were there before
    figure = Picture(WIDTH, 3.6)
    ax = figure.subplots()
    ax.fill_between(range(len(total)), total, color=FOUR)
    for size, what, colour, line in (
        (state, "weights,\ngradients, m, v", INK, ":"),
        (state + kept, "and what\nforward keeps", TWO, "--"),
    ):
        ax.axhline(size / 1e6, color=colour, linestyle=line)
        beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
        ax.annotate(f"{what}:\n{size / 1e6:.2f} MB", (1, size / 1e6), (6, 0), **beside)
    for at, word in ((0, "forward"), (forward, "backward"), (back, "optimizer")):
        ax.axvline(at, color=INK, linewidth=0.6)
        ax.text(at, 1.21 * max(total), f" {word}", va="top")
    ax.set(
        xlabel="operations of one training step, first to last", ylabel="MB alive, counted", ylim=(0, 1.22 * max(total))
    )
    ax.set_xlim(0, len(total))
    bare(ax)
    figure.caption(
        f"Memory peaks where forward ends and backward begins, at {max(total):.2f} MB. Memory above the dashed line is what a single "
        "operation needs while it works."
    )
    return figure


def kept_bytes(c: Config, batch: int, n: int) -> int:
    """Compute the bytes that the forward pass saves in bfloat16, by the formula of the unit's exercise, which a count confirms."""
    D, qkv = c.head_dim, (c.heads + 2 * c.kv_heads) * c.head_dim
    numbers = 5 * c.width + (c.heads + c.kv_heads) * D + qkv + 3 * c.hidden
    per_token = c.layers * (2 * numbers + 4 * (2 + c.heads)) + 2 * (2 * c.width + c.vocab) + 24
    return batch * n * per_token + 4 * n * D


@on_white
def memory_of_a_model(layers: int = 22, width: int = 2048, batch: int = 4, context: int = 4096) -> Figure:
    """Draw what a training step in bfloat16 with AdamW holds, part by part, beside the memory of three GPUs."""
    hidden = -(-8 * width // (3 * 256)) * 256  # as LARGE has it
    c = Config(LARGE.vocab, layers, width, width // 64, max(1, width // 256), hidden, context)
    parameters, kept = parameters_of(c), kept_bytes(c, batch, context)
    parts = {
        "weights": (2 * parameters, ONE),
        "gradients": (2 * parameters, FOUR),
        "master, m, v": (12 * parameters, THREE),
        "kept by forward": (kept, TWO),
    }
    figure, left = Picture(WIDTH, 2.6), 0.0
    ax = figure.subplots()
    for name, (size, colour) in parts.items():
        ax.barh(0, size / 1e9, left=left, color=colour, edgecolor="white", label=f"{name}: {size / 1e9:.1f} GB")
        left += size / 1e9
    ax.text(left, 0, f" {left:.1f} GB", va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    sizes = {"H200": gpu.datasheet("H200").hbm_bytes / 1e9, "24 GB": 24.0}
    for name, size in sizes.items():
        ax.axvline(size, color=INK, linestyle="--", linewidth=0.8)
        ax.text(size, 0.62, f" {name}")
    ax.set(
        yticks=[0], yticklabels=["one step"], ylim=(-0.6, 0.8), xlabel="GB", xlim=(0, 1.15 * max(left, *sizes.values()))
    )
    figure.legend(loc="outside upper left", ncols=4, frameon=False, columnspacing=1, handlelength=1.2)
    bare(ax)
    figure.caption(
        f"{parameters / 1e9:.2f} billion parameters hold 16 bytes each, whatever the batch. What the forward pass keeps grows with every "
        f"token: {kept / (batch * context) / 1e6:.2f} MB for each of {batch * context:,}."
    )
    return figure


def explore_memory() -> Sliders | Figure:
    """The memory of a model that trains, with sliders in a notebook; the picture alone where there is none."""
    return explore(
        memory_of_a_model,
        layers=slider("layers", 1, 80),
        width=stops("width", [512, 1024, 2048, 4096, 8192]),
        batch=slider("batch", 1, 32),
        context=stops("context", [512, 1024, 2048, 4096, 8192, 16384]),
    )


# ------------------------------------------------------------------------------------------------ training


@on_white
def schedule(steps: int = 200, peak: float = 1e-2, warm_up: int = 20) -> Figure:
    """Draw the rate of each step, and name its three parts."""
    figure = Picture(WIDTH, 2.8)
    ax = figure.subplots()
    rates = [scheduled(step, steps, peak, warm_up) for step in range(0, steps + 40)]
    ax.plot(rates, color=OURS, linewidth=2.5)
    ax.fill_between(range(len(rates)), rates, color=FAINT)
    for end in (warm_up, steps):
        ax.axvline(end, color=EDGE, linestyle=":", linewidth=0.8)
    for x, y, word in (
        (warm_up + 2, 1.05, f"peak, after {warm_up} steps of warm-up"),
        (0.52 * steps, 0.72, "half a cosine"),
        (steps + 2, 0.17, "a tenth of the peak"),
    ):
        ax.text(x, y * peak, word, va="bottom")
    ax.set(xlabel="step", ylabel="learning rate", ylim=(0, 1.2 * peak), xlim=(0, steps + 40))
    ax.set_xticks([0, warm_up, steps // 2, steps])
    bare(ax)
    figure.caption(
        f"The rate rises in a straight line for {warm_up} steps, since m and v are means of only a few gradients at first. Then it falls "
        "as half a cosine, to a tenth of the peak."
    )
    return figure


def train(swap_in: Callable | None, steps: int, width: int = 48, batch: int = 8, context: int = 48) -> list[float]:
    """Train a toy on sums, from one seed; swap_in(model, kernels) puts kernels into it. Return the loss of each step."""
    c = Config(len(text.VOCABULARY), 2, width, 4, 2, 2 * width, context)
    with one_thread(), torch.enable_grad(), torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        tokens = np.memmap(text.write_tokens(Path(folder, "sums.bin"), 5000), np.uint16, "r")
        model, g, losses = GPT(c), torch.Generator().manual_seed(1), []
        if swap_in:
            swap_in(model, Kernels())
        optimizer = model.optimizer(1e-2)
        for step in range(steps):
            starts = torch.randint(len(tokens) - context, (batch,), generator=g).numpy()
            rows = torch.from_numpy(tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64))
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 * min(1, (step + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
            loss = model(rows[:, :-1], rows[:, 1:].contiguous())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    return losses


def _yours_or_ours(swap_in: Callable | None) -> tuple[Callable, str]:
    """The student's swap_in if it puts something into a model; else the course's. And whose that is."""

    def ours(model: GPT, kernels: Kernels) -> None:
        model.ops = differentiable(kernels)

    try:
        model = GPT(TOY)
        if swap_in is not None:
            swap_in(model, Kernels())
            tokens = torch.zeros(1, 4, dtype=torch.int64)
            model(tokens, tokens).backward()
    except Exception:  # not written yet, or not to the end: its check says more
        return ours, "the course's autograd functions"
    return (swap_in, "your autograd functions") if model.ops is not TORCH else (ours, "the course's autograd functions")


def step_by_step(swap_in: Callable | None, kernels: Kernels, whose: dict[str, str], steps: int = 3) -> str:
    """Train the toy twice from one seed, with torch's operations and with these kernels, and tell both losses of each step.

    Kernels in Triton are traced where there is no GPU. swap_in: yours, where it is written; else the course's.
    """
    chosen, by = _yours_or_ours(swap_in)
    with one_thread(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        models = GPT(TOY), GPT(TOY)
        models[1].load_state_dict(models[0].state_dict())
        chosen(models[1], kernels)
        optimizers, lines = [model.optimizer(1e-2) for model in models], []
        for step in range(steps):
            tokens, found = torch.randint(TOY.vocab, (2, 2, 24)), []
            for model, optimizer in zip(models, optimizers, strict=True):
                with trace():
                    loss = model(tokens[0], tokens[1])
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
                found.append(loss.item())
            lines.append(f"step {step}: torch {found[0]:.6f}, kernels {found[1]:.6f}")
    listed = ", ".join(f"{name} ({whose[name]})" for name in whose)
    return "\n".join([f"kernels, in {by}: {listed}", *lines])


@on_white
def losses(swap_in: Callable | None = None, steps: int = 120) -> Figure:
    """Train the toy twice from one seed, with torch's operations and with kernels, and draw both curves and their difference.

    swap_in: yours, where it is written; else the course's
    """
    chosen, whose = _yours_or_ours(swap_in)
    plain, other = train(None, steps), train(chosen, steps)
    figure = Picture(WIDTH, 4.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    above.plot(plain, color=LIBRARIES, linewidth=5, alpha=0.6, label="torch's operations")
    above.plot(other, color=OURS, linewidth=1.2, label=f"kernels, in {whose}")
    least = text.best_loss()
    above.axhline(least, color=INK, linestyle=":", label=f"nobody can do better: {least:.3f}")
    above.set(ylabel="loss", ylim=(0, 1.05 * max(plain)))
    above.legend(frameon=False)
    apart = [max(abs(a - b), 1e-9) for a, b in zip(plain, other, strict=True)]
    below.semilogy(apart, color=INK, linewidth=1)
    below.set(xlabel="step", ylabel="difference", ylim=(1e-9, 10))
    for ax in (above, below):
        bare(ax)
    figure.caption(
        f"{steps} steps on sums, from {plain[0]:.2f} to {np.mean(plain[-10:]):.2f}. The two curves differ by at most {max(apart):.1g}."
    )
    return figure
