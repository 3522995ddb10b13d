"""Maps of wrong products whose causes are to be named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from course_lib.exercises.tiling.naming import MAPS
from tritontrace.colours import INK, WRONG, sheer
from tritontrace.picture import WIDTH, Picture, on_white

SIDE = 4  # elements along each side of a patch


@on_white
def name_maps() -> Figure:
    """Draw the six maps, each (100, 80), with the edges of tiles of 32 x 32."""
    return error_maps(
        MAPS,
        "row of c",
        "column of c",
        "These are the results of six wrong kernels for c = a @ b, (100, 72) times (72, 80), in tiles of 32 x 32 (dotted). Look at "
        "where each result is wrong, and where it is right.",
    )


def error_maps(
    maps: Mapping[str, Sequence[str]], row: str, column: str, caption: str, strips: Sequence[str] = ()
) -> Figure:
    """Draw six maps, rows of digits for patches of 4 x 4 elements, with the edges of tiles of 32 x 32.

    strips  names of tensors of 32 columns that stand side by side
    """
    figure = Picture(WIDTH, 6.2)
    shades = LinearSegmentedColormap.from_list("wrong", [(*sheer(WRONG)[:3], 0.0), WRONG])
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for ax, (name, digits) in zip(axes.flat, maps.items(), strict=True):
        shares = np.array([[int(digit) for digit in row] for row in digits]) / 9
        rows, columns = (SIDE * n for n in shares.shape)
        image = ax.imshow(shares, cmap=shades, vmin=0, vmax=1, extent=(0, columns, rows, 0))
        for edge in range(32, rows, 32):
            ax.axhline(edge, color=INK, linewidth=0.6, linestyle=":")
        for edge in range(32, columns, 32):
            ax.axvline(edge, color=INK, linewidth=0.6, linestyle=":")
        ax.set_title(f"map {name}")
        if strips:
            ax.set_xticks([16 + 32 * i for i in range(len(strips))], strips)
            for edge in range(32, columns, 32):
                ax.axvline(edge, color=INK, linewidth=1.5)
        else:
            ax.set_xticks([0, 32, 64, min(columns, 96)])
        ax.set_yticks([0, 32, 64, 96])
    figure.supylabel(row, fontsize=10, color=INK)
    for ax in axes[1]:
        ax.set_xlabel(column)
    figure.colorbar(image, ax=axes, label="share of a patch of 4 x 4 elements that is wrong", shrink=0.7)
    figure.caption(caption)
    return figure
