"""The ledger counts each room's lines once, and names what passes its ceiling."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import ledger  # noqa: E402

sys.path.pop(0)


def test_a_file_counts_for_the_innermost_room():
    assert ledger.room_of("engine/tests/test_a.py", ["engine", "engine/tests"]) == "engine/tests"
    assert ledger.room_of("engines/a.py", ["engine"]) is None


def test_tracked_lines_are_counted_by_kind_and_others_are_not(tmp_path):
    for name, text in {"room/a.py": "1\n2\n", "room/b.md": "x\n", "room/c.json": "{}\n", "room/d.py": "no\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "room/a.py", "room/b.md", "room/c.json"], cwd=tmp_path, check=True)
    assert ledger.lines(["room"], tmp_path)["room"] == Counter(code=2, prose=1, data=1)


def test_what_passes_its_ceiling_is_named():
    counted = {"room": Counter(code=11, prose=5)}
    assert ledger.passed(counted, {"room": {"code": 10, "prose": 5}}) == [("room", "code", 11, 10)]
