"""Batches of a text that is never read as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.mistakes import MistakeMatcher, every, for_cases
from course_lib.workloads.rehearsals import text

OFTEN = 3  # times as often as its share, and ten times more: no place of an even draw comes so often


def batches(name: str, group: str, /, **changes: Any) -> Case:
    """Make a case: a file of this many tokens, asked for batches of one split."""
    usual = {"tokens": 100, "split": "train", "batch": 8, "context": 7, "draws": 60, "seed": 1, "times": 1}
    return fixed(name, group, **(usual | changes))


def starts_of(tokens: int, split: str, context: int) -> range:
    """Return the places where the windows of a split may begin, with their targets inside it. The first nine tenths are for training."""
    first, end = (0, tokens * 9 // 10) if split == "train" else (tokens * 9 // 10, tokens)
    return range(first, end - context)


@cache
def _place_of(tokens: int, seed: int) -> dict[int, int]:
    return {token: place for place, token in enumerate(text(tokens, seed).tolist())}


def by_places(problem: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a check so that each token of the output is replaced by its place in the file, or -1: as if the file were 0, 1, 2, ..."""

    @wraps(problem)
    def asked(output: Any, tokens: int, seed: int, **arguments: Any) -> Any:
        place_of = _place_of(tokens, seed)

        def places(rows: Sequence[Sequence[int]]) -> list[list[int]]:
            return [[place_of.get(token, -1) for token in row] for row in rows]

        found = {**output, **{name: places(output[name]) for name in ("rows", "targets", "again")}}
        return problem(found, tokens=tokens, seed=seed, **arguments)

    return asked


def pieces(output: Any, batch: int, context: int, **_: Any) -> str:
    """Return "" if tokens are (batch, context) pieces of the text, int64; else a message."""
    if output["shape"] != [[batch, context]] * 2:
        return say(
            "training.get_batch.shape",
            right=str((batch, context)),
            got=str([tuple(shape) for shape in output["shape"]]),
        )
    if output["dtype"] != ["int64", "int64"]:
        return say("training.get_batch.dtype", dtypes=[*output["dtype"]])
    broken = next((row for row in output["rows"] if row != list(range(row[0], row[0] + context))), None)
    return say("training.get_batch.broken", places=str(broken)) if broken else ""


def shifted(output: Any, **_: Any) -> str:
    """Return "" if each target is the following token, else a message."""
    for row, target in zip(output["rows"], output["targets"], strict=True):
        if target != [place + 1 for place in row]:
            return say("training.get_batch.targets", places=str(row), targets=str(target))
    return ""


def inside(output: Any, tokens: int, split: str, context: int, **_: Any) -> str:
    """Return "" if windows and targets lie in their split, else a message."""
    may = starts_of(tokens, split, context)
    out = next((row for row in output["rows"] if row[0] not in may), None)
    return say("training.get_batch.outside", split=repr(split), start=out[0], first=may[0], last=may[-1]) if out else ""


def everywhere(output: Any, tokens: int, split: str, context: int, **_: Any) -> str:
    """Return "" if every place of a split is drawn, sooner or later, and none much more often than its share; else a message."""
    may, drawn = starts_of(tokens, split, context), Counter(row[0] for row in output["rows"])
    missing = [place for place in may if place not in drawn]
    if missing:
        places = [say("training.get_batch.at", place=place) for place in sorted({missing[0], missing[-1]})]
        last = say("training.get_batch.last_place") if missing == [may[-1]] else ""
        return say("training.get_batch.never", windows=drawn.total(), places=places, last=last)
    (place, often), share = drawn.most_common(1)[0], drawn.total() / len(may)
    return (
        say("training.get_batch.often", windows=drawn.total(), often=often, place=place, share=share)
        if often > OFTEN * share + 10
        else ""
    )


def far(output: Any, tokens: int, split: str, context: int, times: int, **_: Any) -> str:
    """Return "" if windows come from each quarter of a split of a long file, and from no other split; else a message."""
    may = starts_of(tokens * times, split, context)
    first = [row[0] * times for row in output["rows"]]  # of the places that hold this number, the first
    if out := next((place for place in first if not may[0] - times < place <= may[-1]), None):
        return say("training.get_batch.outside_of_far", split=repr(split), start=out, first=may[0], last=may[-1])
    quarters = {4 * (place - may[0]) // len(may) for place in first}
    empty = next((quarter for quarter in range(4) if quarter not in quarters), None)
    if empty is None:
        return ""
    ends = [may[0] + len(may) * edge // 4 for edge in (empty, empty + 1)]
    return say("training.get_batch.empty_quarter", windows=len(first), first=ends[0], last=ends[1])


def taken(output: Any, tokens: int, times: int, **_: Any) -> str:
    """Return a message on how much of the file a batch read into memory. It decides no points: the student's own process reports it."""
    size, read = 2 * tokens * times, output["read"]
    told = say("training.get_batch.took", read=read, size=size)
    return told if read < size / 10 else say("training.get_batch.took_all", given=told)


def by_the_generator(output: Any, batch: int, **_: Any) -> str:
    """Return "" if the generator, and nothing else, decides which windows are drawn; else a message."""
    batches = [output["rows"][i : i + batch] for i in range(0, len(output["rows"]), batch)]
    if output["again"] != batches[0]:
        return say("training.get_batch.other_batch")
    if all(rows == batches[0] for rows in batches):
        return say("training.get_batch.all_alike")
    return "" if output["global_state"] else say("training.get_batch.global_generator")


def in_small(matches: Callable[..., bool], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if every result satisfies `matches`, for files in which each number occurs once."""
    return for_cases(lambda case: case.group != "large", every(by_places(matches), sentence))


get_batch = Exercise(
    id="training.get_batch",
    track="more",
    signature="get_batch(path, split: 'train' or 'val', batch, context, generator) -> (tokens, targets), each (batch, context) int64",
    kind="formula",
    called="from a file",
    effort=Effort(minutes=15, lines=9, difficulty=2),
    cases=[
        batches("100 tokens, train", "plain"),
        batches("100 tokens, val", "plain", split="val", context=4),
        batches("63 tokens, train", "every", tokens=63, context=20, draws=80),
        batches("155 tokens, val", "every", tokens=155, split="val", context=5),
        batches("24 million tokens", "large", tokens=60_000, times=400, batch=256, draws=1),
    ],
    oracle=lambda **_: (0,),
    criteria=[
        Holds(by_places(pieces), 1, say("training.get_batch.title_plain")),
        Holds(by_places(shifted), 2, say("training.get_batch.title_plain_2")),
        Holds(by_places(inside), 2, say("training.get_batch.title_plain_3")),
        Holds(by_places(everywhere), 1, say("training.get_batch.title_every"), "every"),
        Holds(by_places(by_the_generator), 1, say("training.get_batch.title_plain_4")),
        Holds(by_places(far), 1, say("training.get_batch.title_large"), "large", told=taken),
    ],
    mistakes=[
        in_small(
            lambda output, **_: output["targets"] == output["rows"], say("training.get_batch.targets_are_the_tokens")
        ),
        in_small(
            lambda output, **_: (
                output["targets"] == [[token - 1 for token in row] for row in output["rows"]]
                or output["targets"] == [[token + 2 for token in row] for row in output["rows"]]
            ),
            say("training.get_batch.targets_overlap_by_one_too_few"),
        ),
        in_small(
            lambda output, context, **_: (
                output["targets"] == [list(range(r[-1] + 1, r[-1] + 1 + context)) for r in output["rows"]]
            ),
            say("training.get_batch.targets_are_the_window_behind"),
        ),
    ],
)
