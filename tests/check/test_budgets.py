"""Budgets let every honest order of summation pass and no short cut; no case set can be met without reading the data."""

import pytest
import torch

from course_lib.criteria import Correct, sum_budget
from course_lib.evidence import Evidence
from course_lib.exercise import Trial
from course_lib.exercises import find
from course_lib.exercises.coalescing import EXERCISES
from course_lib.workloads.stated import CALLED

KERNELS = [exercise for exercise in EXERCISES.values() if exercise.kind == "kernel" and exercise.called != CALLED]
BUDGET = sum_budget(lambda x: x.double().abs().sum(0), lambda x: x.shape[0])


def in_order(x):
    total = torch.zeros(x.shape[1])
    for row in x.float():
        total = total + row
    return total


def pairwise(x):
    x = x.float()
    while len(x) > 1:
        half = len(x) // 2
        x = torch.cat([x[:half] + x[half : 2 * half], x[2 * half :]])
    return x[0]


def in_parts(x, rows=64):
    return in_order(torch.stack([part.sum(0) for part in x.float().split(rows)]))


def in_tiles(x, rows=32):
    total = torch.zeros(rows, x.shape[1])
    for part in x.float().split(rows):
        total[: len(part)] += part
    return total.sum(0)


def in_half(x):
    total = torch.zeros(x.shape[1], dtype=torch.float16)
    for row in x.half():
        total = total + row
    return total.float()


def in_half_tiles(x):
    return torch.stack([part.half().sum(0) for part in x.split(64)]).float().sum(0)


def used(function, x):
    """The largest share of the budget that the errors of a sum take."""
    expected = x.double().sum(0)
    budget = BUDGET(expected, torch.float32, {"x": x})
    return float(((function(x).double() - expected).abs() / budget).max())


def columns(M, shift, dtype, seed=0):
    return (torch.randn(M, 64, generator=torch.Generator().manual_seed(seed)) + shift).to(dtype)


@pytest.mark.parametrize("M, shift", [(1, 0), (37, 0), (1024, 0), (3001, 1), (4096, 100)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    "order",
    [
        in_order,
        lambda x: in_order(x.flip(0)),
        lambda x: in_order(x[x.abs().sum(1).argsort()]),
        pairwise,
        in_parts,
        in_tiles,
    ],
    ids=["in order", "backwards", "by size", "pairwise", "in parts", "in tiles"],
)
def test_honest_sums_pass(order, M, shift, dtype):
    assert used(order, columns(M, shift, dtype)) < 1


@pytest.mark.parametrize("function", [in_half, in_half_tiles, lambda x: x.bfloat16().sum(0).float()])
@pytest.mark.parametrize("M, shift", [(1201, 0), (3001, 1)])
def test_low_precision_fails(function, M, shift):
    assert used(function, columns(M, shift, torch.float16)) > 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_budget_grows_with_the_dtypes_epsilon(dtype):
    x = columns(100, 1, torch.float32)
    expected = x.double().sum(0)
    coarse, fine = BUDGET(expected, dtype, {"x": x}), BUDGET(expected, torch.float64, {"x": x})
    assert torch.allclose(coarse - fine, 4 * (torch.finfo(dtype).eps - torch.finfo(torch.float64).eps) * expected.abs())
    assert abs(torch.finfo(dtype).eps / torch.finfo(dtype).eps - 1) < 0.02


# ------------------------------------------------------------------------------------------------ the case sets


def shaped(value, like):
    return value.to(like.dtype).expand(like.shape).clone()


def all_zeros(right, arguments):
    return torch.zeros_like(right)


def the_mean(right, arguments):
    return shaped(right.double().mean(), right)


def a_row_of_means(right, arguments):
    return shaped(right.double().mean(0, keepdim=True), right) if right.dim() > 1 else the_mean(right, arguments)


def the_input(right, arguments):
    x = arguments["x"].reshape(-1)
    return x[torch.arange(right.numel()) % x.numel()].reshape(right.shape).to(right.dtype)


def noise(right, arguments):
    return torch.randn(right.shape).to(right.dtype)


def off_by_one(right, arguments):
    return right.flatten().roll(1).reshape(right.shape)


def small_error(right, arguments):
    return (right.double() * 1.01).to(right.dtype)


def expected_results(exercise, arguments):
    """A right solution's results: a list, in the dtypes of the outputs."""
    expected = exercise.oracle(**arguments)
    parts = expected if isinstance(expected, tuple) else (expected,)
    dtype = next(v.dtype for v in arguments.values() if isinstance(v, torch.Tensor))
    return [part.to(dtype) if part.dtype == torch.float64 else part for part in parts]


def judged(exercise, fake):
    """Group of cases -> whether Correct passes what `fake` returns on every case of the group."""
    groups = {}
    for case in exercise.cases:
        arguments = case.arguments(seed=3)
        results = [fake(right, arguments) for right in expected_results(exercise, arguments)]
        output = results if isinstance(exercise.oracle(**arguments), tuple) else results[0]
        evidence = Evidence(case.name, outputs=[output])
        groups.setdefault(case.group, []).append(Trial(case, [arguments], evidence))
    return {group: Correct(group).judge(exercise, trials).passed for group, trials in groups.items()}


@pytest.mark.parametrize("exercise", KERNELS, ids=lambda exercise: exercise.entry)
def test_right_results_pass_every_group(exercise):
    assert all(judged(exercise, lambda right, arguments: right).values())


@pytest.mark.parametrize("fake", [all_zeros, the_mean, a_row_of_means, the_input, noise, off_by_one, small_error])
@pytest.mark.parametrize("exercise", KERNELS, ids=lambda exercise: exercise.entry)
def test_no_group_is_passed_without_computing(exercise, fake):
    copies = exercise.id == "coalescing.row_copy" and fake is the_input  # there the input is the answer
    passed = [group for group, right in judged(exercise, fake).items() if right]
    assert passed == (list(judged(exercise, fake)) if copies else [])


@pytest.mark.parametrize("exercise", KERNELS, ids=lambda exercise: exercise.entry)
def test_cases_differ_in_values_alone_from_seed_to_seed(exercise):
    for case in exercise.cases:
        one, two = case.arguments(1), case.arguments(2)
        assert one.keys() == two.keys()
        for name, x in one.items():
            y = two[name]
            assert (x.shape, x.stride(), x.dtype) == (y.shape, y.stride(), y.dtype)
        assert not torch.equal(one["x"].nan_to_num(), two["x"].nan_to_num())


def test_every_kernel_exercise_is_here():
    assert {find(exercise.id).kind for exercise in KERNELS} == {"kernel"} and len(KERNELS) == 5
