"""Fresh weights with their tails cut off, and a module written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds, roundings
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import ARITHMETIC, operations
from course_lib.exercises.misconceptions import Misconception
from course_lib.mistakes import on_exception

# ------------------------------------------------------------------------------------------------ truncated


def normals(rounds: int, n: int, fan_in: int, spread: float = 1.0):
    """Return a function that draws noise (rounds, n), normal, and fan_in. In each column some number has a size below 3."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        noise = spread * torch.randn(rounds, n, generator=g)
        noise[-1] = noise[-1].clamp(-2.9, 2.9)
        return {"noise": noise, "fan_in": fan_in}

    return draw


def first_within(noise: torch.Tensor, fan_in: int, bound: float = 3.0) -> torch.Tensor:
    """Return (n,): the first number of each column within the bound, times fan_in ** -0.5."""
    first = [next((z for z in column if abs(z) < bound), column[-1]) for column in noise.double().T.tolist()]
    return torch.tensor(first, dtype=torch.float64) * fan_in**-0.5


truncated_init = Exercise(
    id="flops.truncated_init",
    signature="truncated_init(noise: (rounds, n), fan_in: int) -> (n,)",
    effort=Effort(minutes=8, lines=4, difficulty=2),
    track="more",
    cases=[
        Case("8 rounds of 4000, fan_in 64", "plain", normals(8, 4000, 64)),
        Case("5 rounds of 3000, fan_in 768", "plain", normals(5, 3000, 768)),
        Case("one round", "rounds", normals(1, 50, 16)),
        Case("40 rounds, three times as wide", "rounds", normals(40, 500, 100, spread=3.0)),
        Case("60 rounds, six times as wide", "rounds", normals(60, 300, 10, spread=6.0)),
    ],
    oracle=first_within,
    budget=lambda expected, dtype, arguments: roundings(expected, dtype),
    allows=ARITHMETIC
    | operations("argmax gather index select unbind flip scatter arange zeros_like ones_like masked_select"),
    gates=[Correct("plain")],
    criteria=[Correct("rounds", 3, say("flops.truncated_init.title_rounds"))],
    mistakes=[
        Misconception(
            lambda noise, fan_in: noise[0].double() * fan_in**-0.5,
            say("flops.truncated_init.nothing_is_cut"),
            first_within,
            times=1000,
        ),
        Misconception(
            lambda noise, fan_in: noise[0].double().clamp(-3, 3) * fan_in**-0.5,
            say("flops.truncated_init.moved_to_the_bound"),
            first_within,
            times=1000,
        ),
        Misconception(
            lambda noise, fan_in: first_within(noise, 1), say("flops.truncated_init.not_scaled"), first_within
        ),
        Misconception(
            lambda noise, fan_in: first_within(noise, fan_in, 2.0),
            say("flops.truncated_init.cut_at_2"),
            first_within,
            times=4,
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ a module


def net(layers: int, width: int, rows: int, group: str) -> Case:
    """Make a case about a module of that size, called with rows that are drawn."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        return {"width": width, "layers": layers, "x": torch.randn(rows, width, generator=g).tolist()}

    return Case(f"{layers} x {width}, {rows} rows", group, draw)


def _parts(output: Any, layers: int, width: int) -> tuple[list[torch.Tensor], torch.Tensor] | str:
    """(weights, head) of what was seen of a module, or a sentence if they are not there."""
    seen = output.get("parameters") if isinstance(output, dict) else None
    if not isinstance(seen, dict):
        return say("flops.deep_linear.no_module", instead=_told(output))
    tensors = {name: torch.tensor(values) for name, values in seen.items()}
    weights = [t for t in tensors.values() if t.shape == (width, width)]
    heads = [t.flatten() for t in tensors.values() if t.numel() == width and t.shape != (width, width)]
    if len(weights) != layers or len(heads) != 1 or len(tensors) != layers + 1:
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items()) or "none"
        return say("flops.deep_linear.parameters", layers=layers, width=width, shapes=shapes[:200])
    return weights, heads[0]


def _told(output: Any) -> str:
    match output:
        case {"made": str(kind)}:
            return say("flops.deep_linear.made", kind=kind)
        case {"returned": str(kind)}:
            return say("flops.deep_linear.returned", kind=kind)
    return say("flops.deep_linear.none")


def _run(x: Any, weights: Sequence[torch.Tensor], head: torch.Tensor) -> torch.Tensor:
    hidden = torch.as_tensor(x, dtype=torch.float64)
    for w in weights:
        hidden = hidden @ w
    return hidden @ head


def _as_one_of(output: Any, layers: int, width: int, x: Any) -> Any:
    """(weights, head) as leaves, turned as the module uses them; or a sentence."""
    parts = _parts(output, layers, width)
    if isinstance(parts, str):
        return parts
    y = torch.tensor(output["y"], dtype=torch.float64)
    for turn in (lambda w: w, lambda w: w.T):
        leaves = [w.double().requires_grad_() for w in (*parts[0], parts[1])]
        expected = _run(x, [turn(w) for w in leaves[:-1]], leaves[-1])
        if y.shape == expected.shape and torch.allclose(
            y, expected, rtol=1e-3, atol=1e-3 * float(expected.detach().abs().max())
        ):
            return leaves, expected
    if y.shape != expected.shape:
        return say("flops.deep_linear.shape", rows=len(x), got=str(tuple(y.shape)))
    return say("flops.deep_linear.output")


def registers_its_parameters(output: Any, layers: int, width: int, x: Any) -> str:
    """Return "" if a module registers all its parameters, else a message."""
    parts = _parts(output, layers, width)
    return parts if isinstance(parts, str) else ""


def computes_with_them(output: Any, layers: int, width: int, x: Any) -> str:
    """Return "" if the output is computed from the module's own parameters, else a message."""
    found = _as_one_of(output, layers, width, x)
    return found if isinstance(found, str) else ""


def gets_gradients(output: Any, layers: int, width: int, x: Any) -> str:
    """Return "" if each parameter has the gradient of the output's sum, else a message."""
    found = _as_one_of(output, layers, width, x)
    if isinstance(found, str):
        return found
    leaves, expected = found
    expected.sum().backward()
    grads = [output["gradients"].get(name) for name in output["parameters"]]
    missing = [name for name, grad in zip(output["parameters"], grads, strict=True) if grad is None]
    if missing:
        return say("flops.deep_linear.no_gradient", parameters=[*missing])
    found = sorted(float(torch.tensor(grad).double().norm()) for grad in grads)
    right = sorted(float(leaf.grad.norm()) for leaf in leaves)
    same = all(abs(a - b) <= 1e-3 * b for a, b in zip(found, right, strict=True))
    return "" if same else say("flops.deep_linear.gradients")


def starts_fresh(output: Any, layers: int, width: int, x: Any) -> str:
    """Return "" if weights are random, unlike one another, and of the right size, else a message."""
    parts = _parts(output, layers, width)
    if isinstance(parts, str):
        return parts
    weights, _ = parts
    for i, w in enumerate(weights):
        if not 0.9 < float(w.std()) * width**0.5 < 1.1:
            return say("flops.deep_linear.spread", weight=i, got=float(w.std()), width=width, right=width**-0.5)
        if any(torch.allclose(w, other) for other in weights[:i]):
            return say("flops.deep_linear.again", weight=i)
    return ""


deep_linear = Exercise(
    id="flops.deep_linear",
    entry="DeepLinear",
    signature="class DeepLinear(torch.nn.Module): __init__(width: int, layers: int), forward(x: (rows, width)) -> (rows,)",
    kind="formula",
    called="as a module",
    effort=Effort(minutes=15, lines=8, difficulty=3),
    track="more",
    cases=[
        net(2, 48, 3, "plain"),
        net(3, 40, 5, "plain"),
        net(1, 64, 4, "other"),
        net(5, 32, 1, "other"),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(registers_its_parameters, 2, say("flops.deep_linear.title_plain")),
        Holds(computes_with_them, 2, say("flops.deep_linear.title_computes_with_them")),
        Holds(gets_gradients, 2, say("flops.deep_linear.title_other"), group="other"),
        Holds(starts_fresh, 1, say("flops.deep_linear.title_starts_fresh"), group="other"),
    ],
    mistakes=[
        on_exception("before Module.__init__()", say("flops.dial.super_first")),
    ],
)  # fmt: skip
