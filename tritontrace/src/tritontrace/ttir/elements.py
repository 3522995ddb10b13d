"""How the elements of a type are held here, by the names that TTIR has for types: "bf16", "i32", "!tt.ptr<f32>"."""

import numpy as np
import torch

FP8 = {"f8E5M2": "fp8e5", "f8E4M3FN": "fp8e4nv", "f8E5M2FNUZ": "fp8e5b16", "f8E4M3FNUZ": "fp8e4b8"}  # Triton's names
HALF = {"f16": torch.float16, "bf16": torch.bfloat16}
FLOATS = frozenset({*FP8, *HALF, "f32", "f64"})
DTYPES = {
    **{element: np.dtype(np.float32) for element in FLOATS},
    "f64": np.dtype(np.float64),
    "i1": np.dtype(np.bool_),
    **{f"i{8 * size}": np.dtype(f"i{size}") for size in (1, 2, 4, 8)},
    "ptr": np.dtype(np.int64),
    "index": np.dtype(np.int64),
}


def dtype_of(element: str) -> np.dtype:
    """Return the numpy dtype of values of this element type."""
    return DTYPES["ptr" if element.startswith("!tt.ptr") else element]


def itemsize(element: str) -> int:
    """Return the bytes of one element in memory; a pointer to pointers has elements, too."""
    if element.startswith("!tt.ptr"):
        return 8
    return 1 if element in FP8 else 2 if element in HALF else DTYPES[element].itemsize
