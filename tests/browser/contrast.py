"""How well text and figures stand out from what lies behind them: WCAG's contrast ratio, from 1 to 21."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.image import imread
from playwright.sync_api import Locator

from tritontrace.picture import contrast

TEXT = 4.5  # what WCAG 2 asks of text
SIGN = 3.0  # and of a sign that is no text
SIGNS = "✓✗·≈◐○?▶▼"
EDGE = 2  # pixels: an element's edge may fall between two, and show what lies behind

# Every piece of text below an element: [text, its colour, the colours behind it, innermost first], as CSS writes them.
TEXTS = """root => {
    const found = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
        if (!text || !element.checkVisibility() || element.closest('svg, script, style')) continue;
        const behind = [];
        for (let e = element; e; e = e.parentElement) behind.push(getComputedStyle(e).backgroundColor);
        found.push([text, getComputedStyle(element).color, behind]);
    }
    return found;
}"""


def over(css: str, ground: np.ndarray) -> np.ndarray:
    """A colour as getComputedStyle writes it, "rgb(1, 2, 3)" or "rgba(1, 2, 3, 0.5)", on an opaque ground."""
    *colour, alpha = [float(part) for part in css[css.index("(") + 1 : -1].split(",")] + [1.0] * (css.count(",") == 2)
    return alpha * np.array(colour) / 255 + (1 - alpha) * ground


def faint(element: Locator) -> list[str]:
    """A sentence for each text in an element that does not stand out from its ground."""
    sentences = []
    for text, colour, behind in element.evaluate(TEXTS):
        ground = np.ones(3)  # the browser's own page
        for layer in reversed(behind):
            ground = over(layer, ground)
        seen, wanted = float(contrast(over(colour, ground), ground)), SIGN if text in SIGNS else TEXT
        if seen < wanted:
            sentences.append(f"{text[:40]!r}: {seen:.1f}, not {wanted}")
    return sentences


def ink(element: Locator) -> np.ndarray:
    """(height, width) of bool: which pixels of an element, as it is on the screen, stand out like text from its commonest colour."""
    pixels = imread(io.BytesIO(element.screenshot()), format="png")[EDGE:-EDGE, EDGE:-EDGE, :3]
    packed = (255 * pixels).round().astype(int) @ [1 << 16, 1 << 8, 1]
    commonest = np.bincount(packed.ravel()).argmax()
    return contrast(pixels, np.array([commonest >> 16, commonest >> 8 & 255, commonest & 255]) / 255) >= TEXT
