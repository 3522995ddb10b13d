"""Maps of a wrong product, and six causes."""

from course_lib.catalogue import say
from course_lib.exercises.naming import name_pictures, shipped

CAUSES = {
    "the grid rounds down": say("tiling.name_pictures.grid"),
    "no mask on the store's columns": say("tiling.name_pictures.columns_of_the_store"),
    "the last step along K is missing": say("tiling.name_pictures.last_step"),
    "all programs load the first columns of b": say("tiling.name_pictures.first_columns"),
    "sums are kept in float16": say("tiling.name_pictures.float16"),
    "rows are compared with N": say("tiling.name_pictures.rows_against_n"),
}
"""Each cause, and what its picture would look like."""

# of each patch of 4 x 4 elements the share that is wrong, in tenths; c is (100, 80), tiles are 32 x 32
MAPS, SEALED = shipped("tiling")

name_maps = name_pictures("tiling.name_maps", "named_maps", "six maps", SEALED, CAUSES)
