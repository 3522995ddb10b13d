"""Unit 10, FlashAttention backward in Triton. Shapes, masks and lse as in unit 08: see course_lib/exercises/attention.

    do      (..., Nq, D), the gradient of o;  dq, dk, dv the gradients of q, k, v, of their dtypes
    delta   (..., Nq) float32, rowsum(do * o)

Oracles: autograd in float64, head by head; autograd's saved tensors, on tensors without data; products counted as torch does them.
"""

from course_lib.exercises.flash_backward.breaking import break_gradients
from course_lib.exercises.flash_backward.kernels import delta, dkdv, dkdv_one_head, dq
from course_lib.exercises.flash_backward.log import dq_log
from course_lib.exercises.flash_backward.memory import longest_context
from course_lib.exercises.flash_backward.naming import name_gradients
from course_lib.exercises.flash_backward.predictions import costs
from course_lib.exercises.flash_backward.whole import flash_attention

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        costs,
        delta,
        dkdv_one_head,
        dkdv,
        dq,
        flash_attention,
        name_gradients,
        break_gradients,
        longest_context,
        dq_log,
    )
}
