"""The pictures of unit 05: they exist, say what they show, and draw numbers that a hand count or the recording confirms."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import as_shown, words

from course_lib import figures
from course_lib.exercises.tiling.oracles import dealt, model_seconds
from course_lib.figures.tiling.mystery import measured_and_predicted, worst_misses
from course_lib.figures.tiling.tiles import tile_costs
from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.profiling import bench

F = figures.tiling


def predict(sizes, **machine):
    """The published model."""
    share = {1: 0.2, 2: 0.28, 4: 0.3, 8: 1.0}
    return [2 * n**3 / model_seconds(n, **machine) * share[min(8, n & -n)] for n in sizes]


def nothing(sizes, **machine):
    return None


PICTURES = {
    "outer_products": (),
    "name_maps": (),
    "tile_anatomy": (),
    "tile_sizes": (128, 64, 32, 2, "float32", "T4"),
    "explore_tile_sizes": (),
    "pipelining": (),
    "autotuned": (),
    "tile_quantization": (),
    "waves": (1000, 3000, 128, 256, 40),
    "explore_waves": (),
    "predicted_against_measured": (predict,),
    "one_tile_for_all": (predict,),
    "orders": (),
    "order_traffic": (16, 8, 20),
}

without_gpu = pytest.mark.skipif(bench.has_gpu(), reason="here these pictures are measured, not recorded")


def test_outer_products_add_up(picture):
    """The numbers in the cells of c: those above and left of it, at negative places, are a's and b's."""
    sheets = []
    for ax in picture("outer_products").axes:
        cells = {text.get_position(): int(text.get_text()) for text in ax.texts}
        sheet = [[value for (x, y), value in sorted(cells.items()) if x > 0 and y == row + 0.5] for row in range(5)]
        sheets.append(np.array(sheet))
    *parts, whole = sheets
    assert whole.shape == (5, 7) and np.array_equal(sum(parts), whole)
    for part in parts:
        assert np.linalg.matrix_rank(part) <= 1


def test_the_picture_of_a_tile_does_not_answer_the_predictions(picture):
    told = words(picture("tile_anatomy"))
    assert (
        "128 × 192 result in tiles of 64 × 64 says that a is read 3 times, and b 2 times" in told and "256" not in told
    )


def test_a_tile_costs_what_a_hand_counts():
    cost = tile_costs(128, 256, 64, 3, "bfloat16")
    assert cost["shared"] == 3 * 64 * 384 * 2 and cost["registers"] == 128 << 10
    assert cost["loaded"] == 2 * (4096**3 // 256 + 4096**3 // 128)
    assert cost["intensity"] == pytest.approx(2 * 128 * 256 / (2 * 384))


def test_what_does_not_fit_says_so():
    assert "does not fit" in words(F.tile_sizes(256, 256, 64, 3))
    assert "does not fit" not in words(F.tile_sizes(128, 256, 64, 3, card="A100 80GB"))
    assert "does not fit" in words(F.tile_sizes(128, 256, 64, 4, card="A100 80GB"))


@pytest.mark.parametrize(
    "function, arguments, word",
    [(F.tile_sizes, (64, 64, 64, 3, "int8"), "int8"), (F.tile_sizes, (0, 64), "got 0"), (F.waves, (0, 64), "m = 0")],
)
def test_a_wrong_argument_is_named(function, arguments, word):
    with pytest.raises(ValueError, match=word):
        function(*arguments)


def test_stages_hide_loads(picture):
    titles = [ax.get_title("left") for ax in picture("pipelining").axes]
    times = [float(title.split("take ")[1].split()[0]) for title in titles]
    assert times[0] == 6 * 3 and times[2] == 2 + 6 and times[0] > times[1] > times[2]


def test_waves_are_those_that_are_dealt(picture):
    tiles, count = dealt(1000, 3000, 128, 256, 40)
    told = words(picture("waves"))
    assert f"{tiles} tiles in {count} waves" in told and f"{tiles - (count - 1) * 40} of 40 SMs" in told
    assert "98 tiles in 1 wave." in words(F.waves(1792, 1792)) and "120 tiles in 2 waves" in words(F.waves(1793, 1793))


def test_quantization_counts_the_tiles(picture):
    told = words(picture("tile_quantization"))
    assert "of 4 tiles" in told and "100%" in told and "9 tiles instead of 4, and 45% of them" in told


@without_gpu
def test_the_model_is_laid_over_the_measurement(picture):
    assert "The rank correlation over 230 sizes is 0.98" in words(picture("predicted_against_measured"))
    assert "There is no model yet" in words(F.predicted_against_measured(nothing))
    assert "Solve predicted_throughput" in words(F.one_tile_for_all(nothing))
    assert F.how_well(nothing).startswith("solve predicted_throughput")


@without_gpu
def test_the_prose_about_the_model_holds():
    rows = {line[:30].strip(): line.split()[-3:] for line in F.how_well(predict).splitlines()[2:8]}
    every, large = ([float(x) for x in rows[name]] for name in ("all sizes", "multiples of 8, from 2500 on"))
    assert every[0] > 0.97 and every[1] < 0.75, "without part 4 the correlation falls"
    assert large[0] > large[2] + 0.05, "among large sizes the waves tell more than the size"
    sizes, measured, model, _ = measured_and_predicted(predict)
    worst = [i for i in worst_misses(sizes, measured, model, 5) if sizes[i] % 8 == 0]
    for i in worst:
        tiles, _ = dealt(int(sizes[i]), int(sizes[i]), 128, 128, 132)
        assert model[i] < measured[i] and (tiles - 1) % 132 + 1 < 40, (
            "the model sees a poor last wave that cuBLAS avoids"
        )


def test_worst_misses_lie_apart():
    sizes, ones = np.arange(1024, 2048, 8), np.ones(128)
    model = ones.copy()
    model[10:14] = 3
    assert worst_misses(sizes, ones, model, 2, apart=100) != worst_misses(sizes, ones, model, 2)


def test_the_recording_is_whole_and_nothing_is_faster_than_the_card():
    found, card = measured("tiling"), gpu.datasheet("H200")
    assert found["machine"] == "NVIDIA H200" and {row["n"] for row in found["orders"]} == {4096, 8192, 16384}
    speeds = (
        [row["flops"] for row in found["tiles"]]
        + [f for _, f in found["curve"]["points"]]
        + list(found["cublas"].values())
    )
    assert min(speeds) > 0 and max(speeds) < card.bf16_flops
    assert all(row["ms"] > 0 for row in found["orders"])


def test_the_prose_about_the_recording_holds():
    found = measured("tiling")
    by_tile = sorted(found["tiles"], key=lambda row: row["flops"])
    assert by_tile[-1]["flops"] > 0.8 * found["cublas"]["4096"], "the best configuration"
    assert by_tile[-1]["flops"] > 3 * by_tile[0]["flops"]
    grouped_8 = [row["ratio"] for row in found["orders"] if row["order"] == "grouped, 8"]
    assert all(1 <= ratio < 1.15 for ratio in grouped_8), "a few percent"
    odd, padded = (row["seconds"] for row in found["vocabulary"])
    assert odd > 2 * padded
    copied = measured("matmul")["copied_first"]
    assert copied["n"] == 4097 and copied["copy_in"] + copied["copy_out"] < copied["product"]
    assert copied["whole"] < copied["torch"] / 2
    assert "4097" in figures.tiling.copied_first() and "H100" in figures.tiling.copied_first()
    points = dict(found["curve"]["points"])
    assert points[2112] < 0.7 * points[2048], "a cliff: from one wave to two"


def test_orders_count_bands(picture):
    titles = [ax.get_title("left") for ax in picture("orders").axes[:3]]
    bands = [int(title.split("= ")[1].split()[0]) for title in titles]
    assert bands == [16 + 1, 2 + 8, 4 + 4]
    assert "need 51 bands (row order), 25 bands (grouped, 8 rows), 26 bands (Hilbert curve)" in words(picture("orders"))


def test_waves_are_whole_numbers():
    ticks = F.waves(256, 256, 256, 128, 148).axes[1].get_xticks()
    assert ticks.size and (ticks == ticks.round()).all()


@pytest.mark.parametrize(
    "sizes", [(256, 256, 128, 6, "float32"), (16, 16, 16, 1, "bfloat16"), (128, 128, 64, 3, "bfloat16")]
)
def test_gauges_keep_their_words_inside(sizes):
    figure = F.tile_sizes(*sizes)
    figure.draw_without_rendering()
    for gauge in figure.axes[1:]:
        left, right = gauge.get_xlim()
        assert all(left <= bar.get_width() <= right for bar in gauge.patches)
        for text in [*gauge.texts, gauge._left_title]:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.x0 >= gauge.bbox.x0 - 1, text.get_text()


def test_no_program_fits_is_said_in_words():
    assert "not even one such program fits" in words(F.tile_sizes(256, 256, 128, 6, "float32"))
    assert "1 such program fits onto" in words(F.tile_sizes(256, 128, 64, 2, "float32"))


def test_the_widgets_redraw_when_a_value_changes(notebook):
    tiles, waves = F.explore_tile_sizes(), F.explore_waves()
    seen = {tiles.shown}
    for name, value in (("block_m", 256), ("stages", 4), ("dtype", "float32"), ("card", "T4")):
        tiles.named[name].value = value
        seen.add(tiles.shown)
    alone = F.tile_sizes(256, 64, 64, 4, "float32", "T4")
    alone.places = tiles.places
    assert len(seen) == 5 and tiles.shown == as_shown(alone)
    before = waves.shown
    waves.named["size"].value = 1792
    assert waves.shown != before and "98 tiles" in words(waves.figure)
