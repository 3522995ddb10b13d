"""Bytes of a cache, texts that fit, and seconds a token."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import correct
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import BF16, FP32, fixed
from course_lib.mistakes import every, for_cases


def cache_bytes(
    layers: int, kv_heads: int, head_dim: int, itemsize: int, tokens: int, window: int | None = None
) -> int:
    """Count the bytes of one text's key-value caches, from tensors on the meta device."""
    dtype = {2: BF16, 4: FP32}[itemsize]
    kept = tokens if window is None else min(tokens, window)
    layer = [torch.empty(kv_heads, kept, head_dim, dtype=dtype, device="meta") for _ in range(2)]
    return layers * sum(x.nbytes for x in layer)


def counted(config: dict[str, Any], tokens: int, memory: int, bandwidth: float) -> tuple[int, int, float]:
    """Return (bytes of a text's cache, the most texts that fit beside the weights, seconds of a token for all of these texts)."""
    rest = {name: value for name, value in config.items() if name != "parameters"}
    weights = config["parameters"] * config["itemsize"]
    of_text, texts, left = cache_bytes(**rest, tokens=tokens), 0, memory - weights
    while left >= of_text:
        texts, left = texts + 1, left - of_text
    return of_text, texts, (weights + texts * of_text) / bandwidth


NO_WINDOW = say("serving.capacity.the_window_forgotten")


def _without_a_window(output: Any, config: dict[str, Any], **run: Any) -> bool:
    return isinstance(output, list) and output == list(counted(config=config | {"window": None}, **run))


def _fewer_than_none(output: Any, **run: Any) -> bool:
    return isinstance(output, list) and len(output) == 3 and type(output[1]) in (int, float) and output[1] < 0


def _three(matches: Callable[..., bool]) -> Callable[..., bool]:
    """Make a function that tells whether a result is three numbers, and matches(*these, **arguments)."""

    def look(output: Any, **run: Any) -> bool:
        numbers = isinstance(output, list) and len(output) == 3 and all(type(x) in (int, float) for x in output)
        return numbers and matches(*output, **run)

    return look


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9)


def _two_bytes(of_text: int, texts: int, seconds: float, config: dict[str, Any], memory: int, **run: Any) -> bool:
    """Whether the weights, where numbers have 4 bytes, are counted with 2 of them."""
    right = counted(config=config, memory=memory, **run)
    if config["itemsize"] == 2:
        return (of_text, texts) == right[:2]
    return (of_text, texts) == (right[0], (memory - 2 * config["parameters"]) // right[0])


def question(name: str, group: str, memory: int, tokens: int, bandwidth: float = 4.8e12, **config: Any):
    """Make a case: a model, the length of its texts, a GPU's memory in bytes and its bandwidth in bytes a second."""
    given = dict(layers=32, kv_heads=8, head_dim=128, itemsize=2, window=None, parameters=8 * 10**9) | config
    return fixed(name, group, config=given, tokens=tokens, memory=memory, bandwidth=bandwidth)


capacity = Exercise(
    id="serving.capacity",
    signature="capacity(config, tokens, memory, bandwidth) -> (kv_bytes, largest_batch, decode_seconds)",
    kind="formula",
    effort=Effort(minutes=12, lines=8, difficulty=2),
    cases=[
        question("8 B parameters, 8192 tokens, 141 GB", "plain", 141 * 10**9, 8192),
        question("every head of its own", "heads", 141 * 10**9, 8192, kv_heads=32),
        question("one head, float32", "heads", 80 * 10**9, 30000, kv_heads=1, itemsize=4, bandwidth=3.35e12),
        question("a window of 4096", "window", 80 * 10**9, 32768, window=4096),
        question("a window that is not full", "window", 40 * 10**9, 1000, window=4096),
        question("weights that do not fit", "edges", 10**10, 8192),
        question("no room for a text", "edges", 16 * 10**9 + 1000, 8192),
        question("room for one, to the byte", "edges", 16 * 10**9 + 2**30, 8192),
    ],
    oracle=counted,
    criteria=correct("serving.capacity", {"plain": 2, "heads": 1, "window": 1, "edges": 1}),
    mistakes=[
        for_cases(
            lambda case: case.name == "weights that do not fit",
            every(_fewer_than_none, say("serving.capacity.fewer_than_none")),
        ),
        for_cases(lambda case: case.name == "a window of 4096", every(_without_a_window, NO_WINDOW)),
        for_cases(
            lambda case: case.name == "a window that is not full",
            every(
                _three(
                    lambda of_text, texts, seconds, config, tokens, **run: (
                        of_text == counted(config, config["window"], **run)[0]
                    )
                ),
                say("serving.capacity.the_window_for_all"),
            ),
        ),
        every(
            _three(lambda of_text, texts, seconds, **run: 2 * of_text == counted(**run)[0]),
            say("serving.capacity.k_or_v_alone"),
        ),
        every(
            _three(lambda of_text, texts, seconds, bandwidth, **_: _near(seconds * bandwidth, texts * of_text)),
            say("serving.capacity.weights_are_read"),
        ),
        every(
            _three(
                lambda of_text, texts, seconds, config, bandwidth, **_: _near(
                    seconds * bandwidth, texts * (of_text + config["parameters"] * config["itemsize"])
                )
            ),
            say("serving.capacity.weights_of_each_text"),
        ),
        every(_three(_two_bytes), say("serving.capacity.two_bytes")),
    ],
)

EXERCISES = (capacity,)
