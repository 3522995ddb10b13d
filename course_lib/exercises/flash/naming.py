"""Maps of wrong weights of attention, and six causes."""

from course_lib.catalogue import say
from course_lib.exercises.naming import name_pictures, shipped

CAUSES = {
    "the grid rounds down": say("flash.name_pictures.grid"),
    "a query does not see itself": say("flash.name_pictures.diagonal"),
    "tiles on the diagonal are not masked": say("flash.name_pictures.unmasked_diagonal"),
    "acc is not corrected when the maximum grows": (say("flash.name_pictures.acc_not_corrected")),
    "l is not corrected when the maximum grows": (say("flash.name_pictures.l_not_corrected")),
    "scores are rounded to bfloat16": say("flash.name_pictures.bfloat16"),
}
"""Each cause, and what its picture would look like."""

# of each patch of 4 x 4 weights the share that is wrong, in tenths; there are 100 queries and 100 keys, tiles are 32 x 32
MAPS, SEALED = shipped("flash")

name_maps = name_pictures("flash.name_maps", "named_maps", "six maps", SEALED, CAUSES)
