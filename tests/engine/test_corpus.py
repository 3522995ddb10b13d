"""The corpus of others' kernels: what became of a test is told as it was, and the rest runs when one ends its process."""

from argparse import Namespace
from collections import Counter

import pytest
from scripts import imported

with imported("corpus") as (corpus,):
    pass

KERNELS = """
import os
import pytest
import torch
import triton
import triton.language as tl
from of_a_newer_one import tl_load


@triton.jit
def scale(x_ptr, y_ptr, n, HOW: tl.constexpr):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if HOW == "refused":
        x = tl.inline_asm_elementwise("brev.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + (i + 1 if HOW == "fault" else i), 2 * x, mask=i < n)


def scaled(how=""):
    x, y = torch.ones(50, device="cuda"), torch.zeros(50, device="cuda")
    scale[(1,)](x, y, 50, HOW=how)
    return y


@pytest.mark.parametrize("number", range(9))
def test_equal(number):
    assert scaled().sum() == 100


@pytest.mark.parametrize("how", ["fault", "refused"])
def test_not_equal(how):
    scaled(how)


def test_unequal():
    assert scaled().sum() == 99


def test_crashed():
    scaled().there_is_none


def test_died():
    scaled()
    os._exit(3)


def test_slow():
    scaled()
    while True:
        pass


def test_launches_nothing():
    assert tl_load is tl.load


def test_left_out():
    assert False


def test_known():
    scaled().nobody_knows
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    home = tmp_path_factory.mktemp("peer")
    (home / "test_peer.py").write_text(KERNELS)
    (home / "of_a_newer_one.py").write_text("")
    suite = corpus.Suite(
        "peer",
        ["test_*.py"],
        1.0,
        each=3,
        renamed={"of_a_newer_one.tl_load": "triton.language.load"},
        leave_out={"left_out": "nothing"},
        known={"nobody_knows": "it asks for what no tensor has"},
    )
    assert suite.home([home.parent]) == suite.home([home]) == home
    options = Namespace(seconds=4, gigabytes=8)
    return suite, [corpus.judged(suite, line) for line in corpus.ran(suite, *suite.tests(home), home, [], options)]


def test_what_became_of_each_test(lines):
    _, found = lines
    became = {line["name"].split("::")[1]: line["became"] for line in found}
    assert became == {
        **dict.fromkeys(["test_equal[0]", "test_equal[4]", "test_equal[8]", "test_launches_nothing"], "equal"),
        **{f"test_{name}": name for name in ("unequal", "crashed", "slow")},
        **{f"test_not_equal[{name}]": name for name in ("fault", "refused")},
        "test_died": "crashed",
        "test_known": "crashed",
    }


def test_the_row_counts_cases(lines):
    suite, found = lines
    cells = [cell.strip() for cell in corpus.row(suite, "1.0", found).split("|")[1:-1]]
    assert cells[:-1] == ["peer", "1.0", "10", "1", "3", "1", "2", "1", "1", "1", "1"]
    assert Counter(line.split(":")[0].strip("* ") for line in corpus.not_equal(found)) == Counter(
        ["refused", "crashed", "crashed", "crashed, known", "unequal", "fault", "slow"]
    )
