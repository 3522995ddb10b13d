"""No honest kernel fails: unusual answers of many kinds get full marks from the real judge. Those that are patches of a published
solution stand in test_units.py, with the wrong ones."""

from pathlib import Path

import pytest
import toy_kernels

from grader.audit import kill_matrix, variants

TOY = variants.read(Path(__file__).parent / "toy_variants" / "honest.py")
HONEST = [v for v in variants.scripts() if v.script.startswith("honest/")] + TOY


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        toy_kernels.install(patch)
        return {(row.variant.exercise, row.variant.name): row for row in kill_matrix.run(HONEST)}


@pytest.mark.parametrize("variant", HONEST, ids=lambda v: f"{v.exercise}: {v.name}")
def test_full_marks(variant, rows):
    row = rows[variant.exercise, variant.name]
    assert row.lost == ()
    assert row.verdict.points == row.verdict.out_of > 0
