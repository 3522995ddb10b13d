"""`python traps.py` prints each `# trap:` with file and line."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[1] / "traps.py"


def test_each_trap_is_printed_with_its_line(tmp_path):
    (tmp_path / "a.py").write_text(
        "x = 1\n# trap: add no pickle, ever:\n# the other end may be hostile\ny = 2  # trap: not in place\n# a remark\n"
    )
    ran = subprocess.run([sys.executable, TOOL, "."], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "a.py:2: add no pickle, ever: the other end may be hostile",
        "a.py:4: not in place",
    ]


def test_the_library_has_its_own():
    ran = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=True)
    assert len(ran.stdout.splitlines()) >= 15
