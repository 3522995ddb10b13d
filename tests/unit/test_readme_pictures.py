"""The README's words about its pictures are true, and the command that draws them still works."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from grader.audit.samples.coalescing import ONE_ROW_A_PROGRAM

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
MEASURED = (ROOT / "docs" / "measured.md").read_text("utf-8")
GUIDE = (ROOT / "docs" / "instructors.md").read_text("utf-8")


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("readme_pictures", ROOT / "docs" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_stands_in_the_readme_or_the_guide_and_each_there_is_drawn_here(pictures):
    shown = set(re.findall(r"docs/(\w+)\.png", README)) | set(re.findall(r"\]\((\w+)\.png\)", GUIDE + MEASURED))
    assert shown == set(pictures.PICTURES)
    assert all((ROOT / "docs" / f"{name}.png").exists() for name in shown)


def test_the_feedback_is_of_a_transpose_that_forgets_partial_tiles(pictures):
    assert "is the last, partial block missing" in pictures.feedback()
    assert "a transpose that forgets its last, partial tiles" in GUIDE


def test_the_readme_shows_the_kernel_that_the_verdict_is_of():
    kernel = ONE_ROW_A_PROGRAM.partition("def transpose(")[0].strip()
    assert f"```python\n{kernel}\n```" in README


def test_the_verdict_is_of_a_right_and_wasteful_transpose(pictures):
    shown = pictures.verdict()
    assert "7 / 10" in shown and "uses 2 of every 32 bytes" in shown
    line = ONE_ROW_A_PROGRAM.splitlines().index(next(x for x in ONE_ROW_A_PROGRAM.splitlines() if "tl.store" in x)) + 1
    assert f"line {line} uses" in shown, "the number of the line in the README's listing"
    assert "A transpose that is right, and wastes 30 of every 32 bytes" in README


def test_early_keys_are_loaded_by_every_block_of_queries(pictures):
    assert "loaded 1 to 8 times" in repr(pictures.heatmap())
    assert "all 8 blocks of queries load the first, one the last" in MEASURED


def test_the_model_sorts_as_well_as_is_said(pictures):
    assert "The rank correlation over 230 sizes is 0.986" in repr(pictures.mystery_plot())
    assert "230 sizes with a rank correlation of 0.986" in MEASURED
