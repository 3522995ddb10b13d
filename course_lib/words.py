"""How an answer is said in a sentence."""

from __future__ import annotations

from typing import Any


def in_words(output: Any) -> str:
    """Describe a logged result: "a tensor", "[a tensor, 3]", "{'x': a tensor}", "'2', a string"; at most 100 letters."""
    nested = isinstance(output, list) or (isinstance(output, dict) and set(output) != {"unsupported"})
    text = _nested(output) if nested else as_written(output)
    return text if len(text) <= 100 else f"{text[:96]} ..."


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if set(value) == {"unsupported"}:
        return as_written(value)
    return f"{{{', '.join(f'{key!r}: {_nested(each)}' for key, each in value.items())}}}"


def is_answer(value: Any) -> bool:
    """Tell whether a prediction was written down; `...` does not count."""
    return value is not None and value != {"unsupported": "a ellipsis"}


def as_written(value: Any) -> str:
    """Return a prediction as the student wrote it, or "no answer" for `...`."""
    if isinstance(value, dict) and set(value) == {"unsupported"}:
        kind = str(value["unsupported"])
        return "no answer" if not is_answer(value) else "a tensor" if kind.startswith("a tensor ") else kind
    return f"{value!r}, a string" if isinstance(value, str) else repr(value)
