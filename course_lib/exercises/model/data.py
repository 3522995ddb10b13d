"""Batches of a text that is never read as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.criteria import Holds
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import fixed
from course_lib.mistakes import Mistake, every

READ = 4 << 20  # bytes of memory that a batch may take


def batches(name: str, group: str, /, **changes: Any) -> Case:
    """Make a case: a file of so many tokens, asked for batches of one split."""
    usual = {"tokens": 100, "split": "train", "batch": 8, "context": 7, "draws": 60, "seed": 1, "zeros": 0}
    return fixed(name, group, **(usual | changes))


def starts_of(tokens: int, split: str, context: int, zeros: int = 0) -> range:
    """List where the windows of a split may begin: they and their targets lie in it. The first nine tenths are for training."""
    count = tokens + zeros
    first, end = (0, count * 9 // 10) if split == "train" else (count * 9 // 10, count)
    return range(first, end - context)


def pieces(output: Any, batch: int, context: int, **_: Any) -> str:
    """Check that tokens are (batch, context) pieces of the text, int64; "" or a sentence."""
    if output["shape"] != [[batch, context]] * 2:
        return f"expected two tensors of shape {(batch, context)}, got {[tuple(shape) for shape in output['shape']]}"
    if output["dtype"] != ["int64", "int64"]:
        return f"expected int64, as an embedding takes it; got {' and '.join(output['dtype'])}"
    broken = next((row for row in output["rows"] if row != list(range(row[0], row[0] + context))), None)
    return f"tokens {broken} do not stand one behind the other in the file 0, 1, 2, ..." if broken else ""


def shifted(output: Any, **_: Any) -> str:
    """Check that each target is the token behind; "" or a sentence."""
    for row, target in zip(output["rows"], output["targets"], strict=True):
        if target != [token + 1 for token in row]:
            return f"for the tokens {row} the targets are {target}, not the token behind each"
    return ""


def inside(output: Any, tokens: int, split: str, context: int, zeros: int, **_: Any) -> str:
    """Check that windows and targets lie in their split; "" or a sentence."""
    may = starts_of(tokens, split, context, zeros)
    out = next((row for row in output["rows"] if row[0] not in may), None)
    return f"a window of {split!r} begins at {out[0]}; it may at {may[0]} to {may[-1]}" if out else ""


def everywhere(output: Any, tokens: int, split: str, context: int, zeros: int, **_: Any) -> str:
    """Check that every place of a split is drawn, sooner or later; "" or a sentence."""
    missing = set(starts_of(tokens, split, context, zeros)) - {row[0] for row in output["rows"]}
    seen = len(output["rows"])
    places = " or ".join(f"at {place}" for place in sorted({min(missing, default=0), max(missing, default=0)}))
    return f"of {seen} windows none begins {places}" if missing else ""


def by_the_generator(output: Any, **_: Any) -> str:
    """Check that the generator, and nothing else, decides which windows are drawn; "" or a sentence."""
    if not output["again"]:
        return "the generator was put back to an earlier state, and another batch came"
    if not output["moves"]:
        return "every batch is the first one"
    return "" if output["global_state"] else "torch's global generator has moved: draw from the one that is given"


def mapped(output: Any, tokens: int, zeros: int, **_: Any) -> str:
    """Check that a batch takes little memory, however long the file is; "" or a sentence."""
    read, size = output["read"], 2 * (tokens + zeros)
    return "" if read < READ else f"a batch read, or took, {read:,} bytes; the file has {size:,}"


def in_small(matches: Callable[..., bool], sentence: str) -> Mistake:
    """Say `sentence` if every result of a file without zeros is so."""
    say = every(matches, sentence)
    return lambda trials: say([t for t in trials if t.case.group != "large"])


get_batch = Exercise(
    id="model.get_batch",
    entry="get_batch",
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
        batches("24 million tokens", "large", zeros=24_000_000, draws=1),
    ],
    oracle=lambda **_: (0,),
    criteria=[
        Holds(pieces, 1, "pieces of the text"),
        Holds(shifted, 2, "targets are the next tokens"),
        Holds(inside, 2, "training and validation share no token"),
        Holds(everywhere, 1, "every place is drawn", "every"),
        Holds(by_the_generator, 1, "drawn by the generator"),
        Holds(mapped, 1, "the file is not read as a whole", "large"),
    ],
    hints=[
        "tokens = np.memmap(path, np.uint16, 'r') is an array that lies on the disk: an index reads what it names, and no more.",
        "The last window of a split begins `context` tokens before its last token, which is that window's last target.",
        "own = tokens[: len(tokens) * 9 // 10] or the rest; starts = torch.randint(len(own) - context, (batch,), "
        "generator=generator); rows of context + 1 tokens, as int64; return rows[:, :-1], rows[:, 1:].",
    ],
    mistakes=[
        in_small(
            lambda output, **_: output["targets"] == output["rows"],
            "The targets are the tokens themselves. A model that copies would be perfect: shift them by one.",
        ),
        in_small(
            lambda output, **_: (
                output["targets"] == [[token - 1 for token in row] for row in output["rows"]]
                or output["targets"] == [[token + 2 for token in row] for row in output["rows"]]
            ),
            "The targets are shifted by the wrong number: the target of token i is token i + 1.",
        ),
        in_small(
            lambda output, context, **_: (
                output["targets"] == [list(range(r[-1] + 1, r[-1] + 1 + context)) for r in output["rows"]]
            ),
            "The targets are the window behind. A causal model predicts at each place: shift by one token, not by a window.",
        ),
    ],
)
