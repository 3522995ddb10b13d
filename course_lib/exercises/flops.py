"""Unit 03, counting FLOPs.

Oracles: torch's own FLOP counter on real or meta tensors, bytes as a dispatch mode sees them, autograd's saved tensors,
and properties that a right number has (so many days deliver so many FLOPs). None is a closed form.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from course_lib import mistakes
from course_lib.answers import in_words
from course_lib.cases import fixed, integer
from course_lib.criteria import Correct, Holds
from course_lib.exercise import Case, Exercise, Trial
from course_lib.mistakes import Mistake, raised
from course_lib.workloads import SimulatedGPU, workload

# ------------------------------------------------------------------------------------------------ oracles


def counted(fn: Callable[[], object]) -> int:
    """FLOPs of matrix products in fn(), as torch's counter has them."""
    with FlopCounterMode(display=False) as counter:
        fn()
    return counter.get_total_flops()


def meta(*shape: int, grad: bool = False) -> torch.Tensor:
    """A tensor without data."""
    return torch.empty(shape, device="meta", requires_grad=grad)


class Moved(TorchDispatchMode):
    """Elements that the operations inside take in and give out: each operand once an operation."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.elements += sum(t.numel() for t in [*args, out] if isinstance(t, torch.Tensor))
        return out


class Cost(NamedTuple):
    FLOPs: int
    bytes: int


class Use(NamedTuple):
    MFU: float
    HFU: float


class Memory(NamedTuple):
    """Bytes."""

    parameters: int
    gradients: int
    state: int
    activations: int


def cost(fn: Callable[[], object], itemsize: int) -> Cost:
    """(FLOPs, bytes) of fn()."""
    with Moved() as moved:
        fn()
    return Cost(counted(fn), moved.elements * itemsize)


def product_cost(m: int, n: int, k: int, itemsize: int) -> Cost:
    a, b = meta(m, k), meta(k, n)
    return cost(lambda: torch.mm(a, b), itemsize)


def attention(batch: int, heads: int, n_q: int, n_k: int, d: int, itemsize: int) -> Cost:
    q, k, v = (meta(batch * heads, n, d) for n in (n_q, n_k, n_k))
    k_t = k.mT
    return cost(lambda: torch.bmm(torch.softmax(torch.bmm(q, k_t), -1), v), itemsize)


def block_flops(batch: int, tokens: int, d_model: int, heads: int, kv_heads: int, d_ff: int) -> int:
    """A block as models have it, run without data: projections, attention with shared keys, two layers of an MLP."""
    d = d_model // heads
    w_q, w_k, w_v, w_o = (meta(d_model, h * d) for h in (heads, kv_heads, kv_heads, heads))
    up, down = meta(d_model, d_ff), meta(d_ff, d_model)
    x = meta(batch, tokens, d_model)

    def split(y: torch.Tensor, n: int) -> torch.Tensor:
        parts = y.view(batch, tokens, n, d).transpose(1, 2)
        return parts.repeat_interleave(heads // n, dim=1)

    def run() -> torch.Tensor:
        q, k, v = split(x @ w_q, heads), split(x @ w_k, kv_heads), split(x @ w_v, kv_heads)
        mixed = (torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).reshape(batch, tokens, d_model)
        y = x + mixed @ w_o.T
        return y + torch.nn.functional.gelu(y @ up) @ down

    return counted(run)


def two_layers_backward(batch: int, d_in: int, d_hidden: int, d_out: int, input_needs_grad: bool) -> int:
    x = meta(batch, d_in, grad=input_needs_grad)
    w1, w2 = meta(d_in, d_hidden, grad=True), meta(d_hidden, d_out, grad=True)
    y = torch.relu(x @ w1) @ w2
    return counted(lambda: y.backward(torch.empty_like(y)))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adam": lambda p: torch.optim.Adam(p),
}


def trained_bytes(layers: int, width: int, batch: int, optimizer: str) -> Memory:
    """Train a deep linear model for one step, and look at what is there."""
    weights = [torch.randn(width, width, requires_grad=True) for _ in range(layers)]
    own = {w.untyped_storage().data_ptr() for w in weights}
    kept: dict[int, int] = {}

    def keep(t: torch.Tensor) -> torch.Tensor:
        if t.untyped_storage().data_ptr() not in own:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    step = OPTIMIZERS[optimizer](weights)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        x = torch.randn(batch, width)
        outputs = [x]
        for w in weights:
            outputs.append(outputs[-1] @ w)
        outputs[-1].sum().backward()
    step.step()
    state = sum(t.nbytes for s in step.state.values() for t in s.values() if torch.is_tensor(t) and t.dim())
    gradients = sum(w.grad.nbytes for w in weights)
    return Memory(sum(w.nbytes for w in weights), gradients, state, sum(kept.values()))


# ------------------------------------------------------------------------------------------------ properties


def is_number(output: Any) -> bool:
    return type(output) in (int, float) and math.isfinite(output)


def not_number(output: Any) -> str:
    return f"expected a number, got {in_words(output)}"


def gives_back_the_flops(output: Any, cost: Sequence[float]) -> str:
    if not is_number(output):
        return not_number(output)
    flops, nbytes = cost
    right = math.isclose(output * nbytes, flops, rel_tol=1e-9)
    would_be = f"{output:.6g} FLOPs for each byte would be {output * nbytes:.6g} FLOPs"
    return "" if right else f"for {flops} FLOPs and {nbytes} bytes: {would_be}"


def is_the_earliest(output: Any, cost: Sequence[float], flops_per_second: float, bytes_per_second: float) -> str:
    """Both the FLOPs and the bytes are done then, and one of them was not a moment before."""
    if not is_number(output):
        return not_number(output)
    flops, nbytes = cost
    late, early = output * (1 + 1e-6), output * (1 - 1e-6)
    said = (
        f"{flops:.3g} FLOPs and {nbytes:.3g} bytes at {flops_per_second:.3g} FLOP/s and {bytes_per_second:.3g} bytes/s"
    )
    if late * flops_per_second < flops:
        return f"{said}: in {output:.4g} s the FLOPs are not done"
    if late * bytes_per_second < nbytes:
        return f"{said}: in {output:.4g} s the bytes are not moved"
    if early * flops_per_second > flops and early * bytes_per_second > nbytes:
        after = math.isclose(output, flops / flops_per_second + nbytes / bytes_per_second, rel_tol=1e-6)
        why = ". Does the GPU do one after the other?" if after else ""
        return f"{said}: before {output:.4g} s both are done already{why}"
    return ""


def within_a_percent(output: Any, **config: int) -> str:
    if not is_number(output):
        return not_number(output)
    expected = block_flops(**config)
    off = output / expected - 1
    shown = ", ".join(f"{name} = {value}" for name, value in config.items())
    return "" if abs(off) <= 0.01 else f"for {shown}: {output:.6g}, and torch counts {expected:.6g} ({off:+.1%})"


def delivers(output: Any, parameters: float, tokens: float, gpus: int, peak_flops: float, mfu: float) -> str:
    """So many days of these GPUs are as many FLOPs as the training takes: 6 for each parameter and token."""
    if not is_number(output):
        return not_number(output)
    delivered, wanted = output * 24 * 3600 * gpus * peak_flops * mfu, 6 * parameters * tokens
    right = math.isclose(delivered, wanted, rel_tol=1e-6)
    return "" if right else f"in {output:.6g} days the GPUs do {delivered:.4g} FLOPs; the training needs {wanted:.4g}"


def just_fits(output: Any, gpus: int, memory_bytes: int, bytes_per_parameter: int = 16) -> str:
    if type(output) is not int:
        return f"expected a whole number of parameters, got {in_words(output)}"
    room = gpus * memory_bytes
    if output * bytes_per_parameter > room:
        return f"{output:,} parameters take {output * bytes_per_parameter:,} bytes; there are {room:,}"
    if (output + 1) * bytes_per_parameter <= room:
        return f"{output:,} parameters leave room for another in {room:,} bytes"
    return ""


def keeps_one_layer(output: Any, fan_in: int) -> str:
    return _keeps(output, fan_in, layers=1, low=0.93, high=1.07)


def keeps_twelve_layers(output: Any, fan_in: int) -> str:
    return _keeps(output, fan_in, layers=12, low=0.5, high=2.0)


def _keeps(output: Any, fan_in: int, layers: int, low: float, high: float) -> str:
    if not is_number(output):
        return not_number(output)
    generator = torch.Generator().manual_seed(fan_in)
    x = torch.randn(256, fan_in, generator=generator)
    for _ in range(layers):
        x = x @ (torch.randn(fan_in, fan_in, generator=generator) * output)
    spread = float(x.std())
    after = "1 layer" if layers == 1 else f"{layers} layers"
    return (
        "" if low <= spread <= high else f"width {fan_in}: after {after} the values spread by {spread:.3g}, not about 1"
    )


def near_the_truth(output: Any, cold: float, **_: Any) -> str:
    """Seconds, within 3 % of what the simulated work takes from a cold cache."""
    if not is_number(output):
        return not_number(output)
    off = output * 1e6 / cold - 1
    return "" if abs(off) <= 0.03 else f"the work takes {cold:g} µs; measured were {output * 1e6:.4g} µs ({off:+.0%})"


# ------------------------------------------------------------------------------------------------ mistakes


def times(factor: float, sentence: str, oracle: Callable[..., Any], part: int | None = None) -> Callable:
    """`sentence`, if the result (or one part of it) is that many times the right one in every case that has a result."""

    def look(trials: Sequence[Trial]) -> str:
        found = []
        for trial in trials:
            for arguments, output in zip(trial.inputs, trial.evidence.outputs, strict=False):
                right = oracle(**arguments)
                if part is not None:
                    output = output[part] if isinstance(output, list) and len(output) > part else None
                    right = right[part]
                if right:
                    found.append(is_number(output) and math.isclose(output, factor * right, rel_tol=1e-6))
        return sentence if found and all(found) else ""

    return look


def every(matches: Callable[..., bool], sentence: str) -> Mistake:
    """`sentence`, if matches(output, **arguments) for every result, and all are numbers."""
    return mistakes.every(lambda out, /, **arguments: is_number(out) and matches(out, **arguments), sentence)


def work_done(days: float, parameters: float, tokens: float, gpus: int, peak_flops: float, mfu: float) -> float:
    """FLOPs that these days deliver / FLOPs that the training needs."""
    return days * 86400 * gpus * peak_flops * mfu / (6 * parameters * tokens)


def is_pair(output: Any) -> bool:
    return isinstance(output, list) and len(output) == 2


as_if_fused = mistakes.every(
    lambda out, batch, heads, n_q, n_k, d, itemsize: (
        is_pair(out) and out[1] == batch * heads * 2 * (n_q + n_k) * d * itemsize
    ),
    "These are the bytes of a single kernel. Here S and P are written to memory and read again.",
)


def elements(oracle: Callable[..., Cost]) -> Mistake:
    """A sentence, if the second number of a cost counts elements."""
    return mistakes.every(
        lambda out, /, **a: is_pair(out) and is_number(out[1]) and out[1] * a["itemsize"] == oracle(**a).bytes,
        "These are elements, not bytes: each takes `itemsize` bytes.",
    )


def above_the_peak(trials: Sequence[Trial]) -> str:
    shares = [o[0] for t in trials for o in t.evidence.outputs if isinstance(o, list) and o and is_number(o[0])]
    return "An MFU above 1: no run does more than the peak of all its GPUs." if any(s > 1 for s in shares) else ""


one_addition_less = mistakes.every(
    lambda out, m, n, k, itemsize: is_pair(out) and out[0] == m * n * (2 * k - 1),
    "These are k - 1 additions for each element. Torch counts k, as hardware does: its sum starts at 0.",
)


# ------------------------------------------------------------------------------------------------ inputs


def sizes(m: int, n: int, k: int, itemsize: int) -> dict[str, int]:
    return {"m": m, "n": n, "k": k, "itemsize": itemsize}


# ------------------------------------------------------------------------------------------------ counting

matmul_cost = Exercise(
    id="flops.matmul_cost",
    entry="matmul_cost",
    signature="matmul_cost(m: int, n: int, k: int, itemsize: int) -> tuple[int, int]",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=1,
    cases=[
        fixed("64 cubed, float32", "square", **sizes(64, 64, 64, 4)),
        fixed("4096 cubed, 2 bytes", "square", **sizes(4096, 4096, 4096, 2)),
        fixed("(3, 5) @ (5, 7)", "other", **sizes(3, 7, 5, 4)),
        fixed("a matrix and a vector", "other", **sizes(1, 1000, 300, 2)),
        Case(
            "drawn sizes",
            "other",
            lambda g: sizes(integer(g, 1, 900), integer(g, 1, 900), integer(g, 1, 900), 8),
        ),
    ],
    oracle=product_cost,
    criteria=[Correct("square", 2, "square matrices"), Correct("other", 2, "any other sizes")],
    hints=[
        "How many elements does the result have? How many multiplications and additions does one of them take?",
        "Each of the m n elements takes k multiplications and about k additions. Three matrices are moved.",
        "(2 * m * n * k, itemsize * (elements of a + elements of b + elements of the result)).",
    ],
    mistakes=[
        times(0.5, "A multiplication and an addition are two operations: 2 m n k.", product_cost, part=0),
        one_addition_less,
        elements(product_cost),
    ],
)

intensity = Exercise(
    id="flops.intensity",
    entry="intensity",
    signature="intensity(cost: tuple[int, int]) -> float",
    kind="formula",
    minutes=2,
    difficulty=1,
    lines=2,
    cases=[
        fixed("a product", "plain", cost=(524288, 49152)),
        fixed("an addition", "plain", cost=(1000, 12000)),
        Case("a drawn cost", "plain", lambda g: {"cost": (integer(g, 1, 10**9), integer(g, 1, 10**6))}),
    ],
    oracle=lambda cost: None,
    criteria=[Holds(gives_back_the_flops, 2, "FLOPs for each byte")],
    hints=[
        "Intensity is FLOPs for each byte. Which of the two numbers of a cost is which?",
        "flops, nbytes = cost",
        "Divide the first by the second.",
    ],
    mistakes=[
        every(lambda out, cost: math.isclose(out * cost[0], cost[1], rel_tol=1e-9), "These are bytes for each FLOP."),
    ],
)

PEAK, BANDWIDTH = 989.4e12, 4.8e12
roofline_seconds = Exercise(
    id="flops.roofline_seconds",
    entry="roofline_seconds",
    signature="roofline_seconds(cost, flops_per_second: float, bytes_per_second: float) -> float",
    kind="formula",
    minutes=5,
    difficulty=2,
    lines=2,
    cases=[
        fixed(
            "much arithmetic",
            "compute",
            cost=(2 * 8192**3, 6 * 8192**2),
            flops_per_second=PEAK,
            bytes_per_second=BANDWIDTH,
        ),
        fixed("a slow GPU", "compute", cost=(10**12, 10**9), flops_per_second=1e12, bytes_per_second=3e11),
        fixed("an addition", "memory", cost=(1 << 26, 12 << 26), flops_per_second=PEAK, bytes_per_second=BANDWIDTH),
        fixed("a copy", "memory", cost=(0, 1 << 31), flops_per_second=PEAK, bytes_per_second=BANDWIDTH),
        Case(
            "a drawn cost",
            "memory",
            lambda g: {
                "cost": (integer(g, 1, 10**9), integer(g, 10**9, 10**12)),
                "flops_per_second": 1e14,
                "bytes_per_second": 2e12,
            },
        ),
    ],
    oracle=lambda cost, flops_per_second, bytes_per_second: None,
    criteria=[
        Holds(is_the_earliest, 2, "where arithmetic is what takes long", group="compute"),
        Holds(is_the_earliest, 2, "where memory is what takes long", group="memory"),
    ],
    hints=[
        "How long does the arithmetic take alone? And the moving of bytes?",
        "A GPU computes on one part while it fetches another. So the two times overlap.",
        "The longer of flops / flops_per_second and nbytes / bytes_per_second.",
    ],
)

# ------------------------------------------------------------------------------------------------ predictions


def predicted() -> dict[str, int]:
    """What torch's counter says to each of the six."""
    x, w = meta(100, 64), meta(64, 32, grad=True)
    y = x @ w
    return {
        "product": counted(lambda: meta(100, 64) @ meta(64, 32)),
        "batch of 8": counted(lambda: meta(8, 100, 64) @ meta(8, 64, 32)),
        "gram matrix": counted(lambda: x.T @ x),
        "relu": counted(lambda: torch.relu(x)),
        "backward": counted(lambda: y.backward(torch.empty_like(y))),
        "left to right": counted(lambda: (meta(1000, 1000) @ meta(1000, 1000)) @ meta(1000, 1)),
    }


predictions = Exercise(
    id="flops.predictions",
    entry="predicted_flops",
    signature="predicted_flops: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=6,
    cases=[fixed("six pieces of torch", "plain")],
    oracle=predicted,
    criteria=[Correct("plain", 6, "FLOPs, as torch counts them")],
    hints=[
        "Find m, n and k of each product first. Which calls have no product at all?",
        "x.T @ x is (64, 100) @ (100, 64). Of the backward pass torch does only the products whose result somebody wants.",
        "backward: x wants no gradient, so there is one product, x.T @ dy. Left to right: first (1000, 1000) @ (1000, 1000).",
    ],
)

# ------------------------------------------------------------------------------------------------ count_flops


def torch_count(name: str, sizes: Sequence[int]) -> int:
    fn, args = workload(name, sizes)
    return counted(lambda: fn(*args))


def named(name: str, group: str, *sizes: int) -> Case:
    return fixed(f"{name} {list(sizes)}", group, name=name, sizes=list(sizes))


count_flops = Exercise(
    id="flops.count_flops",
    entry="count_flops",
    signature="count_flops(fn, *args) -> int",
    kind="formula",
    called="on work",
    without="torch.utils.flop_counter",
    minutes=20,
    difficulty=3,
    lines=14,
    cases=[
        named("matmul", "products", 3, 4, 5),
        named("transposed", "products", 30, 8),
        named("batched", "batches", 2, 3, 4, 5),
        named("einsum", "batches", 3, 4, 5, 6),
        named("attention", "batches", 2, 9, 8),
        named("added", "with an addition", 3, 4, 5),
        named("added batches", "with an addition", 2, 3, 4, 5),
        named("mlp", "with an addition", 5, 4, 6),
        named("recurrent", "whole programs", 4, 3, 5),
        named("mlp_step", "whole programs", 6, 4, 5),
        named("elementwise", "whole programs", 100),
    ],
    oracle=torch_count,
    criteria=[
        Correct("products", 3, "products of two matrices"),
        Correct("batches", 2, "batches of products"),
        Correct("with an addition", 2, "products with an addition"),
        Correct("whole programs", 3, "loops, a backward pass, no product at all"),
    ],
    hints=[
        "Print `function` and the shapes of `args` inside __torch_dispatch__, and call relu(x @ w + b) under the mode.",
        "Four operations matter: aten.mm, aten.bmm, aten.addmm, aten.baddbmm. `function.overloadpacket` names each without "
        "its variant.",
        "For mm and bmm the matrices are args[0] and args[1], for addmm and baddbmm args[1] and args[2]. The result has "
        "out.numel() elements, each of 2 k FLOPs, and k is the last size of the first matrix.",
    ],
    mistakes=[
        times(0.5, "Half of what torch counts: a multiplication and an addition are two operations.", torch_count),
        times(
            0,
            "Nothing is counted: either `fn(*args)` does not run inside `with`, where the mode sees it, or no operation is "
            "recognised. Compare `function.overloadpacket`: `function` is one of its variants.",
            torch_count,
        ),
        raised(
            "takes from",
            "__torch_dispatch__ is a method: its parameters are (self, function, types, args=(), kwargs=None).",
        ),
        raised(
            "Tensor but got None",
            "__torch_dispatch__ stands between torch and the operation: it must return what the operation gave.",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ models


def layer_sizes(batch: int, d_in: int, d_hidden: int, d_out: int, input_needs_grad: bool) -> dict[str, Any]:
    return dict(batch=batch, d_in=d_in, d_hidden=d_hidden, d_out=d_out, input_needs_grad=input_needs_grad)


backward_flops = Exercise(
    id="flops.backward_flops",
    entry="backward_flops",
    signature="backward_flops(batch, d_in, d_hidden, d_out, input_needs_grad: bool) -> int",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=3,
    cases=[
        fixed("16, 32, 64, 8", "with", **layer_sizes(16, 32, 64, 8, True)),
        fixed("1, 5, 3, 2", "with", **layer_sizes(1, 5, 3, 2, True)),
        fixed("16, 32, 64, 8", "without", **layer_sizes(16, 32, 64, 8, False)),
        fixed("128, 784, 100, 10", "without", **layer_sizes(128, 784, 100, 10, False)),
    ],
    oracle=two_layers_backward,
    criteria=[
        Correct("with", 3, "where x wants a gradient, too"),
        Correct("without", 2, "where x is data"),
    ],
    hints=[
        "Write the shapes of dW2, dh, dW1 and dx. Each is a product: of what with what?",
        "dW2 = h.T @ dy and dh = dy @ W2.T cost as much as the forward product h @ W2, each.",
        "Nobody wants dx when x is data: then the first layer does one product, not two.",
    ],
    mistakes=[
        times(0.5, "Half of it: a multiplication and an addition are two operations, in each product.", two_layers_backward),
        every(
            lambda out, batch, d_hidden, d_out, **sizes:
                out + 2 * batch * d_hidden * d_out
                == two_layers_backward(batch=batch, d_hidden=d_hidden, d_out=d_out, **sizes),
            "The second layer does two products, one for its weights and one for its input: one of them is missing.",
        ),
    ],
)  # fmt: skip

NAIVE = ("batch", "heads", "n_q", "n_k", "d", "itemsize")
attention_cost = Exercise(
    id="flops.attention_cost",
    entry="attention_cost",
    signature="attention_cost(batch, heads, n_q, n_k, d, itemsize) -> tuple[int, int]",
    kind="formula",
    minutes=10,
    difficulty=3,
    lines=6,
    cases=[
        fixed("one head", "one head", **dict(zip(NAIVE, (1, 1, 512, 512, 64, 2), strict=True))),
        fixed("one token asks", "one head", **dict(zip(NAIVE, (1, 1, 1, 4096, 128, 2), strict=True))),
        fixed("8 sequences, 16 heads", "many", **dict(zip(NAIVE, (8, 16, 256, 256, 64, 2), strict=True))),
        fixed("unlike lengths", "many", **dict(zip(NAIVE, (2, 3, 100, 37, 16, 4), strict=True))),
    ],
    oracle=attention,
    criteria=[
        Correct("one head", 3, "one head"),
        Correct("many", 2, "batches, heads, unlike lengths"),
    ],
    hints=[
        "Three operations, one after the other: S = q @ k.T, P = softmax(S), o = P @ v. What are their shapes?",
        "Both products have 2 n_q n_k d FLOPs a head. The softmax counts no FLOPs here, and reads S and writes P.",
        "Bytes a head: q and k in, S out; S in, P out; P and v in, o out. S and P have n_q n_k elements each.",
    ],
    mistakes=[
        as_if_fused,
        elements(attention),
        times(0.5, "Half of the FLOPs: there are two products, q @ k.T and P @ v, and 2 FLOPs for each multiply-add.",
              attention, part=0),
    ],
)  # fmt: skip


def products_of_tokens(batch: int, tokens: int, d_model: int, **_: int) -> int:
    """FLOPs of S and o, in all heads."""
    return 2 * counted(lambda: meta(batch, tokens, d_model) @ meta(batch, d_model, tokens))


CONFIG = ("batch", "tokens", "d_model", "heads", "kv_heads", "d_ff")
block_cost = Exercise(
    id="flops.block_cost",
    entry="block_cost",
    signature="block_cost(batch, tokens, d_model, heads, kv_heads, d_ff) -> int",
    kind="formula",
    minutes=15,
    difficulty=3,
    lines=6,
    cases=[
        fixed("GPT-2 small", "plain", **dict(zip(CONFIG, (1, 1024, 768, 12, 12, 3072), strict=True))),
        fixed("a long text", "plain", **dict(zip(CONFIG, (1, 16384, 768, 12, 12, 3072), strict=True))),
        fixed("a batch", "plain", **dict(zip(CONFIG, (4, 512, 1024, 16, 16, 4096), strict=True))),
        fixed("8 key heads of 32", "shared keys", **dict(zip(CONFIG, (2, 2048, 4096, 32, 8, 14336), strict=True))),
        fixed("1 key head", "shared keys", **dict(zip(CONFIG, (1, 128, 512, 8, 1, 2048), strict=True))),
    ],
    oracle=block_flops,
    criteria=[
        Holds(within_a_percent, 4, "within 1 % of torch's count"),
        Holds(within_a_percent, 2, "where heads share keys and values", group="shared keys"),
    ],
    hints=[
        "List the products of a block: four projections, two in the attention, two in the MLP. What is (m, n, k) of each?",
        "Every projection has m = batch * tokens. q and o are d_model wide; k and v are d_model * kv_heads / heads wide.",
        "2 T (2 d² + 2 d d kv_heads / heads + 2 d d_ff) for the weights, with T = batch * tokens, and 4 batch tokens² d for "
        "the attention.",
    ],
    mistakes=[
        times(0.5, "Half of it: a multiplication and an addition are two operations.", block_flops),
        every(
            lambda out, kv_heads, **block: math.isclose(
                out, block_flops(kv_heads=block["heads"], **block), rel_tol=0.01
            ),
            "Keys and values have kv_heads heads, not `heads`: their weight matrices are narrower where heads share them.",
        ),
        every(
            lambda out, **block: math.isclose(out, block_flops(**block) - products_of_tokens(**block), rel_tol=0.01),
            "These are the products with weights. S and o, which grow with the square of the tokens, are missing.",
        ),
    ],
)

utilisation = Exercise(
    id="flops.utilisation",
    entry="utilisation",
    signature="utilisation(parameters, tokens_per_second, gpus, peak_flops, recompute: bool) -> tuple[float, float]",
    kind="formula",
    minutes=5,
    difficulty=2,
    lines=4,
    cases=[
        fixed("8 B, one GPU", "plain", parameters=8e9, tokens_per_second=9000.0, gpus=1, peak_flops=989.4e12, recompute=False),
        fixed("70 B, 1024 GPUs", "plain", parameters=70e9, tokens_per_second=1.2e6, gpus=1024, peak_flops=989.4e12, recompute=False),
        fixed("8 B, recomputed", "recompute", parameters=8e9, tokens_per_second=8000.0, gpus=1, peak_flops=989.4e12, recompute=True),
        fixed("1 B, old GPUs", "recompute", parameters=1e9, tokens_per_second=2e5, gpus=16, peak_flops=125e12, recompute=True),
    ],
    oracle=lambda **arguments: second_by_second(**arguments),
    criteria=[
        Correct("plain", 2, "MFU, and HFU equal to it"),
        Correct("recompute", 1, "HFU where the forward pass is done twice"),
    ],
    hints=[
        "How many FLOPs does training do in a second, at 6 for each parameter and token? How many could the GPUs do?",
        "MFU counts what the model needs: forward 2, backward 4. HFU counts what the hardware did.",
        "With recomputation the hardware does forward 2, forward again 2, backward 4: 8 for each parameter and token.",
    ],
    mistakes=[
        times(1 / 3, "This is the forward pass alone: training takes 6 FLOPs for each parameter and token.",
              lambda **run: second_by_second(**run), part=0),
        times(100, "These are percent: return shares of 1.", lambda **run: second_by_second(**run), part=0),
        above_the_peak,
    ],
)  # fmt: skip


def second_by_second(parameters: float, tokens_per_second: float, gpus: int, peak_flops: float, recompute: bool) -> Use:
    """One token through a model of one weight, counted by torch; as many of it as a second holds."""
    x, w = meta(1, 1, grad=True), meta(1, 1, grad=True)
    forward = counted(lambda: x @ w)
    y = x @ w
    backward = counted(lambda: y.backward(torch.empty_like(y)))
    could = gpus * peak_flops
    each = parameters * tokens_per_second / could
    return Use((forward + backward) * each, (forward * (2 if recompute else 1) + backward) * each)


init_scale = Exercise(
    id="flops.init_scale",
    entry="init_scale",
    signature="init_scale(fan_in: int) -> float",
    kind="formula",
    minutes=5,
    difficulty=2,
    lines=1,
    cases=[fixed(f"width {n}", group, fan_in=n) for group, ns in (("one", (64, 256, 1024)), ("deep", (512, 768))) for n in ns],
    oracle=lambda fan_in: None,
    criteria=[
        Holds(keeps_one_layer, 2, "one layer keeps the spread at 1", group="one"),
        Holds(keeps_twelve_layers, 1, "so do twelve", group="deep"),
    ],
    hints=[
        "One output is a sum of fan_in products of two random numbers. What is the variance of one product, of the sum?",
        "The variance of the sum is fan_in. Which factor on the weights brings it to 1?",
        "A factor s multiplies the variance by s²: s² fan_in = 1.",
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ napkins

training_days = Exercise(
    id="flops.training_days",
    entry="training_days",
    signature="training_days(parameters, tokens, gpus, peak_flops, mfu) -> float",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=3,
    cases=[
        fixed("70 B on 15 T", "plain", parameters=70e9, tokens=15e12, gpus=1024, peak_flops=989.4e12, mfu=0.5),
        fixed("124 M on 10 B", "plain", parameters=124e6, tokens=10e9, gpus=8, peak_flops=312e12, mfu=0.4),
        Case(
            "a drawn run",
            "plain",
            lambda g: dict(
                parameters=integer(g, 1, 400) * 1e9, tokens=integer(g, 1, 20) * 1e12, gpus=integer(g, 1, 4096),
                peak_flops=312e12, mfu=integer(g, 20, 60) / 100,
            ),
        ),
    ],
    oracle=lambda **_: None,
    criteria=[Holds(delivers, 3, "so many days deliver the FLOPs")],
    hints=[
        "How many FLOPs does the training take? How many does the cluster do in a second, at this MFU?",
        "FLOPs: 6 * parameters * tokens. FLOP/s: gpus * peak_flops * mfu.",
        "Divide one by the other, and by the 86 400 seconds of a day.",
    ],
    mistakes=[
        every(lambda out, factor=factor, **run: math.isclose(work_done(out, **run), factor, rel_tol=1e-6), sentence)
        for factor, sentence in (
            (24, "These are hours."),
            (86400, "These are seconds."),
            (1 / 3, "This is the forward pass alone: training takes 6 FLOPs for each parameter and token."),
        )
    ],
)  # fmt: skip

GB = 10**9
largest_model = Exercise(
    id="flops.largest_model",
    entry="largest_model",
    signature="largest_model(gpus: int, memory_bytes: int, bytes_per_parameter: int = 16) -> int",
    kind="formula",
    minutes=3,
    difficulty=1,
    lines=1,
    cases=[
        fixed("8 GPUs of 80 GB", "plain", gpus=8, memory_bytes=80 * GB),
        fixed("one laptop", "plain", gpus=1, memory_bytes=8 * GB - 5),
        Case(
            "a drawn cluster",
            "plain",
            lambda g: dict(
                gpus=integer(g, 1, 64), memory_bytes=integer(g, GB, 200 * GB), bytes_per_parameter=integer(g, 2, 20)
            ),
        ),
    ],
    oracle=lambda **_: None,
    criteria=[Holds(just_fits, 2, "the largest whole number that fits")],
    hints=[
        "How many bytes are there in all? How many does one parameter take?",
        "Divide, and round down: a part of a parameter is none.",
        "gpus * memory_bytes // bytes_per_parameter",
    ],
)


def run_of(layers: int, width: int, batch: int, optimizer: str) -> dict[str, Any]:
    return dict(layers=layers, width=width, batch=batch, optimizer=optimizer)


training_memory = Exercise(
    id="flops.training_memory",
    entry="training_memory",
    signature="training_memory(layers, width, batch, optimizer: str) -> tuple[int, int, int, int]",
    kind="formula",
    minutes=15,
    difficulty=3,
    lines=6,
    cases=[
        fixed("2 layers, sgd", "sgd", **run_of(2, 16, 8, "sgd")),
        fixed("5 layers, one row, sgd", "sgd", **run_of(5, 32, 1, "sgd")),
        fixed("3 layers, adagrad", "states", **run_of(3, 16, 4, "adagrad")),
        fixed("4 layers, adam", "states", **run_of(4, 24, 100, "adam")),
        fixed("1 layer, momentum", "states", **run_of(1, 8, 3, "momentum")),
    ],
    oracle=trained_bytes,
    criteria=[
        Correct("sgd", 3, "parameters, gradients, activations"),
        Correct("states", 3, "what the optimizer keeps"),
    ],
    hints=[
        "How many numbers does one weight matrix hold? How many of those does the optimizer keep for each weight?",
        "sgd keeps none; momentum keeps a velocity, adagrad a sum of squares, adam two averages: each as large as the weights.",
        "The backward of x @ W needs x. So autograd keeps the input of every layer: layers * batch * width numbers.",
    ],
)


# ------------------------------------------------------------------------------------------------ timing


def timed(name: str, group: str, cold: float, **how: Any) -> Case:
    return fixed(
        name, group, **{"cold": cold, "hot": cold, "slow_start": 0, "noise": False, "warm_up": 5, "runs": 20, **how}
    )


def simulated(
    cold: float,
    hot: float,
    slow_start: int,
    noise: bool,
    warm_up: int,
    runs: int,
    pick: Callable[[list[float]], float] = statistics.median,
    flush: bool = True,
    wait: bool = True,
) -> float:
    """What a timer says of a case, in seconds. pick: from the times; flush: before each run; wait: for the flush."""
    gpu, times = SimulatedGPU(cold, hot, slow_start, noise), []
    for run in range(warm_up + runs):
        if flush and run >= warm_up:
            gpu.flush()
        if wait or run < warm_up:
            gpu.synchronize()
        before = gpu.clock()
        gpu.work()
        gpu.synchronize()
        times.append(gpu.clock() - before)
    return pick(times[warm_up:])


def as_if(group: str, sentence: str, **how: Any) -> Mistake:
    """`sentence`, if the times of that group are those of simulated(**how)."""

    def look(trials: Sequence[Trial]) -> str:
        of_group = [t for t in trials if t.case.group == group]
        return every(lambda out, **case: math.isclose(out, simulated(**case, **how), rel_tol=0.01), sentence)(of_group)

    return look


measure = Exercise(
    id="flops.measure",
    entry="measure",
    signature="measure(work, gpu, warm_up: int = 5, runs: int = 20) -> float",
    kind="formula",
    called="with a simulated GPU",
    minutes=15,
    difficulty=3,
    lines=12,
    cases=[
        timed("900 µs", "steady", 900.0),
        timed("20 ms", "steady", 20000.0, runs=3),
        timed("5 slow runs first", "warm-up", 700.0, slow_start=5, runs=5),
        timed("2 slow runs first", "warm-up", 1500.0, slow_start=2, warm_up=2, runs=3),
        # the first, the middle and the last of these runs are disturbed ones
        timed("disturbed", "median", 800.0, noise=True, warm_up=4, runs=21),
        timed("disturbed, 45 runs", "median", 1100.0, noise=True, runs=45),
        timed("400 µs from the cache", "cold", 900.0, hot=400.0),
        timed("100 µs from the cache", "cold", 600.0, hot=100.0, runs=9),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(near_the_truth, 4, "waits for the GPU", group="steady"),
        Holds(near_the_truth, 2, "leaves the first runs out", group="warm-up"),
        Holds(near_the_truth, 2, "lets no outlier in", group="median"),
        Holds(near_the_truth, 2, "starts from a cold cache", group="cold"),
    ],
    hints=[
        "work() and gpu.flush() return at once. What must happen before you read the clock, at the start and at the end?",
        "A run: flush, synchronize, read the clock, work, synchronize, read the clock again.",
        "First call work() warm_up times. Then collect the times of `runs` runs, and return statistics.median of them.",
    ],
    mistakes=[
        every(lambda out, **_: out < 20e-6, "These are launches: the clock stops before the device is done."),
        as_if(
            "steady",
            "The flush is in these times: it is queued, too, so wait for it before you start the clock.",
            wait=False,
        ),
        as_if("median", "This is the mean: one disturbed run spoils it. Take the median.", pick=statistics.mean),
        as_if("median", "This is the shortest run: some runs are too fast. Take the median.", pick=min),
        as_if("median", "This is the longest run, which was disturbed. Take the median.", pick=max),
        as_if(
            "median", "This is the first timed run, and others were not asked. Take the median.", pick=lambda t: t[0]
        ),
        as_if("median", "This is the run in the middle of a list that is not sorted.", pick=lambda t: t[len(t) // 2]),
        as_if("cold", "These runs found their data in the cache: flush before each.", flush=False),
        every(lambda out, cold, **_: abs(out * 1e3 / cold - 1) < 0.03, "These are milliseconds."),
    ],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        matmul_cost,
        predictions,
        count_flops,
        backward_flops,
        attention_cost,
        block_cost,
        init_scale,
        intensity,
        roofline_seconds,
        utilisation,
        training_days,
        largest_model,
        training_memory,
        measure,
    )
}
