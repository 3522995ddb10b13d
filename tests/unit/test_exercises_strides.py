"""Unit 01's solutions against torch on drawn inputs, and what the checks of its recipes say to odd answers."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import says
from stopped import raised

from course_lib.exercises import strides as S

SOURCE = (Path(__file__).parents[2] / "solutions" / "01_tensors_and_strides.py").read_text()


@pytest.fixture(scope="module")
def solved():
    """The functions of the published solution's formulas, by name."""
    scope = {"torch": torch}
    for exercise in S.EXERCISES.values():
        if exercise.kind == "formula":
            cell = re.search(rf'^# %% exercise="{exercise.id}".*\n((?:(?!# %%).*\n)*)', SOURCE, re.M).group(1)
            exec(cell, scope)
    return scope


sizes = st.lists(st.integers(1, 5), max_size=5)


@st.composite
def layouts(draw, least=0):
    shape = draw(st.lists(st.integers(least, 4), max_size=4))
    return shape, [draw(st.integers(0, 30)) for _ in shape]


@st.composite
def views(draw):
    """A contiguous tensor of positions, seen through a few random views."""
    x = torch.arange(360).reshape(3, 4, 5, 6)
    for _ in range(draw(st.integers(0, 3))):
        match draw(st.sampled_from(["transpose", "slice", "select"])):
            case "transpose" if x.dim() > 1:
                x = x.transpose(*draw(st.lists(st.integers(0, x.dim() - 1), min_size=2, max_size=2)))
            case "slice" if x.dim():
                axis, step = draw(st.integers(0, x.dim() - 1)), draw(st.integers(1, 3))
                index = [slice(None)] * axis + [slice(draw(st.integers(0, x.shape[axis] - 1)), None, step)]
                x = x[tuple(index)]
            case "select" if x.dim() > 1:
                x = x[draw(st.integers(0, x.shape[0] - 1))]
    return x


@settings(deadline=None)
@given(x=views(), data=st.data())
def test_flat_index_is_where_torch_reads(solved, x, data):
    index = [data.draw(st.integers(0, n - 1)) for n in x.shape]
    assert solved["flat_index"](index, list(x.stride()), x.storage_offset()) == x[tuple(index)].item()


@settings(deadline=None)
@given(shape=sizes)
def test_row_major_strides_are_those_of_a_new_tensor(solved, shape):
    assert solved["row_major_strides"](shape) == list(torch.empty(shape).stride())


@settings(deadline=None)
@given(layout=layouts())
def test_is_contiguous_says_what_torch_says_of_any_layout(solved, layout):
    shape, strides = layout
    said = torch.empty_strided(shape, strides, device="meta").is_contiguous()
    assert solved["is_contiguous"](shape, strides) == said


@settings(deadline=None)
@given(x=views())
def test_is_contiguous_says_what_torch_says_of_views(solved, x):
    assert solved["is_contiguous"](list(x.shape), list(x.stride())) == x.is_contiguous()


@settings(deadline=None)
@given(x=views(), data=st.data())
def test_recipes_read_what_torch_reads(solved, x, data):
    shape, strides = list(x.shape), list(x.stride())
    if shape:
        axes = st.integers(0, len(shape) - 1)
        options = {"i": data.draw(axes), "j": data.draw(axes)}
        assert not S.oracles.reads_like(S.views.transposed)(
            solved["transpose_view"](shape, strides, **options), shape, strides, **options
        )
        options = {"width": data.draw(st.integers(1, shape[-1])), "step": data.draw(st.integers(1, 3))}
        assert not S.oracles.reads_like(S.views.windows)(
            solved["sliding_windows"](shape, strides, **options), shape, strides, **options
        )
    front = data.draw(st.lists(st.integers(1, 3), max_size=2))
    options = {"target": front + [data.draw(st.integers(1, 3)) if n == 1 else n for n in shape]}
    assert not S.oracles.reads_like(S.views.broadcast)(
        solved["broadcast_view"](shape, strides, **options), shape, strides, **options
    )
    if len(shape) == 2:
        options = {
            k: data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
            for k, n in zip(("bm", "bn"), shape, strict=True)
        }
        assert not S.oracles.reads_like(S.oracles.tiles)(
            solved["tile_view"](shape, strides, **options), shape, strides, **options
        )


GIVEN = {"shape": [3, 4], "strides": [4, 1], "i": 0, "j": 1}


@pytest.mark.parametrize(
    "output, problem",
    [
        (([4, 3], [1, 4]), ""),
        ([(4, 3), (1, 4)], ""),
        ([[4, 3]], "no_recipe"),
        ([4, 3], "no_recipe"),
        ({"unsupported": "a tensor"}, "no_recipe"),
        (7, "no_recipe"),
        (([4, 3], [1.0, 4.0]), "no_recipe"),
        (([4, True], [1, 4]), "no_recipe"),
        (([4, 3], [-1, 4]), "no_recipe"),
        (([4, 3], [10**30, 4]), "no_recipe"),
        (([1] * 9, [0] * 9), "no_recipe"),
        (([4, 3], [1]), "count"),
        (([3, 4], [1, 4]), "shape"),
        (([4, 3], [4, 1]), "beyond"),
        (([4, 3], [3, 1]), "element"),
    ],
)
def test_a_recipe_is_followed_or_refused_in_a_sentence(output, problem):
    sentence = S.oracles.reads_like(S.views.transposed)(output, **GIVEN)
    assert sentence.id == f"strides.recipe.{problem}" if problem else sentence == ""


def test_a_recipe_s_sentence_has_its_numbers():
    problem = S.oracles.reads_like(S.views.transposed)
    assert says(problem(([4, 3], [4, 1]), **GIVEN), "strides.recipe.beyond", way=["3 * 4", "2 * 1"], last=14, end=11)
    assert says(problem(([4, 3], [3, 1]), **GIVEN), "strides.recipe.element", element="[0, 1]", right=4, got=1)


def said_by(exercise, answer):
    """The sentence of the first mistake that results, or an error, are recognised as."""
    from course_lib.criteria import GradedTrial
    from course_lib.evidence import Evidence

    trials = []
    for case in exercise.cases:
        arguments = case.arguments(3)
        try:
            evidence = Evidence(case.name, outputs=[answer(**arguments)])
        except Exception as error:
            evidence = Evidence(case.name, **raised(str(error), type(error).__name__))
        trials.append(GradedTrial(case, [arguments], evidence, exercise))
    return next(filter(None, (look(trials) for look in exercise.mistakes)), "")


def test_contiguity_without_strides_to_compare_with_names_the_cause():
    def unsolved(shape):
        return None

    said = said_by(S.is_contiguous, lambda shape, strides: all(a == b for a, b in zip(strides, unsolved(shape))))  # noqa: B905
    assert said.id == "strides.is_contiguous.unsolved_strides"
    a_tuple = said_by(S.is_contiguous, lambda shape, strides: 0 in shape or strides == tuple(strides))
    assert a_tuple.id == "strides.is_contiguous.never"


TILE = "(rows < M) & (cols < N)"
OUT = "torch.empty((M, N), dtype=x.dtype, device=x.device)"
FROM_X = "x_ptr + rows * stride_m + cols * stride_n"
HALVES, PAIRS = "strides.strided_copy.half_of_the_mask", "strides.strided_copy.offsets_of_one_dimension"


@pytest.mark.parametrize(
    "patches, said",
    [
        ([(TILE, "(rows < M)")], HALVES),
        ([(TILE, "(cols < N)")], HALVES),
        ([(TILE, "(rows < M) | (cols < N)")], HALVES),
        ([(", mask=inside", "")], HALVES),
        ([(", tile, mask=inside", ", tile")], HALVES),
        (
            [("out_ptr + rows * N + cols", "out_ptr + rows * stride_m + cols * stride_n")],
            "strides.strided_copy.out_has_the_strides_of_x",
        ),
        ([(FROM_X, "x_ptr + rows * N + cols")], "strides.strided_copy.takes_x_for_contiguous"),
        ([(OUT, "torch.empty_like(x)")], "criteria.looks.row_by_row"),
        ([("[:, None]", ""), ("[None, :]", "")], PAIRS),
        ([("[:, None]", "[:None]"), ("[None, :]", "[:None]")], PAIRS),
        ([("[:, None]", ""), ("[None, :]", ""), ("BLOCK = 64", "BLOCK = 256")], PAIRS),
        ([("BLOCK = 64", "BLOCK = 128"), (TILE, "(rows >= 0) & (cols >= 0)")], ""),  # the fault itself asks for a mask
        ([("triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK)", "8, 8")], ""),
    ],
)
def test_a_strided_copy_that_is_wrong_names_the_cause(spoiled, patches, said):
    found = spoiled("strides.strided_copy", *patches)
    assert found.points < found.out_of and getattr(found.remark, "id", "") == said


@pytest.mark.parametrize(
    "patches",
    [
        [("BLOCK)[:, None]", "BLOCK)"), ("BLOCK)[None, :]", "BLOCK)"), ("rows < M", "rows[:, None] < M"),
         ("cols < N", "cols[None, :] < N"), (FROM_X, load), ("out_ptr + rows * N + cols", store)]
        for load, store in (
            ("x_ptr + rows[None, :] * stride_m + cols[:, None] * stride_n", "out_ptr + rows[:, None] * N + cols[None, :]"),
            ("x_ptr + rows[:, None] * stride_m + cols[None, :] * stride_n", "out_ptr + rows[None, :] * N + cols[:, None]"),
        )
    ],
)  # fmt: skip
def test_tiles_of_a_copy_that_are_turned_ask_for_the_nones(spoiled, patches):
    plain = next(f for f in spoiled("strides.strided_copy", *patches).findings if not f.passed)
    assert says(plain.detail, "criteria.looks.tiles_of_a_copy", side=64)


def test_what_holds_for_reversals_and_first_axes_alone_loses(answered):
    turned = answered("strides.transpose_view", lambda shape, strides, i, j: [shape[::-1], strides[::-1]])
    assert [f.passed for f in turned.findings] == [False, False]
    first = answered(
        "strides.is_contiguous",
        lambda shape, strides: 0 in shape or not shape or strides[0] * shape[0] == math.prod(shape),
    )
    assert not first.findings[0].passed


def test_heads_cut_in_the_wrong_way_are_told_apart():
    assert (
        said_by(S.split_heads, S.mistakes.cut_in_the_wrong_order).id
        == "strides.split_heads.cut_in_the_order_of_storage"
    )
    assert said_by(S.split_heads, S.mistakes.channels_before_heads).id == "strides.split_heads.channels_before_heads"
    assert said_by(S.split_heads, lambda x, heads: x.unflatten(-1, (heads, -1)).transpose(1, 2)) == ""


@pytest.mark.parametrize("exercise", [e for e in S.EXERCISES.values() if e.kind == "formula"], ids=lambda e: e.id)
def test_oracles_pass_their_own_criteria(exercise):
    """A criterion that no right answer meets would be the worst mistake of all."""
    from course_lib.criteria import judge
    from course_lib.evidence import Evidence
    from course_lib.exercise import Trial

    trials = []
    for case in exercise.cases:
        arguments = case.arguments(3)
        answer = exercise.oracle(**arguments)
        answer = list(answer) if isinstance(answer, tuple) else answer
        trials.append(Trial(case, [arguments], Evidence(case.name, outputs=[answer])))
    verdict = judge(exercise, trials)
    assert verdict.points == verdict.out_of


def test_new_bytes_tells_views_from_copies():
    assert S.oracles.new_bytes(lambda x: x.T[::2].expand(5, 32, 64)) == 0
    assert S.oracles.new_bytes(lambda x: x + 1) == 64 * 64 * 4
    assert S.oracles.new_bytes(lambda x: x[:, :1].contiguous()) == 256
