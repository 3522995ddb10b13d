"""Unit 05, tiling.

Oracles: torch in float64, traced kernels, and loops that deal out tiles one by one. None is a closed form.
"""

from course_lib.exercises.tiling.breaking import break_matmul
from course_lib.exercises.tiling.counting import best_tile, matmul_bytes, predictions
from course_lib.exercises.tiling.ladder import ladder, one_step, row_sums
from course_lib.exercises.tiling.limits import occupancy, roofs
from course_lib.exercises.tiling.log import matmul_log
from course_lib.exercises.tiling.naming import name_maps
from course_lib.exercises.tiling.orders import grouped_order, hilbert_order
from course_lib.exercises.tiling.products import matmul, outer_product_matmul, tiled_matmul
from course_lib.exercises.tiling.tuning import split_k, tune
from course_lib.exercises.tiling.waves import pad_to_multiple, predicted_throughput, tiles_and_waves

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        predictions,
        row_sums,
        one_step,
        matmul,
        matmul_bytes,
        tune,
        grouped_order,
        outer_product_matmul,
        tiled_matmul,
        best_tile,
        occupancy,
        roofs,
        ladder,
        name_maps,
        break_matmul,
        split_k,
        tiles_and_waves,
        predicted_throughput,
        pad_to_multiple,
        hilbert_order,
        matmul_log,
    )
}
