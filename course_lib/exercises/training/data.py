"""Batches of a text that is never read as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import fixed
from course_lib.mistakes import MistakeMatcher, every, for_cases
from course_lib.workloads.rehearsals import text

OFTEN = 3  # times as often as its share, and ten times more: no place of an even draw comes so often


def batches(name: str, group: str, /, **changes: Any) -> Case:
    """Make a case: a file of so many tokens, asked for batches of one split."""
    usual = {"tokens": 100, "split": "train", "batch": 8, "context": 7, "draws": 60, "seed": 1, "times": 1}
    return fixed(name, group, **(usual | changes))


def starts_of(tokens: int, split: str, context: int) -> range:
    """List where the windows of a split may begin: they and their targets lie in it. The first nine tenths are for training."""
    first, end = (0, tokens * 9 // 10) if split == "train" else (tokens * 9 // 10, tokens)
    return range(first, end - context)


@cache
def _place_of(tokens: int, seed: int) -> dict[int, int]:
    return {token: place for place, token in enumerate(text(tokens, seed).tolist())}


def by_places(problem: Callable[..., Any]) -> Callable[..., Any]:
    """Ask `problem` of an output in which each token is the place where it stands in the file, or -1: as if the file were 0, 1, 2, ..."""

    @wraps(problem)
    def asked(output: Any, tokens: int, seed: int, **arguments: Any) -> Any:
        place_of = _place_of(tokens, seed)

        def places(rows: Sequence[Sequence[int]]) -> list[list[int]]:
            return [[place_of.get(token, -1) for token in row] for row in rows]

        found = {**output, **{name: places(output[name]) for name in ("rows", "targets", "again")}}
        return problem(found, tokens=tokens, seed=seed, **arguments)

    return asked


def pieces(output: Any, batch: int, context: int, **_: Any) -> str:
    """Check that tokens are (batch, context) pieces of the text, int64; "" or a sentence."""
    if output["shape"] != [[batch, context]] * 2:
        return f"expected two tensors of shape {(batch, context)}, got {[tuple(shape) for shape in output['shape']]}"
    if output["dtype"] != ["int64", "int64"]:
        return f"expected int64, as an embedding takes it; got {' and '.join(output['dtype'])}"
    broken = next((row for row in output["rows"] if row != list(range(row[0], row[0] + context))), None)
    return f"tokens at {broken} of the file, which do not stand one behind the other" if broken else ""


def shifted(output: Any, **_: Any) -> str:
    """Check that each target is the token behind; "" or a sentence."""
    for row, target in zip(output["rows"], output["targets"], strict=True):
        if target != [place + 1 for place in row]:
            return f"for the tokens at {row} of the file the targets are those at {target}, not the token behind each"
    return ""


def inside(output: Any, tokens: int, split: str, context: int, **_: Any) -> str:
    """Check that windows and targets lie in their split; "" or a sentence."""
    may = starts_of(tokens, split, context)
    out = next((row for row in output["rows"] if row[0] not in may), None)
    return f"a window of {split!r} begins at {out[0]}; it may at {may[0]} to {may[-1]}" if out else ""


def everywhere(output: Any, tokens: int, split: str, context: int, **_: Any) -> str:
    """Check that every place of a split is drawn, sooner or later, and none much more often than its share; "" or a sentence."""
    may, drawn = starts_of(tokens, split, context), Counter(row[0] for row in output["rows"])
    missing = [place for place in may if place not in drawn]
    if missing:
        places = " or ".join(f"at {place}" for place in sorted({missing[0], missing[-1]}))
        last = ", the last place; torch.randint(n) gives 0 to n - 1" if missing == [may[-1]] else ""
        return f"of {drawn.total()} windows none begins {places}{last}"
    (place, often), share = drawn.most_common(1)[0], drawn.total() / len(may)
    return (
        f"of {drawn.total()} windows {often} begin at {place}; its share is {share:.0f}"
        if often > OFTEN * share + 10
        else ""
    )


def far(output: Any, tokens: int, split: str, context: int, times: int, **_: Any) -> str:
    """Check that windows come from each quarter of a split of a long file, and from no other; "" or a sentence."""
    may = starts_of(tokens * times, split, context)
    first = [row[0] * times for row in output["rows"]]  # of the places that hold this number, the first
    if out := next((place for place in first if not may[0] - times < place <= may[-1]), None):
        return f"a window of {split!r} begins near token {out:,}; it may at {may[0]:,} to {may[-1]:,}"
    quarters = {4 * (place - may[0]) // len(may) for place in first}
    empty = next((quarter for quarter in range(4) if quarter not in quarters), None)
    if empty is None:
        return ""
    ends = [may[0] + len(may) * edge // 4 for edge in (empty, empty + 1)]
    return f"of {len(first)} windows none begins between token {ends[0]:,} and token {ends[1]:,}"


def taken(output: Any, tokens: int, times: int, **_: Any) -> str:
    """Tell how much of the file a batch took. No points hang on it: the student's own process says it."""
    size, read = 2 * tokens * times, output["read"]
    told = f"holds; a batch read, or took, {read:,} bytes of a file of {size:,}"
    return told if read < size / 10 else f"{told}: np.memmap would read only what an index touches"


def by_the_generator(output: Any, batch: int, **_: Any) -> str:
    """Check that the generator, and nothing else, decides which windows are drawn; "" or a sentence."""
    batches = [output["rows"][i : i + batch] for i in range(0, len(output["rows"]), batch)]
    if output["again"] != batches[0]:
        return "the generator was put back to an earlier state, but it gave another batch"
    if all(rows == batches[0] for rows in batches):
        return "every batch is the first one"
    return "" if output["global_state"] else "torch's global generator was used: draw from the one that is given"


def in_small(matches: Callable[..., bool], sentence: str) -> MistakeMatcher:
    """Say `sentence` if every result of a file is so in which each number stands once."""
    return for_cases(lambda case: case.group != "large", every(by_places(matches), sentence))


get_batch = Exercise(
    id="training.get_batch",
    track="more",
    signature="get_batch(path, split: 'train' or 'val', batch, context, generator) -> (tokens, targets), each (batch, context) int64",
    kind="formula",
    called="from a file",
    minutes=15,
    difficulty=2,
    lines=9,
    cases=[
        batches("100 tokens, train", "plain"),
        batches("100 tokens, val", "plain", split="val", context=4),
        batches("63 tokens, train", "every", tokens=63, context=20, draws=80),
        batches("155 tokens, val", "every", tokens=155, split="val", context=5),
        batches("24 million tokens", "large", tokens=60_000, times=400, batch=256, draws=1),
    ],
    oracle=lambda **_: (0,),
    criteria=[
        Holds(by_places(pieces), 1, "pieces of the text"),
        Holds(by_places(shifted), 2, "targets are the next tokens"),
        Holds(by_places(inside), 2, "training and validation share no token"),
        Holds(by_places(everywhere), 1, "every place is drawn, none too often", "every"),
        Holds(by_places(by_the_generator), 1, "all random numbers from the generator"),
        Holds(by_places(far), 1, "windows from all parts of a long file", "large", told=taken),
    ],
    mistakes=[
        in_small(
            lambda output, **_: output["targets"] == output["rows"],
            say("training.get_batch.targets_are_the_tokens"),
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
