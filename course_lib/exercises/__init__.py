"""One module or package per unit: the exercises with their cases, oracles, criteria, points and hints.

A large unit is a package: what its exercises are given in cases.py, what is right in oracles.py, how a wrong result is
recognised in mistakes.py, criteria of its own in criteria.py, the exercises in modules by subject, listed in __init__.py.

Oracles are torch, brute force or the trace; closed forms and solutions live elsewhere.
"""

UNITS = {
    "00_start_here": "start",
    "01_tensors_and_strides": "strides",
    "02_dtypes": "dtypes",
    "03_counting_flops": "flops",
    "04_memory_coalescing": "coalescing",
    "05_tiling": "tiling",
    "06_fusion": "fusion",
    "07_recomputation": "recomputation",
    "08_attention_by_tiles": "attention",
    "09_flash_attention_forward": "flash",
    "10_flash_attention_backward": "flash_backward",
}
"""The unit's folder in notebooks/ and solutions/ -> its module here, and in figures/, grader/hidden and grader/variants."""
