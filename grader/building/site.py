"""The course as static pages for self-study: python -m grader.building.site FOLDER, which `make site` calls.

The sources are the instructors' notebooks with the outputs that they were saved with (lessons.py). Widgets and pictures are drawn anew,
and no other cell is executed. Sphinx, with MyST-NB and a book's theme, writes the pages; nothing that they load comes from elsewhere.
Where the clone's origin is known (origin.py), each unit's page leads to the students' notebook, on Colab or to download.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

import course_lib
from course_lib.exercises import UNITS
from grader import ROOT
from grader.building import finish, hero, hosted, lessons, origin, parts, states

STYLE = ROOT / "grader" / "templates" / "site"
DOCS, ENGINE_DOCS = ROOT / "docs", ROOT / "tritontrace" / "docs"
GUIDES = {
    "For readers": [
        DOCS / f"{name}.md" for name in ("installing", "gpu", "hosted", "measured", "what_next", "accessibility")
    ],
    "For instructors": [DOCS / f"{name}.md" for name in ("instructors", "cluster", "jupyterhub")],
    "For developers": [DOCS / f"{name}.md" for name in ("adding_an_exercise", "design", "decisions", "glossary")],
    "The engine": sorted(ENGINE_DOCS.glob("*.md")),
}
SECTORS = (STYLE / "sectors.html").read_text("utf-8")
CONF = """\
project = "From Strides to FlashAttention"
html_title = project
author = ""  # none is named below each page
extensions = ["myst_nb"]
nb_execution_mode = "off"
html_theme = "sphinx_book_theme"
html_theme_options = {"navigation_with_keys": False, "home_page_in_toc": True, "use_download_button": False, "navbar_persistent": []}
html_static_path = ["style"]
html_css_files = ["course.css"]
html_js_files = [("sectors.js", {"defer": "defer"}), ("course.js", {"defer": "defer"})]
html_favicon = "style/favicon.svg"
html_extra_path = ["extra"]
html_copy_source = html_show_sourcelink = False
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]
pygments_style = "default"
"""


def main(folder: Path) -> int:
    """Write sources and pages below `folder`. Return Sphinx's exit status, or 1 with a message where a source cannot be read, or the
    repository's address is malformed."""
    source = folder / "source"
    shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    try:
        address = origin.address(ROOT)
        stage(source, address)
    except origin.NoAddress as error:
        print(error, file=sys.stderr)
        return 1
    except nbformat.reader.NotJSONError as error:
        print(f"A notebook cannot be read: {str(error)[:200]} Build it anew: make build.", file=sys.stderr)
        return 1
    html = folder / "html"
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html", source, html]
    status = subprocess.call([str(word) for word in sphinx])
    if not status:
        finish.pages(html, origin.site(address))
        for unit in UNITS:
            page = html / f"{unit}.html"
            page.write_text(page.read_text("utf-8").replace("</head>", f"{parts.moved(html, unit)}</head>", 1), "utf-8")
        print(f"The pages begin at {html / 'index.html'}.")
    return status


def stage(source: Path, address: str) -> None:
    """Write the sources for Sphinx. address: of the repository; without one, no page mentions it."""
    (source / "conf.py").write_text(CONF)
    style = source / "style"
    shutil.copytree(STYLE, style, ignore=shutil.ignore_patterns("*.html"))
    (style / states.FOLDER).mkdir()
    students = source / "extra" / hosted.FOLDER
    students.mkdir(parents=True)
    for unit, (page, widgets) in lessons.drawn(UNITS, linked).items():
        if address:
            page.cells.insert(1, lessons.to_work_in(unit, address))
            nbformat.write(hosted.notebook(unit, address), students / f"{unit}.ipynb")
        for name, part in parts.split(page, unit).items():
            nbformat.write(part, source / f"{name}.ipynb")
        for widget in widgets:
            (style / states.FOLDER / f"{widget.name}.js").write_text(widget.script)
    for path in (*DOCS.glob("*.png"), *ENGINE_DOCS.glob("pictures/*.png")):
        shutil.copy(path, source / path.name)
    for path in (DOCS / "taste.md", *(page for pages in GUIDES.values() for page in pages)):
        (source / path.name).write_text(linked(path.read_text("utf-8")))
    (source / "results").mkdir()
    for path in sorted((ROOT / "benchmarks" / "results").glob("*")):
        if path.suffix == ".png":
            shutil.copy(path, source / "results" / path.name)
        elif path.suffix == ".md":
            (source / "results" / path.name).write_text(linked(path.read_text("utf-8"), "../"))
    (source / "names.md").write_text("\n".join(names_page()))
    (source / "index.md").write_text("\n".join(index_page(address)))


# ----------------------------------------------------------------------------------------------------- other pages


def linked(text: str, up: str = "") -> str:
    """Turn links between files of the repository into links between pages; a file without a page is named, and not linked."""

    def page(match: re.Match[str]) -> str:
        said, path, anchor = match["said"], match["path"], match["anchor"] or ""
        name = Path(path).name
        if "results/" in path or (up and (ROOT / "benchmarks" / "results" / name).exists()):
            where = f"{up}results/{name}" if not up else name
            return f"[{said}]({where}{anchor})" if name.endswith((".md", ".png")) else said
        pages = (
            {f"{unit}.ipynb" for unit in UNITS}
            | {"taste.md"}
            | {path.name for each in GUIDES.values() for path in each}
        )
        if name in pages:
            return f"[{said}]({up}{name}{anchor})"
        if name.endswith(".png") and (DOCS / name).exists():
            return f"[{said}]({up}{name})"
        return said

    return re.sub(
        r"(?<!\w)\[(?P<said>[^\[\]]*)\]\((?P<path>(?!https?:|#)[\w./-]+(?:\.(?:md|ipynb|png|py|json|yaml)|/Dockerfile))(?P<anchor>#[\w-]*)?\)",
        page,
        text,
    )


def names_page() -> Iterator[str]:
    """Yield the page of the names of course_lib that notebooks import, with their docstrings."""
    yield "# Names of course_lib\n\nThese are the names that `from course_lib import ...` finds, with what `help` says of them.\n"
    for name in course_lib.__all__:
        found = getattr(course_lib, name)
        yield f"## {name}\n\n```text"
        if inspect.ismodule(found):
            yield f"module {found.__name__}\n\n{inspect.getdoc(found)}\n```\n"
            for member, value in sorted(vars(found).items()):
                if inspect.isfunction(value) and not member.startswith("_") and value.__module__ == found.__name__:
                    yield f"### {name}.{member}\n\n{_described(member, value)}"
        else:
            yield f"{_signature(name, found)}\n\n{inspect.getdoc(found) or ''}\n```\n"


def _described(name: str, function) -> str:
    return f"```text\n{_signature(name, function)}\n\n{inspect.getdoc(function) or ''}\n```\n"


def _signature(name: str, found) -> str:
    return f"{name}{inspect.signature(found)}" if callable(found) else name


def index_page(address: str) -> Iterator[str]:
    """Yield the first page: the README's first paragraphs, how to get the course, and what there is."""
    readme, first = (ROOT / "README.md").read_text("utf-8").partition("\n## ")[0], next(iter(UNITS))
    readme = readme.replace("docs/solutions.md", f"solutions/{first}/{first}.ipynb")
    verdict = f'<div class="first-verdict">{hero.verdict()}</div>'
    yield re.sub(r"<picture>.*</picture>", lambda _: verdict, linked(readme), flags=re.DOTALL)
    yield f"\n## Move something\n\n32 lanes of a warp read one element each. How many sectors does that take?\n\n{SECTORS}\n"
    if address:
        yield f"\nThe course is at <{address}>. To work in it, on Linux:\n"
        yield f"    git clone {address} course && cd course\n    make lab\n"
    yield from _tree("Begin", ["taste"])
    yield from _tree("Units", UNITS)
    for caption, pages in GUIDES.items():
        yield from _tree(caption, [page.stem for page in pages])
    yield from _tree("Reference", ["names"])
    yield from _tree("Measured", [f"results/{p.stem}" for p in sorted((ROOT / "benchmarks" / "results").glob("*.md"))])


def _tree(caption: str, pages) -> Iterator[str]:
    yield f"\n```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n:titlesonly:\n"
    yield from pages
    yield "```"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
