"""Run the kernels and tests of others under the trace: `python benchmarks/corpus.py FOLDER... [--suite NAME]`.

corpus.toml lists them; none is in this repository, and nothing is fetched. A FOLDER is a checkout, holds checkouts, or is one into which
`pip install --target` put packages, and is importable then. A suite whose tests lie in none of them, or whose package cannot be imported,
is left out. Each file runs in a process of its own, each test on so many seconds and gigabytes; after a test that
ends its process the rest runs in another one. What became of each is kept (`--lines`), and the newest of each test is the page
tritontrace/docs/kernels_of_others.md; without a FOLDER that page is written anew.

    equal       its own assertions held, and the trace found no fault
    refused     the engine names what it does not do
    crashed     any other error, or the end of the process: a mistake of the engine or of its answers to host code
    unequal     an assertion failed
    fault       the trace names a fault; corpus.toml says which of them are real, the others are false alarms
    slow        not at its end in time, or in memory
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from re import search, sub
from textwrap import shorten
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST, RESULT = ROOT / "benchmarks" / "corpus.toml", ROOT / "tritontrace" / "docs" / "kernels_of_others.md"
CASES = ROOT / "benchmarks" / "corpus"  # tests for packages that bring none
COLUMNS = ("equal", "refused", "crashed", "unequal", "fault", "slow")
MINUTES = 20  # of a process; its tests end by themselves before


@dataclass
class Suite:
    """A table of corpus.toml. `real` and `known` say of tests, by a pattern of their names and sentences, why one that is not equal
    is none of the engine's."""

    name: str
    files: list[str]
    goal: float
    package: str = ""
    roots: list[str] = field(default_factory=lambda: ["."])
    how: str = "trace"
    other: str = "nan"
    each: int = 2
    backwards: bool = False
    arguments: list[str] = field(default_factory=list)
    setup: str = ""
    renamed: dict[str, str] = field(default_factory=dict)
    leave_out: dict[str, str] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def home(self, folders: Sequence[Path]) -> Path | None:
        """The folder with its files, or with the package that its files are about: one of these, or one in these."""
        inside = [*folders, *(each for folder in folders for each in sorted(folder.iterdir()) if each.is_dir())]
        if not self.package:
            return next((each for each in inside if all(any(each.glob(file)) for file in self.files)), None)
        installed = [path for path in map(Path, sys.path) if path.is_dir()]
        return next((each for each in [*inside, *installed] if (each / self.package / "__init__.py").exists()), None)

    def tests(self, home: Path) -> list[Path]:
        """Find its files of tests."""
        return sorted({file for pattern in self.files for file in (CASES if self.package else home).glob(pattern)})

    def version(self, home: Path) -> str:
        """The commit of a checkout and its day, or the version of the installed package."""
        if (home / ".git").exists():
            git = ["git", "-C", str(home), "log", "-1", "--format=%h, %cs"]
            return subprocess.run(git, capture_output=True, text=True).stdout.strip()
        return next((one.version for one in metadata.distributions(name=self.package, path=[str(home)])), "")


def ran(
    suite: Suite, file: Path, home: Path, folders: Sequence[Path], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """A line for each test of a file; another process goes on behind a test that ended one."""
    done: dict[str, dict[str, Any]] = {}
    paths = [str(home / root) for root in suite.roots] + [str(CASES.parent), str(CASES), *map(str, folders)]
    with tempfile.TemporaryDirectory() as scratch:
        out, bare = Path(scratch) / "lines", Path(scratch) / "pytest.ini"
        bare.write_text("[pytest]\n")  # settings of a checkout may ask for plugins that are not here
        while True:
            asked = {name: getattr(suite, name) for name in ("how", "other", "each", "backwards", "renamed", "setup")}
            asked |= {"leave_out": list(suite.leave_out), "out": str(out), "done": list(done)}
            asked |= {"seconds": options.seconds, "gigabytes": options.gigabytes}
            environment = os.environ | {
                "CORPUS": json.dumps(asked),
                "PYTHONPATH": os.pathsep.join(paths),
                "PYTHONHASHSEED": "0",
            }
            pytest = [
                sys.executable,
                "-m",
                "pytest",
                str(file),
                "-p",
                "corpus_plugin",
                "-p",
                "no:cacheprovider",
                "-q",
                "--tb=no",
            ]
            pytest += ["-c", str(bare), f"--rootdir={home}", "-o", "addopts=", *suite.arguments]
            out.write_text("")
            try:
                process = subprocess.run(
                    pytest, env=environment, cwd=scratch, capture_output=True, text=True, timeout=60 * MINUTES
                )
                ended = process.returncode in (0, 1, 5)
                said = (process.stdout + process.stderr).strip().splitlines()[-12:]
            except subprocess.TimeoutExpired:
                ended, said = False, []
            lines = {line["name"]: line for line in map(json.loads, out.read_text().splitlines())}
            done |= lines
            if not lines and not ended:
                done[file.name] = {"name": file.name, "became": "not collected", "why": " / ".join(said)}
            if ended or not lines:
                break
    yield from done.values()


def judged(suite: Suite, line: dict[str, Any]) -> dict[str, Any]:
    """The same line, with what corpus.toml knows of this test."""
    became = {"died": "crashed"}.get(line["became"], line["became"])
    reasons, text = suite.real if became == "fault" else suite.known, f"{line['name']} {line.get('why', '')}"
    reason = next((reason for pattern, reason in reasons.items() if search(pattern, text)), "")
    return {**line, "became": became, "reason": reason if became not in ("equal", "skipped") else ""}


def launched(line: dict[str, Any]) -> bool:
    """Whether it is a case: a kernel was launched, or something kept it from that."""
    return line["became"] in COLUMNS and (bool(line.get("kernels")) or line["became"] not in ("equal", "unequal"))


def row(suite: Suite, version: str, lines: list[dict[str, Any]]) -> str:
    """A row of the table."""
    cases = list(filter(launched, lines))
    counted = Counter(line["became"] for line in cases if not line["reason"])
    known = sum(bool(line["reason"]) for line in cases)
    kernels = {kernel for line in cases for kernel in line.get("kernels", ())}
    good = (counted["equal"] + counted["refused"]) / max(len(cases) - known, 1)
    cells = [
        suite.name,
        version,
        str(len(cases)),
        str(len(kernels)),
        *(str(counted[name]) for name in COLUMNS),
        str(known),
    ]
    return f"| {' | '.join(cells)} | {good:.0%} (goal {suite.goal:.0%}) |"


def not_equal(lines: list[dict[str, Any]]) -> Iterator[str]:
    """List what is not equal, once for each sentence."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line["became"] not in ("equal", "skipped") and (launched(line) or line["became"] == "not collected"):
            short = line["reason"] or sub(
                r"num_ctas=\d", "num_ctas > 1", shorten(line.get("why", ""), 200, placeholder=" ...")
            )
            kinds.setdefault((line["became"] + (", known" if line["reason"] else ""), short), []).append(line["name"])
    for (became, why), names in sorted(kinds.items()):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"* {became}: `{names[0]}`{more}: {why}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the kernels and tests of others under the trace.")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="a checkout, or a folder of packages")
    parser.add_argument("--suite", action="append", default=[], metavar="NAME", help="only suites whose name has this")
    parser.add_argument("--seconds", type=int, default=60, help="of processor time for a test")
    parser.add_argument("--gigabytes", type=int, default=8, help="of memory for a process")
    parser.add_argument("--lines", type=Path, default=ROOT / "build" / "corpus.jsonl", help="what became of each test")
    options = parser.parse_args()
    folders = [folder.resolve() for folder in options.folders]
    suites = [Suite(**table) for table in tomllib.loads(LIST.read_text("utf-8"))["suite"]]
    options.lines.parent.mkdir(exist_ok=True)
    for suite in suites:
        asked = not options.suite or any(part.lower() in suite.name.lower() for part in options.suite)
        if asked and folders and (home := suite.home(folders)):
            for file in suite.tests(home):
                new = list(ran(suite, file, home, folders, options))
                print(suite.name, file.name, dict(Counter(line["became"] for line in new)), file=sys.stderr, flush=True)
                with options.lines.open("a") as out:
                    for line in new:
                        out.write(json.dumps({"suite": suite.name, "version": suite.version(home), **line}) + "\n")
    text = report(suites, list(map(json.loads, options.lines.read_text().splitlines())))
    RESULT.write_text(text)
    print(text)
    return 0


ABOUT = """# Kernels of others

{day}, torch {torch}, triton {triton}. `python benchmarks/corpus.py FOLDER...` runs the tests and kernels that
benchmarks/corpus.toml lists, where their packages lie in these folders, each under a trace or, if it is in Gluon, under
`simulate`. A case is a test that launches a kernel.

* *equal*: its own assertions held against torch or NumPy, and no fault was named.
* *refused*: a sentence names what is not done without a GPU, or what the compiler refuses.
* *crashed*: any other error. *unequal*: an assertion failed. *fault*: a fault is named. *slow*: not at its end in time or memory.
* *known*: none of the engine's, such as a race that the test has, or a name of a newer Triton; each stands below with its reason.

FlagGems and attorch run with `--other zero`: their kernels rely on the 0 that masked positions hold on NVIDIA's GPUs.
"""


def report(suites: Sequence[Suite], lines: list[dict[str, Any]]) -> str:
    """The page: of each suite its row, and what is not equal in it."""
    import torch
    import triton

    head = f"| suite | version | cases | kernels | {' | '.join(COLUMNS)} | known | equal or refused |"
    rows, sections = [head, "| --- " * (head.count("|") - 1) + "|"], []
    for suite in suites:
        mine = [
            line
            for line in lines
            if line["suite"] == suite.name and not any(search(p, line["name"]) for p in suite.leave_out)
        ]
        latest = {line["name"]: judged(suite, line) for line in mine}
        if latest:
            of_suite = list(latest.values())
            rows.append(row(suite, of_suite[-1]["version"], of_suite))
            sections += [f"\n## {suite.name}\n", *not_equal(of_suite)]
    about = ABOUT.format(day=date.today().isoformat(), torch=torch.__version__, triton=triton.__version__)
    return "\n".join([about, *rows, *sections, ""])


if __name__ == "__main__":
    sys.exit(main())
