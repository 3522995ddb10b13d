"""How an answer of a wrong kind is shown in a sentence."""

from __future__ import annotations

from typing import Any

from course_lib.criteria.results import as_written


def in_words(output: Any) -> str:
    """A logged result, as course_lib.observe gives it: "a tensor", "[a tensor, 3]", "'2', a string"; at most 100 letters."""
    text = _list(output) if isinstance(output, list) else as_written(output)
    return text if len(text) <= 100 else f"{text[:96]} ..."


def _list(items: list[Any]) -> str:
    parts = (_list(v) if isinstance(v, list) else as_written(v) if isinstance(v, dict) else repr(v) for v in items)
    return f"[{', '.join(parts)}]"
