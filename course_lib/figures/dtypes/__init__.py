"""The pictures of 02_dtypes.

    patterns.py   what bit patterns stand for: formats, their numbers, the gaps between them
    bits.py       the bits of the formats, and of one number under switches
    rounding.py   what rounding does to a counter, along the number line, in a sum, in a quantized matrix
    training.py   what it does to training, and the repairs

Each picture is a matplotlib Figure. Values come from torch's own casts and views of bits; experiments run when a
picture is drawn, with fixed seeds, and are kept. Colours are Okabe and Ito's; a letter, a marker or a hatch says the same.
"""

from course_lib.figures.dtypes.bits import bit_explorer, explore_bits, formats
from course_lib.figures.dtypes.rounding import (
    counting,
    number_lines,
    quantization_error,
    range_against_resolution,
    rounding_staircase,
    running_sum,
)
from course_lib.figures.dtypes.training import fp16_training, gradients, loss_scaling, training_run

__all__ = [
    "bit_explorer",
    "counting",
    "explore_bits",
    "formats",
    "fp16_training",
    "gradients",
    "loss_scaling",
    "number_lines",
    "quantization_error",
    "range_against_resolution",
    "rounding_staircase",
    "running_sum",
    "training_run",
]
