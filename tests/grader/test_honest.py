"""No honest kernel fails: unusual answers of many kinds get full marks from the real judge. Those that are patches of a published
solution stand in test_units.py, with the wrong ones."""

from functools import cache
from pathlib import Path

import pytest
import toy_kernels

from grader.audit import kill_matrix, variants

TOY = variants.read(Path(__file__).parent / "toy_variants" / "honest.py")
HONEST = [v for v in variants.scripts() if v.script.startswith("honest/")]


@pytest.fixture(scope="module")
def judged():
    """A function from honest answers to their rows of the kill matrix, by exercise and name."""

    @cache
    def judge(honest: tuple[variants.Variant, ...]):
        with pytest.MonkeyPatch.context() as patch:
            toy_kernels.install(patch)
            return {(row.variant.exercise, row.variant.name): row for row in kill_matrix.run(honest)}

    return judge


def loses_nothing(row: kill_matrix.JudgedVariant) -> None:
    assert row.lost == ()
    assert row.verdict.points == row.verdict.out_of > 0


@pytest.mark.parametrize("variant", TOY, ids=lambda v: f"{v.exercise}: {v.name}")
def test_an_unusual_toy_has_full_marks(variant, judged):
    loses_nothing(judged(tuple(TOY))[variant.exercise, variant.name])


@pytest.mark.slow
@pytest.mark.parametrize("variant", HONEST, ids=lambda v: f"{v.exercise}: {v.name}")
def test_an_unusual_answer_has_full_marks(variant, judged):
    loses_nothing(judged(tuple(HONEST))[variant.exercise, variant.name])
