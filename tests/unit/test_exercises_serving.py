"""Unit 12: oracles agree with torch and with brute force, what the cases promise holds, and budgets admit honest
arithmetic and nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from sentences import says
from torch.nn.functional import scaled_dot_product_attention

from course_lib import trace
from course_lib.criteria import judge
from course_lib.evidence import Evidence
from course_lib.execution import observe
from course_lib.execution.calls import as_a_checkpoint_does
from course_lib.exercise import Trial
from course_lib.exercises import find
from course_lib.exercises.serving import EXERCISES as OF_UNIT_12
from course_lib.exercises.serving import batching, broken, caches, cases, criteria, interfaces, positions, rings
from course_lib.exercises.training import grouped_backward, operator_norm, operators, shared_heads
from grader.judging.cases import hidden_cases
from grader.published import answer, published, solution_cell
from tritontrace.replay import load
from tritontrace.results import Operation

G = torch.Generator


def drawn(draw, seed: int = 1):
    return draw(G().manual_seed(seed))


# ------------------------------------------------------------------------------------------------ oracles


def test_attention_of_a_layer_is_torchs():
    """Heads in groups and a mask, as torch has them; and its is_causal is the top left."""
    given = drawn(cases.layer(2, 2, 3, 9, 14, 8, mask="padded"))
    q, k, v = (given[name].double() for name in "qkv")
    right = scaled_dot_product_attention(q, k, v, given["mask"], enable_gqa=True).transpose(1, 2)
    torch.testing.assert_close(interfaces.attended(**given), right)
    top_left = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
    torch.testing.assert_close(interfaces.attended(q, k, v, top_left=True), top_left)
    assert not torch.allclose(interfaces.attended(q, k, v), top_left)


def test_a_window_and_its_mask_are_the_same():
    given = drawn(cases.layer(1, 1, 2, 7, 11, 8))
    at, keys = torch.arange(4, 11)[:, None], torch.arange(11)
    mask = ((keys <= at) & (keys > at - 3)).expand(1, 1, 7, 11)
    q, k, v = (given[name] for name in "qkv")
    torch.testing.assert_close(interfaces.attended(q, k, v, window=3), interfaces.attended(q, k, v, mask=mask))


def test_gradients_of_shared_heads_are_autograds():
    given = drawn(shared_heads.shared_heads(2, 2, 3, 6, 9, 8))
    leaves = [given[name].double().requires_grad_() for name in "qkv"]
    q, k, v = leaves
    mask = torch.ones(6, 9, dtype=torch.bool).tril(3)
    o = scaled_dot_product_attention(q, k, v, mask, scale=given["scale"], enable_gqa=True)
    for found, right in zip(
        shared_heads.shared_gradients(**given), torch.autograd.grad(o, leaves[1:], given["do"].double()), strict=True
    ):
        torch.testing.assert_close(found, right)


def test_token_by_token_is_the_full_pass():
    """The outputs, with room for all tokens, are those of causal attention on turned q and k."""
    given = drawn(cases.text(2, 2, 2, 7, 8, 3, 16))
    q, k = (cases.turned(given[name], given["cos"].double(), given["sin"].double()) for name in "qk")
    k = k.float().double()  # a cache holds float32
    right = scaled_dot_product_attention(q, k, given["v"].double(), is_causal=True, enable_gqa=True)
    torch.testing.assert_close(torch.cat(caches.full_pass(**given), 2), right[:, :, 3:])


def test_a_ring_has_the_last_tokens():
    x = torch.arange(7.0).view(1, 1, 7, 1)
    assert cases.ring(x, 4, 6).flatten().tolist() == [4, 5, 2, 3]
    assert rings.kept(x, 4, 3).flatten().tolist() == [0, 1, 2]
    assert math.isnan(cases.ring(x, 4, 3)[0, 0, 3, 0])


def test_a_ring_written_token_by_token_is_right_and_each_wrong_one_is_not():
    given = drawn(cases.tokens(1, 2, (3, 2, 2, 2, 2, 2), 8, 5)), drawn(cases.tokens(1, 2, (20, 1), 8, 6))
    right = [rings.appended(**one) for one in given]
    for one, expected in zip(given, right, strict=True):
        assert all(map(torch.equal, rings.written(rings.in_turn)(**one), expected))
    for name, wrongs in rings.WRONG_WRITES.items():
        found = [(wrong(**one), expected) for wrong in wrongs for one, expected in zip(given, right, strict=True)]
        assert any(ring and not torch.equal(ring[0], expected[0]) for ring, expected in found), name


def test_pages_are_shuffled_and_full_of_nan():
    given = drawn(cases.pages(2, 1, 2, (5, 40), 8, 16))
    assert int(given["k_pages"].isnan().all(-1).sum()) == 16 * len(given["k_pages"]) - 45
    assert given["table"][0, 1:].tolist() == [2**30, 2**30] and not caches.gathered(**given).isnan().any()


def test_rotary_knows_the_distance_alone():
    q, k = (torch.randn(1, 1, 4, 8, generator=G().manual_seed(i)) for i in (1, 2))
    scores = []
    for first in (0, 1000):
        at = torch.arange(first, first + 4)
        scores.append(positions.rotated(q, at, 100.0) @ positions.rotated(k, at, 100.0).mT)
    torch.testing.assert_close(*scores)


def test_positions_by_hand():
    assert positions.waves(torch.tensor([0, 1]), 4)[1].tolist() == pytest.approx(
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
    )
    assert positions.biases(2, 1, 3)[:, 0].tolist() == [[-2 / 16, -1 / 16, 0], [-2 / 256, -1 / 256, 0]]
    assert list(positions.touched().values()) == [
        *(True, True, True, False),
        *(True, True, False, True),
        *(False, False, False, True),
    ]
    assert list(positions.keys_seen().values()) == [1, 10, 11, 16, 17, 1, 10, 17, 4]


def test_a_cache_by_hand():
    """Two layers, 3 heads of 5, 4 bytes, 7 tokens: k and v."""
    assert batching.cache_bytes(2, 3, 5, 4, 7) == 2 * 2 * 3 * 5 * 4 * 7
    config = dict(layers=1, kv_heads=1, head_dim=1, itemsize=2, window=None, parameters=50)
    assert batching.counted(config, 10, 100 + 3 * 40 + 39, 2.0) == (40, 3, 110.0)
    assert batching.counted(config, 10, 100 + 9999 * 40, 2.0)[1] == 9999, (
        "as many texts as fit, however small their caches"
    )


def test_the_norm_is_torchs():
    given = drawn(operators.normed(5, 8))
    right = torch.nn.functional.rms_norm(given["x"].double(), (8,), given["weight"].double(), 1e-6)
    torch.testing.assert_close(operators.with_gradients(**given)[0], right)


# ------------------------------------------------------------------------------------------------ cases, budgets

SERVING = (*OF_UNIT_12.values(), grouped_backward, operator_norm)  # these two are unit 11's, and have the same tests
FLOATS = [e for e in SERVING if e.kind == "kernel"]


@pytest.mark.parametrize("exercise", FLOATS, ids=lambda e: e.entry)
def test_zeros_are_wrong(exercise):
    for case in exercise.cases:
        given = case.arguments(2)
        expected = exercise.oracle(**given)
        first = (expected if isinstance(expected, tuple) else (expected,))[0]
        if exercise.budget:
            dtypes = [x.dtype for x in given.values() if isinstance(x, torch.Tensor)]
            budget = exercise.budget(first.double(), (dtypes or [torch.float32])[0], given)
            assert (first.double().abs() > budget).any() or not first.any(), case.name


@pytest.mark.parametrize("exercise", SERVING, ids=lambda e: e.entry)
def test_seeds_change_numbers_and_no_shapes(exercise):
    for case in [*exercise.cases, *hidden_cases(exercise.id, 5)]:
        one, other = case.arguments(1), case.arguments(2)
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, torch.Tensor):
                assert value.shape == other[name].shape and value.stride() == other[name].stride(), (case.name, name)
            else:
                assert value == other[name], (case.name, name)


@pytest.mark.parametrize("exercise", SERVING, ids=lambda e: e.entry)
def test_hidden_cases_have_a_criterion(exercise):
    groups = {getattr(c, "group", "") for c in (*exercise.gates, *exercise.criteria)}
    assert {case.group for case in hidden_cases(exercise.id, 5)} <= groups


# ------------------------------------------------------------------------------------------------ criteria


def test_bytes_of_torchs_operations():
    cat = Operation("cat", [[1, 2, 9, 4], [1, 2, 1, 4]], [1, 2, 10, 4], ["float32"])
    assert criteria.moved_by(cat) == 4 * 2 * 4 * (9 + 1 + 10)
    assert criteria.moved_by(Operation("copy_", [[2, 3], [2, 3]], [2, 3], ["bfloat16"])) == 2 * 2 * 6
    put = Operation("index_put_", [[1, 2, 99, 4], [1], [1, 2, 1, 4]], [1, 2, 99, 4], ["float32"])
    assert criteria.moved_by(put) == 2 * 4 * 8


def test_a_cache_that_copies_is_told_what_it_copies():
    exercise = rings.kv_cache
    case = next(c for c in exercise.cases if c.group == "performance")
    given = case.arguments(1)
    cat = Operation("cat", [[2, 4, 64, 32], [2, 4, 8, 32]], [2, 4, 72, 32], ["float32"])
    outputs = [[x.float() for x in exercise.oracle(**given)]]
    (asked,) = [c for c in exercise.criteria if c.key == "moves.performance"]
    for times, lost in ((0, False), (20, True)):
        evidence = Evidence(case.name, outputs=outputs, operations=[cat] * times)
        finding = asked.judge(exercise, [Trial(case, [given], evidence)])
        assert finding.lost is lost
        assert ("torch does cat" in finding.detail) is lost


# ------------------------------------------------------------------------------------------------ the six faults


def handed_out(**changed: bool):
    """The attention of `mended` as it was handed out."""
    cell = solution_cell("serving.mended").split("### BEGIN SOLUTION")[0]
    return load([*answer("serving.mended", cell)[:1], ("<handed out>", cell)], "mended")


def test_what_is_handed_out_has_all_six_faults():
    """Wrong in each group by itself, and without a gradient."""
    verdict = judge(broken.mended, observe(broken.mended, handed_out(), 1))
    assert verdict.points == 0
    given = broken.mended.cases[0].arguments(1)
    o, *gradients = as_a_checkpoint_does(handed_out(), dict(given), lambda: None)
    assert gradients == [None] * 3
    torch.testing.assert_close(o.double(), broken.trained(**given)[0], rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------------------------------ torch's own judge


def test_the_operator_is_what_torch_asks_for():
    """opcheck and torch.compile, under a trace, without a GPU."""
    function = published("training.operator_norm")
    operator = function.__globals__["norm_op"]
    x, weight = torch.randn(6, 16, requires_grad=True), torch.randn(16, requires_grad=True)
    with trace():
        assert set(torch.library.opcheck(operator, (x, weight)).values()) == {"SUCCESS"}
        eager = torch.autograd.grad(function(x, weight).square().sum(), (x, weight))
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        found = torch.autograd.grad(compiled(x, weight).square().sum(), (x, weight))
    for one, other in zip(eager, found, strict=True):
        assert torch.equal(one, other)


def test_they_are_found():
    assert all(find(e.id) is e for e in SERVING)


def test_a_gradient_of_none_is_no_return_that_is_missing():
    source = solution_cell("training.operator_norm").replace(
        "return norm_backward_op(*ctx.saved_tensors, dy)", "return norm_backward_op(*ctx.saved_tensors, dy)[0], None"
    )
    exercise = find("training.operator_norm")
    verdict = judge(exercise, observe(exercise, load(answer(exercise.id, source), exercise.entry), 1))
    assert [f.seen for f in verdict.findings if f.lost] == ["result 3 of 3: None, and the others are not"]
    assert says(verdict.remark, "training.operator_norm.none_for_the_weight")
