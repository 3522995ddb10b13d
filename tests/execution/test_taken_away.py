"""A module that answers an exercise by itself is broken while the student's function runs, and in that process alone."""

import inspect
import types
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.utils.flop_counter as counter_module
from sentences import says
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    flop_registry,
    mm_flop,
)  # as a student's cell would, before the check

import grader
from course_lib.execution import observe, record_all
from course_lib.exercises import UNITS, find
from course_lib.workloads.gpt import GPT, Config
from grader.building.announce import header
from tritontrace.replay import child

ADAM, CLIP = torch.optim.Adam, torch.nn.utils.clip_grad_norm_
SMALL_GPT = partial(GPT, Config(vocab=9, layers=1, width=8, heads=2, kv_heads=1, hidden=8))
MODULE = "torch.utils.flop_counter"
COPIED = dict(flop_registry)


def call(function, without=(MODULE,)):
    """The error of one call, in a child as a check makes it."""
    logs, _ = child.run(lambda: record_all(function, [[{}]], without=without), seconds=30)
    return logs[0]["calls"][0]


class Renamed(FlopCounterMode):
    pass


def with_mode(mode):
    def count():
        with mode() as counter:
            torch.ones(3, 4) @ torch.ones(4, 5)
        return counter.get_total_flops()

    return count


@pytest.mark.parametrize(
    "function",
    [
        with_mode(lambda: FlopCounterMode(display=False)),
        with_mode(lambda: counter_module.FlopCounterMode(display=False)),
        with_mode(lambda: Renamed(display=False)),
        lambda: mm_flop((3, 4), (4, 5)),
        lambda: mm_flop.__wrapped__((3, 4), (4, 5)),
        lambda: counter_module.bmm_flop((1, 3, 4), (1, 4, 5)),
        lambda: flop_registry[torch.ops.aten.mm]((3, 4), (4, 5)),
        lambda: COPIED[torch.ops.aten.mm]((3, 4), (4, 5)),
    ],
    ids=["imported before", "by its module", "subclass", "formula", "wrapped", "another", "registry", "copy"],
)
def test_torch_s_own_counter_answers_nothing(function):
    assert call(function, without=())["result"] == 120
    told = call(function)
    assert told["error"] and told["result"] is None


def backwards():
    x = torch.ones(2, 2, requires_grad=True)
    with torch.enable_grad():
        y = (x @ x).sum()
    engine = torch.autograd.Variable._execution_engine  # pyright: ignore[reportAttributeAccessIssue]
    return float(engine.run_backward((y,), (torch.ones(()),), False, False, (x,), True, accumulate_grad=False)[0].sum())


def checkpointed():
    function = next(f for f in torch.autograd.Function.__subclasses__() if f.__name__ == "CheckpointFunction")
    ones = torch.ones((), requires_grad=True)
    return float(function.forward(SimpleNamespace(save_for_backward=lambda *_: None), lambda x: x + 1, True, ones))


def fused():
    p, *rest = (torch.ones(1) for _ in range(5))
    torch._fused_sgd_(
        [p],
        [rest[0]],
        [],
        weight_decay=0,
        momentum=0,
        lr=0.5,
        dampening=0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
    )
    return float(p)


def profiled():
    C = torch._C._profiler
    config = C.ProfilerConfig(C.ProfilerState.KINETO, True, False, False, True, False, C._ExperimentalConfig())
    activities = {C.ProfilerActivity.CPU}
    torch._C._autograd._prepare_profiler(config, activities)
    torch._C._autograd._enable_profiler(config, activities)
    torch.ones(2, 2) @ torch.ones(2, 2)
    return sum(int(event.flops()) for event in torch._C._autograd._disable_profiler().events())


@pytest.mark.parametrize(
    "function, module",
    [
        (backwards, "torch.autograd.graph"),
        (checkpointed, "torch.utils.checkpoint"),
        (fused, "torch.optim"),
        (profiled, "torch.autograd.profiler"),
    ],
)
def test_what_does_the_same_below_a_module_is_taken_away_with_it(function, module):
    assert call(function, without=())["error"] == ""
    assert call(function, without=(module,))["cause"]["kind"] in ("refused", "raised")


def test_the_sentence_says_what_is_taken_away():
    told = call(with_mode(lambda: FlopCounterMode(display=False)))["error"]
    assert says(told, "replay.record.by_hand", what=MODULE)
    assert "taken away here" in call(lambda: mm_flop((3, 4), (4, 5)))["error"]


def test_afterwards_it_counts_as_before():
    call(lambda: mm_flop((3, 4), (4, 5)))
    assert mm_flop((3, 4), (4, 5)) == 120 and torch.ops.aten.mm in flop_registry
    assert with_mode(lambda: FlopCounterMode(display=False))() == 120


def test_a_counter_of_one_s_own_is_not_disturbed():
    def count_flops(fn, *args):
        total = 0

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                nonlocal total
                out = function(*args, **(kwargs or {}))
                total += 2 * out.numel() * args[0].shape[-1] if function is torch.ops.aten.mm.default else 0
                return out

        with Mode():
            fn(*args)
        return total

    exercise = find("flops.count_flops")
    trials = [t for t in observe(exercise, count_flops, seed=1) if t.case.group == "products"]
    assert trials and all(t.evidence.error == "" for t in trials)
    assert all(t.evidence.outputs == [exercise.oracle(**a) for a in t.inputs] for t in trials)


# ------------------------------------------------------------------------------------------------------- what oracles are made of

OWN = "course_lib.exercises", "course_lib.criteria", "course_lib.mistakes", "course_lib.words", "tritontrace.words"
LIBRARIES = "torch.utils.", "torch.optim", "torch.nn.utils", "course_lib", "tritontrace"
ALLOWED = {  # what the recorder has although an oracle uses it, and why it is no answer there
    "tritontrace.tracing.traced": "counts a kernel's bytes: the kernel is the work",
    "course_lib.hardware.measurements": "what was measured is no file in the sandbox",
    "course_lib.workloads.rehearsals": "calls the function that is judged",
    "course_lib.workloads.checkpointed": "calls the function that is judged, which knows no seed",
    "course_lib.workloads.counted": "is what the function is asked to count",
    "tritontrace.messages": "says a sentence about an answer",
}
OF_ONE = {
    ("flops.training_memory", "torch.optim"): "an optimizer for a model, which is to be written first",
    ("recomputation.saved_bytes", "course_lib.workloads.activations"): "what the function is asked to count",
    ("recomputation.checkpoint", "course_lib.workloads.activations"): "calls the function that is judged",
    ("training.swap_in", "course_lib.workloads.gpt"): "the model that the function is given",
}


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def libraries(root) -> set[str]:
    """The modules beyond this course's exercises whose functions and classes a function reaches."""
    found, seen, waiting = set(), set(), [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
            continue
        value = getattr(inspect.unwrap(value) if callable(value) else value, "__func__", value)
        value = inspect.unwrap(value) if callable(value) else value
        if id(value) in seen or isinstance(value, types.ModuleType):
            continue
        seen.add(id(value))
        module = getattr(value, "__module__", None) or ""
        if isinstance(value, dict):
            waiting += [inner for inner in value.values() if callable(inner)]
        elif isinstance(value, (type, types.FunctionType)) and not module.startswith(OWN):
            found.add(module)
        elif isinstance(value, type):
            waiting += [method for method in vars(value).values() if callable(method)]
        elif isinstance(value, types.FunctionType):
            waiting += [*(cell.cell_contents for cell in value.__closure__ or ()), *(value.__defaults__ or ())]
            for code in codes(value.__code__):
                for name in code.co_names:
                    reached = value.__globals__.get(name)
                    if isinstance(reached, types.ModuleType):
                        found |= set(_below(reached, code.co_names))
                    else:
                        waiting.append(reached)
    return found


def _below(module: types.ModuleType, names) -> Iterator[str]:
    """The modules that `module.name.name` may go through."""
    for name in names:
        inner = vars(module).get(name)
        if isinstance(inner, types.ModuleType) and inner.__name__.startswith(f"{module.__name__}."):
            yield inner.__name__
            yield from _below(inner, names)


def formulas():
    for unit in UNITS:
        yield from (exercise for exercise in grader.exercises(unit).values() if exercise.kind == "formula")


def test_what_right_answers_are_made_of_is_out_of_reach_or_has_a_reason():
    left = {}
    for exercise in formulas():
        roots = [exercise.oracle, *filter(None, (getattr(c, "problem", None) for c in exercise.criteria))]
        for module in sorted(set().union(*map(libraries, roots))):
            taken = any(
                f"{module}.".startswith(f"{gone}.") or gone.startswith(f"{module}.") for gone in exercise.without
            )
            if (
                module.startswith(LIBRARIES)
                and not taken
                and module not in ALLOWED
                and (exercise.id, module) not in OF_ONE
            ):
                left.setdefault(exercise.id, []).append(module)
    assert left == {}


def test_what_is_taken_away_is_said_where_the_exercise_is_announced():
    for exercise in formulas():
        torchs = [
            module for module in exercise.without if module.startswith("torch.")
        ]  # nobody comes upon the course's own
        assert all(f"without `{module}`" in header(exercise) for module in torchs)


@pytest.mark.parametrize(
    "without, function",
    [
        ("torch.optim", lambda: torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)),
        ("torch.optim", lambda: ADAM([torch.zeros(1, requires_grad=True)], 0.1)),
        ("torch.optim", lambda: ADAM.step(None)),
        ("torch.nn.utils.clip_grad", lambda: torch.nn.utils.clip_grad_norm_([torch.zeros(1)], 1.0)),
        ("torch.nn.utils.clip_grad", lambda: CLIP([torch.zeros(1)], 1.0)),
        ("course_lib.workloads.gpt", lambda: SMALL_GPT()),
        ("course_lib.workloads.gpt", lambda: __import__("course_lib.workloads.gpt").workloads.gpt.GPT(None)),
    ],
)
def test_packages_modules_and_what_was_imported_from_them_are_gone(without, function):
    assert call(function, without=[without])["error"]
    assert (
        call(lambda: 1, without=["torch.optim", "torch.nn.utils.clip_grad", "course_lib.workloads.gpt"])["result"] == 1
    )


@pytest.mark.parametrize("module", ["course_lib.figures", "course_lib.figures.dtypes"])
def test_a_module_of_what_is_taken_away_is_refused_in_the_same_words(module):
    def reads_a_picture():
        from course_lib.figures.dtypes.patterns import gap_above

        return gap_above(1.0, "fp16")

    error = call(reads_a_picture, without=(module,))["error"]
    assert says(error, "replay.record.by_hand", what=module)
