"""The mystery plot: speed against size, and a model laid over it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from course_lib.exercises.tiling.oracles import dealt, rank_correlation
from course_lib.figures.flops import BRANCHES, speeds
from course_lib.figures.tiling.recording import TERA, whose, whose_are
from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.colours import IDLE, INK, OTHERS, OURS
from tritontrace.picture import WIDTH, Picture, bare, on_white
from tritontrace.profiling import bench

Predict = Callable[..., Any]


def measured_and_predicted(predict: Predict) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, str]:
    """Return sizes, measured FLOP/s, predicted FLOP/s (None if `predict` gives none), and on which GPU they were measured."""
    (curve, whose), (ceilings, _) = speeds("curve"), speeds("ceilings")
    sizes, measured = (np.array([point[i] for point in curve["points"]]) for i in (0, 1))
    sms = gpu.num_sms() if bench.has_gpu() else gpu.datasheet("H200").sms
    machine = {
        "sms": sms,
        "flops_per_second": ceilings["random"]["bf16"],
        "bytes_per_second": ceilings["copy_bytes_per_second"],
        "launch_seconds": 5e-6,
    }
    return sizes, measured, _called(predict, sizes, bm=128, bn=128, **machine), whose


def _called(predict: Predict, sizes: np.ndarray, **arguments: Any) -> np.ndarray | None:
    found = predict([int(n) for n in sizes], **arguments)
    try:
        found = np.array(found, dtype=float)
    except (TypeError, ValueError):
        return None
    return found if found.shape == sizes.shape and np.isfinite(found).all() and (found > 0).all() else None


@on_white
def predicted_against_measured(predict: Predict) -> Figure:
    """The mystery plot with a model laid over it, and model against measurement; the worst misses are named."""
    sizes, measured, model, whose = measured_and_predicted(predict)
    figure = Picture(WIDTH, 6.6)
    curve, ratio = figure.subplots(2, 1, height_ratios=[2, 1], sharex=True)
    even = sizes & -sizes
    for low, high, name, colour, marker in BRANCHES:
        chosen = (even >= low) & (even <= high)
        label = f"N is {name}" if name != "multiple of 8" else "N is a multiple of 8"
        curve.plot(
            sizes[chosen],
            measured[chosen] / TERA,
            marker=marker,
            markersize=4,
            color=colour,
            linestyle="none",
            label=label,
        )
        if model is not None:
            curve.plot(sizes[chosen], model[chosen] / TERA, color=colour, linewidth=1)
            ratio.plot(
                sizes[chosen],
                model[chosen] / measured[chosen],
                marker=marker,
                markersize=4,
                color=colour,
                linestyle="none",
            )
    curve.set(ylabel="TFLOP/s", ylim=(0, None), xlim=(0, None))
    curve.legend(frameon=False, loc="upper left")
    curve.set_title(f"marks: measured; lines: the model. {whose}")
    ratio.axhline(1, color=INK, linewidth=1)
    ratio.set(xlabel="N", ylabel="model / measured", yscale="log", ylim=(0.3, 2.5))
    ratio.set_yticks([0.5, 0.7, 1, 1.5, 2], ["0.5", "0.7", "1", "1.5", "2"])
    ratio.minorticks_off()
    for ax in (curve, ratio):
        ax.grid(alpha=0.3)
        bare(ax)
    if model is None:
        figure.caption("There is no model yet: solve predicted_throughput, and its curves appear here.")
        return figure
    for i in worst_misses(sizes, measured, model, 4, apart=128):
        place = (0, 9) if model[i] > measured[i] else (0, -13)
        ratio.annotate(
            sizes[i], (sizes[i], model[i] / measured[i]), xytext=place, textcoords="offset points", ha="center"
        )
    figure.caption(
        f"The rank correlation over {len(sizes)} sizes is {rank_correlation(model, measured):.3f}. The lower plot names the worst misses "
        "from N = 1024 on by their N."
    )
    return figure


def worst_misses(sizes: np.ndarray, measured: np.ndarray, model: np.ndarray, count: int, apart: int = 0) -> list[int]:
    """Return the indices of the sizes from 1024 on where the model is furthest off, as a factor; no two nearer than `apart`."""
    off = np.abs(np.log(model / measured)) * (sizes >= 1024)
    chosen: list[int] = []
    for i in np.argsort(-off):
        if len(chosen) < count and all(abs(sizes[i] - sizes[j]) >= apart for j in chosen):
            chosen.append(int(i))
    return chosen


def how_well(predict: Predict) -> str:
    """Return a table as text: rank correlations by kind of size, of the model, of it unaligned, and of size alone; the worst misses."""
    sizes, measured, model, whose = measured_and_predicted(predict)
    if model is None:
        return "solve predicted_throughput to see how well it predicts"
    kinds = [
        ("all sizes", sizes > 0),
        ("multiples of 8", sizes % 8 == 0),
        ("multiples of 8, from 2500 on", (sizes % 8 == 0) & (sizes >= 2500)),
        ("4 × odd", sizes % 8 == 4),
        ("2 × odd", sizes % 4 == 2),
        ("odd", sizes % 2 == 1),
    ]
    smooth = np.interp(sizes, sizes[sizes % 8 == 0], model[sizes % 8 == 0])  # as if every size were a multiple of 8
    lines = [
        f"rank correlation with the measured speeds ({whose})",
        f"{'':30}sizes   model   no alignment   size alone",
    ]
    for name, chosen in kinds:
        rho = [rank_correlation(y[chosen], measured[chosen]) for y in (model, smooth, sizes)]
        lines.append(f"{name:30}{chosen.sum():5}   {rho[0]:5.3f}   {rho[1]:12.3f}   {rho[2]:10.3f}")
    lines.append("worst misses, from N = 1024 on:")
    for i in worst_misses(sizes, measured, model, 5):
        tiles, count = dealt(int(sizes[i]), int(sizes[i]), 128, 128, 132)
        last = "in one wave of" if count == 1 else f"the last of {count} waves has"
        said = f"measured {measured[i] / TERA:4.0f}, predicted {model[i] / TERA:4.0f} TFLOP/s"
        lines.append(f"    N = {sizes[i]}: {said}; {tiles} tiles of 128 × 128, {last} {(tiles - 1) % 132 + 1}")
    return "\n".join(lines)


@on_white
def one_tile_for_all(predict: Predict) -> Figure:
    """Throughput of the published kernel with one tile against size, and the model for that tile."""
    found = measured("tiling")
    bm, bn, *_ = found["curve"]["tile"]
    sizes, speeds = (np.array([point[i] for point in found["curve"]["points"]]) for i in (0, 1))
    sms = gpu.datasheet("H200").sms
    counts = np.array([dealt(int(n), int(n), bm, bn, sms)[1] for n in sizes])
    used = sizes.astype(float) ** 2 / (counts * sms * bm * bn)
    full = (speeds / used)[sizes > 3000].max()  # what all SMs together reached, the idle ones counted as well
    model = _called(
        predict, sizes, bm=bm, bn=bn, sms=sms, flops_per_second=full, bytes_per_second=4.25e12, launch_seconds=5e-6
    )
    figure = Picture(WIDTH, 4.4)
    ax = figure.subplots()
    ax.plot(sizes, speeds / TERA, color=OURS, marker="o", markersize=4, linewidth=0.8, label="measured")
    if model is not None:
        ax.plot(sizes, model / TERA, color=OTHERS, linestyle="--", label="the model")
    for i in range(1, len(sizes)):
        if counts[i] > counts[i - 1]:
            ax.axvline((sizes[i] + sizes[i - 1]) / 2, color=IDLE, linewidth=1, zorder=0)
            ax.text((sizes[i] + sizes[i - 1]) / 2, 20, f" {counts[i]}", color=INK)
    ax.set(xlabel="N, multiples of 64 (a grey line: another wave begins)", ylabel="TFLOP/s", ylim=(0, None))
    ax.legend(frameon=False, loc="upper left")
    ax.set_title(f"the course's own matmul, tiles of {bm} × {bn} only, bfloat16\n{whose()}")
    bare(ax)
    if model is None:
        figure.caption(
            "At each grey line there is one more wave. Solve predicted_throughput, and the model appears here."
        )
        return figure
    figure.caption(
        f"With one tile for all sizes, the waves show as a sawtooth. The model's rank correlation is "
        f"{rank_correlation(model, speeds):.3f}; ranking by size alone gives {rank_correlation(sizes, speeds):.3f}."
    )
    return figure


def copied_first() -> str:
    """Return a table as text: times of a product of odd sizes, by cuBLAS, and with its matrices copied to longer rows first."""
    found = measured("matmul")["copied_first"]
    n, alone = found["n"], ("copy_in", "product", "copy_out")
    names = ("copies of a and b", "product of the copies", "copy of the result")
    lines = [f"({n}, {n}) @ ({n}, {n}), bfloat16; measured on {whose_are('matmul')}"]
    lines.append(
        f"    {'original, cuBLAS':24}{found['torch'] * 1e6:6.0f} us   {2 * n**3 / found['torch'] / TERA:4.0f} TFLOP/s"
    )
    lines.append(
        f"    {'copied, then multiplied':24}{found['whole'] * 1e6:6.0f} us   {2 * n**3 / found['whole'] / TERA:4.0f} TFLOP/s"
    )
    lines += [
        f"        {name:24}{found[part] * 1e6:6.0f} us, timed separately"
        for name, part in zip(names, alone, strict=True)
    ]
    lines.append(f"    {found['torch'] / found['whole']:.1f} times faster, three copies included")
    return "\n".join(lines)


def vocabulary() -> str:
    """Return a table as text: times of GPT-2's last layer with its vocabulary as it is, and padded."""
    rows = measured("tiling")["vocabulary"]
    lines = [f"(8192, 768) @ (768, vocabulary), bfloat16; {whose()}"]
    for row in rows:
        flops = 2 * 8192 * 768 * row["vocabulary"]
        lines.append(
            f"    {row['vocabulary']}: {row['seconds'] * 1e3:.2f} ms, {flops / row['seconds'] / TERA:.0f} TFLOP/s"
        )
    faster, more = rows[0]["seconds"] / rows[1]["seconds"], rows[1]["vocabulary"] - rows[0]["vocabulary"]
    lines.append(f"    {faster:.1f} times faster with {more} more columns")
    return "\n".join(lines)
