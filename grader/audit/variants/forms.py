"""Wrong answers that every exercise of a form draws, whatever its unit: *break it* and *name it*."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grader.audit.variants import Variant

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
