"""The one table of colours: a picture, a verdict and a page take theirs by what they mean. It needs no library."""

from __future__ import annotations

__all__ = [
    "ALUS",
    "ATOMIC",
    "CLEAR",
    "CONTROL",
    "DARK",
    "DONE",
    "DRAM",
    "EDGE",
    "FAINT",
    "FIVE",
    "FOUR",
    "GREEN_INK",
    "HOLDS",
    "IDLE",
    "INK",
    "L2",
    "LEFT",
    "LIBRARIES",
    "LIMIT",
    "LOADED",
    "NOW",
    "ONE",
    "OTHERS",
    "OURS",
    "PAPER",
    "PART",
    "PARTLY",
    "READ",
    "RED_INK",
    "REGISTERS",
    "RESULT",
    "RIGHT",
    "SHARED",
    "THINNED",
    "THREE",
    "TWO",
    "WASTE",
    "WRITTEN",
    "WRONG",
    "paler",
    "sheer",
]

INK = "#222222"  # text on the page's ground: in a live notebook it takes the colour of the page's text
PAPER = "#ffffff"  # the page's ground, in a drawing
CLEAR = (1.0, 1.0, 1.0, 0.0)  # the page's ground, in an image
DARK = "#111111"  # text on a colour, which is the same in every theme

# Okabe and Ito's colours, told apart by colour-blind eyes, and greys. Nothing but this table names them
BLUE, ORANGE, GREEN, RED, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9"
YELLOW, PURPLE, AMBER = "#F0E442", "#CC79A7", "#B8860B"
MID_GREY, DARK_GREY = "#949494", "#767676"

THINNED: dict[str, tuple[str, float]] = {}
"""A colour that `paler` made -> the colour that it is made of, and its share: the rest is the page's ground."""


def paler(colour: str, share: float) -> str:
    """Blend a colour with white, of which it covers this share: "#rrggbb". On a page of another ground it covers that one.

    >>> paler("#000000", 0.5), paler("#ff0000", 0.0)
    ('#808080', '#ffffff')
    """
    whole, of_it = THINNED.get(colour, (colour, 1.0))
    parts = (int(whole[at : at + 2], 16) / 255 for at in (1, 3, 5))
    made = "#" + "".join(f"{round(255 * (1 - share * of_it * (1 - part))):02x}" for part in parts)
    if 0 < share * of_it < 1:
        THINNED[made] = (whole, share * of_it)
    return made


def sheer(colour: str) -> tuple[float, float, float, float]:
    """Return the RGBA of a colour for a part of an image, which cannot follow the page: the ground shines through what `paler` made.

    >>> sheer("#ff0000"), sheer(paler("#0000ff", 0.5))
    ((1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.5))
    """
    whole, share = THINNED.get(colour, (colour, 1.0))
    red, green, blue = (int(whole[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue, share


# Everywhere
WRONG, LIMIT = RED, RED
"""A mistake | what must not be crossed, and what crosses it."""
WASTE, IDLE, EDGE, FAINT = paler(ORANGE, 0.3), paler(DARK_GREY, 0.28), DARK_GREY, paler(DARK_GREY, 0.07)
"""Moved or computed for nothing | not used, or not yet | outlines, and lines that are no subject | a ground that sets something apart."""
# Verdicts
HOLDS, PARTLY = GREEN, AMBER
"""Right | right in part, or right and wasteful."""
# Matrices, and kernels on them
LEFT, RIGHT, RESULT, PART = SKY, ORANGE, GREEN, paler(GREEN, 0.35)
"""a, q | b, k, v | c, o, and what is added to what is kept for them | what was kept, and is not stored yet."""
NOW, LOADED, DONE = YELLOW, SKY, BLUE
"""This step, hatched | on the chip | asked for, used, seen."""
READ, WRITTEN, ATOMIC = BLUE, ORANGE, GREEN
# Chips, and their memories from near to far
ALUS, CONTROL = BLUE, ORANGE
"""What computes | what decides, and tensor cores next to ALUs."""
REGISTERS, SHARED, L2, DRAM = PURPLE, SKY, paler(SKY, 0.45), GREEN
"""A lane's | an SM's, with L1, and a core's caches | a cache for the whole chip | beside the chip: HBM."""
# Curves and bars
OURS, OTHERS, LIBRARIES = BLUE, ORANGE, MID_GREY
"""One's own kernel, and what a picture is about | what it is compared with | torch's own kernels, cuBLAS's, FlashAttention-2."""
ONE, TWO, THREE, FOUR, FIVE = BLUE, ORANGE, GREEN, SKY, PURPLE
"""Things of one kind, whose colours say that they differ."""
RED_INK, GREEN_INK = "#B34E00", "#007A59"  # for text on white, where RED and GREEN are too faint
