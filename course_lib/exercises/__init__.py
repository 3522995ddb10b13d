"""One module per unit: the exercises with their cases, oracles, criteria, points and hints.

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
"""The unit's folder in notebooks/ and solutions/ -> its module here, in figures/, and in grader/hidden and grader/variants."""
