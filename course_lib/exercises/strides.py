"""Unit 01, tensors and strides.

The four view exercises work on recipes: the shape and the strides of a tensor go in, those of the view come out. A recipe
cannot copy anything. The check builds the view with torch.as_strided and compares it, element by element, with torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.cases import given
from course_lib.criteria import Compiles, Correct, Holds, Traffic, TritonDidTheWork, copy_bytes
from course_lib.exercise import Case, Exercise, Trial
from course_lib.mistakes import Mistake, every, raised
from course_lib.words import in_words

MAX_RANK, MAX_SIZE = 8, 1 << 22  # axes, and sizes and strides, of what a check believes

# ------------------------------------------------------------------------------------------------ inputs


def integers(generator: torch.Generator, low: int, high: int, count: int) -> list[int]:
    """`count` whole numbers from low to high, both included."""
    return torch.randint(low, high + 1, (count,), generator=generator).tolist()


def matrix(M: int, N: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """A drawing of x (M, N). layout: "rows" is contiguous; "columns" is transposed; "window" lies inside a larger matrix and
    "steps" is every second row and third column of one, full of NaN elsewhere; "one row" and "one column" are expanded."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N, generator=generator, device=generator.device).to(dtype)

        def inside(rows: slice, columns: slice) -> torch.Tensor:
            around = torch.full((2 * M + 3, 3 * N + 8), math.nan, dtype=dtype, device=generator.device)
            around[rows, columns] = values
            return around[rows, columns]

        match layout:
            case "columns":
                values = values.T.contiguous().T
            case "window":
                values = inside(slice(2, 2 + M), slice(5, 5 + N))
            case "steps":
                values = inside(slice(1, 1 + 2 * M, 2), slice(2, 2 + 3 * N, 3))
            case "one row":
                values = values[:1].clone().expand(M, N)
            case "one column":
                values = values[:, :1].clone().expand(M, N)
        return {"x": values}

    return draw


def tokens(B: int, S: int, heads: int, D: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """A drawing of x (B, S, heads * D) and the number of heads. layout "sequence first" is a view of (S, B, heads * D)."""

    def draw(generator: torch.Generator) -> dict[str, Any]:
        x = torch.randn(B, S, heads * D, generator=generator, device=generator.device).to(dtype)
        if layout == "sequence first":
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return {"x": x, "heads": heads}

    return draw


# ------------------------------------------------------------------------------------------------ oracles


def storage_for(shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """0, 1, 2, ...: as many as a tensor of that shape and those strides reaches over. Each number is its own position."""
    return torch.arange(torch.empty_strided(shape, strides, dtype=torch.int8, device="meta").untyped_storage().nbytes())


def position(index: list[int], strides: list[int], offset: int) -> int:
    """What torch reads there, in a storage of positions."""
    shape = [i + 1 for i in index]
    return int(torch.arange(1 << 16).as_strided(shape, strides, offset)[tuple(index)])


def strides_of_a_new_tensor(output: Any, shape: list[int]) -> str:
    """For Holds: "" if these are the strides that torch gives a new tensor, else a sentence."""
    expected = list(torch.empty(shape, device="meta").stride())
    if not _is_sizes(output):
        return f"for shape {shape}: expected a list of {len(shape)} whole numbers, got {in_words(output)}"
    return "" if list(output) == expected else f"for shape {shape}: expected {expected}, got {list(output)}"


def recipe_of(view: Callable[..., torch.Tensor]) -> Callable[..., tuple]:
    """An oracle: the recipe of torch's own view."""

    def oracle(shape: list[int], strides: list[int], **options: Any) -> tuple:
        found = view(storage_for(shape, strides).as_strided(shape, strides), **options)
        return list(found.shape), list(found.stride())

    return oracle


def reads_like(view: Callable[..., torch.Tensor]) -> Callable[..., str]:
    """For Holds: "" if the recipe reads the elements that torch's view reads, else a sentence."""

    def problem(output: Any, shape: list[int], strides: list[int], **options: Any) -> str:
        said = ", ".join(f"{k} {v}" for k, v in {"shape": shape, "strides": strides, **options}.items())
        storage = storage_for(shape, strides)
        expected = view(storage.as_strided(shape, strides), **options)
        if not (isinstance(output, (list, tuple)) and len(output) == 2 and all(map(_is_sizes, output))):
            return (
                f"for {said}: expected (shape, strides), two lists of whole numbers from 0 up, got {in_words(output)}"
            )
        new_shape, new_strides = map(list, output)
        if new_shape != list(expected.shape):
            return f"for {said}: expected shape {list(expected.shape)}, got {new_shape}"
        if len(new_strides) != len(new_shape):
            return f"for {said}: {len(new_shape)} sizes need as many strides, got {new_strides}"
        last = sum((n - 1) * s for n, s in zip(new_shape, new_strides, strict=True))
        if last >= len(storage):
            way = " + ".join(f"{n - 1} * {s}" for n, s in zip(new_shape, new_strides, strict=True))
            return (
                f"for {said}: with strides {new_strides} the last element would lie at {way} = {last}, and x's storage "
                f"ends at {len(storage) - 1}"
            )
        got = storage.as_strided(new_shape, new_strides)
        wrong = (got != expected).nonzero()
        if not len(wrong):
            return ""
        place = tuple(wrong[0].tolist())
        there = f"element {list(place)} lies at position {int(expected[place])}"
        return f"for {said}: {there}, and with strides {new_strides} it is {int(got[place])}"

    return problem


def _is_sizes(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) > MAX_RANK:
        return False
    return all(type(n) is int and 0 <= n <= MAX_SIZE for n in value)


def tiles(x: torch.Tensor, bm: int, bn: int) -> torch.Tensor:
    """(M, N) -> (M // bm, N // bn, bm, bn)."""
    return x.unfold(0, bm, bm).unfold(1, bn, bn)


VIEWS = {
    "x.T": lambda x: x.T,
    "x[:, ::2]": lambda x: x[:, ::2],
    "x.contiguous()": lambda x: x.contiguous(),
    "x.T.contiguous()": lambda x: x.T.contiguous(),
    "x.reshape(4096)": lambda x: x.reshape(4096),
    "x.T.reshape(4096)": lambda x: x.T.reshape(4096),
    "x.expand(10, 64, 64)": lambda x: x.expand(10, 64, 64),
    "x[[0, 1]]": lambda x: x[[0, 1]],
    "x.half()": lambda x: x.half(),
    "x.float()": lambda x: x.float(),
}


def new_bytes(make: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """Bytes of the storage that make(x) got for itself, x being (64, 64) in float32; 0 if it shares that of x."""
    x = torch.zeros(64, 64)
    storage = make(x).untyped_storage()
    return 0 if storage.data_ptr() == x.untyped_storage().data_ptr() else storage.nbytes()


# ------------------------------------------------------------------------------------------------ mistakes


def gives(wrong: Callable[..., Any], sentence: str, besides: str = "") -> Mistake:
    """`sentence`, if that wrong formula gives everything that was returned; the group `besides` may be otherwise."""
    look = every(lambda output, /, **arguments: _as_lists(output) == _as_lists(wrong(**arguments)), sentence)
    return lambda trials: look([t for t in trials if t.case.group != besides])


def _as_lists(value: Any) -> Any:
    return [_as_lists(v) for v in value] if isinstance(value, (list, tuple)) else value


def contiguous_alone(trials: Sequence[Trial]) -> str:
    """A copy that is right where x is contiguous, and wrong elsewhere."""
    if any(f.kind == "out of bounds" and "stores to" in f.sentence for t in trials for f in t.evidence.faults):
        return "Does the store use the strides of the output, N and 1, or those of x?"
    right = {True: [], False: []}
    for t in trials:
        for arguments, output in zip(t.inputs, t.evidence.outputs, strict=False):
            x = arguments["x"]
            same = isinstance(output, torch.Tensor) and output.shape == x.shape and torch.equal(output, x)
            if not same and isinstance(output, torch.Tensor) and torch.equal(output, x.reshape(x.shape[::-1]).T):
                return (
                    "Stored row by row into an output that lies column by column: torch.empty_like(x) takes over x's strides. "
                    "Is your output contiguous?"
                )
            right[x.is_contiguous()].append(same and not t.evidence.faults)
    if right[True] and all(right[True]) and not all(right[False]):
        return "Right where x is contiguous: does each load use both of x's own strides, x.stride(0) and x.stride(1)?"
    return ""


def cut_in_the_wrong_order(x: torch.Tensor, heads: int) -> torch.Tensor:
    B, S, C = x.shape
    return x.reshape(B, heads, S, C // heads)


def channels_before_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    B, S, C = x.shape
    return x.reshape(B, S, C // heads, heads).permute(0, 3, 1, 2)


def equals(wrong: Callable[..., torch.Tensor], sentence: str) -> Mistake:
    """`sentence`, if every result is the tensor that this wrong function gives."""

    def same(output: Any, **arguments: Any) -> bool:
        return isinstance(output, torch.Tensor) and torch.equal(output, wrong(**arguments))

    return every(same, sentence)


# ------------------------------------------------------------------------------------------------ formulas

flat_index = Exercise(
    id="strides.flat_index",
    entry="flat_index",
    signature="flat_index(index: list[int], strides: list[int], offset: int) -> int",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=1,
    cases=[
        Case("a matrix", "plain", given(index=[2, 3], strides=[4, 1], offset=0)),
        Case("a transposed matrix", "plain", given(index=[3, 2], strides=[1, 4], offset=0)),
        Case("three axes", "plain", given(index=[1, 2, 3], strides=[20, 5, 1], offset=0)),
        Case("a slice", "offset", given(index=[1, 2], strides=[6, 2], offset=9)),
        Case("an expanded row", "offset", given(index=[5, 3], strides=[0, 1], offset=12)),
        Case("no axis", "any rank", given(index=[], strides=[], offset=7)),
        Case("one axis", "any rank", given(index=[11], strides=[3], offset=2)),
        Case(
            "five drawn axes",
            "any rank",
            lambda g: {"index": integers(g, 0, 5, 5), "strides": integers(g, 0, 300, 5), "offset": 17},
        ),
    ],
    oracle=position,
    criteria=[
        Correct("plain", 2, "matrices and three axes"),
        Correct("offset", 1, "slices and expanded rows"),
        Correct("any rank", 1, "any number of axes"),
    ],
    hints=[
        "How far apart in storage are two elements that are neighbours along axis 0? Along axis 1?",
        "Start at the offset. Each axis takes you index times stride further.",
        "offset + sum(i * s for i, s in zip(index, strides)).",
    ],
    mistakes=[
        gives(
            lambda index, strides, offset: sum(i * s for i, s in zip(index, strides, strict=True)),
            "The walk starts at the offset, not at the first element of the storage.",
        ),
    ],
)

row_major_strides = Exercise(
    id="strides.row_major_strides",
    entry="row_major_strides",
    signature="row_major_strides(shape: list[int]) -> list[int]",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=5,
    cases=[
        Case("3 x 4", "plain", given(shape=[3, 4])),
        Case("5 x 5", "plain", given(shape=[5, 5])),
        Case("2 x 3 x 4", "plain", given(shape=[2, 3, 4])),
        Case("8 x 16 x 128 x 64", "plain", given(shape=[8, 16, 128, 64])),
        Case("no axis", "any rank", given(shape=[])),
        Case("one axis", "any rank", given(shape=[7])),
        Case("axes of size 1", "any rank", given(shape=[1, 5, 1, 3, 1])),
        Case("six drawn axes", "any rank", lambda g: {"shape": integers(g, 1, 6, 6)}),
    ],
    oracle=lambda shape: torch.empty(shape, device="meta").stride(),
    criteria=[
        Holds(strides_of_a_new_tensor, 2, "two, three and four axes"),
        Holds(strides_of_a_new_tensor, 2, "any number of axes, axes of size 1", "any rank"),
    ],
    hints=[
        "What is the stride of the last axis, whatever the shape? How many elements does one step along the axis before it skip?",
        "The stride of an axis is the product of all the sizes to its right.",
        "Walk over the shape from its end with `step = 1`: the stride is `step`, then `step *= size`. Turn the list round at "
        "the end.",
    ],
    mistakes=[
        gives(
            lambda shape: [math.prod(shape[:axis]) for axis in range(len(shape))],
            "These are the strides of column-major order, where the first axis has stride 1. In torch the last one has.",
        ),
        gives(
            lambda shape: [math.prod(shape[axis:]) for axis in range(len(shape))],
            "A step along an axis skips what lies to its right; its own size does not count.",
        ),
    ],
)

is_contiguous = Exercise(
    id="strides.is_contiguous",
    entry="is_contiguous",
    signature="is_contiguous(shape: list[int], strides: list[int]) -> bool",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=6,
    cases=[
        Case("3 x 4", "plain", given(shape=[3, 4], strides=[4, 1])),
        Case("its transpose", "plain", given(shape=[4, 3], strides=[1, 4])),
        Case("a slice of columns", "plain", given(shape=[3, 2], strides=[4, 1])),
        Case("every other column", "plain", given(shape=[3, 2], strides=[4, 2])),
        Case("an expanded row", "plain", given(shape=[3, 4], strides=[0, 1])),
        Case("2 x 3 x 4", "plain", given(shape=[2, 3, 4], strides=[12, 4, 1])),
        Case("the middle sliced", "plain", given(shape=[2, 2, 4], strides=[12, 4, 1])),
        Case("one row of a wide matrix", "size 1", given(shape=[1, 4], strides=[99, 1])),
        Case("one column", "size 1", given(shape=[5, 1], strides=[1, 7])),
        Case("one column of a matrix", "size 1", given(shape=[5, 1], strides=[4, 1])),
        Case("a size of 1 in the middle", "size 1", given(shape=[3, 1, 4], strides=[4, 0, 1])),
        Case("no axis", "size 1", given(shape=[], strides=[])),
        Case("no rows", "empty", given(shape=[0, 4], strides=[1, 9])),
        Case("no columns", "empty", given(shape=[3, 0], strides=[5, 5])),
    ],
    oracle=lambda shape, strides: torch.empty_strided(shape, strides, device="meta").is_contiguous(),
    criteria=[
        Correct("plain", 2, "matrices and three axes"),
        Correct("size 1", 2, "axes of size 1"),
        Correct("empty", 1, "tensors without elements"),
    ],
    hints=[
        "Which strides would a contiguous tensor of this shape have? You wrote a function for that.",
        "Along an axis of size 1 nobody ever takes a step. Does its stride matter?",
        "True if any size is 0. Otherwise all(s == r for n, s, r in zip(shape, strides, row_major_strides(shape)) if n != 1).",
    ],
    mistakes=[
        raised("NoneType", "If you call row_major_strides: is it solved? Unsolved, it returns None."),
        gives(
            lambda shape, strides: False,
            "Never? A list does not equal a tuple, whatever is in them: is one of the two that you compare a tuple?",
            besides="empty",
        ),
        gives(
            lambda shape, strides: list(strides) == list(torch.empty(shape, device="meta").stride()),
            "Equal strides are enough, and not needed: whose stride does not matter, because nobody takes a step along it?",
            besides="empty",
        ),
        gives(
            lambda shape, strides: list(strides) == sorted(strides, reverse=True),
            "Falling strides are not enough: the slice x[:, :2] has them too, and skips elements.",
            besides="empty",
        ),
    ],
)

predictions = Exercise(
    id="strides.predictions",
    entry="predicted_new_bytes",
    signature="predicted_new_bytes: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=10,
    cases=[Case("ten expressions", "plain", lambda g: {})],
    oracle=lambda: {name: new_bytes(make) for name, make in VIEWS.items()},
    criteria=[Correct("plain", 5, "new bytes, as torch allocates them")],
    hints=[
        "For each: can the result be described by a shape, strides and an offset over the storage that is there?",
        "A list of row numbers could be any rows, in any order, and another dtype needs other bits. And what does "
        "`contiguous` have to do if x is contiguous already?",
        "Four of them are new: two copies of x.T, one of two rows, and one in 2 bytes an element. The rest is 0.",
    ],
)

tensor_bytes = Exercise(
    id="strides.tensor_bytes",
    entry="tensor_bytes",
    signature="tensor_bytes(shape: list[int], dtype: str) -> int",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=4,
    cases=[
        Case("3 x 4 floats", "float32", given(shape=[3, 4], dtype="float32")),
        Case("GPT-3's matrix", "float32", given(shape=[12288, 49152], dtype="float32")),
        Case("one number", "float32", given(shape=[], dtype="float32")),
        Case("none at all", "float32", given(shape=[5, 0], dtype="float32")),
        *(
            Case(name, "dtypes", given(shape=[7, 11, 13], dtype=name))
            for name in ("bfloat16", "float16", "int64", "bool", "float8_e4m3fn", "float64")
        ),
    ],
    oracle=lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype), device="meta").nbytes,
    criteria=[
        Correct("float32", 2, "any shape in float32"),
        Correct("dtypes", 2, "other dtypes"),
    ],
    hints=[
        "How many elements does the shape hold, and how many bytes does each take?",
        "getattr(torch, 'bfloat16') is torch.bfloat16, and torch.bfloat16.itemsize is its bytes.",
        "Multiply the sizes, starting from 1 so that an empty shape holds one element; then times the itemsize.",
    ],
    mistakes=[
        gives(
            lambda shape, dtype: 4 * math.prod(shape),
            "Not every element takes 4 bytes: ask the dtype for its itemsize.",
        ),
        gives(lambda shape, dtype: math.prod(shape), "That is the number of elements; each takes `itemsize` bytes."),
    ],
)

# ------------------------------------------------------------------------------------------------ views


def transposed(x: torch.Tensor, i: int, j: int) -> torch.Tensor:
    return x.transpose(i, j)


transpose_view = Exercise(
    id="strides.transpose_view",
    entry="transpose_view",
    signature="transpose_view(shape: list[int], strides: list[int], i: int, j: int) -> (shape, strides)",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=4,
    cases=[
        Case("a matrix", "plain", given(shape=[3, 4], strides=[4, 1], i=0, j=1)),
        Case("the last two of three", "plain", given(shape=[2, 3, 4], strides=[12, 4, 1], i=1, j=2)),
        Case("the outer two of three", "plain", given(shape=[2, 3, 4], strides=[12, 4, 1], i=2, j=0)),
        Case("an axis with itself", "plain", given(shape=[2, 3], strides=[3, 1], i=1, j=1)),
        Case("a matrix with gaps", "strided", given(shape=[3, 5], strides=[20, 2], i=0, j=1)),
        Case("a transposed one", "strided", given(shape=[4, 3], strides=[1, 4], i=1, j=0)),
        Case("an expanded one", "strided", given(shape=[6, 2, 3], strides=[0, 3, 1], i=0, j=2)),
    ],
    oracle=recipe_of(transposed),
    criteria=[
        Holds(reads_like(transposed), 2, "reads like x.transpose(i, j)"),
        Holds(reads_like(transposed), 1, "so it does where x is a view itself", "strided"),
    ],
    hints=[
        "Element (m, n) of the transpose is element (n, m) of x. Where did x keep it?",
        "The stride belongs to the axis: where the size goes, the stride goes.",
        "Copy both lists, then swap entries i and j in each: shape[i], shape[j] = shape[j], shape[i].",
    ],
    mistakes=[
        gives(
            lambda shape, strides, i, j: [list(torch.empty(shape, device="meta").transpose(i, j).shape), strides],
            "You swapped the sizes and not the strides. The stride belongs to its axis: the two travel together.",
        ),
    ],
)


def broadcast(x: torch.Tensor, target: list[int]) -> torch.Tensor:
    return x.expand(target)


broadcast_view = Exercise(
    id="strides.broadcast_view",
    entry="broadcast_view",
    signature="broadcast_view(shape: list[int], strides: list[int], target: list[int]) -> (shape, strides)",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=4,
    cases=[
        Case("one row", "plain", given(shape=[1, 4], strides=[4, 1], target=[3, 4])),
        Case("one column", "plain", given(shape=[3, 1], strides=[1, 1], target=[3, 5])),
        Case("nothing to do", "plain", given(shape=[3, 4], strides=[4, 1], target=[3, 4])),
        Case("a bias over a batch", "leading", given(shape=[4], strides=[1], target=[2, 3, 4])),
        Case("one number", "leading", given(shape=[], strides=[], target=[3, 2])),
        Case("matrices over a batch", "leading", given(shape=[3, 1], strides=[1, 1], target=[5, 3, 2])),
        Case("every other element", "strided", given(shape=[4], strides=[2], target=[3, 4])),
        Case("one column of a matrix", "strided", given(shape=[3, 1], strides=[7, 1], target=[3, 4])),
        Case("a transposed matrix", "strided", given(shape=[4, 3], strides=[1, 4], target=[2, 4, 3])),
    ],
    oracle=recipe_of(broadcast),
    criteria=[
        Holds(reads_like(broadcast), 2, "sizes of 1 are repeated"),
        Holds(reads_like(broadcast), 1, "new axes in front", "leading"),
        Holds(reads_like(broadcast), 1, "so it is where x is a view itself", "strided"),
    ],
    hints=[
        "Along a repeated axis every step must lead to the same element. How far is a step, then?",
        "Line the two shapes up at their right ends. An axis that x lacks, or that has size 1 in x and more in the target, gets "
        "stride 0.",
        "missing = len(target) - len(shape); then [0] * missing + [0 if n == 1 and t != 1 else s for n, s, t in zip(shape, "
        "strides, target[missing:])].",
    ],
    mistakes=[
        gives(
            lambda shape, strides, target: [target, torch.empty(target, device="meta").stride()],
            "These are the strides of a real copy. A repeated axis stays where it is: its stride is 0.",
        ),
    ],
)

tile_view = Exercise(
    id="strides.tile_view",
    entry="tile_view",
    signature="tile_view(shape: list[int], strides: list[int], bm: int, bn: int) -> (shape, strides)",
    kind="formula",
    minutes=15,
    difficulty=3,
    lines=3,
    cases=[
        Case("4 x 6 in tiles of 2 x 3", "plain", given(shape=[4, 6], strides=[6, 1], bm=2, bn=3)),
        Case("8 x 8 in tiles of 4 x 2", "plain", given(shape=[8, 8], strides=[8, 1], bm=4, bn=2)),
        Case("one tile", "plain", given(shape=[3, 5], strides=[5, 1], bm=3, bn=5)),
        Case("tiles of one element", "plain", given(shape=[3, 5], strides=[5, 1], bm=1, bn=1)),
        Case("a transposed matrix", "strided", given(shape=[6, 4], strides=[1, 6], bm=3, bn=2)),
        Case("a matrix with gaps", "strided", given(shape=[6, 8], strides=[40, 3], bm=2, bn=4)),
        Case("an expanded row", "strided", given(shape=[4, 6], strides=[0, 1], bm=2, bn=2)),
    ],
    oracle=recipe_of(tiles),
    criteria=[
        Holds(reads_like(tiles), 3, "tiles of a contiguous matrix"),
        Holds(reads_like(tiles), 2, "tiles of any matrix", "strided"),
    ],
    hints=[
        "There are four questions: how far is it to the next tile below, to the next tile on the right, to the next row within "
        "a tile, and to the next column within it?",
        "A step within a tile is a step of x. A step to the next tile below is bm steps of x at once.",
        "shape [M // bm, N // bn, bm, bn], strides [bm * s0, bn * s1, s0, s1].",
    ],
    mistakes=[
        gives(
            lambda shape, strides, bm, bn: [
                [shape[0] // bm, shape[1] // bn, bm, bn],
                torch.empty([shape[0] // bm, shape[1] // bn, bm, bn], device="meta").stride(),
            ],
            "These strides walk through storage from its start to its end: the first tile would be the first bm * bn numbers. Is "
            "a tile's second row there?",
        ),
    ],
)


def windows(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    return x.unfold(-1, width, step)


sliding_windows = Exercise(
    id="strides.sliding_windows",
    entry="sliding_windows",
    signature="sliding_windows(shape: list[int], strides: list[int], width: int, step: int) -> (shape, strides)",
    kind="formula",
    minutes=10,
    difficulty=3,
    lines=3,
    cases=[
        Case("10 numbers, 4 at a time", "plain", given(shape=[10], strides=[1], width=4, step=1)),
        Case("10 numbers, 4 at a time, step 2", "plain", given(shape=[10], strides=[1], width=4, step=2)),
        Case("9 numbers, 3 at a time, step 3", "plain", given(shape=[9], strides=[1], width=3, step=3)),
        Case("11 numbers: the last do not fit", "plain", given(shape=[11], strides=[1], width=4, step=3)),
        Case("one window", "plain", given(shape=[5], strides=[1], width=5, step=2)),
        Case("a batch", "batch", given(shape=[3, 8], strides=[8, 1], width=3, step=2)),
        Case("every other number", "batch", given(shape=[8], strides=[2], width=3, step=1)),
        Case("down the columns", "batch", given(shape=[4, 6], strides=[1, 4], width=2, step=2)),
    ],
    oracle=recipe_of(windows),
    criteria=[
        Holds(reads_like(windows), 2, "windows over a row of numbers"),
        Holds(reads_like(windows), 2, "windows over a batch, and over views", "batch"),
    ],
    hints=[
        "Within a window, how far is the next element? And how far is the start of the next window?",
        "How many starts 0, step, 2 step, ... leave room for a whole window before the end?",
        "The last axis of size L and stride s becomes two: sizes (L - width) // step + 1 and width, strides step * s and s.",
    ],
    mistakes=[
        gives(
            lambda shape, strides, width, step: [
                list(torch.empty(shape, device="meta").unfold(-1, width, step).shape),
                [*strides[:-1], step, 1],
            ],
            "A step along x is strides[-1] elements, which need not be 1.",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ tensors

split_heads = Exercise(
    id="strides.split_heads",
    entry="split_heads",
    signature="split_heads(x: (B, S, heads * D), heads: int) -> (B, heads, S, D), a copy",
    minutes=10,
    difficulty=2,
    lines=1,
    cases=[
        Case("2 x 5 x (3 x 4)", "plain", tokens(2, 5, 3, 4)),
        Case("3 x 7 x (2 x 8), float16", "plain", tokens(3, 7, 2, 8, torch.float16)),
        Case("2 x 4 x (4 x 4): all alike", "plain", tokens(2, 4, 4, 4)),
        Case("4 x 6 x (2 x 5), sequence first", "strided", tokens(4, 6, 2, 5, layout="sequence first")),
    ],
    # head by head, cut out of the last axis
    oracle=lambda x, heads: torch.stack(x.double().chunk(heads, dim=-1), dim=1),
    allows=frozenset(["clone", "copy_"]),
    criteria=[
        Correct("plain", 4, "each head gets its own channels of each token"),
        Correct("strided", 2, "so it does where x is a view"),
    ],
    hints=[
        "Which axis holds the heads? Cut that one, and no other, into two.",
        "In einops' words the axis is (h d), and h goes before s. That makes a view. What copies it?",
        'rearrange(x, "b s (h d) -> b h s d", h=heads) is right, and a view; .contiguous() makes the copy.',
    ],
    mistakes=[
        equals(
            cut_in_the_wrong_order,
            "This cuts the numbers in the order in which they lie, and mixes tokens: cut the last axis, then swap two.",
        ),
        equals(
            channels_before_heads,
            "Every head has got each `heads`-th channel. The D channels of a head lie side by side, so of the two parts of the "
            "last axis the heads are the slow one: (h d), not (d h).",
        ),
    ],
)

strided_copy = Exercise(
    id="strides.strided_copy",
    entry="strided_copy",
    signature="strided_copy(x: (M, N), any strides) -> (M, N), contiguous",
    minutes=25,
    difficulty=3,
    lines=11,
    cases=[
        Case("64 x 128", "plain", matrix(64, 128)),
        Case("1 x 1", "ragged", matrix(1, 1)),
        Case("37 x 201", "ragged", matrix(37, 201)),
        Case("130 x 5, float16", "ragged", matrix(130, 5, torch.float16)),
        Case("40 x 70, transposed", "strided", matrix(40, 70, layout="columns")),
        Case("33 x 50, a window", "strided", matrix(33, 50, layout="window")),
        Case("21 x 30, every second row and third column", "strided", matrix(21, 30, layout="steps")),
        Case("48 x 20, one row expanded", "zero strides", matrix(48, 20, layout="one row")),
        Case("19 x 66, one column expanded", "zero strides", matrix(19, 66, layout="one column")),
        Case("128 x 256", "performance", matrix(128, 256)),
        Case("128 x 256, transposed, float16", "performance", matrix(128, 256, torch.float16, layout="columns")),
    ],
    oracle=lambda x: x.double(),
    gates=(TritonDidTheWork(), Correct("plain"), Compiles()),
    criteria=[
        Correct("ragged", 2, "right on any size, in float16 as well"),
        Correct("strided", 3, "right on transposed and sliced inputs"),
        Correct("zero strides", 1, "right on expanded inputs"),
        Traffic(copy_bytes, 2),
    ],
    hints=[
        "Where does x keep element (m, n), and where does the contiguous result keep it? You wrote that formula: `flat_index`.",
        "Two program ids give a tile: rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), cols alike. Then rows[:, None] * "
        "stride_m + cols[None, :] * stride_n is a block (BLOCK, BLOCK) of offsets.",
        "Mask both with (rows[:, None] < M) & (cols[None, :] < N). Load at x_ptr + the offsets above, store at out_ptr + "
        "rows[:, None] * N + cols[None, :], and launch triton.cdiv(M, BLOCK) by triton.cdiv(N, BLOCK) programs.",
    ],
    mistakes=[contiguous_alone],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        flat_index,
        row_major_strides,
        is_contiguous,
        predictions,
        tensor_bytes,
        transpose_view,
        broadcast_view,
        tile_view,
        sliding_windows,
        split_heads,
        strided_copy,
    )
}
