"""How an answer is said in a sentence."""

from __future__ import annotations

from typing import Any


def in_words(output: Any) -> str:
    """A logged result: "a tensor", "[a tensor, 3]", "'2', a string"; at most 100 letters."""
    text = _list(output) if isinstance(output, list) else as_written(output)
    return text if len(text) <= 100 else f"{text[:96]} ..."


def _list(items: list[Any]) -> str:
    parts = (_list(v) if isinstance(v, list) else as_written(v) if isinstance(v, dict) else repr(v) for v in items)
    return f"[{', '.join(parts)}]"


def is_answer(value: Any) -> bool:
    """Tell whether a prediction was written down; `...` does not count."""
    return value is not None and value != {"unsupported": "a ellipsis"}


def as_written(value: Any) -> str:
    """Return a prediction as the student wrote it, or "no answer" for `...`."""
    if isinstance(value, dict) and set(value) == {"unsupported"}:
        kind = str(value["unsupported"])
        return "no answer" if not is_answer(value) else "a tensor" if kind.startswith("a tensor ") else kind
    return f"{value!r}, a string" if isinstance(value, str) else repr(value)
