"""Every command that README and docs/ print has the name, the options and the arguments that its program takes today.

Parsed, not run: what commands do is asked by their own tests. Names in capitals stand for something: UNIT for a unit, FILE for a file.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import typer

import strides.__main__
import tritontrace.cli
from grader import ROOT
from grader.__main__ import app

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "tritontrace/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "tritontrace" / "docs").glob("*.md")),
]
PROGRAM = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:(?:\.venv/bin/)?python3? -m (?=grader)|\.venv/bin/)?"
    r"(?P<line>(?:grader|tritontrace|strides|make|python3? make\.py|python3? benchmarks/\w+\.py) .+)"
)
STANDS_FOR = {
    "UNIT": "04_memory_coalescing",
    "COMMAND": "doctor",
    "FORM": "csv",
    "11_topic": "06_fusion",
    "NN_topic": "06_fusion",
}
TARGETS = re.findall(r"^ {8}\"([\w-]+)\": ", (ROOT / "make.py").read_text("utf-8"), re.M)


def printed(text: str) -> Iterator[tuple[str, bool]]:
    """(a command, whether it stands within a sentence) for each line of blocks and each piece of inline code that is one."""
    fenced = re.findall(r"```\w*\n(.*?)```", text, re.S)
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    blocks = "".join([*fenced, *re.findall(r"(?:^|\n\n)((?:    .*\n)+)", text)])
    inline = [code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", text)]
    lines = [*((line.strip(), False) for line in blocks.splitlines()), *((code, True) for code in inline)]
    for line, within in lines:
        if match := PROGRAM.fullmatch(line):
            yield (
                re.split(r"  |;", match["line"])[0].strip(),
                within,
            )  # CONTRIBUTING.md says behind a target what it does


COMMANDS = [(page, *each) for page in PAGES for each in dict.fromkeys(printed(page.read_text("utf-8")))]


class Parsed(Exception):
    """A program has understood what it was told."""


class Refused(Exception):
    """A program has not; the sentence that it would have printed."""


@pytest.fixture
def parsing_alone(monkeypatch):
    """Programs stop where they have read their arguments."""

    def refuse(self: argparse.ArgumentParser, sentence: str) -> NoReturn:
        raise Refused(sentence)

    def parse(self: argparse.ArgumentParser, args: list[str] | None = None, namespace: Any = None) -> NoReturn:
        _, unknown = really(self, args, namespace)
        raise Refused(f"unknown: {unknown}") if unknown else Parsed

    really = argparse.ArgumentParser.parse_known_args
    monkeypatch.setattr(argparse.ArgumentParser, "error", refuse)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse)


def asked(line: str) -> None:
    """Let a command's program read its arguments. Raises Refused, or AssertionError."""
    program, *words = [
        STANDS_FOR.get(word, word) for word in shlex.split(line, comments=True) if word not in ("...", ">")
    ]
    if program == "strides" and words[0] in ("grade", "demo"):
        program, words = "grader", words[words[0] == "grade" :]
    match program:
        case "grader":
            try:
                understood(typer.main.get_command(app), words)
            except typer.Exit:  # a file that is not here
                pass
            except Exception as error:  # typer's or click's own, by version
                raise Refused(str(error)) from None
        case "strides" | "tritontrace":
            with pytest.raises((Parsed, SystemExit)):  # without another word they print their help, and exit
                (strides.__main__.main if program == "strides" else tritontrace.cli.main)(words)
        case "make":
            assert words[0] in TARGETS
        case _ if words[0] == "make.py":
            assert words[1] in TARGETS
        case _:  # a benchmark: its options stand in its text
            text = (ROOT / words[0]).read_text("utf-8")
            assert [word for word in words if word.startswith("--") and f'"{word.partition("=")[0]}"' not in text] == []


def understood(command: Any, words: list[str]) -> None:
    """Parse words by click, a group's down to its command."""
    while commands := getattr(command, "commands", None):
        name, *words = words
        command = commands[name]
    command.make_context(command.name, words)


@pytest.mark.parametrize("page, line, within", COMMANDS, ids=[f"{page.name}: {line}" for page, line, _ in COMMANDS])
def test_a_printed_command_is_one_that_its_program_takes(page, line, within, parsing_alone):
    refused = ""
    try:
        asked(line)
    except Refused as error:
        refused = str(error)
    # a sentence may name a command without what it needs
    assert not refused or (within and re.search("required|[Mm]issing", refused))


def test_commands_are_found():
    programs = {line.split()[0] for _, line, _ in COMMANDS}
    assert len(COMMANDS) > 120 and programs >= {"grader", "strides", "tritontrace", "make", "python"}


@pytest.mark.parametrize(
    "line",
    [
        "strides check",
        "strides next --all",
        "tritontrace prove",
        "tritontrace --gpus H200 a.py",
        "grader autograde",
        "grader autograde UNIT --gpus none",
        "grader due UNIT",
    ],
)
def test_what_a_program_does_not_take_is_noticed(line, parsing_alone):
    with pytest.raises(Refused):
        asked(line)
