"""The example of docs/exact.md prints what stands below it."""

import re
import subprocess
import sys
from pathlib import Path

import torch

from tritontrace.exact import equivalent
from tritontrace.exact.field import PRIMES, VAST

PAGE = Path(__file__).parents[2] / "docs" / "exact.md"


def test_the_example_prints_what_the_page_says(tmp_path):
    script, printed = re.findall(r"```(?:python|text)\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "example.py").write_text(script)
    run = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.stdout == printed, run.stderr


def test_its_numbers_are_those_of_the_field():
    text, (first, second) = PAGE.read_text(), (prime for prime, _ in PRIMES[:2])
    x = torch.ones(3)
    assert f"P is {first:,} in the first run and {second:,} in the second" in text
    assert f"by accident {equivalent(torch.exp, torch.exp, [(x,)]).chance:.1e}".replace("e-0", "e-") in text
    assert f"constants beyond {VAST:.0e}".replace("e+0", "e") in text
