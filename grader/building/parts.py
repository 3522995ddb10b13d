"""A unit as several pages, cut at its headings: each loads quickly, and is read in one sitting.

The first page has the unit's name and its card, and lists the others. Wherever a heading stands now, an address that named it on the
unit's one page of old leads there: templates/site/course.js reads the list that `moved` makes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate, groupby, pairwise
from math import ceil
from operator import itemgetter
from pathlib import Path

from nbformat import NotebookNode, v4

LONGEST = 400_000  # characters of a page with its drawings, as far as cells tell
COLOURED = 6  # times as long as its source is code on a page, where each word has a colour
HEADING = re.compile(r"^#{1,2} +(?P<title>.+)$", re.MULTILINE)
ANCHOR = re.compile(r'<section id="([^"]+)"')


def split(notebook: NotebookNode, unit: str) -> dict[str, NotebookNode]:
    """Split a notebook into pages, by name and in order; the first is named as the unit."""
    sections = [*_sections(notebook)]
    weights = [sum(map(_weight, section)) for section in sections]
    total, ends = sum(weights), accumulate(weights)
    count = max(1, ceil(total / LONGEST))
    places = [
        int(count * (end - weight / 2) / total) for end, weight in zip(ends, weights, strict=True)
    ]  # of middles, in equal parts
    pages = [
        [cell for _, section in group for cell in section]
        for _, group in groupby(zip(places, sections, strict=True), itemgetter(0))
    ]
    names = [unit, *(f"{unit}-{number}" for number in range(2, len(pages) + 1))]
    title = _title(pages[0][0])
    for number, cells in enumerate(pages[1:], 2):
        cells.insert(0, v4.new_markdown_cell(f"# {title} ({number} of {len(pages)})"))
    if len(pages) > 1:
        listed = "\n".join(f"{_title(cells[1])} <{name}>" for name, cells in zip(names[1:], pages[1:], strict=True))
        pages[0].append(v4.new_markdown_cell(f"```{{toctree}}\n:hidden:\n\n{listed}\n```"))
    return {
        name: v4.new_notebook(cells=cells, metadata=notebook.metadata) for name, cells in zip(names, pages, strict=True)
    }


def moved(folder: Path, unit: str) -> str:
    """Return a script that redirects the anchors of a unit's other pages to the page that has each heading; "" for a unit of one page."""
    where = {
        anchor: path.name
        for path in sorted(folder.glob(f"{unit}-*.html"))
        for anchor in ANCHOR.findall(path.read_text("utf-8"))
    }
    return f'<script type="application/json" id="moved">{json.dumps(where)}</script>' if where else ""


def _sections(notebook: NotebookNode) -> Iterator[list[NotebookNode]]:
    """Runs of cells, each but the first with a heading at its beginning. A page has one heading of the first level: others are lowered."""
    section: list[NotebookNode] = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown":
            section.append(cell)
            continue
        begins = [
            0,
            *(at.start() for at in HEADING.finditer(_without_code(cell.source)) if at.start()),
            len(cell.source),
        ]
        for start, end in pairwise(begins):
            text = cell.source[start:end].strip()
            if HEADING.match(text) and (number or start):
                yield section
                section, text = [], re.sub(r"^# ", "## ", text)
            section.append(v4.new_markdown_cell(text, metadata=cell.metadata))
    yield section


def _without_code(text: str) -> str:
    """Blank fenced code, in which comments look like headings. The text is as long as before."""
    return re.sub(r"^```.*?^```", lambda code: " " * len(code[0]), text, flags=re.DOTALL | re.MULTILINE)


def _title(cell: NotebookNode) -> str:
    heading = HEADING.match(cell.source)
    return re.sub(r"[`*]", "", heading["title"]) if heading else ""


def _weight(cell: NotebookNode) -> int:
    """About how many characters of a page a cell takes."""
    outputs = [
        data
        for output in cell.get("outputs", [])
        for data in (output.get("data", {}).get("text/html", ""), output.get("text", ""))
    ]
    return (COLOURED if cell.cell_type == "code" else 1) * len(cell.source) + sum(map(len, outputs))
