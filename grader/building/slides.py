"""Slides of a unit, out of the instructor's notebook: for each picture the heading above it, the question that
leads to it, the picture as it was saved, and what the text says next, in three lines.

One page of HTML for a browser; it prints with one slide on each sheet. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import nbformat

LINES = 3
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 24px/1.4 sans-serif; margin: 0; color: #222 }}
section {{ box-sizing: border-box; height: 100vh; padding: 3vh 5vw; break-after: page }}
section {{ display: flex; flex-direction: column; gap: 1vh }}
h1 {{ font-size: 1.4em; margin: 0 }} p {{ margin: 0 }}
.question {{ font-style: italic }}
img {{ flex: 1; min-height: 0; object-fit: contain }}
</style>
{slides}</html>
"""
SLIDE = (
    '<section><h1>{title}</h1><p class="question">{question}</p>'
    '<img alt="{alt}" src="data:image/png;base64,{picture}">{lines}</section>\n'
)


@dataclass(frozen=True)
class Slide:
    """One page of a lecture: a title, a question, a picture and a few lines."""

    title: str
    question: str
    picture: str  # a PNG in base64
    alt: str
    lines: tuple[str, ...]


def write(unit: str, root: Path, to: Path) -> int:
    """Write the slides of a unit to a file; return how many there are. Raises ValueError for a unit that has no notebook yet."""
    notebook = root / "solutions" / unit / f"{unit}.ipynb"
    if not notebook.is_file():
        raise ValueError(f"There is no unit {unit!r}, or its notebook is not built.")
    shown = list(slides(nbformat.read(notebook, 4).cells))
    html = "".join(
        SLIDE.format(
            title=escape(slide.title), question=escape(slide.question), alt=escape(slide.alt), picture=slide.picture,
            lines="".join(f"<p>{escape(line)}</p>" for line in slide.lines),
        )
        for slide in shown
    )  # fmt: skip
    to.write_text(PAGE.format(title=escape(unit), slides=html), encoding="utf-8")
    return len(shown)


def slides(cells: list[nbformat.NotebookNode]) -> Iterator[Slide]:
    """Yield the slides of a notebook, those of More at its end. A picture of an exercise has none: its question is for students."""
    title, before, more = "", "", ""
    for place, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            more = "More: " if re.search("^## More$", cell.source, re.M) else more
            title = (re.findall(r"^##? (.+)$", cell.source, re.M) or [title])[-1]
            before = cell.source
        elif cell.source.startswith("figures.") and "{{" not in cell.source and not title.startswith("Exercise"):
            pictures = [o for o in cell.outputs if "image/png" in o.get("data", {})]
            after = cells[place + 1].source if place + 1 < len(cells) else ""
            if pictures:
                data, about = pictures[-1].data["image/png"], pictures[-1].metadata.get("image/png", {})
                lines = tuple(sentences(after.split("\n## ")[0])[:LINES])
                yield Slide(more + title, question(before), data.replace("\n", ""), about.get("alt", title), lines)


def question(text: str) -> str:
    """Return the last question of a text, or else its last sentence."""
    parts = sentences(text)
    return next((sentence for sentence in reversed(parts) if sentence.endswith("?")), parts[-1] if parts else "")


def sentences(text: str) -> list[str]:
    """List the sentences of a Markdown cell's paragraphs and items, in plain words. Headings, tables and code are left out."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    paragraphs = re.split(r"\n\s*\n|\n(?=\* )", text)
    plain = [re.sub(r"[*`]|^> ?", "", " ".join(p.split())).strip() for p in paragraphs if not re.match(r"#|\||!\[", p)]
    return [sentence for paragraph in plain for sentence in re.split(r"(?<=[.?!]) (?=[A-Z(])", paragraph) if sentence]
