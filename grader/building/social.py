"""The picture that a link to the site is shown with elsewhere: the mystery plot, measured, with the model of unit 05 over it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from course_lib.exercises.tiling.oracles import model_seconds
from course_lib.figures.tiling.mystery import TERA, measured_and_predicted
from tritontrace.colours import OTHERS, OURS
from tritontrace.picture import Picture, bare, on_white

WIDTH, HEIGHT = 12.0, 6.3  # inches, of 100 pixels: what other sites crop nothing of
FILE = "card.png"


@on_white
def card() -> Picture:
    """Draw the card for links to the site: measured and predicted throughput, for sizes that are multiples of 8."""
    sizes, measured, _, _ = measured_and_predicted(lambda sizes, **machine: None)
    _, _, model, _ = measured_and_predicted(
        lambda sizes, **machine: [2 * n**3 / model_seconds(n, **machine) for n in sizes]
    )
    figure = Picture(WIDTH, HEIGHT)
    ax = figure.subplots()
    shown = sizes % 8 == 0
    ax.plot(sizes[shown], measured[shown] / TERA, "o", color=OURS, markersize=6, label="measured on an H200")
    if model is not None:
        ax.plot(sizes[shown], model[shown] / TERA, color=OTHERS, linewidth=2.5, label="the model of unit 05")
    ax.set_ylim(0, 1.15 * float(np.max(measured)) / TERA)
    ax.set_xlabel("size of a matrix product", fontsize=18)
    ax.set_ylabel("TFLOP/s", fontsize=18)
    ax.tick_params(labelsize=15)
    ax.legend(frameon=False, fontsize=18, loc="lower right")
    bare(ax)
    figure.suptitle("From Strides to FlashAttention", fontsize=38, fontweight="bold", x=0.02, ha="left")
    ax.set_title("Write GPU kernels on any laptop; see every byte that they move.", fontsize=22, pad=16)
    return figure


def write(folder: Path) -> None:
    """Draw the card into a folder."""
    card().savefig(folder / FILE, format="png", dpi=100)
