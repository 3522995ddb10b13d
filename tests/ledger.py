"""Print how many lines each room has, by kind, and fail where one passes its ceiling in ledger.toml: `make ledger`.

A ceiling rises only in a commit that says what a user gains by it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CEILINGS = Path(__file__).with_name("ledger.toml")
KINDS = {".py": "code", ".md": "prose", ".toml": "data", ".json": "data", ".jsonl": "data"}
TEXTS = "solutions"  # whose sources are prose with code in it


def room_of(path: str, rooms: list[str]) -> str | None:
    """The room with the longest name that the file lies in."""
    return max((room for room in rooms if path.startswith(f"{room}/")), key=len, default=None)


def lines(rooms: list[str], root: Path = ROOT) -> dict[str, Counter[str]]:
    """The lines of each room's tracked files, by kind."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    counted: dict[str, Counter[str]] = {room: Counter() for room in rooms}
    for path in filter(None, tracked.split("\0")):
        room, kind = room_of(path, rooms), KINDS.get(Path(path).suffix)
        if room and kind and (root / path).exists():  # a file may be deleted and not yet staged
            kind = "prose" if room == TEXTS else kind
            counted[room][kind] += len((root / path).read_text("utf-8").splitlines())
    return counted


def passed(counted: dict[str, Counter[str]], ceilings: dict[str, dict[str, int]]) -> list[tuple[str, str, int, int]]:
    """(room, kind, lines, ceiling) wherever there are more lines than the ceiling allows."""
    return [
        (room, kind, counted[room][kind], most)
        for room, kinds in ceilings.items()
        for kind, most in kinds.items()
        if counted[room][kind] > most
    ]


def main() -> int:
    ceilings = tomllib.loads(CEILINGS.read_text("utf-8"))
    counted = lines(list(ceilings))
    print(f"{'':24}{'code':>9}{'prose':>9}{'data':>9}")
    for room, kinds in counted.items():
        print(f"{room:24}" + "".join(f"{kinds[kind]:>9,}" for kind in ("code", "prose", "data")))
    too_many = passed(counted, ceilings)
    for room, kind, now, most in too_many:
        more = f"{room} has {now:,} lines of {kind}, {now - most:,} more than tests/ledger.toml allows"
        print(f"{more}: delete some, or raise the ceiling in a commit that says what a user gains.")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
