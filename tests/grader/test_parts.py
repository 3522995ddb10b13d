"""A unit in several pages: nothing is lost, each begins with a heading, and old addresses lead to where a heading stands now."""

from __future__ import annotations

import json
import re

from nbformat import v4

from grader.building import parts

TEXT = "# 04 · Memory\n\nintro\n\n## One\n\n```python\n## no heading\n```\n\n## `Two`\n\ntext"


def unit(*sizes):
    cells = [v4.new_markdown_cell(TEXT)]
    for number, size in enumerate(sizes):
        cells += [
            v4.new_markdown_cell(f"# Part {number}\n\n### below"),
            v4.new_code_cell(f"code = {number}" + size * " "),
        ]
    return v4.new_notebook(cells=cells)


def test_a_short_unit_is_one_page():
    (page,) = parts.split(unit(1), "04_memory").values()
    assert "\n\n".join(cell.source for cell in page.cells[:3]) == TEXT


def test_a_long_unit_is_cut_at_headings_into_pages_of_about_one_size(monkeypatch):
    monkeypatch.setattr(parts, "LONGEST", 6000)
    pages = parts.split(unit(900, 900, 900), "04_memory")
    assert [*pages] == ["04_memory", "04_memory-2", "04_memory-3"]
    first, *others = pages.values()
    assert [parts._title(page.cells[1]) for page in others] == ["Part 1", "Part 2"]
    assert first.cells[-1].source.splitlines()[3:-1] == ["Part 1 <04_memory-2>", "Part 2 <04_memory-3>"]
    code = [cell.source.strip() for page in pages.values() for cell in page.cells if cell.cell_type == "code"]
    assert code == ["code = 0", "code = 1", "code = 2"]


def test_each_page_has_one_heading_of_the_first_level(monkeypatch):
    monkeypatch.setattr(parts, "LONGEST", 6000)
    for page in parts.split(unit(900, 900), "04_memory").values():
        text = parts._without_code("\n".join(cell.source for cell in page.cells if cell.cell_type == "markdown"))
        assert len(re.findall("^# ", text, flags=re.MULTILINE)) == 1


def test_old_addresses_lead_to_where_a_heading_stands_now(tmp_path):
    assert parts.moved(tmp_path, "04_memory") == ""
    (tmp_path / "04_memory-2.html").write_text('<section id="part"><section id="below">')
    (tmp_path / "04_memory.html").write_text('<section id="one">')
    script = parts.moved(tmp_path, "04_memory")
    assert json.loads(re.search(r">(.*)<", script)[1]) == {"part": "04_memory-2.html", "below": "04_memory-2.html"}
