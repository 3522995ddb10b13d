"""Unit 09, FlashAttention forward in Triton. Shapes, masks and lse as in unit 08: see course_lib/exercises/attention.

    grouped heads   q (Hq, ..., D), k and v (Hkv, ..., D): query head h reads head h // (Hq // Hkv) of k and v
    packed          sequences of several lengths one after another: sequence s has the rows offsets[s] to offsets[s + 1] - 1
    window          query i sees at most `window` keys, its own the last: i + Nk - Nq - window < j <= i + Nk - Nq

Oracles: torch in float64, head by head, with masks looked at element by element; tiles counted one by one.
"""

from course_lib.exercises.flash.breaking import break_attention
from course_lib.exercises.flash.log import attention_log
from course_lib.exercises.flash.models import flash_decode, grouped_attention, sliding_window
from course_lib.exercises.flash.naming import name_maps
from course_lib.exercises.flash.packed import varlen
from course_lib.exercises.flash.steps import causal_one_head, one_head, online_update, predictions
from course_lib.exercises.flash.whole import flash_attention_forward

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        predictions,
        online_update,
        one_head,
        causal_one_head,
        flash_attention_forward,
        sliding_window,
        varlen,
        grouped_attention,
        flash_decode,
        name_maps,
        break_attention,
        attention_log,
    )
}
