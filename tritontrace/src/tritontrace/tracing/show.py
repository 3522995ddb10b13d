"""A trace in words and numbers: the table of its launches, and each kernel's source with its traffic next to it.

Text first: what a terminal, a log and a screen reader get. The HTML says the same, takes its colours from the page and
marks nothing by colour alone. The pictures are drawn in draw.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from html import escape
from operator import add

from tritontrace.compiled.places import Places
from tritontrace.messages import say
from tritontrace.results import COUNTERS, Access, Launch, Passes, Requests
from tritontrace.tracing.pattern import SECTOR
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.warps import by_line, slow
from tritontrace.words import plural

COLUMNS = (
    "tensor",
    "op",
    "lines",
    "instructions",
    "bytes",
    "masked positions",
    "sectors",
    "efficiency",
    "reads per byte",
)
TEXT_COLUMNS = 3  # flush left; numbers are flush right
MAX_KINDS = 6  # ways of launching one kernel that are told apart
WORST = "◄ wastes most"
SAMPLE = "* A sample: all numbers, those below too, are of the programs that ran. Races with others are not seen, and results have gaps."


# ------------------------------------------------------------------------------------------------ what is to be shown


@dataclass
class Row:
    """Counts of one operation on one parameter of a kernel, summed over launches.

    by_line              the accesses of each source line
    read, distinct       bytes loaded from it, and how many of them differ within a launch
    """

    op: str
    tensors: dict[str, None] = field(default_factory=dict)  # names in order of appearance
    by_line: dict[int, Access] = field(default_factory=dict)
    read: int = 0
    distinct: int = 0
    sampled: bool = False

    def cells(self) -> tuple[str, ...]:
        total = reduce(add, self.by_line.values())
        first, *others = self.tensors
        named = (
            first if not others else f"{first} and {len(others)} more",
            self.op,
            ", ".join(map(str, sorted(self.by_line))),
        )
        counts = (
            f"{total.instructions:,}",
            f"{total.bytes:,}",
            f"{total.masked:,}",
            f"{total.sectors:,}",
            percent(total.efficiency),
            f"{self.read / self.distinct:.1f}" if self.op == "load" and self.distinct else "",
        )
        return named + tuple(count + "*" * bool(count and self.sampled) for count in counts)


@dataclass
class Group:
    """Launches of one kernel that are shown together."""

    launches: list[Launch]
    rows: list[Row]
    alike: bool  # same grid, same counts

    @property
    def heading(self) -> str:
        first = self.launches[0]
        together = len(self.launches) > 1
        parts = [f"{first.kernel}, grid {grid_text(first.grid)}" + f" × {len(self.launches)} launches" * together]
        if first.sampled_from:
            parts.append(f"{first.programs:,} of {first.sampled_from:,} programs*")
        if first.stopped_from:
            parts.append(f"stopped by a fault when {first.programs:,} of {first.stopped_from:,} programs had begun")
        if first.configurations:
            parts.append(f"configuration {first.configuration} (one of {first.configurations})")
        if self.alike or not together:
            return ", ".join(parts + ["counted together"] * together)
        return f"{first.kernel}, {len(self.launches)} launches of different kinds, counted together"


def groups(trace: Recorded) -> list[Group]:
    """Group the launches, equal ones together; a kernel launched in more than MAX_KINDS ways is one group."""
    kinds: dict[str, dict[tuple, list[Launch]]] = {}
    for launch in trace.launches:
        kinds.setdefault(launch.kernel, {}).setdefault(_kind(launch), []).append(launch)
    found = []
    for ways in kinds.values():
        if len(ways) <= MAX_KINDS:
            found += [Group(launches, _rows(launches), alike=True) for launches in ways.values()]
        else:
            launches = [launch for alike in ways.values() for launch in alike]
            found.append(Group(launches, _rows(launches), alike=False))
    return found


def _kind(launch: Launch) -> tuple:
    roles = _roles(launch)
    counts = tuple((roles[a.tensor], a.op, a.line, *(getattr(a, c) for c in COUNTERS)) for a in launch.accesses)
    return launch.grid, launch.configuration, launch.stopped_from, counts


def _roles(launch: Launch) -> dict[str, tuple[str, int]]:
    """Tensor -> what stands for it in any launch: `o_ptr#7` is the first, or second, `o_ptr` of this one."""
    roles: dict[str, tuple[str, int]] = {}
    for access in launch.accesses:
        parameter = access.tensor.partition("#")[0]
        among = [name for name, _ in roles.values()].count(parameter)
        roles.setdefault(access.tensor, (parameter, among))
    return roles


def _rows(launches: Iterable[Launch]) -> list[Row]:
    rows: dict[tuple, Row] = {}
    for launch in launches:
        roles, footprints = _roles(launch), {footprint.tensor: footprint for footprint in launch.footprints}
        loaded = {}
        for access in launch.accesses:
            row = rows.setdefault((roles[access.tensor], access.op), Row(access.op))
            row.tensors[access.tensor] = None
            row.sampled |= launch.sampled_from > 0
            seen = row.by_line.get(access.line)
            row.by_line[access.line] = seen + access if seen else access
            if access.op == "load" and access.tensor in footprints:
                loaded[access.tensor] = row
                row.read += access.bytes
        for tensor, row in loaded.items():
            row.distinct += footprints[tensor].read_distinct_bytes
    return list(rows.values())


def grid_text(grid: tuple[int, int, int]) -> str:
    """Write a grid as one writes it in a launch: (4,) or (4, 2)."""
    return str(grid[: used_axes(grid)])


def used_axes(grid: tuple[int, int, int]) -> int:
    """How many axes a grid has without trailing ones of size 1."""
    return max([1] + [axis + 1 for axis in range(3) if grid[axis] != 1])


@dataclass
class Worst:
    """The source line that wastes the most fetched bytes, and its row in the table."""

    kernel: str
    row: Row
    access: Access

    @property
    def sentence(self) -> str:
        a = self.access
        return (
            f"Wastes most: kernel `{self.kernel}`, line {a.line}: `{a.source}` uses {percent(a.efficiency)} of the bytes in "
            f"the {a.sectors:,} sectors it touches."
        )


def worst_line(found: Iterable[Group]) -> Worst | None:
    """Return the line that wastes most, None if none does. A single element wastes most of its sector by nature: it is not pointed at."""
    candidates = [
        (_wasted(access), Worst(group.launches[0].kernel, row, access))
        for group in found
        for row in group.rows
        for access in row.by_line.values()
        if access.bytes > access.single_bytes and access.efficiency < 0.99
    ]
    return max(candidates, key=lambda pair: pair[0], default=(0, None))[1]


def _wasted(access: Access) -> int:
    return SECTOR * access.sectors - access.useful_bytes


def summary(trace: Recorded) -> list[str]:
    """List two sentences: counts and bytes; FLOPs."""
    launches, programs, flops = len(trace.launches), trace.programs, trace.flops
    moved = (
        f"{plural(launches, 'launch', 'launches')}, {plural(programs, 'program')}, "
        f"{_bytes(trace.loads.bytes)} loaded, {_bytes(trace.stores.bytes)} stored"
        + (f", {_bytes(trace.atomics.bytes)} updated by atomics" if trace.atomics.bytes else "")
    )
    sampled = any(launch.sampled_from for launch in trace.launches)
    marked = [SAMPLE] if sampled else []
    if not flops.total:
        return [*marked, moved]
    names = {"dot": "in dots", "float": "elementwise", "special": "exp, log and the like", "reduction": "in reductions"}
    kinds = [f"{getattr(flops, kind):,} {name}" for kind, name in names.items() if getattr(flops, kind)]
    return [
        *marked,
        moved,
        f"{flops.total:,} FLOPs ({', '.join(kinds)}): {trace.arithmetic_intensity:.3g} for each byte moved",
    ]


def percent(share: float) -> str:
    """Write a share in three digits: "79.6%"."""
    return f"{100 * share:.3g}%"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count:,} bytes ({count / size:.4g} {unit})"
    return f"{count:,} bytes"


def _remarks(trace: Recorded, worst: Worst | None) -> list[str]:
    """The line that wastes most, the faults, and what else is worth a sentence."""
    return [
        *([worst.sentence] if worst else []),
        *(fault.sentence for fault in trace.faults),
        *(note.sentence for note in trace.notes),
        *(sentence for _, _, sentence in of_warps(trace)),
        *looked_at(trace),
    ]


def looked_at(trace: Recorded) -> list[str]:
    """List a sentence if the compiler was asked, and no line is slow because of it; else []."""
    asked = [(launch.kernel, launch.warps) for launch in trace.launches if launch.warps]
    lines = {(kernel, each.line, each.op) for kernel, warps in asked for each in warps.requests}
    return [say("trace.warps.fine", lines=len(lines))] if asked and not of_warps(trace) else []


def of_warps(trace: Recorded) -> list[tuple[str, int, str]]:
    """List (kernel, line, sentence) for each line that is slow because of the compiled code, and each kernel that the compiler refused."""
    once = {}
    for launch in trace.launches:
        if launch.warps and launch.warps.complaint:
            once[launch.kernel, 1, launch.warps.complaint] = None
        for each in slow(launch):
            once[launch.kernel, Places.line(each.line), each.sentence] = None
    return list(once)


# ----------------------------------------------------------------------------------------------------- the table


def table(trace: Recorded) -> str:
    """Render a heading for each kernel, then one row for each tensor and operation; the summary and the remarks below."""
    found = groups(trace)
    worst = worst_line(found)
    cells = [COLUMNS, *(row.cells() for group in found for row in group.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [aligned(COLUMNS, widths)] if found else []
    for group in found:
        lines.append(group.heading)
        lines.extend(aligned(row.cells(), widths) + _mark(row, worst, "  ") for row in group.rows)
    return "\n".join([*(line.rstrip() for line in lines), *summary(trace), *_remarks(trace, worst)])


def aligned(cells: Iterable[str], widths: Iterable[int]) -> str:
    """Format a row of the table as text, each cell as wide as its column."""
    padded = [
        cell.ljust(width) if i < TEXT_COLUMNS else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  " + "  ".join(padded)


def _mark(row: Row, worst: Worst | None, before: str = "") -> str:
    return f"{before}{WORST}: line {worst.access.line}" if worst and row is worst.row else ""


PAGE = "color: var(--jp-content-font-color1, inherit); overflow-x: auto"
RULE = "border: 0; border-bottom: 1px solid var(--jp-border-color2, currentColor)"
CELL = "padding: 2px 10px; color: inherit"
TINT = "rgba(230, 159, 0, 0.25)"  # lies over whatever page there is, light or dark
BAR = "rgba(86, 180, 233, 0.4)"


def html(trace: Recorded) -> str:
    """Render the table for a notebook."""
    found = groups(trace)
    worst = worst_line(found)
    head = "".join(_cell("th", name, i, 'scope="col"') for i, name in enumerate(COLUMNS))
    bodies = []
    for group in found:
        heading = (
            f'<tr><th scope="rowgroup" colspan="{len(COLUMNS) + 1}" style="text-align: left; {RULE}; {CELL}; '
            f'background: transparent">{escape(group.heading)}</th></tr>'
        )
        bodies.append(f"<tbody>{heading}{''.join(_row(row, worst) for row in group.rows)}</tbody>")
    notes = "".join(f'<p style="margin: 4px 0">{with_code(text)}</p>' for text in _remarks(trace, worst))
    caption = "<br>".join(map(escape, summary(trace)))
    return (
        f'<div style="{PAGE}"><table style="border-collapse: collapse; margin: 0">'
        f'<caption style="caption-side: top; text-align: left; color: inherit">{caption}</caption>'
        f'<thead><tr style="{RULE}">{head}<td style="{CELL}; background: transparent"></td></tr></thead>'
        f"{''.join(bodies)}</table>{notes}</div>"
    )


def _row(row: Row, worst: Worst | None) -> str:
    first, *rest = row.cells()
    mark = _mark(row, worst)
    ground = TINT if mark else "transparent"
    cells = [_cell("th", first, 0, 'scope="row"', ground)]
    cells += [_cell("td", cell, i, ground=ground) for i, cell in enumerate(rest, start=1)]
    cells.append(f'<td style="text-align: left; white-space: nowrap; {CELL}; background: {ground}">{mark}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _cell(tag: str, text: str, column: int, attributes: str = "", ground: str = "transparent") -> str:
    align = "left" if column < TEXT_COLUMNS else "right"
    weight = "font-weight: normal; " if 'scope="row"' in attributes else ""
    return (
        f'<{tag} {attributes} style="text-align: {align}; {weight}{CELL}; background: {ground}">{escape(text)}</{tag}>'
    )


def with_code(sentence: str) -> str:
    """Convert a sentence to HTML, with what stands between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(sentence))


# ----------------------------------------------------------------------------------------------------- the source


class Annotated(str):
    """Text that a notebook shows as HTML; `print` writes the text."""

    html: str

    def __new__(cls, text: str, html: str) -> Annotated:
        made = super().__new__(cls, text)
        made.html = html
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.html


@dataclass
class Line:
    """A line of a kernel, and what it moved and computed in all launches of the kernel; access is None if it moves nothing.

    warps   what the compiler made of it: bytes of a lane, sectors of a request, passes at shared memory
    """

    number: int
    text: str
    access: Access | None = None
    share: float = 0.0  # of the bytes of the line that moves most
    worst: bool = False
    flops: int = 0
    warps: tuple[str, str, str] = ("", "", "")


OF_WARPS = ("lane bytes", "sectors (needed)", "bank conflicts")  # of one request; passes for each that is needed


def annotated(trace: Recorded) -> Annotated:
    """Render each kernel's source with the bytes and the efficiency of every line that touches memory, and its FLOPs where any has some."""
    kernels = {kernel: list(_lines(trace, kernel)) for kernel in dict.fromkeys(x.kernel for x in trace.launches)}
    return Annotated(
        "\n\n".join(_source_text(kernel, lines) for kernel, lines in kernels.items()),
        f'<div style="{PAGE}">{"".join(_source_html(kernel, lines) for kernel, lines in kernels.items())}</div>',
    )


def _lines(trace: Recorded, kernel: str) -> Iterator[Line]:
    sums: dict[int, Access] = {}
    for launch in trace.launches:
        for access in launch.accesses if launch.kernel == kernel else ():
            if access.function != kernel:  # a line of a partition's
                continue
            sums[access.line] = sums[access.line] + access if access.line in sums else access
    flops = Counter()
    for each in (each for launch in trace.launches if launch.kernel == kernel for each in launch.line_flops):
        flops[each.line] += each.flops.total if each.function == kernel else 0
    warps = {}
    for launch in (each for each in trace.launches if each.kernel == kernel):
        warps |= {line: _of_line(requests, passes) for line, requests, passes in by_line(launch)}
    most = max((access.bytes for access in sums.values()), default=1)
    worst = worst_line(groups(trace))
    for number, text in trace.sources[kernel].numbered():
        access = sums.get(number)
        is_worst = worst is not None and (worst.kernel, worst.access.line) == (kernel, number)
        share = access.bytes / most if access else 0.0
        yield Line(number, text.rstrip(), access, share, is_worst, flops[number], warps.get(number, Line.warps))


def _of_line(requests: list[Requests], passes: list[Passes]) -> tuple[str, str, str]:
    """The cells of OF_WARPS: of several accesses the narrowest, and the one that touches most for what it needs."""
    width = str(min(each.lane_bytes for each in requests)) if requests else ""
    seen = [each for each in requests if each.requests and not each.by_data]
    widest = max(seen, key=lambda each: each.spread, default=None)
    sectors = _of_needed(widest.sectors / widest.requests, widest.needed / widest.requests) if widest else ""
    conflicts = max((each.conflicts for each in passes), default=1.0)
    return width, sectors, f"× {conflicts:.3g}" if conflicts > 1 else ""


def _of_needed(number: float, needed: float) -> str:
    """ "32 (4)", and "4" where no fewer would do."""
    return f"{number:.3g} ({needed:.3g})" if number > needed else f"{number:.3g}"


def _source_text(kernel: str, lines: list[Line]) -> str:
    computes, asked = any(line.flops for line in lines), any(any(line.warps) for line in lines)
    head = f"{'bytes':>14} {'efficiency':>10}" + f" {'FLOPs':>14}" * computes
    rows = [head + "".join(f" {name}" for name in OF_WARPS) * asked + f"  {kernel}"]
    for line in lines:
        note = f"{line.access.bytes:>14,} {percent(line.access.efficiency):>10}" if line.access else " " * 25
        if computes:
            note += f" {line.flops:>14,}" if line.flops else " " * 15
        if asked:
            note += "".join(f" {cell:>{len(name)}}" for name, cell in zip(OF_WARPS, line.warps, strict=True))
        rows.append(f"{note}  {line.number:>3} {line.text}" + f"  {WORST}" * line.worst)
    return "\n".join(row.rstrip() for row in rows)


def _source_html(kernel: str, lines: list[Line]) -> str:
    mono = (
        "font-family: var(--jp-code-font-family, monospace); padding: 0 10px; color: inherit; background: transparent"
    )
    computes, asked = any(line.flops for line in lines), any(any(line.warps) for line in lines)
    columns = ["bytes", "efficiency", *["FLOPs"] * computes, *OF_WARPS * asked, "line", "source"]
    head = "".join(
        f'<th scope="col" style="text-align: {"left" if name == "source" else "right"}; {mono}">{name}</th>'
        for name in columns
    )
    rows = []
    for line in lines:
        moved, efficiency = (f"{line.access.bytes:,}", percent(line.access.efficiency)) if line.access else ("", "")
        if line.worst:  # marked here: the end of a long line may be out of sight
            efficiency += f" <strong>{WORST}</strong>"
        numbers = "".join(
            f'<td style="text-align: right; white-space: nowrap; {mono}">{cell}</td>'
            for cell in (
                moved,
                efficiency,
                *[f"{line.flops:,}" if line.flops else ""] * computes,
                *line.warps * asked,
                line.number,
            )
        )
        colour = TINT if line.worst else BAR
        bar = f"linear-gradient(to right, {colour} {line.share:.1%}, transparent {line.share:.1%})"
        rows.append(
            f'<tr>{numbers}<td style="text-align: left; white-space: pre; {mono}; background: {bar}">'
            f"{escape(line.text)}</td></tr>"
        )
    caption = f"{escape(kernel)}: the bar behind a line is as long as its share of the bytes of the busiest line"
    return (
        f'<table style="border-collapse: collapse; margin: 0 0 10px">'
        f'<caption style="caption-side: top; text-align: left; color: inherit">{caption}</caption>'
        f'<thead><tr style="{RULE}">{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )
