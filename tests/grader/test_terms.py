"""Terms on the main path: nothing is used before it is explained: names of Triton's interface, and terms.

A name is explained by the first Markdown cell that has it. Code may come one cell before, as kernels that are read line by line do.
A term has one defining cell: the first that has the term, and it has the words below.
"""

import re
from functools import cache

import nbformat
import pytest

import grader
from course_lib.exercises import BEYOND, UNITS
from grader.building import units

NAME = re.compile(r"\b(?:tl|triton|libdevice)\.[a-z]\w*")
IMPORTED = {"triton.language", "triton.testing"}
TERMS = {
    r"\bwarps?\b": "groups of 32 threads",
    r"\blanes?\b(?!\()": "also called lanes",
    r"\bSIMT\b": "single instruction, multiple threads",
    "special-function unit": "computes exp2, sine, tanh",
    r"\bL2\b": "a cache that they share",
    "[Gg]lobal memory": "CUDA's manual calls main memory **global memory**",
    "[Cc]lusters?": "launch thread blocks in **clusters**",
    "[Ll]ocal memory": "belongs to one thread",
    "roofline": "draws both limits in one picture",
    r"\bMFU\b": "model FLOPs utilisation",
    r"\bsectors?\b": "the caches move and count these",
    "cuBLAS": "NVIDIA's library for matrix products",
    "Nsight Compute": "NVIDIA's profiler",
    r"\bspill": "keeps their numbers in memory",
    r"tl\.atomic|\*\*atomic": "nobody else reaches the element in between",
    "num_warps|num_stages": "By default a program has 4 warps",
    "element_ty": "is the dtype of the tensor that",
    "input_precision": "10 bits after the point",
    "wgmma": "for tiles of 64 rows and more",
    "accumulator": "the number that the inputs are added to",
    "[Oo]ccupancy": "the number of warps on it, divided by",
    "autotun": "times each configuration and remembers",
    "[Ee]pilogue": "end* of the product",
    r"\blse\b": "with lse = log Σ exp",
    r"\.mT\b": "swaps the last two dimensions",
    "causal": "lets a token see itself and the tokens before it",
    r"\balpha\b": "alpha = exp(m - m_new)",
    "FlashAttention-2": "torch's fused attention",
    r"\bMLP\b": "One product turns its d_model numbers into d_ff numbers",
    r"dram__\w+": "adds up what DRAM delivers",
    r"\bdq\b": "dX is the gradient of the loss with respect to X",
    r"\brtol\b": "an absolute and a relative tolerance",
    "adapter": "in which you say where your code is",
    r"\bTMA\b": "where a tensor lies in memory",
    "[Gg]luon": "a lower-level language",
}


@cache
def path():
    """The student's cells of the main path in order: unit, kind, text. The table of units names what later units teach."""
    cells = []
    for unit in UNITS:
        if unit in BEYOND:
            continue
        table = units.table_for_notebooks(unit)
        for cell in nbformat.read(grader.ROOT / "notebooks" / unit / f"{unit}.ipynb", 4).cells:
            if re.search("^## More$", cell.source, re.M):
                break
            cells.append((unit, cell.cell_type, cell.source.replace(table, "")))
    return cells


def test_each_name_of_triton_is_explained_where_it_is_first_used():
    cells, met = path(), {}
    for place, (unit, kind, text) in enumerate(cells):
        for name in NAME.findall(text):
            if name not in met and name not in IMPORTED:
                following = cells[place + 1][2] if place + 1 < len(cells) else ""
                met[name] = (
                    unit if kind == "markdown" or name in following else f"{unit}: no text before or after has {name}"
                )
    assert {name: where for name, where in met.items() if ":" in where} == {}


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_explained_where_it_is_first_used(term):
    unit, text = next((unit, text) for unit, _, text in path() if re.search(term, text))
    assert TERMS[term] in " ".join(text.split()), f"{unit}: {text}"
