"""Unit 03's oracles against hand counts, and the simulated GPU against what it promises."""

from __future__ import annotations

import functools
import statistics

import pytest
import torch
from messages import parameters
from sentences import says

from course_lib.evidence import Evidence
from course_lib.exercise import Trial
from course_lib.exercises import flops
from course_lib.workloads.counted import WORKLOADS, SimulatedGPU, workload


def test_oracles_equal_hand_counts():
    assert flops.oracles.product_cost(3, 7, 5, 4) == (2 * 3 * 7 * 5, 4 * (15 + 35 + 21))
    assert flops.oracles.attention(2, 3, 10, 20, 4, 2) == (6 * 4 * 10 * 20 * 4, 6 * 2 * (2 * 40 + 2 * 80 + 4 * 200))
    assert flops.oracles.two_layers_backward(2, 3, 4, 5, True) == 2 * (2 * 2 * 3 * 4 + 2 * 2 * 4 * 5)
    assert flops.oracles.two_layers_backward(2, 3, 4, 5, False) == 2 * 2 * 3 * 4 + 2 * (2 * 2 * 4 * 5)
    assert flops.oracles.trained_bytes(3, 8, 5, "adam") == (768, 768, 1536, 3 * 5 * 8 * 4)
    block = flops.oracles.block_flops(batch=2, tokens=16, d_model=32, heads=4, kv_heads=2, d_ff=64)
    assert block == 2 * 32 * (2 * 32 * 32 + 2 * 32 * 16 + 2 * 32 * 64) + 2 * 4 * 16 * 16 * 32
    mfu, hfu = flops.models.second_by_second(1e9, 1e5, 4, 3e14, recompute=True)
    assert mfu == pytest.approx(6e14 / 12e14) and hfu == pytest.approx(8e14 / 12e14)


@pytest.mark.parametrize(
    "problem, right, wrongs, arguments",
    [
        (
            flops.oracles.gives_back_the_flops,
            2.5,
            (0.4, 2.0, None, "2.5", {"unsupported": "a tensor"}),
            {"cost": (10, 4)},
        ),
        (
            flops.oracles.is_the_earliest,
            5.0,
            (4.99, 5.01, 7.0, 2.0, float("nan")),
            {"cost": (10, 4), "flops_per_second": 2.0, "bytes_per_second": 2.0},
        ),
        (flops.oracles.just_fits, 6, (5, 7, 6.0, True), {"gpus": 2, "memory_bytes": 10, "bytes_per_parameter": 3}),
        (
            flops.oracles.delivers,
            6 * 70e9 * 15e12 / (1024 * 989.4e12 * 0.5) / 86400,
            (144, 48.0, None),
            {"parameters": 70e9, "tokens": 15e12, "gpus": 1024, "peak_flops": 989.4e12, "mfu": 0.5},
        ),
        (flops.oracles.near_the_truth, 905e-6, (950e-6, 905.0, 850e-6), {"cold": 900.0, "hot": 400.0}),
    ],
)
def test_properties_accept_the_right_number_alone(problem, right, wrongs, arguments):
    assert problem(right, **arguments) == ""
    for wrong in wrongs:
        sentence = problem(wrong, **arguments)
        assert sentence and "\n" not in sentence, wrong


def test_an_answer_of_a_wrong_kind_is_told_in_words():
    tensor = {"unsupported": "a tensor"}
    assert says(flops.oracles.gives_back_the_flops(tensor, (10, 4)), "criteria.result.number", got="a tensor")
    assert says(flops.oracles.gives_back_the_flops("2.5", (10, 4)), "criteria.result.number", got="'2.5', a string")
    assert says(
        flops.oracles.just_fits([tensor, "2"], 2, 10, 3), "flops.largest_model.no_number", got="[a tensor, '2']"
    )
    assert flops.oracles.just_fits([0] * 1000, 2, 10, 3).endswith("0, 0, ...")


@pytest.mark.parametrize("width", [50, 64, 300, 640, 1024])
def test_the_right_scale_passes_with_room(width):
    assert flops.oracles.keeps_one_layer(width**-0.5 * 1.03, width) == ""
    assert flops.oracles.keeps_one_layer(width**-0.5 * 0.97, width) == ""
    assert flops.oracles.keeps_one_layer(width**-0.5 * 1.15, width)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_runs_and_is_counted(name):
    sizes = [3, 4, 5, 6][: WORKLOADS[name][1].__code__.co_argcount]
    fn, args = workload(name, sizes)
    assert all(isinstance(t, torch.Tensor) for t in args)
    total = flops.oracles.counted(lambda: fn(*args))
    assert total > 0 or name == "elementwise"
    assert total == flops.counting.torch_count(name, sizes)


def test_a_wrong_name_is_told_the_right_ones():
    with pytest.raises(ValueError, match="there are matmul, batched"):
        workload("matmull", [1, 2, 3])


def test_the_simulated_gpu_queues_and_waits():
    gpu = SimulatedGPU(cold=900, hot=400)
    gpu.work()
    assert gpu.clock() == pytest.approx(5e-6), "the host comes back after the launch"
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(905e-6), "from memory"
    gpu.work()
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(905e-6 + 405e-6), "from the cache"
    gpu.flush()
    gpu.work()
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(905e-6 + 405e-6 + 5e-6 + 300e-6 + 900e-6), "in order, and cold again"


def test_the_simulated_gpu_tires():
    gpu, times = SimulatedGPU(cold=100, slow_start=1, stamina=3), []
    for _ in range(5):
        before = gpu.clock()
        gpu.work()
        gpu.synchronize()
        times.append(round((gpu.clock() - before) * 1e6 - 5))
    assert times == [1000, 100, 100, 200, 200]


def test_the_simulated_gpu_starts_slowly_and_is_disturbed():
    gpu, times = SimulatedGPU(cold=100, slow_start=2, noise=True), []
    for _ in range(10):
        before = gpu.clock()
        gpu.work()
        gpu.synchronize()
        times.append(round((gpu.clock() - before) * 1e6 - 5))
    assert times == [1000, 1000, 100, 100, 800, 100, 75, 100, 100, 800]


# ------------------------------------------------------------------------------------------------ mistakes


def remark(name: str, output) -> str:
    """The remark on an exercise whose calls return output(arguments)."""
    exercise = flops.EXERCISES[f"flops.{name}"]
    trials = []
    for case in exercise.cases:
        call = case.arguments(0)
        trials.append(Trial(case, [call], Evidence(case.name, outputs=[output(**call)])))
    return next(filter(None, (look(trials) for look in exercise.mistakes)), "")


def without_the_softmax(batch, heads, n_q, n_k, itemsize, **a):
    whole = flops.oracles.attention(batch=batch, heads=heads, n_q=n_q, n_k=n_k, itemsize=itemsize, **a)
    return [whole.FLOPs, whole.bytes - 2 * batch * heads * n_q * n_k * itemsize]


def with_its_forward_pass(batch, d_in, d_hidden, d_out, input_needs_grad):
    backward = flops.oracles.two_layers_backward(batch, d_in, d_hidden, d_out, input_needs_grad)
    return backward + 2 * batch * d_hidden * (d_in + d_out)


def up(batch, tokens, d_model, d_ff, **_):
    return 2 * batch * tokens * d_model * d_ff


def test_a_timer_that_runs_as_often_as_it_likes_is_seen():
    wrong = [
        case.group
        for case in flops.measure.cases
        if flops.oracles.near_the_truth(
            flops.timing.simulated(**case.arguments(0) | {"warm_up": 50, "runs": 100}), **case.arguments(0)
        )
    ]
    assert wrong == ["warm-up"]


def test_one_head_has_one_length():
    heads = [case.arguments(0) for case in flops.attention_cost.cases if case.group == "one head"]
    assert all(a["n_q"] == a["n_k"] for a in heads)


def test_what_does_not_fit_is_told_with_its_numbers():
    fits = parameters(flops.oracles.just_fits(6, 2, 10, 4), "flops.largest_model.too_large")
    assert (fits["parameters"], fits["bytes"], fits["room"]) == (6, 24, 20)
    run = dict(parameters=70e9, tokens=15e12, gpus=1024, peak_flops=9e14, mfu=0.5)
    delivers = flops.oracles.delivers(1.0, **run)
    assert parameters(delivers, "flops.training_days.cluster") == {"gpus": 1024, "peak_flops": 9e14, "mfu": 0.5}


@pytest.mark.parametrize(
    "name, output, word",
    [
        ("measure", flops.timing.simulated, ""),
        ("measure", lambda **case: flops.timing.simulated(**case, pick=statistics.mean), "the_mean"),
        ("measure", lambda **case: flops.timing.simulated(**case, pick=min), "the_least"),
        ("measure", lambda **case: flops.timing.simulated(**case, pick=lambda t: t[0]), "the_first_timed_run"),
        (
            "measure",
            lambda **case: flops.timing.simulated(**case, pick=lambda t: t[len(t) // 2]),
            "the_middle_of_an_unsorted_list",
        ),
        ("measure", lambda **case: flops.timing.simulated(**case, flush=False), "a_warm_cache"),
        ("measure", lambda **case: flops.timing.simulated(**case, wait=False), "times_the_flush"),
        ("measure", lambda **case: 5e-6, "does_not_wait_for_the_work"),
        ("measure", lambda **case: 10e-6, "does_not_wait_for_the_work"),
        ("measure", lambda **case: 1.3e-6, "another_clock"),
        ("measure", lambda **case: -flops.timing.simulated(**case), "negative"),
        ("measure", lambda **case: 1e3 * flops.timing.simulated(**case), "milliseconds"),
        ("measure", lambda **case: 1e6 * flops.timing.simulated(**case), "microseconds"),
        (
            "measure",
            lambda **case: flops.timing.simulated(**case | {"warm_up": 50, "runs": 100}),
            "more_runs_than_asked",
        ),
        ("matmul_cost", lambda **a: list(flops.oracles.product_cost(**a))[::-1], "turned_round"),
        ("attention_cost", lambda **a: list(flops.oracles.attention(**a))[::-1], "turned_round"),
        ("attention_cost", lambda **a: list(flops.oracles.attention(**a)), ""),
        ("attention_cost", without_the_softmax, "without_the_softmax"),
        ("backward_flops", with_its_forward_pass, "with_the_forward_pass"),
        ("block_cost", lambda **a: flops.oracles.block_flops(**a) - up(**a), "without_the_mlp"),
        ("block_cost", flops.oracles.block_flops, ""),
        (
            "matmul_cost",
            lambda **a: [flops.oracles.product_cost(**a)[0], flops.oracles.product_cost(**a | {"itemsize": 1})[1]],
            "elements_not_bytes",
        ),
        ("backward_flops", lambda **a: flops.oracles.two_layers_backward(**a) // 2, "multiplications_alone"),
        ("backward_flops", flops.oracles.two_layers_backward, ""),
        ("block_cost", lambda **a: flops.oracles.block_flops(**a | {"kv_heads": a["heads"]}), "every_head_has_keys"),
        (
            "block_cost",
            lambda **a: flops.oracles.block_flops(**a) - flops.models.products_of_tokens(**a),
            "no_attention",
        ),
        (
            "utilisation",
            lambda gpus, **run: list(flops.models.second_by_second(gpus=gpus / 1024, **run)),
            "mfu_counts_the_second_forward_pass",
        ),
        ("utilisation", lambda **run: list(flops.models.second_by_second(**run)), ""),
        ("count_flops", lambda **_: 0, "calls_without_the_mode"),
    ],
)
def test_remarks_on_typical_mistakes(name, output, word):
    told = remark(name, output)
    assert told.id in (f"flops.{name}.{word}", f"flops.cost.{word}") if word else told == ""


@pytest.mark.parametrize("pick", [lambda t: t[0], lambda t: t[-1], lambda t: t[len(t) // 2], min, max, statistics.mean])
def test_no_way_to_pick_a_time_but_the_median_is_right_on_the_disturbed_cases(pick):
    cases = [case.arguments(0) for case in flops.measure.cases if case.group == "median"]
    assert any(flops.oracles.near_the_truth(flops.timing.simulated(**case, pick=pick), **case) for case in cases)
    assert not any(flops.oracles.near_the_truth(flops.timing.simulated(**case), **case) for case in cases)


def test_the_clock_must_have_shown_a_time():
    case = next(c for c in flops.measure.cases if c.group == "cold").arguments(0)
    run = ["flush", "synchronize", "clock", "work", "synchronize", "clock"]
    shown = functools.partial(flops.timing.shown_by_the_clock, **case)
    assert shown(run * 7) == shown(["work", "synchronize", "clock"] + run * 7) == 7
    assert shown([*run[:4], "clock", *run[4:]] * 7) == 7, "read between launch and end, too"
    for missing in ("flush", "synchronize", "clock", "work"):
        assert shown([what for what in run if what != missing] * 7) < 2
    steady = flops.measure.cases[0].arguments(0)
    assert flops.timing.shown_by_the_clock(["clock", *["work", "synchronize"] * 9, "clock"], **steady) == 9
