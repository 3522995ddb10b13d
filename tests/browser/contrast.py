"""How well text and figures stand out from what lies behind them: WCAG's contrast ratio, from 1 to 21."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import Locator

from tritontrace.picture import contrast

TEXT = 4.5  # what WCAG 2 asks of text
SIGN = 3.0  # and of a sign that is no text
SIGNS = "✓✗·≈◐○?▶▼"

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
