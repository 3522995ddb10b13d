"""The pictures of 11_a_real_model.

    serving.py   what rows see in the six calls of a generation; tokens a second under the roof

Each function returns a matplotlib Figure. Numbers are counted when a picture is drawn, or a datasheet's, and each picture says which.
"""

from course_lib.figures.model.serving import explore_which_rows, prefill_and_decode, which_rows

__all__ = ["explore_which_rows", "prefill_and_decode", "which_rows"]
