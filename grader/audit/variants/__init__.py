"""Wrong, wasteful, cheating and honest-but-unusual solutions of each exercise, and what each must lose.

Most are one-line patches of the published solution; never shipped to students. UNIT.toml has a row for each: its name, the keys
of what it must lose, then the (old, new) replacements; a row that loses nothing is honest. Between them may stand what `tells` or
`source` is, or `of`, the name of another row of the exercise whose source is changed:

    [transpose]
    "tiles of four" = ["coalesced.load.performance", "coalesced.store.performance", ["BLOCK = 64", "BLOCK = 4"]]
    "tiles of 32" = [["BLOCK = 64", "BLOCK = 32"]]

What functions make, or what shares its patches, is in the list VARIANTS of a module of that name. walking.py makes some of every kernel, single.py one
of those with blocks of any size, forms.py some of every exercise of a form. Whole cells that are about one idea stand in cheats/ and
honest/: percent scripts, in which a cell's header says what it is and what it must lose:

    # %% name="torch does it" exercise="coalescing.transpose" loses="correct.ragged; launches.performance" after="solution" flags="a rule"

A cell without code is the last whole cell above it, an answer to the same exercise, with some lines changed; other comments explain:

    # %% name="64 warps" exercise="coalescing.row_copy" loses="correct.plain"
    # -     row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=4096)
    # +     row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=4096, num_warps=64)

after="solution" puts the published solution before it; tells="words" must be told by a criterion that it loses; a first cell without a
name stands before each of its script; flags are the rules of grader/judging/flags.py that must show it to a person. The remarks that variants
draw stand in ../remarks.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.criteria import CostCriterion
from course_lib.exercises import UNITS, find
from grader import exercises
from grader.audit.variants import single, walking
from grader.published import answer, solution_cell, solution_cells


@dataclass(frozen=True)
class Variant:
    """One way to answer an exercise other than the published one.

    loses     keys of the gates or criteria that must fail, all of them and no others; () for full marks
    source    a whole cell, or "" for the published solution's
    patches   (old, new) replacements in it, each of which must apply
    before    cells that stand before it
    flags     the source rules that must flag it for a person
    tells     words that a criterion which it loses must tell
    script    the file it comes from, "cheats/forged"
    """

    exercise: str
    name: str
    loses: tuple[str, ...]
    patches: tuple[tuple[str, str], ...] = ()
    source: str = ""
    before: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    tells: str = ""
    script: str = ""

    def cells(self) -> list[tuple[str, str]]:
        """The program to judge: imports, then the cell. Raises ValueError if a patch does not apply."""
        source = self.source or solution_cell(self.exercise)
        for old, new in self.patches:
            if old not in source:
                raise ValueError(f"{self.exercise}, {self.name}: the cell does not contain {old!r}")
            source = source.replace(old, new)
        *imports, own = answer(self.exercise, source)
        return [*imports, *((f"<before {n}>", text) for n, text in enumerate(self.before, 1)), own]


def kinds(unit: str) -> tuple[Callable[..., Variant], Callable[..., Variant]]:
    """(wrong, honest), with which a unit's module writes its variants down."""

    def wrong(
        entry: str, name: str, loses: Sequence[str], *patches: tuple[str, str], source: str = "", tells: str = ""
    ) -> Variant:
        return Variant(f"{unit}.{entry}", name, tuple(loses), patches, source, tells=tells)

    def honest(entry: str, name: str, *patches: tuple[str, str], source: str = "") -> Variant:
        return wrong(entry, name, (), *patches, source=source)

    return wrong, honest


def of_unit(module: str) -> list[Variant]:
    """All variants of a unit's exercises: those of its module and its table here, then those of cheats/ and honest/."""
    name = f"{__name__}.{module}"
    made = importlib.import_module(name).VARIANTS if importlib.util.find_spec(name) else []
    of_scripts = [v for v in scripts() if v.exercise.startswith(f"{module}.")]
    return [*made, *table(module), *of_scripts, *walkers(module), *singles(module)]


def table(module: str) -> list[Variant]:
    """The variants in the rows of UNIT.toml."""
    path = Path(__file__).with_name(f"{module}.toml")
    tables = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    return [of_row(f"{module}.{entry}", name, rows) for entry, rows in tables.items() for name in rows]


def of_row(exercise: str, name: str, rows: Mapping[str, Sequence[str | list[str] | dict[str, str]]]) -> Variant:
    """The variant in the row of this name."""
    loses = tuple(key for key in rows[name] if isinstance(key, str))
    patches = tuple((old, new) for old, new in (patch for patch in rows[name] if isinstance(patch, list)))
    more: dict[str, Any] = _fields(rows[name])
    if base := more.pop("of", ""):
        more["source"] = _fields(rows[base])["source"]
    return Variant(exercise, name, loses, patches, **more)


def _fields(row: Sequence[str | list[str] | dict[str, str]]) -> dict[str, Any]:
    return {field: value for fields in row if isinstance(fields, dict) for field, value in fields.items()}


def singles(module: str) -> list[Variant]:
    """The kernels of the unit with blocks smaller than a warp: nothing that a kernel spares is credited."""
    found = []
    for exercise_id, patches in single.CHANGES.items():
        if exercise_id.partition(".")[0] == module:
            criteria = find(exercise_id).criteria
            cost = (c.key for c in criteria if isinstance(c, CostCriterion) and c.about == "cost")
            loses = (*cost, *single.TOO_MUCH_WORK.get(exercise_id, ()))
            found.append(Variant(exercise_id, "one element a program", loses, patches))
    return found


@cache
def walkers(module: str) -> list[Variant]:
    """Every kernel of the unit, run by one program, by six, and by as many as an H200 has SMs. In Gluon those alone that ask for their
    place themselves, and not in a partition."""
    found = []
    unit = next(unit for unit, name in UNITS.items() if name == module)
    for exercise in exercises(unit).values():
        shared = {c.key: programs for c in exercise.criteria if (programs := getattr(c, "programs", 0))}
        if not shared or exercise.id not in solution_cells(unit):  # the suite's toy units have none
            continue
        cells = "\n".join(text for _, text in answer(exercise.id, solution_cell(exercise.id))[1:])
        if exercise.language == "Gluon" and walking.asks_elsewhere(cells):
            continue
        for name, programs in {"one program walks": 1, "six programs walk": 6, "132 programs walk": 132}.items():
            loses = tuple(key for key, needed in shared.items() if programs < min(needed, 132))
            if "new_barriers(" in cells and programs == 6:
                continue  # whether six have more than one tile to do hangs on the sizes that were drawn
            if (
                "new_barriers(" in cells and programs == 1
            ):  # the next step's barriers are made where the last one's still stand
                loses = ("in_every_order",)
            found.append(Variant(exercise.id, f"{name} over all", loses, source=walking.walked(cells, programs)))
    return found


@cache
def scripts() -> list[Variant]:
    """The variants that are files in cheats/ and honest/, for all units."""
    return [variant for path in sorted(Path(__file__).parent.glob("*/*.py")) for variant in read(path)]


def read(path: Path) -> list[Variant]:
    """The variants of one percent script."""
    preamble, found, whole = (), [], ("", "")
    for header, source in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n)*)", path.read_text(), re.M):
        values = dict(re.findall(r'(\w+)="([^"]*)"', header))
        if not values:
            preamble = (source,)
            continue
        lists: dict[str, Any] = {
            key: tuple(part.strip() for part in values.get(key, "").split(";") if part.strip())
            for key in ("loses", "flags")
        }
        before = (solution_cell(values["exercise"]),) if values.get("after") == "solution" else ()
        more: dict[str, Any] = {"tells": values.get("tells", ""), "script": f"{path.parent.name}/{path.stem}"}
        patches = changes(source)
        if not patches:
            whole = (values["exercise"], source)
        elif whole[0] != values["exercise"]:
            raise ValueError(f"{path}, {values['name']}: changes a cell that answers {whole[0] or 'nothing'}")
        more |= {"source": whole[1], "patches": patches, "before": preamble + before}
        found.append(Variant(values["exercise"], values["name"], **more, **lists))
    return found


def changes(cell: str) -> tuple[tuple[str, str], ...]:
    """(old, new) lines of a cell without code: behind `# - ` stand those that go, behind `# + ` those that come in their place."""
    if re.search(r"^[^#\n]", cell, re.M):  # code: a whole cell
        return ()
    found = re.findall(r"((?:^# - .*\n)+)((?:^# \+ .*\n)*)", cell, re.M)
    return tuple((re.sub(r"^# - ", "", old, flags=re.M), re.sub(r"^# \+ ", "", new, flags=re.M)) for old, new in found)
