"""Solutions of earlier units, out of the student's own notebooks."""

import shutil

import nbformat
import pytest
import torch

import grader
from course_lib import trace
from course_lib.exercises import find
from course_lib.exercises.training.oracles import differentiable
from course_lib.handin import earlier
from course_lib.workloads.gpt import GPT, Config
from course_lib.workloads.launched import ALL
from grader import published


@pytest.fixture
def folder(tmp_path):
    here = tmp_path / "11_training_a_model"
    here.mkdir()
    return here


def hand_in(folder, unit, *exercises):
    """A notebook with the published solutions of these exercises."""
    cells = [nbformat.v4.new_code_cell(published.IMPORTS)]
    for exercise in exercises:
        cells.append(nbformat.v4.new_code_cell(published.solution_cell(exercise)))
        cells[-1].metadata["nbgrader"] = {"grade_id": find(exercise).grade_id}
    (folder.parent / unit).mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder.parent / unit / f"{unit}.ipynb")


def test_a_students_kernels_train_a_model_as_torch_does(folder, monkeypatch):
    monkeypatch.setattr(earlier.files, "released", lambda unit: folder / "none")
    hand_in(folder, "06_fusion", "fusion.rmsnorm", "fusion.cross_entropy")
    hand_in(folder, "07_recomputation", "recomputation.cross_entropy_backward", "recomputation.rmsnorm_backward")
    hand_in(folder, "09_flash_attention_forward", "flash.online_update", "flash.flash_attention_forward")
    hand_in(folder, "10_flash_attention_backward", "flash_backward.delta", "flash_backward.dq")
    hand_in(folder, "11_training_a_model", "training.grouped_backward")
    kernels, whose = earlier.kernels(folder)
    assert {name for name, who in whose.items() if who == "yours"} == earlier.ADAPTED.keys()
    torch.manual_seed(0)
    model = GPT(Config(vocab=13, layers=1, width=64, heads=4, kv_heads=2, hidden=24))
    tokens = torch.randint(13, (2, 7))
    right = torch.autograd.grad(model(tokens, tokens), list(model.parameters()))
    model.ops = differentiable(kernels)
    with trace():
        found = torch.autograd.grad(model(tokens, tokens), list(model.parameters()))
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_without_notebooks_or_answers_all_kernels_are_given(folder):
    assert earlier.kernels(folder)[1] == dict.fromkeys(ALL, "given")
    path = folder.parent / "07_recomputation" / "07_recomputation.ipynb"
    path.parent.mkdir()
    shutil.copy(grader.released("07_recomputation"), path)
    assert earlier.kernels(folder)[1] == dict.fromkeys(ALL, "given")
    path.write_text("{")
    assert earlier.solution("recomputation.rmsnorm_backward", folder) is None
