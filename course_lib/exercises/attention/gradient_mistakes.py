"""Mistakes in a backward pass by tiles, and how its three results reveal them."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.catalogue import say
from course_lib.exercises.attention.backward_slips import (
    SIZES,
    begins_a_tile_late,
    by_chain_rule,
    delta_of_each_tile,
    ends_before_the_first_row,
    ends_with_the_first_row,
    in_walked_tiles,
    lse_of_the_first_tile,
    maximum_of_each_tile,
    row_maximum,
    several,
    slipped,
    unscaled_p,
    with_the_edge,
    without_the_last_tile,
)
from course_lib.exercises.attention.mistakes import (
    AT_THE_TOP_LEFT,
    NO_MASK_IN_A_TILE,
    NOT_AT_THE_BOTTOM_RIGHT,
    THE_OTHER_WAY,
)
from course_lib.exercises.attention.oracles import gradients
from course_lib.exercises.misconceptions import Misconception, Wrong

SIDES = [(16,), (32,), (64,), (128,)]
DELTA_ADDED = say("attention.attention_backward.delta_added")
UNSCALED_P = say("attention.attention_backward.p_lacks_the_scale")
MAXIMUM_FOR_LSE = say("attention.attention_backward.the_maximum_for_lse")
LSE_OF_THE_FIRST_TILE = say("attention.attention_backward.lse_of_the_first_tile")
DP_OF_K = say("attention.attention_backward.dp_of_k")
DP_OF_Q = say("attention.attention_backward.dp_of_q")
DELTA_OF_DO = say("attention.attention_backward.delta_of_do_alone")
DELTA_OF_A_TILE = say("attention.attention_backward.delta_of_each_tile")
ENDS_EARLY = say("attention.attention_backward.the_walk_ends_early")

OF_DS: list[tuple[Wrong, str]] = [
    (slipped(unscaled_p), UNSCALED_P),
    ([slipped(row_maximum), *several(maximum_of_each_tile, SIDES, causal=False)], MAXIMUM_FOR_LSE),
    (slipped(lambda x: x.ds(dp=x.do @ x.k.mT), False), DP_OF_K),
    (slipped(lambda x: x.ds(dp=x.q @ x.v.mT), False), DP_OF_Q),
    (slipped(lambda x: x.ds(delta=x.do.sum(-1, keepdim=True))), DELTA_OF_DO),
    (several(delta_of_each_tile, SIDES), DELTA_OF_A_TILE),
    (
        slipped(lambda x: x.ds(delta=x.delta / x.q.shape[-1])),
        say("attention.attention_backward.delta_is_a_mean", by="D"),
    ),
]
"""(what a wrong ds makes of a call, the sentence), for dq and for dk."""
LSE_OF_OTHERS = several(lse_of_the_first_tile, SIDES)
EARLY = [
    several(make, SIZES, causal)
    for make, causal in (
        (ends_with_the_first_row, True),
        (ends_before_the_first_row, True),
        (without_the_last_tile, None),
    )
]
LATE = several(begins_a_tile_late, SIZES, causal=True)
UNMASKED = several(in_walked_tiles, SIZES, causal=True, ds_is_masked=False)


def edged(edge: Callable[[int, int], int]) -> list[Callable]:
    """Slips of a mask with that edge, in the tiles alone that the right one cuts."""
    return several(with_the_edge, SIZES, causal=True, edge=edge)


IN_CUT_TILES = [*edged(lambda nq, nk: 0), *edged(lambda nq, nk: nq - nk)]


def of_dq(wrong: Wrong, says: str, **how) -> Misconception:
    """Make the mistake that dq is what `wrong` makes it."""
    return Misconception(wrong, says, gradients, **how)


A_SECOND_SOFTMAX = of_dq(by_chain_rule(tile=64), say("attention.attention_backward.a_second_softmax"))
CHAIN_RULE = [
    of_dq(by_chain_rule(minus=0.0), say("attention.attention_backward.no_d"), times=100),
    of_dq(by_chain_rule(minus=-1.0), DELTA_ADDED),
    of_dq(slipped(lambda x: x.scale * x.ds()), say("attention.attention_backward.the_scale_twice"), each=True),
    of_dq(slipped(lambda x: x.dp - x.delta, False), say("attention.attention_backward.no_p")),
    *(of_dq(wrong, says) for wrong, says in OF_DS),
    of_dq(LSE_OF_OTHERS, LSE_OF_THE_FIRST_TILE, each=True),
    of_dq(by_chain_rule(edge=lambda nq, nk: nk), say("attention.attention_backward.no_mask_and_all_tiles"), each=True),
    of_dq(UNMASKED, NO_MASK_IN_A_TILE, each=True, strict=True),
    *(
        Misconception(slip, say("attention.attention_backward.dv_is_not_masked"), gradients, 2, each=True)
        for slip in several(in_walked_tiles, SIZES, causal=True, ds_is_masked=True)
    ),
    of_dq(by_chain_rule(edge=lambda nq, nk: nq - nk), THE_OTHER_WAY, each=True),
    of_dq(by_chain_rule(edge=lambda nq, nk: 0), AT_THE_TOP_LEFT, each=True),
    of_dq(IN_CUT_TILES, NOT_AT_THE_BOTTOM_RIGHT, each=True, strict=True),
    of_dq(by_chain_rule(keys=64), say("attention.attention_backward.the_last_tile_alone")),
    Misconception(
        by_chain_rule(queries=64),
        say("attention.attention_backward.dk_of_the_last_queries_alone"),
        gradients,
        1,
        each=True,
    ),
    *(of_dq(slips, ENDS_EARLY, each=True, strict=True) for slips in EARLY),
]
