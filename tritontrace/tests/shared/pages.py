"""Pages that show scripts and what the command says of them: a block of Python named by its first line, then `$ tritontrace ...`."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parents[2] / "src"


class Shown(NamedTuple):
    """A script of a page, and a command below it with what it prints."""

    page: str
    scripts: dict[str, str]
    command: str
    output: str


def shown(*pages: Path) -> list[Shown]:
    """Each command that the pages show, with the scripts that stand above it on its page."""
    found = []
    for page in pages:
        scripts: dict[str, str] = {}
        for language, text in re.findall(r"```(python|text)\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            if language == "python" and (name := re.match(r"# (\w+\.py)\n", text)):
                scripts[name[1]] = text
            elif language == "text" and text.startswith("$ "):
                command, _, output = text[2:].partition("\n")
                found.append(Shown(page.name, dict(scripts), command, output))
    return found


def run(one: Shown, folder: Path) -> subprocess.CompletedProcess:
    """Run the command of a page in a folder where its scripts lie."""
    for name, text in one.scripts.items():
        (folder / name).write_text(text, "utf-8")
    tool, *rest = one.command.split("  #")[0].replace('"', "").split()
    modules = {"tritontrace": ["-m", "tritontrace"], "pytest": ["-m", "pytest"], "python": []}
    environment = {"PYTHONPATH": str(SOURCES), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, *modules[tool], *rest], cwd=folder, env=environment, capture_output=True, text=True
    )


def without_lines(text: str) -> str:
    """A report without the numbers of lines: those of other people's files are those of one release."""
    text = re.sub(r"\.py:\d+", ".py", re.sub(r"(load|store|atomic)  +\d+(, \d+)*", r"\1", text))
    return re.sub(r"line \d+", "line", re.sub(" +", " ", text)).strip()
