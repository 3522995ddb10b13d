"""The tables of results/model.md, made of what model.py recorded."""

from __future__ import annotations

import math
import statistics
from typing import Any


def tables(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    peak_flops, bandwidth = found["peak_flops"], found["bandwidth"]
    lines = [
        "# A model of 1.1 B parameters",
        "",
        f"{found['gpu']}, {found['date']}, torch {found['torch']}, Triton {found['triton']}, cuDNN {found['cudnn']}; "
        f"{found['parameters'] / 1e9:.2f} B parameters in bfloat16; by `python benchmarks/model.py`. MFU: useful FLOPs, of the "
        f"datasheet's {peak_flops / 1e12:.0f} TFLOP/s; what a kernel computes twice counts once. MBU: bytes of weights and caches, each "
        f"once, of {bandwidth / 1e12:.2f} TB/s. All ways of a table were timed in turns; numbers are medians. Attention in Gluon is "
        "that of attention_in_turns.py and attention_backward_overlapped.py in research/, for which k and v are repeated.",
    ]
    if t := found.get("training"):
        lines += ["", f"## Training, {t['batch']} texts of {t['length']} tokens", ""]
        lines += [
            "A step is forward, backward and AdamW with float32 masters, the course's in all rows.",
            "",
            *of_steps(t, found),
        ]
    if t := found.get("under_compile"):
        lines += [
            "",
            "## Attention alone is another, all else is torch.compile's",
            "",
            *of_steps(t, found, "torch.compile, cuDNN"),
        ]
    if t := found.get("scores"):
        lines += ["", f"## The same, {t['batch']} x {t['length']} tokens", "", *of_steps(t, found)]
    if t := found.get("prefill"):
        lines += ["", f"## Prefill: {t['batch']} x {t['length']} tokens into the caches", ""]
        rows = []
        for name, way in t["ways"].items():
            seconds = way["ms"] / 1e3
            tokens, mfu = t["batch"] * t["length"] / seconds, t["flops"] / seconds / peak_flops
            rows.append([name, f"{way['ms']:.2f}", f"{tokens:,.0f}", f"{mfu:.3f}"])
        lines += table(["way", "ms", "tokens/s", "MFU"], rows)
    if t := found.get("decode"):
        lines += ["", f"## Decoding: one more token after {t['after']}", ""]
        rows = []
        for row in t["rows"]:
            seconds = row["ms"] / 1e3
            rate = row["bytes"] / seconds
            of_a_copy = f"{rate / t['copy']:.3f}" if "copy" in t else ""
            numbers = f"{row['ms']:.3f}", f"{row['batch'] / seconds:,.0f}", f"{rate / bandwidth:.3f}", of_a_copy
            rows.append([row["batch"], row["way"], *numbers])
        lines += table(["texts", "way", "ms", "tokens/s", "MBU", "of a copy"], rows)
        if "copy" in t:
            lines += ["", f"A copy of 1 GiB in the same run reads and writes {t['copy'] / 1e12:.2f} TB/s."]
        apart = ", ".join(f"{row['logits_apart']:.1e}" for row in t["rows"] if "logits_apart" in row)
        lines += ["", f"Logits, the course's and torch's, relative difference: {apart}."]
    if t := found.get("optimizer"):
        lines += ["", "## AdamW, 28 bytes per parameter", ""]
        rows = [[name, f"{way['ms']:.2f}", f"{t['bytes'] / way['ms'] / 1e9:.2f}"] for name, way in t["ways"].items()]
        lines += table(["way", "ms", "TB/s"], rows)
    if t := found.get("right"):
        lines += ["", "## How far from torch with FlashAttention-2", ""]
        numbers = ("loss_apart", "median_gradient", "worst_gradient")
        rows = [[name, *(f"{off[each]:.1e}" for each in numbers)] for name, off in t.items()]
        lines += table(["way", "loss", "gradients, median", "worst"], rows)
    return "\n".join(lines) + "\n"


def table(heads: list[str], rows: list[list[Any]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows)]


def of_steps(t: dict[str, Any], found: dict[str, Any], one: str = "torch, cuDNN") -> list[str]:
    """A row for each way; speeds are medians of the ratio to that of `one`, round by round."""
    base, rows = t["ways"].get(one, {}).get("step_all_ms"), []
    for name, way in t["ways"].items():
        if "step_ms" not in way:
            rows.append([name, "does not fit", *[""] * 5])
            continue
        seconds = way["step_ms"] / 1e3
        ratio = statistics.median(a / b for a, b in zip(base, way["step_all_ms"], strict=True)) if base else math.nan
        rates = f"{t['batch'] * t['length'] / seconds:,.0f}", f"{t['flops'] / seconds / found['peak_flops']:.3f}"
        forward = f"{way['forward_ms']:.1f}" if "forward_ms" in way else ""
        rows.append([name, forward, f"{way['step_ms']:.1f}", f"{ratio:.2f}", *rates, f"{way['peak_bytes'] / 1e9:.1f}"])
    return table(["way", "forward ms", "step ms", f"speed ({one}: 1)", "tokens/s", "MFU", "peak GB"], rows)
