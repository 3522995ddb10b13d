"""The pictures of unit 08: they exist, say what they show, and draw numbers that a hand count confirms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from course_lib import figures
from course_lib.exercises import attention as A

F = figures.attention

PICTURES = {
    "memory_against_length": (),
    "rotary_positions": (),
    "online_softmax": (4, 6, "shuffled", "one at the end"),
    "explore_online_softmax": (),
    "merge_orders": (),
    "causal_map": (100, 200, 32, 16, 64),
    "explore_causal_map": (),
}


def test_elements_carried_by_torch_are_those_of_a_hand_count():
    n, d = 50, 8
    moved = (
        (2 * n * d + n * n) + 2 * n * n + 2 * n * n + (n * n + 2 * n * d)
    )  # a product, the scale, the softmax, a product
    assert F.carried(n, d) == (moved, 2 * n * n)


@pytest.mark.parametrize("order", F.ORDERS)
@pytest.mark.parametrize("pattern", F.PATTERNS)
def test_the_last_state_is_the_softmax(order, pattern):
    scores, values = F.scores_of(pattern)
    tiles = [range(start, min(start + 7, 24)) for start in range(0, 24, 7)]
    m, l, acc, _ = F.online_states(scores, values, tiles[::-1])[-1]
    assert m == scores.max()
    assert math.isclose(acc / l, float(torch.softmax(torch.from_numpy(scores), 0) @ torch.from_numpy(values)))
    caption = F.online_softmax(24, 7, order, pattern).get_supxlabel()
    found, exact = (
        caption.replace("acc / l = ", "")
        .removeprefix("All tiles: ")
        .rstrip(".")
        .split(". A softmax over all keys at once gives ")
    )
    assert found == exact


def test_the_online_softmax_tells_the_step():
    assert "No tile is seen" in F.online_softmax(0).get_supxlabel()
    assert "multiplied" not in F.online_softmax(1).get_supxlabel()
    scores, values = F.scores_of("mixed")
    _, l, _, factor = F.online_states(scores, values, [range(0, 6), range(6, 12)])[-1]
    said = F.online_softmax(2).get_supxlabel()
    assert f"l = {l:.2f}" in said and f"{factor:.3f}" in said


def test_as_many_tiles_are_seen_as_there_are(notebook):
    named = F.explore_online_softmax().named
    assert named["seen"].max == 4, "24 keys in tiles of 6"
    named["seen"].value, named["tile"].value = 4, 10
    assert (named["seen"].max, named["seen"].value) == (3, 3)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="sideways"):
        F.online_softmax(order="sideways")
    with pytest.raises(ValueError, match="odd"):
        F.online_softmax(pattern="odd")
    with pytest.raises(ValueError, match="tile 0"):
        F.online_softmax(tile=0)
    with pytest.raises(ValueError, match="at least 1"):
        F.causal_map(nq=0)


@pytest.mark.parametrize("sizes", [(8, 8, 2, 2), (7, 7, 3, 2), (5, 9, 2, 4), (9, 5, 4, 2), (100, 200, 32, 16)])
def test_the_map_has_the_tiles_of_the_exercise(sizes):
    nq, nk, bm, bn = sizes
    kinds = F.tile_kinds(F.causal_mask(nq, nk), bm, bn)
    expected = A.oracles.tiles_of(len(kinds), bm, bn, nq, nk)
    assert [[int((row == 2).sum()), int((row > 0).sum())] for row in kinds] == expected


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bm, bn", [(64, 64), (32, 128), (128, 32)])
def test_the_maps_bytes_are_those_of_the_traced_kernel(bm, bn, causal):
    kinds = F.tile_kinds(F.causal_mask(200, 200), bm, bn)
    moved, flops = F.pass_cost(200, 200, bm, bn, 64, 2, kinds > 0 if causal else np.ones_like(kinds, bool))
    assert moved == A.oracles.footprints()[200, 64, bm, bn, 2, causal]
    visited = int((kinds > 0).sum()) if causal else kinds.size
    assert flops == visited * 2 * (2 * bm * bn * 64)


def test_the_map_counts_its_tiles(picture):
    kinds = F.tile_kinds(F.causal_mask(100, 200), 32, 16)
    labels = [text.get_text() for text in picture("causal_map").axes[0].get_legend().get_texts()]
    assert labels == [f"{word}: {(kinds == kind).sum()}" for word, kind in (("full", 2), ("masked", 1), ("skipped", 0))]


def test_any_order_of_merging_ends_alike(picture):
    said = picture("merge_orders").get_supxlabel().replace("\n", " ")
    chain, tree = (
        said.split("ends with ")[1].split(", the tree with ")[0],
        said.split("the tree with ")[1].split(": any")[0],
    )
    assert chain == tree
