"""Unit 05's oracles against hand counts, its inputs against what they promise, its properties against right and wrong answers."""

from __future__ import annotations

import math
import random

import pytest
import torch
from messages import id_of
from sentences import says

from course_lib import checking, criteria
from course_lib.evidence import Evidence
from course_lib.execution.calls import CALLS
from course_lib.exercise import Trial
from course_lib.exercises import tiling as T
from course_lib.hardware.measurements import measured
from grader.judging.hidden import tiling as hidden
from tritontrace.results import Launch
from tritontrace.tracing import grouped, hilbert, row_major


def test_the_probe_loads_each_tile_once():
    t = T.oracles.traced(128, 192, 64, 64, 64)
    assert (t.reread("a_ptr"), t.reread("b_ptr")) == (3, 2)
    assert t.bytes == 4 * (3 * 128 * 64 + 2 * 64 * 192 + 128 * 192)
    ragged = T.oracles.traced(70, 65, 33, 64, 64, itemsize=2)  # masked positions move nothing
    assert ragged.bytes == 2 * (2 * 70 * 33 + 2 * 33 * 65 + 70 * 65)


@pytest.mark.parametrize("m, n, k, bm, bn", [(128, 192, 64, 64, 64), (70, 65, 33, 64, 64), (30, 500, 77, 64, 128)])
def test_tile_by_tile_equals_the_trace(m, n, k, bm, bn):
    assert 4 * (T.oracles.moved(m, n, k, bm, bn) + m * n) == T.oracles.traced(m, n, k, bm, bn).bytes


def test_predictions_are_what_a_hand_counts():
    assert list(T.counting.times_read().values()) == [4, 4, 2, 8, 4]


def test_tiles_are_dealt_out_in_waves():
    assert T.oracles.dealt(1792, 1792, 256, 128, 108) == (98, 1)
    assert T.oracles.dealt(1793, 1793, 256, 128, 108) == (120, 2)
    assert T.oracles.dealt(1, 1, 64, 64, 132) == (1, 1)
    assert list(T.oracles.pieces(257, 256)) == [256, 1]


@pytest.mark.parametrize("layout", ["rows", "columns", "window", "steps"])
def test_factors_have_the_layout_that_they_are_named_for(layout):
    drawn = T.cases.factors(6, 7, 5, layout=layout)(torch.Generator().manual_seed(1))
    a, b = drawn["a"], drawn["b"]
    assert a.shape == (6, 5) and b.shape == (5, 7) and bool(a.isfinite().all() and b.isfinite().all())
    assert a.is_contiguous() == (layout == "rows")
    assert a.stride(1) == {"rows": 1, "columns": 6, "window": 1, "steps": 3}[layout]
    if layout in ("window", "steps"):
        around = torch.as_strided(a, (a.untyped_storage().nbytes() // 4,), (1,), 0)
        assert bool(around.isnan().any()), "what is read from outside shows"


def test_batches_lie_as_they_are_named():
    heads = T.cases.factors(6, 7, 5, batch=3, layout="heads")(torch.Generator().manual_seed(1))
    assert heads["a"].shape == (3, 6, 5) and heads["a"].stride() == (5, 15, 1)
    shared = T.cases.factors(6, 7, 5, batch=3, shared=True)(torch.Generator().manual_seed(1))
    assert shared["b"].shape == (3, 5, 7) and shared["b"].stride(0) == 0 and shared["a"].is_contiguous()


def test_whole_numbers_make_exact_products():
    a, b = T.cases.factors(20, 30, 70, torch.float16, whole=True)(torch.Generator().manual_seed(1)).values()
    assert bool((a == a.round()).all()) and float(a.abs().max()) == 3
    assert torch.equal((a.float() @ b.float()).double(), T.oracles.product(a, b))


def _sequential(a, b, dtype):
    c = torch.zeros(a.shape[0], b.shape[1], dtype=dtype)
    for k in range(a.shape[1]):
        c = c + torch.outer(a[:, k].to(dtype), b[k].to(dtype))
    return c


@pytest.mark.parametrize("case", [c for c in T.matmul.cases if c.group in ("long", "float32")], ids=lambda c: c.name)
def test_honest_sums_are_within_the_budget_and_low_precision_is_not(case):
    for seed in range(3):
        arguments = case.arguments(seed)
        a, b = arguments.values()
        expected, dtype = T.oracles.product(a, b), a.dtype
        budget = T.oracles.in_float32(expected, dtype, arguments)
        halves = _sequential(a[:, ::2], b[::2], torch.float32) + _sequential(a[:, 1::2], b[1::2], torch.float32)
        for honest in (_sequential(a, b, torch.float32), halves, a.float() @ b.float()):
            assert bool(((honest.to(dtype).double() - expected).abs() <= 0.8 * budget).all())
        low = torch.float16 if dtype != torch.bfloat16 else torch.bfloat16
        assert bool(((_sequential(a, b, low).to(dtype).double() - expected).abs() > budget).any())


def test_tf32_is_outside_of_the_budget_and_is_named():
    case = next(c for c in T.matmul.cases if c.group == "float32")
    arguments = case.arguments(1)
    short = [(x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in arguments.values()]
    rounded = short[0] @ short[1]
    expected = T.oracles.product(**arguments)
    assert bool(((rounded.double() - expected).abs() > T.oracles.in_float32(expected, torch.float32, arguments)).any())

    def said(output, tf32=True):
        launches = [Launch("k", (1, 1, 1), tf32=tf32)]
        return T.mistakes.looks_like_tf32(
            [criteria.GradedTrial(case, [arguments], Evidence("c", outputs=[output], launches=launches), T.matmul)]
        )

    assert "TF32" in said(rounded)
    right = (arguments["a"] @ arguments["b"]).float()
    for other in (right, right * (1 + 2e-4), right.half().float(), right.bfloat16().float(), rounded.half()):
        assert said(other) == ""
    assert said(rounded, tf32=False) == ""  # each dot says "ieee"


def summed(dims_cut_off="", replaced=False):
    """A tiled product as newcomers get it wrong."""

    def multiply(a, b, bm, bn, bk):
        (M, K), N = a.shape, b.shape[1]
        ends = {
            name: n // step * step if name in dims_cut_off else n
            for name, n, step in (("m", M, bm), ("n", N, bn), ("k", K, bk))
        }
        c = torch.zeros(M, N)
        for i in range(0, ends["m"], bm):
            for j in range(0, ends["n"], bn):
                for k in range(0, ends["k"], bk):
                    tile = a[i : i + bm, k : k + bk] @ b[k : k + bk, j : j + bn]
                    c[i : i + bm, j : j + bn] = tile if replaced else c[i : i + bm, j : j + bn] + tile
        return c

    return multiply


def what_is_said_of(multiply) -> str:
    return checking.verdict(T.tiled_matmul, multiply, seed=1).remark


@pytest.mark.parametrize("dims", ["m", "n", "k", "mn", "mnk"])
def test_tiles_that_are_left_out_at_the_edges_are_named(dims):
    assert f"along {' and '.join(dims.upper())} is missing" in what_is_said_of(summed(dims))


def test_a_sum_that_is_replaced_is_named():
    assert "(`+=`)" in what_is_said_of(summed(replaced=True))


def test_what_is_wrong_otherwise_gets_neither_sentence():
    assert what_is_said_of(lambda a, b, bm, bn, bk: a @ b * (1 + 1e-3 * (len(a) % bm > 0))) == ""


MACHINE = {"bm": 128, "bn": 128} | T.cases.H200


def model(sizes, **machine):
    return [2 * n**3 / T.oracles.model_seconds(n, **machine) * (1 if n % 8 == 0 else 0.25) for n in sizes]


def test_the_model_is_what_a_hand_computes():
    machine = {
        "bm": 128,
        "bn": 128,
        "sms": 10,
        "flops_per_second": 1e10,
        "bytes_per_second": 1e9,
        "launch_seconds": 1.0,
    }
    assert T.oracles.model_seconds(512, **machine) == pytest.approx(
        1 + 2 * 2 * 128 * 128 * 512 / 1e9
    )  # 16 tiles, 2 waves
    assert T.oracles.model_seconds(512, **machine | {"bytes_per_second": 1e3}) == pytest.approx(1 + 6 * 512**2 / 1e3)


def test_the_model_sorts_the_measured_sizes():
    sizes = T.waves.measured_sizes()
    assert len(sizes) >= 150
    assert T.oracles.ranks_the_measured(model(sizes, **MACHINE), sizes) == ""
    assert "0.6" in T.oracles.ranks_the_measured([float(n) for n in sizes], sizes), "size alone does not"
    aligned = [2 * n**3 / T.oracles.model_seconds(n, **MACHINE) for n in sizes]
    assert T.oracles.ranks_the_measured(aligned, sizes), "nor do waves without alignment"


def test_properties_of_a_curve():
    sizes = [1024, 1025, 1032, 1416]
    right = model(sizes, **MACHINE)
    assert (
        T.oracles.follows_the_model(right[:1], [1024], **MACHINE) == T.oracles.slows_down(right, sizes, **MACHINE) == ""
    )
    assert "(1 wave)" in T.oracles.follows_the_model([1.0], [1024], **MACHINE)
    assert T.oracles.slows_down([v / 132 for v in right], sizes, **MACHINE) == "", (
        "wrong waves are no fault of the shares"
    )
    assert T.oracles.slows_down([1.0] * 4, sizes).endswith("is 1 of what your model says of n = 1032")
    assert "1025" in T.oracles.slows_down(
        [2 * n**3 / T.oracles.model_seconds(n, **MACHINE) for n in sizes], sizes, **MACHINE
    )
    for odd in (None, right[:2], [*right[:3], None], [*right[:3], -1.0], [*right[:3], math.inf]):
        assert T.oracles.is_a_curve(odd, sizes)


TENSOR = {"unsupported": "a tensor"}  # as a result that is one is logged


@pytest.mark.parametrize(
    "sentence, told",
    [
        (T.oracles.is_a_curve(TENSOR, [8, 16]), "expected a list of 2 numbers, one for each size, got a tensor"),
        (T.oracles.is_a_curve([1.5, TENSOR], [8, 16]), "n = 16: expected a speed, a number above 0, got a tensor"),
        (T.oracles.is_a_curve([1.5, math.inf], [8, 16]), "n = 16: expected a speed, a number above 0, got inf"),
        (T.oracles.pads_least(TENSOR, 5, 4), "for n = 5, multiple = 4: expected a whole number, got a tensor"),
        (
            T.oracles.pads_least({"x": TENSOR}, 5, 4),
            "for n = 5, multiple = 4: expected a whole number, got {'x': a tensor}",
        ),
        (T.oracles.pads_least(8.0, 5, 4), "for n = 5, multiple = 4: expected a whole number, got 8.0"),
        (T.oracles.pads_least(12, 5, 4), "for n = 5, multiple = 4: 12 is not it"),
        (
            T.oracles.fits_and_moves_least([TENSOR, 128], 1, 2, 3, 4),
            "for 1 x 2 x 3 and 4 bytes: expected a pair of whole numbers, got [a tensor, 128]",
        ),
        (
            T.oracles.is_an_order([TENSOR], 1, 1),
            "1 x 1 tiles: program 0 gets a tensor, not a pair of whole numbers (m, n)",
        ),
    ],
)
def test_an_answer_of_a_wrong_kind_is_told_in_words(sentence, told):
    assert sentence == told


@pytest.mark.parametrize(
    "x, y, rho", [([1, 2, 3], [10, 20, 21], 1), ([1, 2, 3], [3, 2, 1], -1), ([1, 1, 2], [5, 6, 7], 0.866)]
)
def test_rank_correlation(x, y, rho):
    assert T.oracles.rank_correlation(x, y) == pytest.approx(rho, abs=1e-3)


def test_best_tiles():
    assert T.oracles.fits_and_moves_least([128, 256], 4096, 4096, 4096, 227 << 10) == ""
    assert T.oracles.fits_and_moves_least([256, 128], 4096, 4096, 4096, 227 << 10) == ""
    assert says(T.oracles.fits_and_moves_least([256, 256], 4096, 4096, 4096, 1 << 30), "tiling.best_tile.does_not_fit")
    assert "1.33 times" in T.oracles.fits_and_moves_least([128, 128], 4096, 4096, 4096, 227 << 10)
    for odd in (None, [128], [128.0, 256], [100, 100]):
        assert T.oracles.fits_and_moves_least(odd, 4096, 4096, 4096, 227 << 10)


@pytest.mark.parametrize(
    "output, good", [(50304, True), (50257, False), (50368, False), (50304.0, False), (None, False)]
)
def test_padding(output, good):
    assert (T.oracles.pads_least(output, 50257, 64) == "") is good


def test_orders_are_judged_as_the_cache_model_draws_them():
    for M, N, group in ((8, 6, 4), (9, 5, 4), (3, 7, 8)):
        assert T.oracles.finishes_groups(grouped(M, N, group).tolist(), M, N, group) == ""
        assert T.oracles.finishes_groups(row_major(M, N).tolist(), M, N, group)
    curve = hilbert(16, 16).tolist()
    assert T.oracles.touches(curve, 16) == T.oracles.stays_near(curve, 16) == ""
    assert T.oracles.touches(row_major(16, 16).tolist(), 16) and T.oracles.stays_near(row_major(16, 16).tolist(), 16)
    assert (
        T.oracles.dram_share(grouped(48, 48, 8).tolist(), 48, 48) < 0.6
        and T.oracles.dram_share(hilbert(64, 64).tolist(), 64, 64) < 0.6
    )
    assert "0.65" in T.oracles.saves_traffic(row_major(48, 48).tolist(), grid_m=48, grid_n=48)


@pytest.mark.parametrize(
    "output, word",
    [
        ([[0, 0], [0, 1], [1, 0], [1, 0]], "programs 2 and 3 both"),
        ([[0, 0], [0, 1], [1, 0], [2, 0]], "outside"),
        ([[0, 0], [0, 1], [1, 0], None], "not a pair"),
        ([[0, 0], [0, 1], [1, 0], [1.0, 1]], "not a pair"),
    ],
)
def test_an_order_gives_each_tile_one_program(output, word):
    assert word in T.oracles.is_an_order(output, 2, 2)


def test_hidden_sizes_differ_from_student_to_student():
    for exercise_id in T.EXERCISES:
        drawn = [[c.name for c in hidden.cases(exercise_id, random.Random(seed))] for seed in (1, 2)]
        assert all(drawn) or T.EXERCISES[exercise_id].kind == "values"
    one, two = (hidden.cases("tiling.matmul", random.Random(seed))[0].name for seed in (1, 2))
    assert one != two


def test_the_ceilings_of_the_exercise_are_those_that_were_measured():
    ceilings = measured("mystery_plot")["ceilings"]
    assert T.cases.H200["flops_per_second"] == pytest.approx(ceilings["random"]["bf16"], rel=0.05)
    assert T.cases.H200["bytes_per_second"] == pytest.approx(ceilings["copy_bytes_per_second"], rel=0.05)


def test_an_order_is_asked_for_every_program():
    asked = CALLS["for every program"](lambda pid, side: pid * side, {"programs": 3, "side": 2}, lambda: None)
    assert asked == [0, 2, 4]


@pytest.mark.parametrize(
    "exercise, answer, word",
    [
        (
            T.tiles_and_waves,
            lambda m, n, bm, bn, sms: [math.ceil(m * n / (bm * bn)), 1],
            "tiling.tiles_and_waves.by_area",
        ),
        (T.pad_to_multiple, lambda n, multiple: (n // multiple + 1) * multiple, "tiling.pad_to_multiple.one_too_many"),
        (
            T.grouped_order,
            lambda grid_m, grid_n, **_: row_major(grid_m, grid_n).tolist(),
            "tiling.grouped_order.row_order",
        ),
        (T.matmul_bytes, lambda **size: T.oracles.traced(**size).loads.bytes, "tiling.matmul_bytes.forgets_the_result"),
    ],
    ids=lambda value: getattr(value, "id", ""),
)
def test_typical_mistakes_are_recognised(exercise, answer, word):
    trials = []
    for case in exercise.cases:
        arguments = case.arguments(1)
        trials.append(Trial(case, [arguments], Evidence(case.name, outputs=[answer(**arguments)])))
    assert id_of(next(filter(None, (look(trials) for look in exercise.mistakes)))) == word
