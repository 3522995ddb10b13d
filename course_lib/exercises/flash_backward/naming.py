"""Maps of wrong gradients of attention, and six causes."""

from course_lib.catalogue import say
from course_lib.exercises.naming import name_pictures, shipped

CAUSES = {
    "delta is not subtracted": say("flash_backward.name_pictures.no_delta"),
    "the grid of dkdv rounds down": say("flash_backward.name_pictures.grid"),
    "tiles on the diagonal are not masked in dkdv": say("flash_backward.name_pictures.unmasked_diagonal"),
    "dk is not scaled": say("flash_backward.name_pictures.unscaled"),
    "programs add to dq without atomics": say("flash_backward.name_pictures.no_atomics"),
    "dk and dv are kept in float16": say("flash_backward.name_pictures.float16"),
}  # fmt: skip
"""Each cause, and what its picture would look like."""

# dq, dk and dv side by side, (100, 32) each; of each patch of 4 x 4 elements the share that is wrong, in tenths; tiles are 32 x 32
MAPS, SEALED = shipped("flash_backward")

name_gradients = name_pictures(
    "flash_backward.name_gradients",
    "named_gradients",
    "six maps",
    SEALED,
    CAUSES,
)  # fmt: skip
