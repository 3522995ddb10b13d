"""What README.md and docs/ show is what happens: their scripts run, and print what stands there."""

import importlib
import re
from pathlib import Path

import examples
import pages
import pytest
import torch
from sampling import first_ones

from tritontrace import words

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_ITS_OWN = {"diff.md"}  # tests/diffs/test_command.py runs it, with the numbers of lines
SHOWN = pages.shown(*(page for page in PAGES if page.name not in OF_ITS_OWN))


@pytest.mark.parametrize("one", first_ones(SHOWN, 5), ids=[f"{one.page}: {one.command}" for one in SHOWN])
def test_the_page_shows_what_the_command_prints(tmp_path, one):
    if any("liger_kernel" in text for text in one.scripts.values()):
        pytest.importorskip("liger_kernel")
    ran = pages.run(one, tmp_path)
    assert ran.returncode in (0, 1, 2) and "Traceback" not in ran.stderr, ran.stderr
    wanted = pages.without_lines(one.output)
    for part in wanted.split("\n...\n"):
        assert part.strip() in pages.without_lines(ran.stdout)


def test_links_lead_somewhere():
    for page in PAGES:
        for link in re.findall(
            r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`]*`", "", page.read_text("utf-8"), flags=re.S)
        ):
            there = (page.parent / link).exists()
            assert there, f"{page.name}: {link}"


# ----------------------------------------------------------------------------------------------------- docstrings


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return examples.Known(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("module, name", [(m, n) for m, names in examples.public_names().items() for n in names])
def test_each_public_callable_has_an_example_that_is_right(known, module, name):
    if module == "tritontrace.hopper.language":
        pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
    if module == "tritontrace.picture":
        pytest.importorskip("matplotlib")
    value = getattr(importlib.import_module(module), name)
    if getattr(value, "__module__", "").startswith("tritontrace.hopper"):
        pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
    found = list(examples.of(module, name, known))
    assert found or not examples.needs_an_example(value), "it has no example"
    for one in found:
        if any(examples.ON_A_GPU in line.source for line in one.examples) and not torch.cuda.is_available():
            pytest.skip("its example needs a GPU")
        assert examples.wrong(one) == ""


@pytest.mark.parametrize("module", examples.public_names())
def test_each_public_callable_says_its_types(module):
    if module == "tritontrace.hopper.language":
        pytest.skip("its functions are kernels: what they take is what Gluon's own take")
    if module == "tritontrace.picture":
        pytest.importorskip("matplotlib")
    assert list(examples.without_types(module)) == []


def test_an_example_that_is_wrong_is_found(known, monkeypatch):
    monkeypatch.setattr(words.plural, "__doc__", words.plural.__doc__.replace("'2 waves'", "'2 wave'"))
    (one,) = examples.of("tritontrace.words", "plural", known)
    assert "Expected" in examples.wrong(one)
