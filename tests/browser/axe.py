"""axe-core on a page: what shuts out readers who use a keyboard, a screen reader, or little light."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

SERIOUS = {"serious", "critical"}


def serious(page: Page, within: str | None = None) -> dict[str, list[str]]:
    """Name of a rule -> the elements that break it, where axe calls that serious. within: a selector of what is looked at."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is in the extra `browser`")
    page.wait_for_timeout(500)  # colours of a page that opens may still be on their way
    violations = axe.Axe().run(page, context=within).response["violations"]
    return {
        violation["id"]: [node["html"][:200] for node in violation["nodes"]]
        for violation in violations
        if violation["impact"] in SERIOUS
    }
