"""The pictures of unit 06: they exist, say what they show, and draw numbers that a hand count confirms."""

from __future__ import annotations

import math

import pytest
import torch
from pictures import as_shown, words

from course_lib import figures
from course_lib.hardware import inductor
from course_lib.hardware.measurements import measured
from course_lib.workloads.chains import CHAINS

F = figures.fusion

PICTURES = {
    "chain": ("SwiGLU", [2]),
    "explore_chain": (),
    "five_against_one": (),
    "free_operations": (),
    "softmax_passes": (),
    "online_steps": (),
    "speeds": (),
}


@pytest.mark.parametrize(
    "name, cuts, told",
    [
        ("sin² + cos²", None, "5 launches, 11 tensors moved, 44 bytes"),
        ("sin² + cos²", [], "1 launch, 3 tensors moved, 12 bytes"),
        ("sin² + cos²", [2], "2 launches, 5 tensors moved, 20 bytes"),
        ("SwiGLU", [3, 1, 3], "3 launches, 8 tensors moved, 32 bytes"),
    ],
)
def test_a_chain_is_drawn_with_an_arrow_for_each_tensor(name, cuts, told):
    figure = F.chain(name, cuts)
    assert told in words(figure)
    arrows = [p for p in figure.axes[0].patches if type(p).__name__ == "FancyArrowPatch"]
    assert len(arrows) == int(told.split(", ")[1].split()[0])


@pytest.mark.parametrize("arguments, word", [(("relu",), "sin² \\+ cos²"), (("SwiGLU", [4]), "after 1 to 3")])
def test_chain_names_a_wrong_argument(arguments, word):
    with pytest.raises(ValueError, match=word):
        F.chain(*arguments)


def test_the_widget_redraws_when_a_switch_or_the_chain_changes():
    pytest.importorskip("ipywidgets")
    widget = F.Chain()
    assert widget.cuts == [1, 2, 3, 4] and "11 tensors" in words(widget.figure)
    widget.switches.children[0].value = False
    assert widget.cuts == [2, 3, 4] and "9 tensors" in words(widget.figure)
    for switch in widget.switches.children:
        switch.value = False
    assert "1 launch, 3 tensors" in words(widget.figure)
    widget.name.value = "SwiGLU"
    assert widget.cuts == [1, 2, 3] and "10 tensors" in words(widget.figure)
    assert widget.shown == as_shown(F.chain("SwiGLU"))


def test_what_torch_carries_is_counted():
    x = torch.ones(100)
    found = F.moved_by_torch(inductor.sin2_plus_cos2, x, x)
    assert [elements for _, elements in found] == [200, 200, 200, 200, 300]
    passes = F.softmax_elements(M=4, N=1024)
    assert sum(amount for _, amount in passes["five operations"]) == pytest.approx(8, abs=0.01)
    assert sum(amount for _, amount in passes["one kernel, three passes"]) == 4


def test_the_guess_is_shown():
    assert "no guess yet" in words(F.five_against_one())
    assert "you guessed 3 times" in words(F.five_against_one(3))
    assert "no guess yet" in words(F.five_against_one(None))


@pytest.mark.parametrize("block", [1, 5, 8, 48])
def test_the_online_softmax_ends_where_two_passes_end(block):
    row = torch.randn(48, generator=torch.Generator().manual_seed(2)).tolist()
    states = F.online_states(row, block)
    m, l, _ = states[-1]
    assert len(states) == math.ceil(48 / block)
    assert m == max(row) and l == pytest.approx(sum(math.exp(v - m) for v in row))
    assert all(0 <= alpha <= 1 for _, _, alpha in states)


def test_recorded_pictures_name_their_machine(picture):
    machine = measured("fusion")["machine"]
    assert "NVIDIA" in machine
    assert machine in words(picture("speeds")) and machine in words(picture("free_operations"))


def test_kernels_of_cuts():
    assert F.kernels_of(CHAINS["sin² + cos²"], [2]) == [2, 3]
    assert F.kernels_of(CHAINS["sin² + cos²"], []) == [5]
    assert F.kernels_of(CHAINS["sin² + cos²"], [4, 1, 4]) == [1, 3, 1]
