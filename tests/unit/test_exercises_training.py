"""Unit 11: oracles against the truth, what a check calls, and what an unsolved exercise looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from course_lib.criteria import judge
from course_lib.execution import observe
from course_lib.exercises import find
from course_lib.exercises.training import EXERCISES
from course_lib.exercises.training.accounting import cost_of, flops_of, memory_of, parameters_of
from course_lib.exercises.training.block import of_kernels, of_torch
from course_lib.exercises.training.checkpoints import checkpoint
from course_lib.exercises.training.data import by_places, far, taken
from course_lib.exercises.training.optimizer import adamw_step, stepped, weights
from course_lib.exercises.training.oracles import differentiable
from course_lib.exercises.training.steps import scheduled
from course_lib.workloads.checkpointed import TrainingRun, run_straight
from course_lib.workloads.gpt import GPT, LARGE, TOY, Config
from course_lib.workloads.launched import ALL, Kernels
from course_lib.workloads.rehearsals import apart, run_batches
from grader.published import published

# those that are called with a model, or with tensors alone; kernels of units 10 and 12 have tests like theirs
IN_TORCH = [e for e in EXERCISES.values() if e.entry not in ("grouped_backward", "operator_norm")]
each = pytest.mark.parametrize("exercise", IN_TORCH, ids=lambda e: e.id)


class Unsolved:
    """A stub: it does nothing."""

    def __call__(self, *_, **__):
        return None

    save = load = staticmethod(lambda path, run: None)


@each
def test_an_unsolved_exercise_earns_nothing_and_is_not_begun(exercise):
    verdict = judge(exercise, observe(exercise, Unsolved(), 1))
    assert (verdict.points, verdict.outcome) == (0, "not_begun")


@each
def test_the_published_solution_earns_everything(exercise):
    verdict = judge(exercise, observe(exercise, published(exercise.id), 3, seconds=30))
    assert [f.seen for f in verdict.findings if f.lost] == []
    assert verdict.points == exercise.points


@pytest.mark.parametrize("step", [1, 2, 1000])
def test_one_step_is_torchs_adamw(step):
    call = weights(50, step=step, decay=0.1)(torch.Generator().manual_seed(4))
    p = call["p"].double().requires_grad_()
    optimizer = torch.optim.AdamW([p], call["lr"], (call["beta1"], call["beta2"]), call["eps"], call["weight_decay"])
    p.grad = call["g"].double()
    moments = {"exp_avg": call["m"].double(), "exp_avg_sq": call["v"].double(), "step": torch.tensor(step - 1.0)}
    optimizer.state[p] = moments
    optimizer.step()
    found = stepped()(**call)
    right = (p.detach(), moments["exp_avg"], moments["exp_avg_sq"])
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other.float())


def test_the_budget_of_adamw_holds_an_honest_float32_step():
    for seed in range(20):
        call = weights(500, step=1 + seed, decay=0.1, small=bool(seed % 2))(torch.Generator().manual_seed(seed))
        p, g, m, v = (call[name] for name in "pgmv")
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + (1 - 0.95) * g * g
        root = (v / (1 - 0.95 ** call["step"])).sqrt() + call["eps"]
        p = p * (1 - 1e-2 * 0.1) - 1e-2 * (m / (1 - 0.9 ** call["step"])) / root
        expected = adamw_step.oracle(**call)
        off = [
            (a - b).abs().double() / adamw_step.budget(b.double(), b.dtype, call)
            for a, b in zip((p, m, v), expected, strict=True)
        ]
        assert max(float(one.max()) for one in off) < 0.6


@pytest.mark.parametrize("c", [TOY, LARGE])
def test_6nd_fails_by_the_embedding_and_by_attention(c):
    n = 64
    every = 6 * parameters_of(c) * n
    looked_up = 6 * (c.vocab * c.width + (2 * c.layers + 1) * c.width) * n
    attention = 12 * c.layers * c.width * n * (n + 1) // 2
    assert flops_of(c, 1, n) == every - looked_up + attention


def test_what_is_kept_is_linear_in_layers_and_seconds_follow_from_flops():
    sizes = {"vocab": 40, "width": 32, "heads": 4, "kv_heads": 2, "hidden": 48}
    one, two, five = (memory_of(batch=2, n=9, layers=layers, **sizes)[2] for layers in (1, 2, 5))
    assert five == one + 4 * (two - one)
    flops, seconds, dollars = cost_of(2, 9, 1800, 1e6, 0.5, 3600, layers=1, **sizes)
    assert seconds == flops / 5e5 and dollars == pytest.approx(100 * seconds)


def test_schedules_meet_where_they_should():
    assert [scheduled(s, 100, 1.0, 4) for s in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1, 1])
    assert scheduled(100, 100, 1.0, 4) == pytest.approx(0.1) == scheduled(500, 100, 1.0, 4)


@pytest.mark.parametrize("name", ["norm", "attention", "swiglu", "cross_entropy"])
def test_the_kernels_gradients_are_right(name):
    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    arguments = {
        "norm": [normal(2, 5, 8), normal(8)],
        "attention": [normal(2, 4, 5, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)],
        "swiglu": [normal(2, 5, 8), normal(2, 5, 8)],
        "cross_entropy": [normal(6, 7), torch.randint(7, (6,))],
    }[name]
    ops = differentiable(Kernels())
    assert torch.autograd.gradcheck(getattr(ops, "loss" if name == "cross_entropy" else name), arguments)


def test_a_launch_leaves_no_history_and_unknown_names_are_told():
    kernels, x = Kernels(), torch.randn(3, 4, requires_grad=True)
    out, rstd = kernels.norm(x, torch.ones(4))
    assert not out.requires_grad and kernels.launches == {"norm": 1}
    assert kernels.bytes["norm"] == 4 * (12 + 4 + 12 + 3)
    with pytest.raises(TypeError, match="no kernel 'layernorm'; there are norm,"):
        Kernels(layernorm=ALL["norm"])


def test_kernels_train_as_torch_does():
    arguments = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "rows": 2, "length": 9, "steps": 6, "seed": 3}
    assert of_kernels(**arguments)["losses"] == pytest.approx(of_torch(**arguments)["losses"], abs=1e-9)
    assert of_kernels(**arguments)["kept"] < of_torch(**arguments)["kept"]


def test_a_straight_run_is_the_same_each_time_and_uses_both_generators():
    assert run_straight(before=3, after=2, seed=1) == run_straight(before=1, after=4, seed=1)
    with apart(1):
        run = TrainingRun(1)
        before = torch.get_rng_state(), run.generator.get_state()
        run.train(1)
        assert not torch.equal(before[0], torch.get_rng_state())
        assert not torch.equal(before[1], run.generator.get_state())
    assert all(case.arguments(1)["before"] % 3 for case in checkpoint.cases), (
        "stopped inside of an epoch of three batches"
    )


def test_the_model_of_an_exercise_is_the_one_of_the_notebook():
    c = Config(vocab=9, layers=1, width=8, heads=2, kv_heads=1, hidden=8)
    assert parameters_of(c) == sum(p.numel() for p in GPT(c).parameters())


def test_adamw_adds_eps_to_the_corrected_root():
    """Take torch's step with an eps as large as the root for the truth; and a folded eps is far from it."""
    call = weights(50, step=2, small=True)(torch.Generator().manual_seed(4))
    far = (stepped(folded=True)(**call)[0].double() - stepped()(**call)[0]).abs()
    assert float((far / adamw_step.budget(stepped()(**call)[0].double(), torch.float32, call)).median()) > 100


def test_how_much_of_a_file_was_read_is_told_and_costs_nothing():
    def as_a_whole(path, split, batch, context, generator):
        tokens = np.fromfile(path, np.uint16)
        own = tokens[: len(tokens) * 9 // 10] if split == "train" else tokens[len(tokens) * 9 // 10 :]
        starts = torch.randint(len(own) - context, (batch,), generator=generator).numpy()
        rows = torch.from_numpy(own[starts[:, None] + np.arange(context + 1)].astype(np.int64))
        return rows[:, :-1], rows[:, 1:]

    told = {}
    for name, function in {"read": as_a_whole, "mapped": published("training.get_batch")}.items():
        output = run_batches(function, tokens=60_000, times=400, split="train", batch=256, context=7, draws=1, seed=1)
        told[name] = taken(output, tokens=60_000, times=400)
        assert by_places(far)(output, tokens=60_000, times=400, split="train", context=7, seed=1) == ""
    assert "np.memmap would read only what an index touches" in told["read"]
    assert told["mapped"].endswith("of a file of 48,000,000")


@pytest.mark.parametrize(
    "exercise_id, stub, says",
    [
        ("training.swap_in", lambda model, kernels: None, "swap_in leaves model.ops as it was"),
        ("training.adamw_step", lambda **_: None, "adamw_step launches nothing yet"),
        ("training.checkpoint", Unsolved(), "Checkpoint writes no file yet"),
        ("training.clip", lambda gradients, largest: None, "clip returns nothing yet"),
    ],
)
def test_where_nothing_came_the_verdict_says_what_should_have(exercise_id, stub, says):
    exercise = find(exercise_id)
    assert judge(exercise, observe(exercise, stub, 1)).findings[0].seen.startswith(says)


def test_a_wrong_count_names_the_sizes():
    def off_by_one(**sizes):
        parameters, state, kept = published("training.training_memory")(**sizes)
        return parameters + 1, state, kept

    exercise = find("training.training_memory")
    seen = judge(exercise, observe(exercise, off_by_one, 1)).findings[0].seen
    assert seen.endswith("predicted, of vocab 64, layers 1, width 64, heads 4, kv_heads 4, hidden 176, batch 1, n 16")


def test_who_returns_slots_has_begun():
    exercise = find("training.swap_in")
    verdict = judge(exercise, observe(exercise, lambda model, kernels: replace(model.ops), 1))
    assert verdict.outcome == "wrong" and verdict.remark.id == "training.swap_in.slots_that_are_returned"
