"""Pictures of 32 lanes on memory, and six causes."""

from course_lib.catalogue import say
from course_lib.exercises.naming import name_pictures, shipped

CAUSES = {
    "the rows of a matrix that is not padded": say("coalescing.name_pictures.shifted"),
    "one field of a structure of two": say("coalescing.name_pictures.field_of_two"),
    "down a column": say("coalescing.name_pictures.column"),
    "one number for all": say("coalescing.name_pictures.one_number"),
    "a gather of rows by index": say("coalescing.name_pictures.gather"),
    "a tile whose rows are half a sector": say("coalescing.name_pictures.half_a_sector"),
}
"""Each cause, and what its picture would look like."""

# bytes from the beginning of the tensor, one for each lane of a request that loads float32
LANES = {
    "A": list(range(0, 32 * 384, 384)),
    "B": [start + 4 * i for start in (1184, 64, 2016, 512) for i in range(8)],
    "C": list(range(4, 132, 4)),
    "D": [start + 4 * i for start in range(0, 8 * 160, 160) for i in range(4)],
    "E": list(range(0, 256, 8)),
    "F": [128] * 32,
}

_, SEALED = shipped("coalescing")

name_lanes = name_pictures("coalescing.name_lanes", "named_lanes", "six requests", SEALED, CAUSES, minutes=5)
