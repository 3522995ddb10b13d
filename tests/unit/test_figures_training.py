"""The pictures of unit 11: they exist, and draw numbers that a count confirms."""

from __future__ import annotations

import pytest
import torch
from pictures import words

from course_lib import figures
from course_lib.exercises.training.accounting import kept_of
from course_lib.figures.training import steps as training
from course_lib.workloads import text
from course_lib.workloads.gpt import Config

F = figures.training

PICTURES = {
    "block": (),
    "memory_of_a_step": (),
    "memory_of_a_model": (),
    "explore_memory": (),
    "schedule": (),
    "losses": (None, 4),
    "large_steps": (),
}


def test_products_are_the_same_and_kernels_replace_most_of_the_rest():
    torchs, ours = training.counted(False), training.counted(True)
    assert ours.launches["kernels"] == 2 * (2 + 1 + 1), "norm twice, attention, swiglu, both ways"
    assert sum(ours.launches.values()) < 0.7 * sum(torchs.launches.values())
    assert sum(ours.bytes.values()) < 0.7 * sum(torchs.bytes.values())


def test_the_formula_behind_the_widget_is_what_is_counted():
    c = Config(vocab=40, layers=3, width=32, heads=4, kv_heads=2, hidden=48)
    assert training.kept_bytes(c, 2, 9) == kept_of(c, 2, 9)


def test_the_steps_peak_is_where_the_prediction_lies():
    alive, forward, back, kept = training._step_of_the_toy()
    parameters = 4 * training.parameters_of(training.TOY)
    assert abs(alive[forward - 1] - parameters - kept) < 0.02 * kept
    assert max(alive) < 1.25 * (parameters + kept)


def test_losses_are_torchs_and_a_broken_swap_in_is_not_used(picture):
    def broken(model, kernels):
        raise ValueError("not yet")

    assert "the course's autograd functions" in words(F.losses(broken, 2))
    ours, _ = training._yours_or_ours(None)
    plain, other = training.train(None, 3), training.train(ours, 3)
    assert plain == pytest.approx(other, abs=2e-6)


def test_the_text_is_sums_and_its_best_loss_is_known(tmp_path):
    lines = text.sums(500, seed=1).splitlines()
    assert all(sum(map(int, left.split("+"))) == int(right) for left, right in (line.split("=") for line in lines))
    assert [text.VOCABULARY[token] for token in text.encode("7+5=12\n")] == [*"7+5=12\n"]
    path = text.write_tokens(tmp_path / "sums.bin", 100)
    assert path.stat().st_size == 2 * len(text.sums(100))
    assert 0.71 < text.best_loss() < 0.72
    assert torch.tensor(2.0) > text.best_loss()


def test_step_by_step_tells_whose_kernels_and_both_losses():
    from course_lib.workloads.launched import ALL, Kernels

    first, *lines = F.step_by_step(None, Kernels(), dict.fromkeys(ALL, "given"), 2).splitlines()
    assert first.startswith("kernels, in the course's autograd functions: norm (given)")
    assert len(lines) == 2
    for line in lines:
        torchs, ours = (float(line.split()[at].rstrip(",")) for at in (3, 5))
        assert torchs == pytest.approx(ours, abs=1e-5)
