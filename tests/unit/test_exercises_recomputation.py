"""Unit 07's oracles against hand counts, autograd and each other; live bytes against what was made; criteria of its own."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from messages import id_of, ids, parameters
from sentences import says
from stopped import raised, refused

from course_lib import criteria
from course_lib.evidence import Evidence
from course_lib.execution import record_all
from course_lib.exercise import Trial
from course_lib.exercises import recomputation as R
from course_lib.workloads import activations
from course_lib.workloads.activations import FUNCTIONS, Live, chain, run_checkpoint, split_evenly, train_step
from tritontrace.replay import steps
from tritontrace.results import Footprint, Launch, Saved, Steps
from tritontrace.tracing import trace


def saved_by_the_graph(out: torch.Tensor) -> dict[int, int]:
    """Storages that the nodes of a graph hold, found by their `_saved_` attributes."""
    found, todo, seen = {}, [out.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else None
            for tensor in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(tensor, torch.Tensor) and tensor.dim():  # a number is no tensor that anybody made
                    found[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        todo += [following for following, _ in node.next_functions]
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_hooks_see_is_what_the_graph_holds(name):
    sizes = [7, 5, 11][: FUNCTIONS[name][1].__code__.co_argcount]
    fn, args = chain(name, sizes)
    out = fn(*args)
    own = {a.untyped_storage()._cdata for a in args}
    held = sum(n for key, n in saved_by_the_graph(out).items() if key not in own)
    assert R.oracles.kept_bytes(name, sizes) == held


def test_kept_bytes_equal_hand_counts():
    n = 4 * 6 * 5
    assert R.oracles.kept_bytes("three sigmoids", [6, 5]) == 3 * n
    assert R.oracles.kept_bytes("mlp", [6, 5, 20]) == 2 * 4 * 6 * 20
    assert R.oracles.kept_bytes("sigmoid in half precision", [6, 5]) == n // 2
    assert R.kept_tensors.oracle() == dict(zip(R.saved.QUESTIONS, (0, 0, 1, 3, 0, 8), strict=True))


def test_a_wrong_name_is_told_the_right_ones():
    with pytest.raises(ValueError, match="there are add, multiply"):
        chain("reluu", [1, 2])


@pytest.mark.parametrize("n", [1, 1000, 4097])
def test_three_sigmoids_are_eight_memory_operations_or_five(n):
    assert R.oracles.sigmoid_bytes(n, 4, False) == (4 * n * 4, 4 * n * 4)
    assert R.oracles.sigmoid_bytes(n, 4, True) == (2 * n * 4, 3 * n * 4)


def test_the_oracle_kernels_compute_three_sigmoids():
    x, dy = torch.randn(300), torch.randn(300)
    out, dx = R.sigmoid3.oracle(x, dy)
    s1, s2, y, got = (torch.empty(300) for _ in range(4))
    with trace():
        R.oracles.sigmoids[(3,)](x, s1, s2, y, 300, STORE=True, BLOCK=128)
        R.oracles.sigmoids_backward[(3,)](x, s1, s2, dy, got, 300, STORED=True, BLOCK=128)
    assert torch.allclose(y, out.float()) and torch.allclose(got, dx.float(), atol=1e-7)


def test_dropout_keeps_the_right_share_and_its_seed():
    x = torch.ones(100, 100)
    kept = R.oracles.kept_elements(x, 0.3, 5)
    assert abs(kept.float().mean() - 0.7) < 0.02
    assert torch.equal(kept, R.oracles.kept_elements(x, 0.3, 5)) and not torch.equal(
        kept, R.oracles.kept_elements(x, 0.3, 6)
    )
    out, dx = R.oracles.dropout_and_gradient(x, 0.3, 5, 2 * x)
    assert torch.equal(out > 0, kept) and torch.allclose(dx, 2 * out)


def test_rmsnorm_gradients_follow_the_formula():
    a = R.cases.normed(5, 7)(torch.Generator().manual_seed(1))
    dx, dweight = R.oracles.rmsnorm_gradients(**a)
    n, g = a["x"] * a["rstd"][:, None], a["dy"] * a["weight"]
    assert torch.allclose(dx.float(), a["rstd"][:, None] * (g - n * (g * n).mean(1, keepdim=True)), atol=1e-4)
    assert torch.allclose(dweight, (a["dy"] * n).sum(0), atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_large_rows_stay_finite_in_float16(seed):
    a = R.cases.normed(80, 300, torch.float16, scale=1000.0)(torch.Generator().manual_seed(seed))
    assert all(bool(t.isfinite().all()) for t in (*a.values(), *R.oracles.rmsnorm_gradients(**a)))


def test_a_target_is_never_banned():
    a = R.cases.logits(50, 20, ban=0.9)(torch.Generator().manual_seed(3))
    assert bool(a["x"].gather(1, a["target"][:, None]).isfinite().all()) and bool(a["x"].isinf().any())
    assert bool(R.cross_entropy_backward.oracle(**a).isfinite().all())


# ------------------------------------------------------------------------------------------------ live bytes


def test_live_bytes_come_and_go():
    with Live() as live:
        a = torch.ones(1000)
        b = a + 1
        del a
        c = b.view(10, 100)
        del b
        d = c * 2
        del c, d
    assert live.bytes[:2] == [4000, 8000] and max(live.bytes) == 8000
    assert live.now() == 0


def test_live_bytes_at_the_end_are_the_same_without_those_of_each_operation():
    kept = []
    for each in (True, False):
        with Live(each) as live:
            chunks = (torch.ones(1000) + 1).split([400, 600])
            rest = torch.cat([chunks[0], chunks[1]])
            del chunks
        kept.append((live.now(), bool(live.bytes)))
        del rest
    assert kept == [(4000, True), (4000, False)]


def test_a_deep_model_keeps_nine_boundaries_a_layer():
    found = train_step(4, tokens=64, width=8)
    assert found.bytes[found.forward - 1] == 4 * 9 * found.boundary + 4  # and the loss
    one = train_step(1, tokens=64, width=8)
    assert found.peak - 4 * found.inside == one.peak - one.inside, "the backward pass of one layer works with as much"


@pytest.mark.parametrize("segments", [1, 3, 5, 8])
def test_a_checkpointed_model_stays_within_the_schedule(segments):
    boundary, inside = 1, 9
    one, found = train_step(1), train_step(8, segments)
    predicted = R.oracles.peak_of(8, boundary, inside, segments) * found.boundary + one.peak - one.inside
    assert 0.85 * predicted < found.peak <= predicted


def test_more_segments_than_layers_are_refused():
    with pytest.raises(ValueError, match="0 to 3 segments, not 4"):
        train_step(3, 4)


@given(st.integers(1, 60), st.integers(1, 60))
def test_segments_are_even(layers, segments):
    if segments <= layers:
        lengths = split_evenly(layers, segments)
        assert sum(lengths) == layers and len(lengths) == segments
        assert max(lengths) == math.ceil(layers / segments) and max(lengths) - min(lengths) <= 1


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 50))
def test_the_schedule_peaks_where_the_formula_says(layers, boundary, inside):
    segments, peak = R.oracles.least_peak(layers, boundary, inside)
    assert peak == min(s * boundary + -(-layers // s) * inside for s in range(1, layers + 1))
    assert R.checkpoints.has_the_least_peak([segments, 0], layers, boundary, inside) == ""
    assert R.checkpoints.says_its_peak([segments, peak], layers, boundary, inside) == ""
    assert R.checkpoints.says_its_peak([segments, peak + 1], layers, boundary, inside)


def test_predictions_are_held_against_a_counted_model():
    right = list(R.oracles.least_peak(**R.checkpoints.MODEL))
    assert right[0] == 12 and R.checkpoints.holds_when_counted(right, **R.checkpoints.MODEL) == ""
    assert says(
        R.checkpoints.holds_when_counted([12, right[1] // 2], **R.checkpoints.MODEL), "recomputation.segments_for.more"
    )
    assert says(
        R.checkpoints.holds_when_counted([12, 2 * right[1]], **R.checkpoints.MODEL), "recomputation.segments_for.less"
    )
    assert R.checkpoints.says_its_peak([12, {"unsupported": "a tensor"}], **R.checkpoints.MODEL).endswith(
        "segments; got (12, a tensor)"
    )
    assert R.checkpoints.has_the_least_peak([4, 8000.0], 16, 1000, 1000).endswith("1 to 16 segments; got (4, 8000.0)")
    assert R.checkpoints.has_the_least_peak([3, 120], 1, 10, 90).endswith("with 1 to 1 segment; got (3, 120)")
    assert "boundary = 10 and inside = 90, 23 layers in 1 segment" in R.checkpoints.has_the_least_peak(
        [1, 9], 23, 10, 90
    )
    for nonsense in (None, [0, 5], [25, 5], 12, [12, "many"], [True, 5]):
        assert says(
            R.checkpoints.has_the_least_peak(nonsense, **R.checkpoints.MODEL), "recomputation.segments_for.no_pair"
        )


# ------------------------------------------------------------------------------------------------ checkpoints

STEP = dict(rows=9, width=4, p=0.3, calls=2, frozen=False, seed=8)


def test_torchs_checkpoint_passes_where_a_plain_call_keeps_everything():
    plain, found = R.checkpoints.plain_step(**STEP), run_checkpoint(activations.checkpoint_of_torch, **STEP)
    assert R.checkpoints.like_the_plain_step("out", "gradients", "after")(found, **STEP) == ""
    assert R.checkpoints.recomputes(found, **STEP) == "" and R.checkpoints.same_dropout(found, **STEP) == ""
    big = STEP | {"rows": 64, "width": 32}
    assert says(R.checkpoints.recomputes(R.checkpoints.plain_step(**big), **big), "recomputation.checkpoint.alive")
    dropout = R.checkpoints.same_dropout(plain, **STEP)
    assert says(dropout, "recomputation.checkpoint.too_few")
    runs = parameters(dropout, "recomputation.checkpoint.runs")
    assert runs == {"checkpoints": 2, "expected": 4, "seen": 2}


def test_a_plain_call_earns_nothing_but_its_result():
    earned = 0
    for criterion in R.checkpoint.criteria:
        cases = [c.arguments(1) for c in R.checkpoint.cases if c.group == criterion.group]
        earned += criterion.points * all(criterion.problem(R.checkpoints.plain_step(**a), **a) == "" for a in cases)
    assert earned == 3


def checkpoint_by_hand(how: str):
    """A checkpoint that draws dropout anew; `how` may name one slip more."""

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, fn, *args):
            ctx.fn, ctx.args, ctx.p = fn, args[:-1], args[-1]
            ctx.save_for_backward(*args[:-1])
            return fn(*args)

        @staticmethod
        def backward(ctx, dy):
            tensors = ctx.args if how == "no detach, on ctx" else ctx.saved_tensors
            if "no detach" not in how:
                tensors = [t.detach().requires_grad_() for t in tensors]
            with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(how != "no enable_grad"):
                out = ctx.fn(*tensors, ctx.p)
            if how == "all arguments":
                tensors = [*tensors, torch.zeros(2)]
            elif how == "nothing asked":
                tensors = []
            gradients = torch.autograd.grad(out, tensors, dy)
            return gradients[0] if how == "one gradient" else (None, *gradients, None)

    return Checkpoint.apply


def test_a_state_that_was_put_back_earns_its_points_whatever_dropout_does():
    found = run_checkpoint(checkpoint_by_hand("another mask"), **STEP)
    assert R.checkpoints.like_the_plain_step("after")(found, **STEP) == ""
    assert R.checkpoints.like_the_plain_step("gradients")(found, **STEP) and R.checkpoints.same_dropout(found, **STEP)
    state = next(c for c in R.checkpoint.criteria if c.group == "after")
    assert state.problem(found, **STEP) == ""


def test_arguments_with_a_history_are_told_to_be_detached():
    calls = STEP | {"calls": 3}
    said = R.checkpoints.recomputes(
        run_checkpoint(checkpoint_by_hand("no detach, on ctx"), **calls) | {"kept": 0}, **calls
    )
    runs = parameters(said, "recomputation.checkpoint.runs")
    assert runs == {"checkpoints": 3, "expected": 6, "seen": 10} and said.id == "recomputation.checkpoint.too_many"


@pytest.mark.parametrize("calls, runs", [(1, 3), (3, 9)])
def test_two_runs_in_backward_are_not_blamed_on_a_history(calls, runs):
    assert R.checkpoints.wrong_runs([0] * runs, calls).id == "recomputation.checkpoint.runs"


@pytest.mark.parametrize(
    "how, advice",
    [
        ("no enable_grad", "recomputation.checkpoint.no_gradients_inside_backward"),
        ("no detach", "recomputation.checkpoint.does_not_detach"),
        ("all arguments", "recomputation.checkpoint.no_gradient"),
        ("nothing asked", "recomputation.checkpoint.nothing_to_differentiate_by"),
        ("one gradient", "recomputation.checkpoint.number_of_gradients"),
    ],
)
def test_torchs_complaints_get_advice(how, advice):
    with pytest.raises(RuntimeError) as error:
        run_checkpoint(checkpoint_by_hand(how), **STEP)
    case = R.checkpoint.cases[0]
    trial = Trial(case, [case.arguments(1)], Evidence(case.name, **raised(str(error.value))))
    assert id_of(criteria.judge(R.checkpoint, [trial]).remark) == advice


def test_another_random_state_shows():
    moved = R.checkpoints.plain_step(**STEP) | {"after": 0.5}
    differs = R.checkpoints.like_the_plain_step("after")(moved, **STEP)
    assert ids(differs) == {"recomputation.checkpoint.differs", "recomputation.checkpoint.random_number"}
    other = run_checkpoint(activations.checkpoint_of_torch, **STEP) | {"draws": [1, 2, 2, 3]}
    assert says(R.checkpoints.same_dropout(other, **STEP), "recomputation.checkpoint.other_dropout")


def test_a_checkpoint_without_a_result_gives_none():
    assert run_checkpoint(lambda fn, *args: None, **STEP) is None
    assert says(R.checkpoints.like_the_plain_step("out")(None, **STEP), "recomputation.checkpoint.no_tensor")


# ------------------------------------------------------------------------------------------------ the criterion


def judged(saved, ready=(0, 1)) -> criteria.Finding:
    case = next(c for c in R.seeded_dropout.cases if c.group == "performance")
    arguments = case.arguments(1)
    outputs = [[t.float() for t in R.seeded_dropout.oracle(**arguments)]]
    evidence = Evidence(case.name, outputs=outputs, saved=saved, ready=list(ready))
    return R.criteria.KeepsNothing(3).judge(R.seeded_dropout, [Trial(case, [arguments], evidence)])


def test_keeping_even_an_input_is_seen():
    assert judged([]).points == 3 and says(judged([]).seen, "recomputation.keeps_nothing.nothing")
    found = judged([Saved("x", 4000)])
    assert found.points == 0
    assert parameters(found.seen, "recomputation.keeps_nothing.tensor") == {"tensor": "x", "bytes": 4000}
    assert judged(None).points == 0 and judged([], ready=()).points == 0


# ------------------------------------------------------------------------------------------------ mistakes


def remark(name: str, outputs, **evidence) -> str:
    """The remark on an exercise whose calls return outputs(arguments)."""
    return remark_in(lambda group: group not in ("performance", "twice"), name, outputs, **evidence)


def remark_in(chosen, name: str, outputs, **evidence) -> str:
    exercise = R.EXERCISES[f"recomputation.{name}"]
    trials = []
    for case in exercise.cases:
        if chosen(case.group):
            call = case.arguments(3)
            trial = Trial(case, [call], Evidence(case.name, outputs=[outputs(**call)], **evidence))
            trials.append(criteria.GradedTrial.of(exercise, trial))
    return next(filter(None, (look(trials) for look in exercise.mistakes)), "")


@pytest.mark.parametrize(
    "name, mixed",
    [("sigmoid3", {"x"}), ("recomputed_gelu", {"x", "gate"}), ("seeded_dropout", {"seed"}), ("seeded_dropout", {"p"})],
)
def test_the_inputs_of_another_application_are_no_ones_own(name, mixed):
    def overwritten(dy, between=(), **inputs):
        others = dict(zip(inputs, between, strict=False))
        right, mixed_up = (
            the_right(name)(**inputs | changed, dy=dy) for changed in ({}, {n: others[n] for n in mixed if between})
        )
        return [right[0], *mixed_up[1:]]

    assert id_of(remark_in(lambda group: group != "performance", name, overwritten)) == "criteria.twice.of_the_other"
    assert remark_in(lambda group: group != "performance", name, the_right(name)) == ""


def the_right(name: str):
    """Make a function that returns a right solution's results: in the dtype of x where the oracle says float64."""
    exercise = R.EXERCISES[f"recomputation.{name}"]

    def outputs(**call):
        right = exercise.oracle(**call)
        if not isinstance(right, tuple):
            right = (right,)
        cast = [t.to(call["x"].dtype) if t.dtype == torch.float64 else t for t in right]
        return cast if len(cast) > 1 else cast[0]

    return outputs


def overflowing(x, target, lse, dloss):
    p = x.float().exp() / lse.exp()[:, None]
    p[torch.arange(len(p)), target] -= 1
    return (p * dloss[:, None]).to(x.dtype)


def in_the_tail(x, target, lse, dloss):
    dx = the_right("cross_entropy_backward")(x=x, target=target, lse=lse, dloss=dloss)
    dx[:, x.shape[1] // 256 * 256 :] = math.nan
    return dx


def dropped_anew(x, p, seed, dy):
    out, _ = the_right("seeded_dropout")(x=x, p=p, seed=seed, dy=dy)
    return [out, the_right("seeded_dropout")(x=x, p=p, seed=seed + 1, dy=dy)[1]]


def nothing_dropped(x, p, seed, dy):
    return [the_right("seeded_dropout")(x=x, p=p, seed=seed, dy=dy)[0], dy / (1 - p)]


def sigmoids(of_the_third):
    """The results of sigmoid3 if the third factor of dx is this function of s3."""

    def results(x, dy):
        dx = dy.double() * R.mistakes.chain_of(x, [0, 1]) * of_the_third(R.mistakes.sigmoids_of(x)[2])
        return [R.mistakes.sigmoids_of(x)[2].to(x.dtype), dx.to(x.dtype)]

    return results


def by_blocks(**call):
    return R.mistakes.gradient_of_logits(**call, block=128).to(call["x"].dtype)


def tensors(stored, recomputed):
    return lambda n, itemsize, recompute: [t * n * itemsize for t in (recomputed if recompute else stored)]


def not_divided(x, p, seed, dy):
    kept = R.oracles.kept_elements(x, p, seed)
    return [torch.where(kept, x, 0), torch.where(kept, dy, 0)]


def over_a_block(x, weight, rstd, dy):
    n, g = x.double() * rstd[:, None], dy.double() * weight.double()
    dx = rstd[:, None] * (g - n * (g * n).sum(1, keepdim=True) / 2 ** math.ceil(math.log2(x.shape[1])))
    return [dx.to(x.dtype), (dy.double() * n).sum(0).float()]


@pytest.mark.parametrize(
    "name, outputs, word",
    [
        ("cross_entropy_backward", overflowing, "exponentials_that_overflow"),
        ("cross_entropy_backward", in_the_tail, ""),
        ("cross_entropy_backward", the_right("cross_entropy_backward"), ""),
        ("seeded_dropout", dropped_anew, "another_mask_backward"),
        ("seeded_dropout", nothing_dropped, "no_mask_backward"),
        ("seeded_dropout", not_divided, "no_scale"),
        ("seeded_dropout", the_right("seeded_dropout"), ""),
        ("sigmoid3", sigmoids(lambda s: s * (1 - s)), ""),
        ("sigmoid3", sigmoids(torch.ones_like), "a_factor_is_missing"),
        ("sigmoid3", sigmoids(lambda s: s * (1 + s)), "a_factor_is_another"),
        ("cross_entropy_backward", by_blocks, "each_block_by_itself"),
        ("sigmoid3_traffic", tensors((4, 4), (2, 3)), ""),
        ("sigmoid3_traffic", tensors((4, 5), (2, 3)), "stored"),
        ("sigmoid3_traffic", tensors((4, 4), (2, 4)), "recomputed"),
        (
            "sigmoid3_traffic",
            lambda n, itemsize, recompute: [2 * n, 3 * n] if recompute else [4 * n, 4 * n],
            "elements",
        ),
        ("sigmoid3_traffic", lambda n, itemsize, recompute: [10**400, 0], ""),
        ("rmsnorm_backward", over_a_block, "the_mean_over_the_block"),
        ("rmsnorm_backward", the_right("rmsnorm_backward"), ""),
        ("saved_bytes", lambda **c: R.oracles.kept_bytes(**c, inputs=True), "inputs_count"),
        ("saved_bytes", lambda **c: min(R.oracles.kept_bytes(**c), 196608), "keeps_nothing_and_meets_addresses_again"),
        ("saved_bytes", R.oracles.kept_bytes, ""),
        ("saved_bytes", lambda **c: 5, ""),
    ],
)
def test_remarks_on_typical_mistakes(name, outputs, word):
    told = remark(name, outputs)
    assert id_of(told) == (word and f"recomputation.{name}.{word}")


@pytest.mark.parametrize(
    "message, line, word",
    [
        (
            "function X returned an incorrect number of gradients (expected 2, got 1)",
            "",
            "recomputation.sigmoid3.number_of_gradients",
        ),
        (
            "not enough values to unpack (expected 1, got 0)",
            "(x,) = ctx.saved_tensors",
            "recomputation.sigmoid3.saved_nothing",
        ),
        ("not enough values to unpack (expected 2, got 0)", "a, b = []", ""),
    ],
)
def test_errors_of_a_function_get_advice(message, line, word):
    told = remark("sigmoid3", lambda **_: None, **raised(message, line=line))
    assert id_of(told) == word


@pytest.mark.parametrize("name", ["sigmoid3", "recomputed_gelu", "seeded_dropout"])
def test_a_cast_that_nobody_wrote_is_autograds(name):
    assert says(remark(name, lambda **_: None, **refused("_to_copy")), "recomputation.sigmoid3.cast_by_autograd")
    assert remark(name, lambda **_: None, **refused("clone")) == ""


def test_the_halves_of_a_pair_have_names():
    assert R.oracles.sigmoid_bytes(1000, 4, False)._fields == ("forward", "backward")


def test_mistakes_name_what_was_stored():
    look = R.mistakes.saved_something("store less")
    forward = Launch("k", (1, 1, 1), footprints=[Footprint("buffer 1", 8, written_bytes=8)])
    trial = SimpleNamespace(evidence=SimpleNamespace(saved=[Saved("buffer 1", 8)], launches=[forward]))
    assert look([trial]) == "store less"
    trial.evidence.launches[0].phase = 1  # nothing of the forward half
    assert look([trial]) == ""
    trial.evidence.saved = [Saved("x", 8)]
    assert look([trial]) == ""


def test_the_log_shows_what_the_halves_of_a_checkpoint_did():
    """Operations alone show what backward used of the forward half, how often fn ran, and from which random states."""

    def seen(checkpoint):
        logs = record_all(
            checkpoint, [[dict(rows=64, width=32, p=0.4, calls=2, frozen=False, seed=1)]], called=R.checkpoint.called
        )
        return steps(logs[0]["calls"][0]["events"])

    plain, found = seen(lambda fn, *args: fn(*args)), seen(activations.checkpoint_of_torch)
    assert [half.count("gelu") for half in plain.operations] == [2, 0] and plain.kept > 6 * 8 * 64 * 32
    assert [half.count("gelu") for half in found.operations] == [2, 2] and found.kept <= 8 * 64 * 32
    assert sorted(found.states[1]) == sorted(found.states[0])[:2] and found.restored
    moved = seen(checkpoint_by_hand("another mask"))
    assert not set(moved.states[1]) & set(moved.states[0]) and R.checkpoints.draws_again(moved, 2)
    assert steps([]) == Steps() and R.checkpoints.comes_back(Steps(), 1)
