"""A matplotlib figure that notebooks show once, with or without pyplot, and that stays legible on a dark page."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

INK = "#222222"  # text on the white page that every picture brings along


class Picture(Figure):
    """width, height in inches."""

    def __init__(self, width: float, height: float):
        super().__init__(figsize=(width, height), facecolor="white", layout="constrained", dpi=100)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()

    def caption(self, sentence: str) -> None:
        """One sentence below the picture that says what to see."""
        self.supxlabel(sentence, fontsize=10, color=INK)
