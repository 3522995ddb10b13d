"""Pictures of rounding in training: weights that do not move, gradients that vanish, and the two repairs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure

from tritontrace.colours import FIVE, IDLE, INK, ONE, OURS, TWO, WASTE, WRONG, paler
from tritontrace.picture import WIDTH, Picture, bare, ink_on, on_white
from tritontrace.threads import one_thread

WAYS = ("fp32", "bf16", "bf16, fp32 master weights")


@lru_cache
def training_runs(steps: int = 400, rate: float = 0.003, every: int = 10) -> dict[str, dict[str, list[float]]]:
    """A net of 16 -> 32 -> 1 learns a drawn net of the same shape, by plain gradient descent, three ways.

    Per way: "step", "loss" (of the weights, in float64, every `every` steps) and "moved", the share of weights that the
    step changed.
    """
    with one_thread():
        return {way: _train(way, steps, rate, every) for way in WAYS}


def _train(way: str, steps: int, rate: float, every: int) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    x, teacher = draw(512, 16), (draw(16, 32) / 4, draw(32, 1) / 32**0.5)
    y = torch.tanh(x @ teacher[0]) @ teacher[1]
    low = torch.float32 if way == "fp32" else torch.bfloat16
    stored = low if way == "bf16" else torch.float32  # the copy of the weights that steps are added to
    weights = [(draw(16, 32) / 4).to(stored), (draw(32, 1) / 32**0.5).to(stored)]
    found: dict[str, list[float]] = {"step": [], "loss": [], "moved": []}
    for step in range(steps):
        batch = torch.randint(0, len(x), (128,), generator=generator)
        used = [w.to(low).requires_grad_() for w in weights]
        out = torch.tanh(x[batch].to(low) @ used[0]) @ used[1]
        ((out.float() - y[batch]) ** 2).mean().backward()
        with torch.no_grad():
            stepped = [w - rate * u.grad.to(stored) for w, u in zip(weights, used, strict=True)]
            moved = sum(int((a != b).sum()) for a, b in zip(weights, stepped, strict=True))
            weights = stepped
            if step % every == 0 or step == steps - 1:
                exact = torch.tanh(x.double() @ weights[0].double()) @ weights[1].double()
                found["step"].append(step + 1)
                found["loss"].append(float(((exact - y) ** 2).mean()))
                found["moved"].append(moved / sum(w.numel() for w in weights))
    return found


@on_white
def training_run() -> Figure:
    """The loss of three runs that differ in their dtypes alone, and the share of weights that each step changes."""
    runs = training_runs()
    looks = dict(zip(WAYS, ((INK, "-", "o"), (FIVE, "--", "s"), (ONE, "-", "D")), strict=True))
    figure = Picture(WIDTH, 4)
    left, right = figure.subplots(1, 2)
    for way, (colour, line, marker) in looks.items():
        run = runs[way]
        wide = 5 if way == "fp32" else 1.8  # the repaired run lies on it
        shade = IDLE if way == "fp32" else colour
        style = dict(
            color=shade, linestyle=line, marker=marker, markersize=wide + 2, markevery=5, linewidth=wide, label=way
        )
        left.plot(run["step"], run["loss"], **style)
        right.plot(run["step"], run["moved"], **style)
    left.set_yscale("log")
    left.set_yticks([0.1, 0.2, 0.5], ["0.1", "0.2", "0.5"])
    left.minorticks_off()
    left.set(xlabel="step", ylabel="loss (of these weights, computed in fp64)")
    right.set(xlabel="step", ylabel="share of weights that a step changes", ylim=(0, 1.05))
    left.legend()
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    ends = [runs[way]["loss"][-1] for way in WAYS]
    figure.caption(
        f"Pure bf16 ends at a loss of {ends[1]:.3f}, and fp32 at {ends[0]:.3f}. In pure bf16 most steps are less than half a gap of "
        f"their weight, and change nothing. With fp32 master weights bf16 ends at {ends[2]:.3f}."
    )
    return figure


@lru_cache
def gradients() -> np.ndarray:
    """|gradient| of every weight of a drawn net of eight layers, for a loss averaged over 64 examples; zeros left out."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    with one_thread():
        weights = [(draw(64, 64) * 0.03).requires_grad_() for _ in range(8)]
        h = draw(64, 64)
        for w in weights:
            h = torch.tanh(h @ w)
        (h - draw(64, 64)).square().mean().backward()
        found = torch.cat([w.grad.flatten() for w in weights]).abs().numpy().astype(np.float64)
    return found[found > 0]


def share_lost(scale: float) -> float:
    """The share of `gradients()` that become zero in fp16 when the loss is multiplied by `scale`."""
    return float((torch.tensor(gradients() * scale).half() == 0).double().mean())


LOSS_SCALE = 2.0**16  # where torch.amp.GradScaler begins


@on_white
def loss_scaling(scale: float = LOSS_SCALE) -> Figure:
    """How large gradients are, and what of them fp16 can hold, without and with a scaled loss."""
    figure = Picture(WIDTH, 4.4)
    axes = figure.subplots(2, 1, sharex=True, sharey=True)
    bins = np.arange(-44, 23)
    lost, coarse = paler(WRONG, 0.2), paler(WASTE, 0.5)
    for ax, factor, name in zip(axes, (1.0, scale), ("loss", f"loss × {scale:,.0f}"), strict=True):
        sizes = np.log2(gradients() * factor)
        ax.axvspan(-44, -25, facecolor=lost, hatch="//", edgecolor="white", linewidth=0)
        ax.axvspan(-25, -14, facecolor=coarse, linewidth=0)
        ax.axvspan(16, 22, facecolor=lost, hatch="//", edgecolor="white", linewidth=0)
        ax.hist(sizes, bins=bins, color=OURS, edgecolor="white")
        ax.set_title(f"gradients of {name}: {share_lost(factor):.1%} become 0 in fp16")
        ax.set_ylabel("gradients")
        bare(ax)
    for x, zone, ground in (
        (-43.5, "fp16: 0", lost),
        (-24.5, "fp16: subnormal", coarse),
        (-1, "fp16: normal", "white"),
        (16.3, "fp16: ∞", lost),
    ):
        for ax in axes:
            ax.annotate(zone, (x, 0.85), xycoords=("data", "axes fraction"), color=ink_on(ground))
    axes[1].set(xticks=range(-40, 21, 8), xlabel="size of the gradient", ylim=(0, 1.25 * axes[1].get_ylim()[1]))
    axes[1].set_xticklabels([f"$2^{{{k}}}$" for k in range(-40, 21, 8)])
    figure.caption("Scaling the loss moves every gradient to the right, out of the zone that fp16 rounds to zero.")
    return figure


SCALED_WAYS = {  # name -> (dtype that the net computes in, factor on the loss)
    "fp32": (torch.float32, 1.0),
    "fp16": (torch.float16, 1.0),
    f"fp16, loss × {LOSS_SCALE:,.0f}": (torch.float16, LOSS_SCALE),
    "bf16": (torch.bfloat16, 1.0),
}


@lru_cache
def scaled_runs(steps: int = 400, rate: float = 0.0003) -> dict[str, dict[str, list[float]]]:
    """A net of three layers of 64 learns to give small numbers, about 0.003, with Adam and fp32 master weights, four ways.

    Per way: "loss" of the batch before each step, over that of answering 0; "zero", the share of gradients that are 0.
    """
    with one_thread():
        return {way: _train_scaled(dtype, scale, steps, rate) for way, (dtype, scale) in SCALED_WAYS.items()}


def _train_scaled(low: torch.dtype, scale: float, steps: int, rate: float) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    size = 0.003
    x, teacher = draw(1024, 64), (draw(64, 64) / 8, draw(64, 64) / 8)
    y = torch.tanh(x @ teacher[0]) @ teacher[1] * size
    weights = [(draw(64, 64) * 0.1 * f).requires_grad_() for f in (1, 1, size)]  # the last layer gives small numbers
    adam = torch.optim.Adam(weights, lr=rate, eps=1e-12)  # its usual eps, 1e-8, is larger than these gradients
    found: dict[str, list[float]] = {"loss": [], "zero": []}
    for _ in range(steps):
        batch = torch.randint(0, len(x), (256,), generator=generator)
        used = [w.detach().to(low, copy=True).requires_grad_() for w in weights]
        h = torch.tanh(torch.tanh(x[batch].to(low) @ used[0]) @ used[1])
        loss = ((h @ used[2]).float() - y[batch]).square().mean()
        (loss * scale).backward()
        for w, u in zip(weights, used, strict=True):
            w.grad = u.grad.float() / scale  # in fp32, where the quotient is no smaller than it may be
        adam.step()
        zeros = sum(int((w.grad == 0).sum()) for w in weights)
        found["loss"].append(float(loss.detach() / y.square().mean()))
        found["zero"].append(zeros / sum(w.numel() for w in weights))
    return found


@on_white
def fp16_training() -> Figure:
    """The loss of four runs that differ in dtype and in the factor on the loss, and the share of gradients that are 0."""
    runs = scaled_runs()
    looks = dict(zip(runs, ((INK, "-", "o"), (FIVE, "--", "s"), (ONE, "-", "D"), (TWO, ":", "^")), strict=True))
    figure = Picture(WIDTH, 4)
    left, right = figure.subplots(1, 2)
    for way, (colour, line, marker) in looks.items():
        wide = 6 if way == "fp32" else 2  # the others lie on it
        style = dict(
            color=IDLE if way == "fp32" else colour, linestyle=line, marker=marker, linewidth=wide, markersize=wide + 3,
            markevery=(60 * list(looks).index(way) // 4, 60), label=way,
        )  # fmt: skip
        left.plot(runs[way]["loss"], **style)
        right.plot(runs[way]["zero"], **style)
    left.set_yscale("log")
    left.set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    left.minorticks_off()
    left.set(xlabel="step", ylabel="loss / loss of a net that answers 0")
    right.set(xlabel="step", ylabel="share of gradients that are 0", ylim=(-0.05, 1.05))
    left.legend(loc="upper right")
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    plain, lost, scaled, bf16 = (run["loss"][-1] for run in runs.values())
    figure.caption(
        f"In fp16 {runs['fp16']['zero'][-1]:.0%} of the gradients are 0 and the loss stays at {lost:.2f}. With a scaled loss it "
        f"falls to {scaled:.3f}, as in fp32 ({plain:.3f}). bf16 needs no scale ({bf16:.3f})."
    )
    return figure
