"""Kernel exercises that unit 04 has not: softmax, matmul and causal attention, so that the judge is tried on what they invite.

Their wrong, cheating and honest answers stand in toy_variants/, in the form of grader/variants.
"""

import math
import sys
from types import ModuleType

import torch
import toy

from course_lib.criteria import BuffersBelow, Compiles, Correct, TritonDidTheWork
from course_lib.exercise import Case, Effort, Exercise

GATES = (TritonDidTheWork(), Correct("plain"), Compiles())
EPS32 = torch.finfo(torch.float32).eps


def normal(*shape, dtype=torch.float32, scale=1.0, shift=0.0):
    return lambda g: (torch.randn(*shape, generator=g) * scale + shift).to(dtype)


def case(name, group, **tensors):
    return Case(name, group, lambda g: {label: make(g) for label, make in tensors.items()})


# ------------------------------------------------------------------------------------------------ softmax


def rising(M, N):
    """Logits near 100 whose maximum comes last, and one row with -inf in half of its places."""

    def make(g):
        x = torch.randn(M, N, generator=g) + torch.linspace(60, 100, N)
        x[0, ::2] = -math.inf
        return x

    return make


def softmax_budget(expected, dtype, arguments):
    x = arguments["x"].double()
    largest = x.masked_fill(x.isinf(), 0).abs().max()
    slack = 4 * torch.finfo(dtype).eps + (2 * math.sqrt(x.shape[1]) + largest) * EPS32
    return slack * expected.amax(1, keepdim=True).expand_as(expected)


softmax = Exercise(
    id="toy.softmax",
    signature="softmax(x: (M, N)) -> (M, N)",
    effort=Effort(minutes=1, lines=1, difficulty=1),
    cases=[
        case("64 x 256", "plain", x=normal(64, 256)),
        case("7 x 100", "ragged", x=normal(7, 100, shift=-4.0)),
        case("33 x 1", "ragged", x=normal(33, 1)),
        case("5 x 1000, half", "ragged", x=normal(5, 1000, dtype=torch.float16)),
        case("16 x 300, rising", "hard", x=rising(16, 300)),
    ],
    oracle=lambda x: x.double().softmax(1),
    budget=softmax_budget,
    gates=GATES,
    criteria=[Correct("ragged", 2), Correct("hard", 2)],
)

# ------------------------------------------------------------------------------------------------ matmul


def matmul_budget(expected, dtype, arguments):
    a, b = arguments["a"].double(), arguments["b"].double()
    K = a.shape[1]
    scale = a.norm(dim=1)[:, None] * b.norm(dim=0)[None, :] / math.sqrt(K)
    return scale * (4 * torch.finfo(dtype).eps + 2 * math.sqrt(K) * EPS32)


def turned(M, N, dtype=torch.float32):
    return lambda g: torch.randn(N, M, generator=g).to(dtype).T


def scaled_rows(M, N):
    return lambda g: torch.randn(M, N, generator=g) * torch.randn(M, 1, generator=g).exp()


FP16 = torch.float16
matmul = Exercise(
    id="toy.matmul",
    signature="matmul(a: (M, K), b: (K, N)) -> (M, N)",
    effort=Effort(minutes=1, lines=1, difficulty=1),
    cases=[
        case("64 x 128 x 96", "plain", a=normal(64, 128), b=normal(128, 96)),
        case("33 x 70 x 45", "ragged", a=normal(33, 70), b=normal(70, 45)),
        case("50 x 200 x 20, half", "ragged", a=normal(50, 200, dtype=FP16), b=normal(200, 20, dtype=FP16)),
        case("40 x 64 x 72, transposed", "strided", a=turned(40, 64), b=turned(64, 72)),
        case("rows of all sizes", "hard", a=scaled_rows(32, 500), b=normal(500, 32)),
    ],
    oracle=lambda a, b: a.double() @ b.double(),
    budget=matmul_budget,
    gates=GATES,
    criteria=[Correct("ragged", 2), Correct("strided", 2), Correct("hard", 2)],
)

# ------------------------------------------------------------------------------------------------ attention


def attend(q, k, v):
    scores = q.double() @ k.double().T / math.sqrt(q.shape[1])
    later = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(1) @ v.double()


def attention_budget(expected, dtype, arguments):
    q, k = arguments["q"].double().abs(), arguments["k"].double().abs()
    factor = 4 if dtype == torch.float32 else 8
    scores = (q @ k.T).max().item() / math.sqrt(q.shape[1])  # their rounding is the weights' relative error
    slack = factor * torch.finfo(dtype).eps + (2 * math.sqrt(k.shape[0]) + 8 + 4 * scores) * EPS32
    return slack * arguments["v"].double().abs().amax(0)[None, :].expand_as(expected)


def qkv(S, D, scale=1.0):
    return {"q": normal(S, D, scale=scale), "k": normal(S, D, scale=scale), "v": normal(S, D, shift=1.0)}


attention = Exercise(
    id="toy.attention",
    signature="attention(q, k, v: (S, D)) -> (S, D), causal; D is 16, 32 or 64",
    effort=Effort(minutes=1, lines=1, difficulty=1),
    cases=[
        case("64 x 32", "plain", **qkv(64, 32)),
        case("77 x 16", "ragged", **qkv(77, 16)),
        case("1 x 32", "ragged", **qkv(1, 32)),
        case("100 x 32, large scores", "hard", **qkv(100, 32, scale=5.0)),
        case("256 x 32", "performance", **qkv(256, 32)),
    ],
    oracle=attend,
    budget=attention_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2),
        BuffersBelow(lambda q, k, v: q.shape[0] * k.shape[0] * 2, 4, "no S x S matrix in memory"),
    ],
)


def hidden_cases(exercise_id, rng):
    S, N = rng.randrange(65, 130, 2), rng.randrange(33, 90, 2)
    return {
        "toy.softmax": [case(f"{S} x {N}", "ragged", x=normal(S, N))],
        "toy.matmul": [case(f"{S} x {N} x 17", "ragged", a=normal(S, N), b=normal(N, 17))],
        "toy.attention": [case(f"{S} x 64", "ragged", **qkv(S, 64))],
    }[exercise_id]


def install(monkeypatch):
    """Makes these exercises a unit that the judge knows, hidden cases included."""
    module = ModuleType("grader.judging.hidden.toy")
    module.cases = hidden_cases
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return toy.install(monkeypatch, softmax, matmul, attention)
