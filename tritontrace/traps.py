"""Print every trap that a comment tells of: `python traps.py [folder ...]`, this library's sources by default.

A trap is what surprises whoever changes a line. It stands at that line, as a comment that begins with `# trap:`; comments on the
lines right below go on with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

MARK = re.compile(r"#\s*trap:\s*(.*)")


def traps(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """(file, line, sentence) of each trap in the Python files below a folder."""
    for path in sorted(folder.rglob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            if found := MARK.search(line):
                said = [found[1]]
                for more in lines[number:]:
                    if not re.match(r"\s*#(?!\s*trap:)", more) or not line.lstrip().startswith("#"):
                        break
                    said.append(more.strip().lstrip("# "))
                yield path, number, " ".join(said)


def main() -> None:
    here = Path(__file__).resolve().parent
    for folder in [Path(name) for name in sys.argv[1:]] or [here / "src"]:
        for path, number, said in traps(folder):
            print(f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{number}: {said}")


if __name__ == "__main__":
    main()
