"""A kernel whose dtypes matter."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, Compiles, Correct, Traffic, TritonDidTheWork, copy_bytes, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import Drawing, against_copy
from course_lib.exercises.dtypes.cases import sizes
from course_lib.exercises.dtypes.mistakes import any_of, if_plain_is_right


def square_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound: three roundings to the result's dtype, of subnormal numbers too, or eight in float32.

    (sqrt(scale) * x)² has six.
    """
    info = torch.finfo(dtype)
    return max(1.5 * info.eps, 4 * EPS32) * expected.abs() + 1.5 * info.tiny * info.eps


scaled_square = Exercise(
    id="dtypes.scaled_square",
    signature="scaled_square(x: (n,), scale: float) -> (n,) of the dtype of x: scale * x * x",
    effort=Effort(minutes=15, lines=10, difficulty=3),
    cases=[
        Case("4096", "plain", sizes(4096, 0.5, 2, torch.float32, 0.7)),
        Case("1", "ragged", sizes(1, 0.5, 2, torch.float32, 3.0)),
        Case("1031", "ragged", sizes(1031, 0.5, 2, torch.float16, 1.5)),
        Case("5000, bfloat16", "ragged", sizes(5000, 0.5, 100, torch.bfloat16, 0.01)),
        Case("3000 up to 60000, float16", "large", sizes(3000, 300, 60000, torch.float16, 2.0**-17)),
        Case("3000 below 1e-4, float16", "tiny", sizes(3000, 1e-5, 1e-4, torch.float16, 2.0**30)),
        Case("262144, float16", "performance", sizes(1 << 18, 0.5, 2, torch.float16, 0.5)),
        Case("65536, float16", "performance", sizes(1 << 16, 0.5, 2, torch.float16, 0.5)),
    ],
    oracle=lambda x, scale: x.double() ** 2 * scale,
    budget=square_budget,
    gates=[TritonDidTheWork(), Correct("plain"), Compiles()],
    criteria=[
        *correct("dtypes.scaled_square", {"ragged": 2, "large": 2, "tiny": 2}),
        Traffic(copy_bytes, 2),
    ],
    bonus=[against_copy(Drawing("2^27, float16", sizes(1 << 27, 0.5, 2, torch.float16, 0.5)), copy_bytes)],
    mistakes=[
        if_plain_is_right(any_of(torch.isinf, ("large",), say("dtypes.scaled_square.casts_after_the_square"))),
        if_plain_is_right(any_of(lambda o: o == 0, ("tiny",), say("dtypes.scaled_square.zeros"))),
    ],
)
