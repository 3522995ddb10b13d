"""Unit 08, attention by tiles.

What units 08 to 10 share:

    q       (..., Nq, D);  k, v (..., Nk, D);  o (..., Nq, D) of q's dtype
    scale   1 / sqrt(D) unless given; scores are scale * q @ k.mT
    causal  aligned at the bottom right: query i sees the keys j <= i + Nk - Nq, so that the last query sees all keys.
            FlashAttention from 2.1 on and every decoder with a cache do the same. torch's
            scaled_dot_product_attention(is_causal=True) aligns at the top left, j <= i. For Nq == Nk both are the same.
    lse     (..., Nq) float32, the natural logarithm of the sum of exp(scores) of each query
    a query that sees no key: zeros in o, -inf in lse, zero gradients, no NaN

Oracles: torch in float64, autograd, masks that are checked element by element, and a traced kernel.
"""

from course_lib.exercises.attention.formula import attention, backward, claims, rotary
from course_lib.exercises.attention.tiles import causal_tiles, flash_bytes, merge, tiled_attention

EXERCISES = {
    exercise.id: exercise
    for exercise in (attention, merge, causal_tiles, tiled_attention, backward, rotary, claims, flash_bytes)
}
