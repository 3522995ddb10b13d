"""How a check calls a student's function where f(**arguments) will not do.

A process can send names and numbers to another, never functions: Exercise.called is a name in CALLS, and what stands there is
called in the process that records, with the function, a case's arguments, and `mark`, which writes a moment into the log and
says how many kernels were launched before it: without a word, the end of the forward phase; an empty one is not written.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from course_lib.exercise import MOST_NUMBERS
from course_lib.workloads.activations import chain, rehearse_checkpoint, run_checkpoint
from course_lib.workloads.checkpointed import load_apart, save_apart
from course_lib.workloads.counted import SimulatedGPU, workload
from course_lib.workloads.rehearsals import (
    rehearse_accumulate,
    rehearse_swapped,
    run_accumulate,
    run_batches,
    run_clip,
    run_swapped,
)
from course_lib.workloads.stated import CALLED, written
from tritontrace.replay import Caller, Mark, by_name, called
from tritontrace.replay.wire import storage_bytes
from tritontrace.results import described
from tritontrace.tracing import launches_go_to


def on_work(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Call f(fn, *args) with a workload of course_lib.workloads. arguments: name, sizes."""
    fn, args = workload(**arguments)
    return function(fn, *args)


def with_a_simulated_gpu(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Call f(work, gpu, warm_up, runs) with a SimulatedGPU of the other arguments. What f asks of the GPU is marked in the log, which shows
    what f can have read from the clock."""
    warm_up, runs = arguments.pop("warm_up"), arguments.pop("runs")

    class Marked(SimulatedGPU):
        def clock(self) -> float:
            mark("clock")
            return super().clock()

        def synchronize(self) -> None:
            mark("synchronize")
            super().synchronize()

        def flush(self) -> None:
            mark("flush")
            super().flush()

        def work(self) -> None:
            mark("work")
            super().work()

    gpu = Marked(**arguments)
    return function(gpu.work, gpu, warm_up, runs)


def for_every_program(function: Callable, arguments: dict[str, Any], mark: Mark) -> list:
    """Return [f(pid, ...) for each program]. arguments: programs, how many there are, and what f takes besides."""
    return [function(pid, **arguments) for pid in range(arguments.pop("programs"))]


def for_every_kernel(function: Callable, arguments: dict[str, Any], mark: Mark) -> list:
    """Return [f(*kernel, ...) for each kernel]. arguments: kernels, lists of numbers, and what f takes besides."""
    return [function(*kernel, **arguments) for kernel in arguments.pop("kernels")]


def forward_and_backward(function: Any, arguments: dict[str, Any], mark: Mark) -> tuple | None:
    """Return (outputs ..., gradients ...) of a torch.autograd.Function, or of a function of tensors; None if it returns None.

    arguments: its inputs in order, then `dy`, the gradient of the output, or a list of gradients of the first outputs. There
    is a gradient for each floating-point tensor among the inputs. With `between`, the inputs of another application, that one is made
    once before and once after, and the way back goes through neither of these: what is shared has no place for three.
    """
    between = arguments.pop("between", None)
    *names, last = arguments
    if last != "dy":
        raise AssertionError("the last argument of such a case is dy")
    inputs = _leaves([arguments[name] for name in names])
    is_class = isinstance(function, type) and issubclass(function, torch.autograd.Function)
    apply = function.apply if is_class else function
    _earlier = apply(*_leaves(between)) if between else None
    outputs: Any = apply(*inputs)
    _later = apply(*_leaves(between)) if between else None
    mark()
    if outputs is None:  # not solved yet: there is nothing to go back from
        return None
    parts = outputs if isinstance(outputs, tuple) else (outputs,)
    dys = arguments["dy"] if isinstance(arguments["dy"], (list, tuple)) else [arguments["dy"]]
    leaves = [v for v in inputs if _is_differentiable(v)]
    gradients = torch.autograd.grad(parts[: len(dys)], leaves, dys, allow_unused=True)
    return (*(p.detach() if isinstance(p, torch.Tensor) else p for p in parts), *gradients)


def _leaves(inputs: Sequence[Any]) -> list[Any]:
    return [v.detach().requires_grad_() if _is_differentiable(v) else v for v in inputs]


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def on_a_chain(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Call f(fn, *args) with gradients enabled, for a chain of course_lib.workloads.activations. arguments: name, sizes."""
    with torch.enable_grad():
        fn, args = chain(**arguments)
        return function(fn, *args)


def in_a_training_step(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Call f(fn, *args) as a checkpoint, then backward: once logged, with its halves marked, and once measured. arguments: those of
    course_lib.workloads.activations.run_checkpoint."""
    return in_sight(rehearse_checkpoint, run_checkpoint)(function, arguments, mark)


def as_a_module(function: Any, arguments: dict[str, Any], mark: Mark) -> Any:
    """Observe the module function(**arguments) in a step of training: its parameters by name, its output, and the gradients
    of the output's sum; None if forward returns None. arguments: those of the class, and x, rows of numbers."""
    x = torch.tensor(arguments.pop("x"))
    with torch.enable_grad():
        module = function(**arguments)
        if not isinstance(module, torch.nn.Module):
            return {"made": type(module).__name__}
        y = module(x)
        if y is None:
            return None
        if not isinstance(y, torch.Tensor):
            return {"returned": type(y).__name__}
        parameters = dict(module.named_parameters())
        if y.requires_grad:
            y.sum().backward()
    gradients = {name: None if p.grad is None else p.grad.tolist() for name, p in parameters.items()}
    return {"parameters": {name: p.tolist() for name, p in parameters.items()}, "y": y.tolist(), "gradients": gradients}


def for_its_inputs(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Return f(), a list of inputs: dicts of tensors, which are packed as plain data, and of numbers. It is called once for all cases (see
    relays.ONCE), in a process that has seen no case."""
    inputs = function()
    if not isinstance(inputs, (list, tuple)):
        return inputs
    return [{k: packed(v) for k, v in one.items()} if isinstance(one, dict) else one for one in inputs]


def packed(value: Any) -> Any:
    """Convert a tensor to plain data: shape, strides, dtype, and the bytes of the storage that it spans, in base 64; return all else as it
    is. A list of numbers would take ten times as long to send and to read."""
    if not isinstance(value, torch.Tensor):
        return value
    span = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) + 1 if value.numel() else 0
    if span > MOST_NUMBERS:
        raise ValueError(f"a tensor of an input spans more than {MOST_NUMBERS:,} numbers: take a smaller one")
    with _disable_current_modes():
        spanned = value.detach().as_strided((span,), (1,)).cpu().clone()
        storage = b64encode(storage_bytes(spanned.untyped_storage()).numpy().tobytes()).decode()
    dtype = str(value.dtype).removeprefix("torch.")
    return {"shape": list(value.shape), "strides": list(value.stride()), "dtype": dtype, "storage": storage}


def in_place(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Return the tensors that f(**others) changed in place; None if it launched nothing. arguments: what f takes, and `changes`, the names
    of these tensors. It is given copies of them, since an input stays as it is."""
    copies = {name: arguments[name].clone() for name in arguments.pop("changes")}
    returned = called(function, arguments | copies)
    if returned is not None:
        return returned
    return tuple(copies.values()) if mark("") else None


def step_by_step(function: Callable, arguments: dict[str, Any], mark: Mark) -> list | None:
    """Return the weight after each step of the optimizer f(rule, p, g, state, lr). arguments: rule, lr, the start of p, gradients."""
    p, state, found = arguments["start"], {}, []
    for gradient in arguments["gradients"]:
        p = function(arguments["rule"], p, gradient, state, arguments["lr"])
        if p is None:
            return None
        found.append(p)
    return found


def rehearsed(run: Callable[..., Any]) -> Callable[[Any, dict[str, Any], Mark], Any]:
    """Make a caller of f that returns the report of one of course_lib.workloads.rehearsals. arguments: those of the rehearsal."""
    return lambda function, arguments, mark: run(function, **arguments)


def in_sight(rehearse: Callable[..., None], run: Callable[..., Any]) -> Callable[[Any, dict[str, Any], Mark], Any]:
    """Make a caller of f from two functions: `rehearse` calls it with its operations logged and its halves marked, `run` measures."""

    def call(function: Any, arguments: dict[str, Any], mark: Mark) -> Any:
        rehearse(function, mark, **arguments)
        return run(function, **arguments)

    return call


REHEARSALS = {
    "from a file": rehearsed(run_batches),
    "in micro-batches": in_sight(rehearse_accumulate, run_accumulate),
    "on gradients": rehearsed(run_clip),
    "into a file": rehearsed(save_apart),
    "out of a file": rehearsed(load_apart),
    "into a model": in_sight(rehearse_swapped, run_swapped),
}
"""Of CALLS, those that train or read in torch: no answer launches a kernel there."""


def through_a_cache(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Return (k, v) as a key-value cache's appends return them; cache = function(B, Hkv, slots, D, dtype, device). After each append, or
    after the last one where the cache is a ring that later tokens write over. arguments: k, v (B, Hkv, N, D), slots, pieces (how many
    tokens come at once)."""
    k, v, slots, pieces = (arguments[name] for name in ("k", "v", "slots", "pieces"))
    (B, H, N, D), at, found = k.shape, 0, []
    cache = function(B, H, slots, D, k.dtype, k.device)
    for n in pieces:
        found.append(cache.append(k[:, :, at : at + n], v[:, :, at : at + n]))
        at += n
    if any(step is None for step in found):  # not solved yet
        return None
    return tuple(part for step in (found if slots >= N else found[-1:]) for part in step)


def token_by_token(function: Callable, arguments: dict[str, Any], mark: Mark) -> tuple:
    """Return the outputs (B, Hq, 1, D) of decoding one token a call, from `start` on. arguments: q (B, Hq, N, D), k, v (B, Hkv, N, D), not
    rotated; cos, sin; cache_k, cache_v, which hold the earlier tokens, and are copied, since inputs stay as they are; start."""
    q, k, v, cos, sin, cache_k, cache_v, start = arguments.values()
    caches = cache_k.clone(), cache_v.clone()
    tokens = [(*(x[:, :, t : t + 1] for x in (q, k, v)), cos, sin, *caches, t) for t in range(start, q.shape[2])]
    return tuple(function(*token) for token in tokens)


def as_a_layer_does(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """The output of an attention function as a layer of a model calls it: f(module, query, key, value, attention_mask, scaling=...,
    ...) -> (output, None). arguments: q, k, v, and what is not None or False of mask, scaling, causal, window, top_left."""
    q, k, v = (arguments.pop(name) for name in "qkv")
    module = SimpleNamespace(
        is_causal=arguments.pop("causal"), training=False, layer_idx=0, num_key_value_groups=q.shape[1] // k.shape[1]
    )
    more = {"sliding_window": arguments["window"]} if arguments["window"] else {}
    more |= {"top_left": True} if arguments["top_left"] else {}
    # a model passes on what else it knows
    found = function(
        module, q, k, v, arguments["mask"], scaling=arguments["scaling"], dropout=0.0, use_cache=True, **more
    )
    if isinstance(
        found, torch.Tensor
    ):  # a layer unpacks two values: here two texts, the first of which it takes for the result
        return found[0]
    return found[0] if isinstance(found, tuple) and len(found) == 2 and found[1] is None else found


def as_an_operator(function: Callable, arguments: dict[str, Any], mark: Mark) -> tuple | None:
    """Return (output, gradients ...) of a function of tensors that is an operator of torch. arguments: its inputs, `fake`, `dy`.

    With `fake` it is also called on fake tensors, without data, and what comes of it is appended: -1 in each place if that fails; last,
    how many results of operators, those on the way among them, then have another shape or dtype. What autograd keeps is used once more
    in the backward half: a log shows what is used later, not what is kept.
    """
    asked, keeps = arguments.pop("fake"), list[torch.Tensor]()

    def halfway(word: str = "") -> int:
        launched = mark(word) if word else mark()
        for tensor in keeps:
            tensor.clone()
        return launched

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        keeps.append(tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), _Made() as real:
        found = forward_and_backward(function, arguments, halfway)
    if found is None or not asked:
        return found
    with _disable_current_modes(), FakeTensorMode(), _Made() as fake, torch.enable_grad(), launches_go_to(_no_data):
        *leaves, dy = (torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in arguments.values())
        leaves = [leaf.requires_grad_() for leaf in leaves]
        try:
            y = function(*leaves)
            made = [y, *torch.autograd.grad(y, leaves, dy)]
        except Exception:  # whatever a launch, or torch, says of a tensor without data
            made = [None] * (1 + len(leaves))
    lengths = [len(described(t)) for t in (dy, *leaves)]
    facts = [described(t) if isinstance(t, torch.Tensor) else [-1] * n for t, n in zip(made, lengths, strict=True)]
    others = sum(a != b for a, b in zip_longest(real.made, fake.made))
    return (*found, *(number for fact in facts for number in fact), others)


class _Made(TorchDispatchMode):
    """Notes what operators that are not torch's own give, as `described` says it."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[list[int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.namespace not in ("aten", "prims", "prim"):
            self.made += [described(t) for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        return out


def in_a_round(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Return the result of one round's version in a work log; None if there is none yet. arguments: version, the number of the round, and
    those of a version. Number 0 returns what all rounds state."""
    number, rounds = arguments.pop("version"), function()
    if number == 0:
        return written(rounds)
    version = rounds[number - 1].get("version") if isinstance(rounds, (list, tuple)) and number <= len(rounds) else None
    return None if version is None else called(version, arguments)


def as_a_checkpoint_does(function: Callable, arguments: dict[str, Any], mark: Mark) -> tuple | None:
    """Return (o, dq, dk, dv) of f(q, k, v, ...) under activation checkpointing: f runs once for its result, and again, on the same inputs,
    for backward. A gradient that autograd does not produce is None. arguments: q, k, v, others, dy."""
    dy = arguments.pop("dy")
    with torch.enable_grad():
        leaves = [arguments[name].detach().requires_grad_() for name in "qkv"]
        inputs = {**arguments, **{name: leaf.clone() for name, leaf in zip("qkv", leaves, strict=True)}}
        with torch.no_grad():
            called(function, inputs)
        o = called(function, inputs)
        if o is None:
            return None
        known = isinstance(o, torch.Tensor) and o.requires_grad
        gradients = torch.autograd.grad(o, leaves, dy, allow_unused=True) if known else [None] * 3
    return (o.detach() if isinstance(o, torch.Tensor) else o, *gradients)


def _no_data(kernel: Any, *launch: Any) -> None:
    raise RuntimeError(f"{kernel.__name__} is launched on tensors without data")


BACKWARD = frozenset(REHEARSALS) | {
    "as a checkpoint does",
    "as a module",
    "as an operator",
    "forward and backward",
    "in a training step",
    "on a chain",
    "on work",
}
"""Of CALLS, those that may use autograd's engine."""
WITHOUT_DATA = frozenset({"as an operator"})
"""Of CALLS, those that ask a function for tensors without data as well."""
COMPARES_SHAPES = (
    "torch.fx.experimental.symbolic_shapes"  # which such tensors load, and SymPy with it: a third of a second
)
CALLS: dict[str, Caller] = {
    "": by_name,
    "on work": on_work,
    "with a simulated GPU": with_a_simulated_gpu,
    "for every program": for_every_program,
    "for every kernel": for_every_kernel,
    "forward and backward": forward_and_backward,
    "on a chain": on_a_chain,
    "in a training step": in_a_training_step,
    "as a module": as_a_module,
    "for its inputs": for_its_inputs,
    "in place": in_place,
    "step by step": step_by_step,
    **REHEARSALS,
    "through a cache": through_a_cache,
    "token by token": token_by_token,
    "as a layer does": as_a_layer_does,
    "as an operator": as_an_operator,
    "as a checkpoint does": as_a_checkpoint_does,
    CALLED: in_a_round,
}
