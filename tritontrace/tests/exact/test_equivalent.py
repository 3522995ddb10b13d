"""One formula is equal in every element, whatever the order, the tiles and the formats; another one differs."""

from functools import reduce

import pytest
import torch
import triton
import triton.language as tl
from exact import formulas as kernels
from sentences import mentions, says

from tritontrace.exact import equivalent

g = torch.Generator().manual_seed(0)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=g).to(dtype)


PRODUCTS = [(drawn(40, 37), drawn(37, 33)), (drawn(33, 33), drawn(33, 33))]
ROWS = [(drawn(5, 100),), (drawn(3, 16),)]
HEADS = [(drawn(41, 16), drawn(53, 16), drawn(53, 16))]
PAIRS = {
    "matmul": (kernels.matmul, torch.matmul, PRODUCTS),
    "softmax": (kernels.softmax, lambda x: torch.softmax(x, -1), ROWS),
    "online softmax": (kernels.online_softmax, lambda x: x.exp() / x.exp().sum(-1, keepdim=True), ROWS),
    "online and two-pass": (kernels.online_softmax, kernels.softmax, ROWS),
    "cross-entropy": (
        kernels.cross_entropy,
        lambda x, t: torch.logsumexp(x, -1) - x.gather(1, t[:, None])[:, 0],
        [(drawn(9, 77), torch.randint(77, (9,), generator=g))],
    ),
    "RMSNorm": (
        kernels.rmsnorm,
        lambda x, w: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w,
        [(drawn(6, 50), drawn(50))],
    ),
    "a scan": (kernels.cumsum, lambda x: torch.cumsum(x, -1), ROWS),
    "float16 accumulates": (lambda a, b: kernels.matmul(a, b, acc=tl.float16), torch.matmul, PRODUCTS),
    "TF32": (lambda a, b: kernels.matmul(a, b, tf32=True), torch.matmul, PRODUCTS),
    "other tiles": (lambda a, b: kernels.matmul(a, b, BLOCK=32), kernels.matmul, PRODUCTS),
    "split K, atomics": (kernels.split_k, torch.matmul, PRODUCTS),
    "descriptors": (kernels.described, torch.matmul, [(drawn(40, 36), drawn(36, 32))]),
    "bfloat16": (
        kernels.matmul,
        torch.matmul,
        [(drawn(20, 20, dtype=torch.bfloat16), drawn(20, 20, dtype=torch.bfloat16))],
    ),
    "FlashAttention": (kernels.attention, kernels.naive_attention, HEADS),
    "FlashAttention, causal": (kernels.attention, kernels.naive_attention, [(*HEADS[0], True)]),
    "its gradients": (kernels.gradients, kernels.naive_gradients, [(*HEADS[0], drawn(41, 16))]),
    "its gradients, causal": (kernels.gradients, kernels.naive_gradients, [(*HEADS[0], drawn(41, 16), True)]),
    "fp8": (kernels.pointwise("to fp8 and back"), lambda x: x.clone(), ROWS),
    "sums of outer products": (
        lambda a, b: reduce(lambda c, k: torch.addr(c, a[:, k], b[k]), range(len(b)), torch.zeros(len(a), b.shape[1])),
        torch.matmul,
        [(drawn(4, 5), drawn(5, 3))],
    ),
    "logsumexp of two parts": (
        lambda x: torch.logaddexp(torch.logsumexp(x[:, :7], -1), torch.logsumexp(x[:, 7:], -1)),
        lambda x: torch.logsumexp(x, -1),
        [*ROWS, (torch.full((2, 16), -float("inf")),)],
    ),
    "a bound that nothing crosses": (kernels.pointwise("at least -1e30"), lambda x: x.clone(), ROWS),
    "two sigmoids": (kernels.pointwise("sigmoid"), kernels.pointwise("sigmoid by exp(x)"), ROWS),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_one_formula_is_equal_in_every_element(pair):
    f, g, cases = PAIRS[pair]
    result = equivalent(f, g, cases)
    assert result.outcome == "equal", result
    assert 0 < result.chance < 1e-8


MISTAKES = [
    ("matmul", "the last tile is lost", "tl.store"),
    ("matmul", "mask off by one", "x = tl.load"),
    ("matmul", "an operand transposed", "y = tl.load"),
    ("matmul", "padded lanes are 1", "x = tl.where"),
    ("matmul", "a term of the accumulator is lost", "tl.store"),
    ("attention", "no scale", "s = tl.where"),
    ("attention", "mask off by one", "seen ="),
    ("attention", "causal bound off by one", "seen ="),
    ("attention", "hidden scores are 0", "s = tl.where"),
    ("attention", "exp2 without log2(e)", "p = tl.exp2"),
    ("attention", "l is not rescaled", "l = l + tl.sum"),
    ("attention", "acc is not rescaled", "acc += tl.dot"),
    ("attention", "not divided by l", "tl.store"),
    ("gradients", "delta is missing", "ds = p * dp"),
    ("gradients", "dk is not scaled", "tl.store"),
]


@pytest.mark.parametrize("name,mistake,line", MISTAKES)
def test_another_formula_differs_from_the_line_with_the_mistake_on(name, mistake, line):
    case = {"matmul": PRODUCTS[1], "attention": (*HEADS[0], True), "gradients": (*HEADS[0], drawn(41, 16), True)}[name]
    function = getattr(kernels, name)
    result = equivalent(lambda *x: function(*x, mistake=mistake), function, [case])
    assert result.outcome == "different", result
    assert result.line is not None and result.line.source.startswith(line), result
    assert result.case == 0 and result.share > 0


def test_beside_another_structure_the_store_is_named():
    result = equivalent(lambda *x: kernels.matmul(*x, mistake="mask off by one"), torch.matmul, PRODUCTS)
    assert (result.outcome, result.output, result.exact_line) == ("different", "result 0", False)
    assert result.line is not None and result.line.source.startswith("tl.store")


def test_the_gradient_that_a_mistake_spoils_is_named():
    case = (*HEADS[0], drawn(41, 16))
    result = equivalent(lambda *x: kernels.gradients(*x, mistake="dk is not scaled"), kernels.naive_gradients, [case])
    assert (result.outcome, result.output, result.share) == ("different", "result 1", 1.0)


def test_the_second_case_that_reaches_a_mistake_is_named():
    whole, ragged = (drawn(32, 32), drawn(32, 32)), (drawn(32, 30), drawn(30, 32))
    result = equivalent(lambda *x: kernels.matmul(*x, mistake="padded lanes are 1"), torch.matmul, [whole, ragged])
    assert (result.outcome, result.case) == ("different", 1)


@pytest.mark.parametrize(
    "f, g, id, parameters",
    [
        (kernels.pointwise("to an integer"), lambda x: x, "no_meaning.integer", {}),
        (kernels.pointwise("bits"), lambda x: x, "no_meaning.bits", {}),
        (kernels.pointwise("largest of halves"), kernels.pointwise("half of the largest"), "lost.order", {}),
        (kernels.pointwise("exp of exp"), kernels.pointwise("exp of exp, in two"), "lost.exp", {}),
        (kernels.pointwise("entropy"), kernels.pointwise("entropy"), "lost.mixed", {}),
        (kernels.pointwise("x"), lambda x: x * x.max().item(), "host.number", {}),
        (kernels.pointwise("x"), lambda x: torch.sort(x).values, "host.operation", {"operation": "sort"}),
        (kernels.pointwise("x"), lambda x: x * torch.tensor(20001).to(torch.bfloat16), "host.rounds", {}),
        (
            kernels.pointwise("x"),
            lambda x: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * 1j).flatten(-2),
            "host.operation",
            {"operation": "mul"},
        ),
    ],
)
def test_what_has_no_meaning_in_a_field_is_refused_by_name(f, g, id, parameters):
    result = equivalent(f, g, ROWS)
    assert result.outcome == "not applicable" and mentions(result.reason, f"exact.{id}", **parameters), result


def test_a_refused_operation_has_its_line():
    result = equivalent(kernels.pointwise("to an integer"), lambda x: x, ROWS)
    assert "a.to(tl.int32)" in result.reason


def test_the_same_order_of_values_on_both_sides_is_no_obstacle():
    assert equivalent(kernels.pointwise("where positive"), torch.relu, ROWS)
    assert equivalent(kernels.pointwise("where positive"), kernels.pointwise("half of x and |x|"), ROWS)


def test_arguments_that_are_changed_are_compared():
    def doubles(x):
        x *= 2

    assert equivalent(doubles, doubles, ROWS)
    result = equivalent(doubles, lambda x: None, ROWS)
    assert (result.outcome, result.output) == ("different", "argument 0")


def test_arguments_stay_as_they_are():
    (x,) = ROWS[0]
    before = x.clone()
    equivalent(kernels.softmax, kernels.softmax, [ROWS[0]])
    assert torch.equal(x, before)


def test_other_numbers_and_shapes_of_results_differ():
    assert says(equivalent(lambda x: (x, x), lambda x: x, ROWS).reason, "exact.differs.count", count=2, other=1)
    assert says(equivalent(lambda x: x[:1], lambda x: x, ROWS).reason, "exact.differs.shape")


def test_a_host_that_multiplies_the_scale_by_log2_e_is_no_false_alarm():
    scale = 16**-0.5
    f = lambda x: torch.exp2(x * (scale * 1.4426950408889634))  # noqa: E731
    assert equivalent(f, lambda x: torch.exp(x * scale), ROWS)


# docs/exact.md tells of both: what is called different and is one formula, and what is called equal and is not.
FALSE_ALARMS = [("sqrt squared", "x"), ("fourth roots", "a square root"), ("a mask of -1e30", "a mask of -inf")]


@pytest.mark.parametrize("one,other", FALSE_ALARMS)
def test_known_false_alarms(one, other):
    assert equivalent(kernels.pointwise(one), kernels.pointwise(other), ROWS).outcome == "different"


def test_arguments_that_belong_together_are_a_known_false_alarm():
    x, lse = ROWS[0][0], torch.logsumexp(ROWS[0][0], -1, True)
    by_lse, anew = lambda x, lse: (x - lse).exp(), lambda x, lse: torch.softmax(x, -1)
    assert torch.allclose(by_lse(x, lse), anew(x, lse))
    assert equivalent(by_lse, anew, [(x, lse)]).outcome == "different"


def test_known_blind_spots():
    no_maximum = lambda x: x.exp() / x.exp().sum(-1, keepdim=True)  # noqa: E731  it overflows
    assert equivalent(no_maximum, kernels.softmax, ROWS)
    one_value_alone = lambda x: torch.where(x == 3.0, 0.0, x)  # noqa: E731  which no random input is
    assert equivalent(one_value_alone, lambda x: x, ROWS)
    assert equivalent(lambda x: x.half().float(), lambda x: x, ROWS)


@triton.jit
def masked_softmax_kernel(x, out, N, BLOCK: tl.constexpr, LOW: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * N + n, n < N, other=LOW)
    e = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * N + n, e / tl.sum(e, 0), n < N)


@pytest.mark.parametrize("low, told", [(-1e6, ["-1e+06"]), (-5.0, None)])
def test_a_number_that_stands_for_minus_infinity_is_named(low, told):
    """It is no infinity here, and what another formula is for another reason has no such sentence."""

    def masked(x):
        out = torch.empty_like(x)
        masked_softmax_kernel[(x.shape[0],)](x, out, x.shape[1], 128, low)
        return out

    found = equivalent(masked, lambda x: torch.softmax(x, -1), ROWS[:1])
    assert found.outcome == "different" and (found.reason.parameters["constants"] if found.reason else None) == told
