"""Mistakes with dtypes, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from course_lib.catalogue import say
from course_lib.exercise import Trial
from course_lib.exercises.dtypes.oracles import quantized, same, traced_intensity, truth
from course_lib.mistakes import MistakeMatcher, every, on_exception


def outputs_of(trials: Sequence[Trial], *groups: str) -> list[torch.Tensor]:
    """Collect the floating-point tensors that calls of these groups returned."""
    found = [o for t in trials if t.case.group in groups for o in t.evidence.outputs]
    return [o for o in found if isinstance(o, torch.Tensor) and o.is_floating_point()]


def any_of(test: Callable[[torch.Tensor], torch.Tensor], groups: Sequence[str], sentence: str):
    """Make a matcher that returns `sentence` if an output of these groups has an element for which `test` is true."""
    return lambda trials: sentence if any(bool(test(o).any()) for o in outputs_of(trials, *groups)) else ""


def if_plain_is_right(look: MistakeMatcher):
    """Restrict a matcher to answers whose plain results are within 1 %; otherwise something else is wrong."""

    def guarded(trials: Sequence[Trial]) -> str:
        for t in trials:
            if t.case.group == "plain":
                for call, out in t.calls:
                    right = call["scale"] * call["x"].double() ** 2
                    if not isinstance(out, torch.Tensor) or out.shape != right.shape:
                        return ""
                    if not torch.allclose(out.double(), right, rtol=0.01):
                        return ""
        return look(trials)

    return guarded


def times(factor: float, sentence: str, right: Callable[..., float]) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if every result is `factor` times the right one."""
    return every(
        lambda out, /, **call: type(out) in (int, float) and math.isclose(out, factor * right(**call), rel_tol=1e-6),
        sentence,
    )


def upside_down(trials: Sequence[Trial]) -> str:
    """Return a remark if the intensity is inverted (bytes / FLOPs) in each result, else ""."""
    pairs = [(c, o) for t in trials for c, o in t.calls]
    turned = pairs and all(type(o) in (int, float) and o * traced_intensity(**c) == 1 for c, o in pairs)
    return say("dtypes.relu_intensity.bytes_per_operation") if turned else ""


renamed = on_exception("unexpected keyword argument", say("dtypes.relu_intensity.another_name"))


def no_hidden_one(trials: Sequence[Trial]) -> str:
    """Return a remark if each normal number came out without the implicit 1 of its mantissa, else ""."""
    found = []
    for t in trials:
        for call, out in t.calls:
            if t.case.group == "normal" and isinstance(out, list) and len(out) == len(call["patterns"]):
                read = truth(call["exponent_bits"], call["mantissa_bits"])
                for pattern, number in zip(call["patterns"], out, strict=True):
                    power = read(pattern >> call["mantissa_bits"] << call["mantissa_bits"])  # the same with mantissa 0
                    found.append(same(number, read(pattern) - power))
    return say("dtypes.decode_float.forgets_the_hidden_1") if found and all(found) else ""


def wraps_around(trials: Sequence[Trial]) -> str:
    """Return a remark if some q is off by about 256 steps, else ""."""
    for t in trials:
        for call, out in t.calls:
            found = quantized(out, call["x"])
            if not isinstance(found, str):
                q, scale = found[0].double(), found[1].double()[:, None]
                steps = (q * scale - call["x"]).abs() / scale
                if bool((steps < 0.51).double().mean() > 0.5) and bool(((steps - 256).abs() < 2).any()):
                    largest = call["x"].abs().amax(1).double()
                    by_128 = torch.allclose(found[1].double() * 128, largest, rtol=1e-3)
                    return say("dtypes.quantize_rows.by_128" if by_128 else "dtypes.quantize_rows.not_the_largest")
    return ""


def nan_where_all_is_masked(trials: Sequence[Trial]) -> str:
    """Return a remark if the rows of nothing but -inf came out as NaN, and no others, else ""."""
    masked = [p for t in trials if t.case.group == "masked" for p in t.calls]
    empty = [(call["x"].isneginf().all(1), out) for call, out in masked]
    found = empty and all(isinstance(out, torch.Tensor) and torch.equal(out.isnan(), rows) for rows, out in empty)
    return say("dtypes.stable_logsumexp.a_masked_row_is_nan") if found else ""


def cut_off(trials: Sequence[Trial]) -> str:
    """Return a remark if every q is x / scale truncated rather than rounded, and that makes a difference; else ""."""
    cut, matters = [], False
    for t in trials:
        for call, out in t.calls:
            found = quantized(out, call["x"])
            if not isinstance(found, str) and t.case.group in ("plain", "sizes"):
                steps = call["x"] / found[1][:, None]
                cut.append(bool((steps.abs() < 128).all()) and torch.equal(found[0], steps.trunc().to(torch.int8)))
                matters |= not torch.equal(steps.trunc(), steps.round())
    return say("dtypes.quantize_rows.cuts_off") if matters and all(cut) else ""
