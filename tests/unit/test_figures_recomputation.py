"""The pictures of unit 07: they exist, say what they show, and draw numbers that a count or the recording confirms."""

from __future__ import annotations

import pytest
import torch
from pictures import as_shown, words

from course_lib import figures
from course_lib.hardware.measurements import measured
from course_lib.workloads import activations

F = figures.recomputation

PICTURES = {
    "what_autograd_keeps": (("relu", "three sigmoids", "mlp"),),
    "three_ways": (),
    "checkpoints_on_a_timeline": (12, 4),
    "explore_checkpoints": (),
    "masks": (),
    "memory_timeline": ((12, 30),),
}


def test_bars_show_tensors_kept(picture):
    assert [text.get_text() for text in picture("what_autograd_keeps").axes[0].texts] == ["1", "3", "8"]


def test_three_ways_draw_a_box_for_each_memory_operation(picture):
    assert F.eager_operations() == ((3, 3), (6, 3))
    ax = picture("three_ways").axes[0]
    assert len(ax.patches) == 15 + 8 + 5
    for sum_ in ("6 + 9 = 15", "4 + 4 = 8", "2 + 3 = 5"):
        assert sum_ in words(picture("three_ways"))


@pytest.mark.parametrize("layers, segments, most", [(24, 0, 216), (24, 1, 217), (24, 12, 30), (24, 24, 33), (7, 3, 30)])
def test_the_schedule_peaks_where_a_hand_count_does(layers, segments, most):
    assert F.peak(layers, segments) == most
    points, bars = F.schedule(layers, segments)
    assert points[-1, 0] == (4 if segments else 3) * layers, "a third of extra compute, or none"
    assert points[-1, 1] == points[-1, 2] == 0, "everything is freed"
    assert sum(word == "again" for word, _, _ in bars) == (layers if segments else 0)


def test_the_schedule_refuses_more_segments_than_layers():
    with pytest.raises(ValueError, match="0 to 4 segments, not 5"):
        F.schedule(4, 5)


def test_a_timeline_tells_its_peak_and_its_price(picture):
    told = words(picture("checkpoints_on_a_timeline"))
    assert "peak is 31 of 108 boundaries (29%)" in told and "33% more FLOPs" in told
    assert "12 layers, 4 segments" in told


def test_the_widget_redraws_and_never_has_more_segments_than_layers():
    pytest.importorskip("ipywidgets")
    widget = F.CheckpointExplorer()
    pictures = {widget.shown}
    widget.segments.value = 12
    pictures.add(widget.shown)
    widget.layers.value = 8
    pictures.add(widget.shown)
    assert len(pictures) == 3 and widget.segments.value == 8
    assert widget.shown == as_shown(laid_out_as(widget, F.checkpoints_on_a_timeline(8, 8)))
    widget.layers.value = 30
    assert widget.shown == as_shown(laid_out_as(widget, F.checkpoints_on_a_timeline(30, 8)))


def laid_out_as(widget, figure):
    """The figure, with its axes where the widget's pictures have theirs: a layout of its own may differ in the last digits."""
    figure.places = widget.places
    return figure


def test_masks_differ_only_where_the_state_was_left_alone(picture):
    labels = [ax.get_xlabel() for ax in picture("masks").axes]
    assert labels[:2] == ["the reference", "0 of 336 elements differ"] and not labels[2].startswith("0 ")


def test_masks_leave_the_random_state_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    F.masks()
    assert torch.equal(torch.rand(1), expected)


def test_the_measured_timeline_stays_below_the_prediction(picture):
    *counted_and_measured, predicted = picture("memory_timeline").axes[0].lines
    dashed = 30 + F.working()
    for none, twelve in zip(counted_and_measured[::2], counted_and_measured[1::2], strict=True):
        assert max(none.get_ydata()) == pytest.approx(216 + F.working(), abs=0.2)
        assert 0.9 * dashed < max(twelve.get_ydata()) <= dashed + 0.01
    assert predicted.get_ydata()[0] == dashed


@pytest.mark.parametrize("prediction", [None, (None, None), (0, 5), 12, ("many", 3)])
def test_the_timeline_is_drawn_without_a_prediction_too(prediction):
    figure = F.memory_timeline(prediction, lambda fn, *args: None)
    assert "5 segments" in words(figure) and "torch's checkpoint" in words(figure)
    assert "predicted" not in words(figure) or prediction == (0, 5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it is measured, not recorded")
def test_the_recording_equals_the_count():
    """A GPU's allocator hands out what is counted on a CPU, to the byte but for rounding up to 512."""
    recorded = measured("memory_timeline")["timelines"]
    for segments in (0, 5, 12, 24):
        timeline = activations.MemoryTimeline(**recorded[str(segments)])
        counted = activations.train_step(24, segments)
        assert timeline.peak / timeline.boundary == pytest.approx(counted.peak / counted.boundary, abs=0.01)
