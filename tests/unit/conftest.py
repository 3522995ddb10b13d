"""What the tests of the units' pictures share."""

from __future__ import annotations

from types import SimpleNamespace

import pictures
import pytest


@pytest.fixture(scope="module")
def picture(request):
    """A picture of the unit under test, by name, drawn once with the arguments in PICTURES."""
    unit = request.module.F.__name__.rpartition(".")[2]
    return lambda name: pictures.drawn(unit, name)


@pytest.fixture
def notebook():
    """The test runs as a cell of a notebook; images() are the pictures that it has put out so far."""
    InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    from IPython.utils.capture import capture_output

    pytest.importorskip("ipywidgets")
    InteractiveShell.instance()
    try:
        with capture_output() as shown:
            yield SimpleNamespace(images=lambda: [o for o in shown.outputs if "image/png" in o.data])
    finally:
        InteractiveShell.clear_instance()
