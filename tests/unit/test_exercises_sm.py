"""Unit 13: oracles against NVIDIA's calculator, simulations and the compiler; what the cases promise; budgets."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import triton
from sentences import says

from course_lib import trace
from course_lib.criteria import judge
from course_lib.evidence import Evidence
from course_lib.exercise import Trial
from course_lib.exercises import find
from course_lib.exercises.sm import limits, machine_code, products, tiles, walks, wrong_numbers
from course_lib.hardware.measurements import measured
from grader import ROOT
from grader.judging.hidden import sm as hidden
from grader.published import published, solution_cells
from tritontrace.gpu import datasheet
from tritontrace.results import Access, Launch
from tritontrace.tracing import grouped

HERE = Path(__file__).parent
INCLUDE = Path(triton.__file__).parent / "backends" / "nvidia" / "include"

# ------------------------------------------------------------------------------------------------ light, watts, chains


def test_the_speed_of_light_by_hand():
    """132 SMs, 2 x 2048 operations, 1.83 GHz: the datasheet's 989.4 TFLOP/s. Half of the watts: the cube root of half of the clock."""
    peak, slowed = limits.two_peaks(132, 2048, 1.83e9, 100.0, 1200.0, 700.0)
    assert peak == pytest.approx(989.4e12, rel=1e-3)
    assert slowed == pytest.approx(peak * 0.5 ** (1 / 3), rel=1e-9)
    assert limits.two_peaks(1, 1, 1.0, 1.0, 1.0, 2.0) == (2.0, 2.0)


def test_statements_on_power_are_of_both_kinds():
    facts = limits.facts_of_power()
    assert {True, False} == set(facts.values()) and sum(facts.values()) == 3


@pytest.mark.parametrize(
    "warps, chains, latency, interval, expected",
    [(1, 1, 4, 1, 12), (1, 2, 4, 1, 13), (4, 1, 4, 1, 15), (2, 1, 20, 8, 68), (4, 1, 20, 8, 108)],
)
def test_cycles_by_hand(warps, chains, latency, interval, expected):
    """Three rounds: where the latency is longer, two of it and one round, until the last result is there."""
    assert limits.cycles_of(warps, chains, 3, latency, interval) == expected


def test_warps_that_keep_a_pipe_busy():
    assert [limits.warps_for(chains, 4, 1) for chains in (1, 2, 3, 4, 8)] == [4, 2, 2, 1, 1]
    assert limits.warps_for(1, 20, 8) == 3


# ------------------------------------------------------------------------------------------------ occupancy


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory):
    """NVIDIA's calculator, built from the header that Triton brings along."""
    compiler = shutil.which("g++")
    if compiler is None or not (INCLUDE / "cuda_occupancy.h").exists():
        pytest.skip("needs g++, and a Triton with cuda_occupancy.h")
    library = tmp_path_factory.mktemp("occupancy") / "occupancy.so"
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{INCLUDE}", HERE / "occupancy.cpp", "-o", library], check=True)
    programs = ctypes.CDLL(str(library)).programs
    programs.argtypes = [ctypes.c_int] * 3 + [ctypes.c_size_t] * 3 + [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
    return programs


@pytest.mark.parametrize("name", limits.CARDS)
def test_as_many_programs_as_nvidia_counts(nvidia, name):
    """Each kernel of each group on that card, and hidden ones."""
    card, rng = datasheet(name), random.Random(1)
    gpu = card.sm_limits
    major, minor = divmod(int(card.architecture.removeprefix("sm_")), 10)
    cases = [k for group in ("registers", "shared memory", "all together") for k in limits.kernels_by(group, gpu)]
    for registers, shared, warps in [*cases, *(hidden.kernel(rng) for _ in range(500))]:
        asked = (card.shared_bytes_per_sm, card.shared_bytes_per_block, gpu["reserved_bytes"], registers, shared, warps)
        expected = nvidia(major, minor, card.threads_per_sm, *asked)
        found = min(limits.room(registers, shared, warps, gpu).values())
        assert found == expected, (registers, shared, warps)


def test_a_pool_would_hold_one_warp_more():
    """96 registers: 21 warps in 65,536, 20 in four times 16,384. A program of 7 warps fits three times, or twice."""
    gpu = datasheet("H200").sm_limits
    assert limits.room(96, 16, 1, gpu)["registers"] == 20
    assert limits.room(96, 16, 7, gpu)["registers"] == 2


def test_each_group_meets_the_limits_that_it_names():
    met = {group: set() for group in ("registers", "shared memory", "all together")}
    for case in limits.occupancy.cases:
        given = case.arguments(1)
        for kernel in given["kernels"]:
            lets = limits.room(*kernel, given["gpu"])
            least = [limit for limit in lets if lets[limit] == min(lets.values())]
            met[case.group] |= {least[0]} if len(least) == 1 else set()
    assert met["all together"] == set(limits.LIMITS)
    assert "registers" in met["registers"] and "shared memory" in met["shared memory"]


def test_a_wrong_occupancy_is_told():
    gpu = datasheet("H200").sm_limits
    kernels = [[96, 16, 7]]
    assert limits.as_nvidia_counts([[2, "registers"]], kernels, gpu) == ""
    assert "registers lets 2" in limits.as_nvidia_counts([[3, "registers"]], kernels, gpu)
    assert "2 is right, but this number is not set by 'warps', which would let 9" in limits.as_nvidia_counts(
        [[2, "warps"]], kernels, gpu
    )
    for bad in ([2], [[2]], [["2", "registers"]], [[2, "threads"]], None, 2):
        assert limits.as_nvidia_counts(bad, kernels, gpu)


# ------------------------------------------------------------------------------------------------ tiles


def test_bytes_of_tiles_by_hand():
    """128 x 128 in 2 x 4 warps of 64 x 32, threads of 8 x 8: 256 numbers, 8 times 96, 256 times 16, for each of 8 k, 4 bytes."""
    assert tiles.three_levels((128, 128), (64, 32), (8, 8), 8, 4) == (256 * 32, 8 * 96 * 32, 256 * 16 * 32)


def test_parts_at_the_edge_are_cut_off():
    assert tiles.three_levels((3, 5), (2, 4), (2, 2), 1, 1) == (8, 6 + 3 + 5 + 2, 2 * 4 + 3 + 2 * 3 + 2)


# ------------------------------------------------------------------------------------------------ machine code


@pytest.mark.slow
def test_what_is_read_is_what_the_compiler_makes():
    assert machine_code.facts() == machine_code.READ


def test_loops_and_chains_of_machine_code():
    sass = "LBB0:\n    FFMA R2, R5, R2, 0.5;\n    FFMA R4, R5, R4, 0.25;\n    FFMA R2, R5, R2, 0.5;\n    @P1 BRA LBB0;\nLBB1:\n    EXIT;\n"
    (ffmas,) = machine_code.loops(sass)
    assert len(ffmas) == 3 and machine_code.longest_chain(ffmas) == 2


def test_the_compiler_tells_of_copies():
    x, halves = torch.empty(4096), [torch.empty(64, 64, dtype=torch.float16) for _ in range(3)]
    assert machine_code.compile_for(machine_code.copy_rows, x, x, 1024, BLOCK=512).copies == []
    sizes = {"BLOCK": 32, "BLOCK_K": 32}
    built = machine_code.compile_for(machine_code.by_pointers, *halves, 64, 64, **sizes)
    assert built.copies == ["cp.async"] and "cp.async" in str(built)
    described = [machine_code.TensorDescriptor.from_tensor(t, [32, 32]) for t in halves]
    built = machine_code.compile_for(machine_code.by_descriptors, *described, 64, **sizes)
    assert built.copies == ["TMA load", "TMA store"]


# ------------------------------------------------------------------------------------------------ walks


def lists(grid_m: int, grid_n: int, sms: int, group: int = 8):
    order = grouped(grid_m, grid_n, group).tolist()
    return [order[pid::sms] for pid in range(sms)]


def test_a_tile_that_is_missing_or_done_twice_is_told():
    right = lists(6, 5, 4)
    assert walks.is_dealt(right, 6, 5, 4) == ""
    assert says(walks.is_dealt([*right[:3], right[3][:-1]], 6, 5, 4), "sm.persistent_order.missing")
    assert says(walks.is_dealt([right[0], right[0], *right[2:]], 6, 5, 4), "sm.persistent_order.twice")
    assert "outside" in walks.is_dealt([[[6, 0]], *right[1:]], 6, 5, 4)
    assert says(walks.is_dealt([[[0, 0.0]], *right[1:]], 6, 5, 4), "sm.persistent_order.no_tile")
    uneven = [right[0] + right[1][:2], right[1][2:], *right[2:]]
    assert "8 are enough" in walks.is_dealt(uneven, 6, 5, 4)


def test_tiles_in_the_order_in_which_they_begin():
    assert walks.in_time([[1, 4, 6], [2, 5], [3]]) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("seed", range(6))
def test_groups_save_enough_on_every_grid_that_is_asked(seed):
    for case in [*walks.persistent_order.cases, *hidden.cases("sm.persistent_order", random.Random(seed))]:
        given = case.arguments(1)
        if case.group == "cache":
            own = lists(given["grid_m"], given["grid_n"], given["sms"], given["group"])
            assert walks.shares_l2(own, **given) == ""


def test_shares_of_steps():
    pieces = [[[0, 0, 3], [1, 0, 1]], [[1, 1, 3]]]
    assert walks.covers(pieces, 2, 3, 2) == walks.is_in_few_pieces(pieces, 2, 3, 2) == ""
    assert "4 steps, and the mean is 3.0" in walks.is_balanced(pieces, 2, 3, 2)
    assert "step 0 of tile 1 is done 0 times" in walks.covers([[[0, 0, 3]], [[1, 1, 3]]], 2, 3, 2)
    assert says(walks.covers([[[0, 0, 4]], []], 2, 3, 2), "sm.balanced_walk.outside")
    single = [[[tile, k, k + 1] for k in range(3)] for tile in range(2)]
    assert "6 pieces, but 3 are enough" in walks.is_in_few_pieces(single, 2, 3, 2)


# ------------------------------------------------------------------------------------------------ products


def test_all_of_a_descriptors_bytes_are_counted():
    a, b = (torch.randn(s, dtype=torch.float16) for s in ((100, 72), (72, 80)))
    with trace() as t:
        c = published("sm.descriptor_matmul")(a, b)
    torch.testing.assert_close(c.double(), products.product(a, b), rtol=1e-2, atol=1e-2)
    assert t.loads.described_bytes == t.loads.bytes and t.stores.described_bytes == t.stores.bytes == 100 * 80 * 2


def test_addresses_by_hand_are_told_with_their_line():
    asked = next(c for c in products.descriptor_matmul.criteria if c.key == "by_descriptors.performance")
    tile = Access("a", "load", 3, "a_desc.load([m, k])", bytes=64, described_bytes=64)
    by_hand = Access("out", "store", 5, "tl.store(c_ptr + i, acc)", bytes=64)
    trials = [
        Trial(c, [c.arguments(1)], Evidence(c.name))
        for c in products.descriptor_matmul.cases
        if c.group == "performance"
    ]
    for accesses, lost in (([tile], False), ([tile, by_hand], True)):
        trials[0].evidence.launches = [Launch("kernel", (1, 1, 1), accesses=accesses)]
        finding = asked.count(trials)
        assert finding.lost is lost and ("line 5" in finding.seen) is lost


def test_the_layer_is_torchs():
    given = products.layer(20, 24, 16)(torch.Generator().manual_seed(1))
    x, w, bias = (given[name].double() for name in ("x", "w", "bias"))
    torch.testing.assert_close(products.linear(**given), torch.nn.functional.silu(torch.addmm(bias, x, w)))


@pytest.mark.parametrize("seed", range(5))
def test_the_budget_admits_float32_and_no_early_rounding(seed):
    for case in products.linear_silu.cases:
        given = case.arguments(seed)
        expected, dtype = products.linear(**given), given["x"].dtype
        budget = products.linear_silu.budget(expected, dtype, given)
        y = given["x"].float() @ given["w"].float()
        honest = products.silu(y + given["bias"].float()).to(dtype).double()
        assert ((honest - expected).abs() <= budget).all(), case.name
        before_bias, before_silu = y.to(dtype).float() + given["bias"].float(), (y + given["bias"].float()).to(dtype)
        early = products.silu(before_silu.float() if "-20" in case.name else before_bias).to(dtype).double()
        assert bool(((early - expected).abs() > budget).any()) is (case.group == "precision"), case.name
        assert (expected.abs() > budget).any(), "zeros are wrong"


# ------------------------------------------------------------------------------------------------ remarks, cases


def test_a_guess_that_is_right_is_no_mistake():
    say = wrong_numbers.guessed(lambda n: n * n, lambda n: 2 * n, "squared")

    def trials(results: dict[int, object]) -> list[Trial]:
        case = walks.grid("", "plain", 1, 1, 1, 1)
        return [Trial(case, [{"n": n}], Evidence("", outputs=[out])) for n, out in results.items()]

    assert say(trials({2: 4, 3: 9})) == "squared"
    assert say(trials({2: 4})) == say(trials({2: 4, 3: 6})) == say(trials({3: None})) == say([]) == ""


PARTS = (limits, tiles, machine_code, walks, products)  # gluon.py's are in test_exercises_hopper_asynchrony.py
EXERCISES = [exercise for part in PARTS for exercise in part.EXERCISES]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.entry)
def test_seeds_change_numbers_and_no_shapes(exercise):
    for case in [*exercise.cases, *hidden.cases(exercise.id, random.Random(5))]:
        one, other = case.arguments(1), case.arguments(2)
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, torch.Tensor):
                assert value.shape == other[name].shape and value.stride() == other[name].stride(), (case.name, name)
            else:
                assert value == other[name], (case.name, name)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.entry)
def test_hidden_cases_have_a_criterion(exercise):
    groups = {getattr(c, "group", "") for c in (*exercise.gates, *exercise.criteria)}
    cases = hidden.cases(exercise.id, random.Random(5))
    assert {case.group for case in cases} <= groups
    assert bool(cases) is (exercise.kind != "values")


def test_they_are_found_and_solved():
    assert all(find(e.id) is e for e in EXERCISES)
    assert {e.id for e in EXERCISES} <= solution_cells("13_inside_an_sm").keys()


def test_what_is_blank_is_no_error():
    for exercise in EXERCISES:
        if exercise.kind == "formula":
            trials = [
                Trial(c, [c.arguments(1)], Evidence(c.name, outputs=[None if not exercise.called else [None]]))
                for c in exercise.cases
            ]
            assert judge(exercise, trials).points == 0


# ------------------------------------------------------------------------------------------------ what was measured


def test_the_recording_of_products_is_its_page():
    """measured/matmul.json holds the numbers of the table in benchmarks/results/matmul.md."""
    page = (ROOT / "benchmarks" / "results" / "matmul.md").read_text()
    rows = re.findall(r"^\| (\d+ x \d+ x \d+) \| (.*?) ?\| (\d+) \| (\d+) \| ([\d.]+) ±", page, re.M)
    found = measured("matmul")
    assert found["machine"] in page and found["date"] in page
    told = [(r["size"], r["what"], f"{r['own']:.0f}", f"{r['torch']:.0f}", f"{r['ratio']:.3f}") for r in found["rows"]]
    assert told == [(size, what.strip(), *numbers) for size, what, *numbers in rows]
