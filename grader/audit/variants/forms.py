"""Wrong answers that every exercise of a form draws, whatever its unit: *break it*, *name it* and the work logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from course_lib.exercises import find
from course_lib.work_logs.page import FirstVersion
from grader.audit.variants import Variant
from grader.published import solution_cell

KILLS, NAMES = "kills.mutants", "names.plain"


def breaking(wrong: Callable[..., Variant], entry: str, usual: str) -> list[Variant]:
    """Wrong answers to an exercise that wants breaking inputs. usual: an input that anybody writes, as source."""
    return [
        wrong(entry, "ordinary numbers", [KILLS], source=returning(f"[{usual}]")),
        wrong(entry, "none", [KILLS], source=returning("[]")),
        wrong(entry, "four inputs", [KILLS], source=returning(f"[{usual}] * 4")),
        wrong(entry, "no list", [KILLS], source=returning(usual)),
        wrong(entry, "another name", [KILLS], ("return [", "return [{'y': torch.ones(3, 3)}, ")),
        wrong(entry, "numbers, not tensors", [KILLS], source=returning("[{'x': 3}]")),
    ]


def returning(inputs: str) -> str:
    """The source of an answer that returns these inputs."""
    return f"def breaking_inputs():\n    return {inputs}\n"


def naming(
    kinds: tuple[Callable[..., Variant], ...], exercise: tuple[str, str], causes: Mapping[str, tuple[str, str]]
) -> list[Variant]:
    """Wrong answers to an exercise in which causes are named, and an honest one.

    kinds     of its unit: wrong, honest
    exercise  its name, and that of the variable it asks for
    causes    cause -> (picture, explanation), as in grader/audit/named.py
    """
    wrong, honest = kinds
    entry, variable = exercise
    right = {picture: cause for cause, (picture, _) in sorted(causes.items(), key=lambda item: item[1])}
    swapped = right | {"A": right["B"], "B": right["A"]}

    def source(answers: object) -> str:
        return f"{variable} = {answers!r}\n"

    return [
        wrong(entry, "the same cause everywhere", [NAMES], source=source(dict.fromkeys(right, next(iter(causes))))),
        wrong(entry, "three right", [NAMES], source=source(right | dict.fromkeys("ABC", "no cause"))),
        wrong(entry, "one wrong", [NAMES], source=source(right | {"D": "no cause"})),
        wrong(entry, "two swapped", [NAMES], source=source(swapped)),
        wrong(entry, "numbers", [NAMES], source=source(dict.fromkeys(right, 1))),
        wrong(entry, "a list", [NAMES], source=source({"A": [right["A"]]})),
        honest(entry, "in another order", source=source(dict(reversed(right.items())))),
    ]


HELD = "rounds_held.performance"


def logging(
    kinds: tuple[Callable[..., Variant], ...],
    exercise_id: str,
    sizes: tuple[Mapping[str, int], Mapping[str, int]],
    first: tuple[str, Mapping[str, object]],
) -> list[Variant]:
    """Wrong answers to an exercise that wants a work log, and honest ones. All begin with the published rounds.

    sizes    of the two public cases, by name
    first    the name of the first version, and what a true statement of it says
    """
    wrong, honest = kinds
    entry = exercise_id.partition(".")[2]
    name, statement = first
    one, other = sizes
    letter = next(each for each in one if one[each] != other[each])
    given = f"{FirstVersion(find(exercise_id)).source}\n"
    values = """from course_lib.workloads.stated import evaluated
NAMES = ["bytes", "sectors", "launches"]
def on(each, sizes):
    return {name: evaluated(str(each[name]), sizes) for name in NAMES}
"""
    line = f"{{a[name]}} + ({{b[name]}} - {{a[name]}}) * ({letter} - {one[letter]}) / {other[letter] - one[letter]}"

    def answer(rounds: str, before: str = "") -> str:
        cell = solution_cell(exercise_id).replace(f"def {entry}(", "def published_log(")
        return f"{cell}\n\n{before}\ndef {entry}():\n    rounds = published_log()\n    return {rounds}\n"

    def each(changed: str, before: str = "") -> str:
        return answer(f"[each | {{{changed}}} for each in rounds]", before)

    wasteful = """def repeated(version, times):
    def run(**arguments):
        for _ in range(times):
            out = version(**arguments)
        return out
    return run
def many(each, times):
    more = {name: f"{times} * ({each[name]})" for name in ("bytes", "sectors", "launches")}
    return each | more | {"version": repeated(each["version"], times)}
"""
    empty = """def emptied(version):
    def run(**arguments):
        return torch.empty_like(version(**arguments))
    return run
"""
    interpolated = wrong(
        entry,
        "a line through both public sizes",
        [HELD],
        source=answer(
            "[each | line(each) for each in rounds]",
            f"{values}def line(each):\n    a, b = on(each, {one!r}), on(each, {other!r})\n"
            f'    return {{name: f"{line}" for name in NAMES}}\n',
        ),
    )
    return [
        *([interpolated] if len(one) > 1 else []),  # along one size alone a line is the formula
        wrong(entry, "one round three times", [HELD], source=answer("rounds[:1] * 3")),
        wrong(entry, "one round", [HELD], source=answer("rounds[:1]")),
        wrong(entry, "the last version first", [HELD], source=answer("rounds[::-1]")),
        wrong(entry, "nothing changed", [HELD], source=answer(f"[{{**{statement!r}, 'version': {name}}}] * 3", given)),
        wrong(
            entry, "numbers of a trace", [HELD], source=answer(f"[each | on(each, {one!r}) for each in rounds]", values)
        ),
        wrong(entry, "a choice between sizes", [HELD], source=each('"bytes": f"{each[\'bytes\']} if 1 else 0"')),
        wrong(entry, "a function for a formula", [HELD], source=each('"bytes": lambda **sizes: 0')),
        wrong(entry, "nothing stated", [HELD], source=answer('[{"version": each["version"]} for each in rounds]')),
        wrong(entry, "stated, and no versions", [HELD], source=each('"version": None')),
        wrong(entry, "a result that nobody stored", [HELD], source=each('"version": emptied(each["version"])', empty)),
        wrong(
            entry,
            "the last version, twice and thrice",
            [HELD],
            source=answer("[many(rounds[2], 3), many(rounds[2], 2), rounds[2]]", wasteful),
        ),
        wrong(entry, "torch copies", [HELD], source=each('"version": lambda **a: each["version"](**a).clone()')),
        honest(
            entry,
            "two rounds that do not hold among three that do",
            source=answer(
                '[rounds[0], rounds[0], rounds[1] | {"bytes": 1, "version": rounds[0]["version"]}, *rounds[1:]]'
            ),
        ),
        honest(
            entry,
            "a tenth off, in other words",
            source=each(
                '"sectors": f"-(-1.08) * ({each[\'sectors\']}) + 0**2 * cdiv(7, 2)", "launches": f"{each[\'launches\']}.0"'
            ),
        ),
        honest(entry, "a tuple, with reasons", source=answer('(*({"because": "of this"} | each for each in rounds),)')),
    ]
