"""All that attributes lead to, from what a kernel may name."""

import contextlib
import types
from collections.abc import Sequence
from typing import Any

from tritontrace.replay.names import AllowedNames


def reached(names: AllowedNames, start: Sequence[Any]) -> list[tuple[str, Any]]:
    """(name, object) of all that the attributes which a kernel may ask for lead to, from these objects on."""
    waiting, seen, found = list(start), {}, []
    asked = names.attributes.union(*names.public.values())
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        for name in asked:
            if isinstance(value, types.ModuleType) and name not in names.public[value.__name__] | names.attributes:
                continue
            with contextlib.suppress(Exception):
                one = getattr(value, name)
                found.append((f"{value!r:.40}.{name}", one))
                if not isinstance(one, (types.MethodType, types.BuiltinMethodType)):
                    waiting.append(one)
    return found
