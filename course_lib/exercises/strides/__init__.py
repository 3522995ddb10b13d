"""Unit 01, tensors and strides.

The four view exercises work on recipes: the shape and the strides of a tensor go in, those of the view come out. A recipe
cannot copy anything. The check builds the view with torch.as_strided and compares it, element by element, with torch's own.
"""

from course_lib.exercises.strides.formulas import (
    flat_index,
    is_contiguous,
    predictions,
    row_major_strides,
    tensor_bytes,
)
from course_lib.exercises.strides.named_axes import einsum_predictions, grouped_scores, mean_pool
from course_lib.exercises.strides.tensors import split_heads, strided_copy
from course_lib.exercises.strides.views import broadcast_view, sliding_windows, tile_view, transpose_view

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        flat_index,
        row_major_strides,
        is_contiguous,
        predictions,
        broadcast_view,
        tile_view,
        strided_copy,
        tensor_bytes,
        transpose_view,
        sliding_windows,
        split_heads,
        einsum_predictions,
        grouped_scores,
        mean_pool,
    )
}
