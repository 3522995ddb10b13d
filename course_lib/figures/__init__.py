"""One module or package of pictures per unit: figures.coalescing.lanes_over_memory(stride=4).

Two belong to no unit. counters.py: what a trace predicts next to what a GPU's counters said; timed.py: your kernels on your card.
widgets.py has controls above pictures, scores.py the square of scores that two units
walk over, tile_maps.py the tiles of a mask.

A module is imported when it is first asked for, so that `from course_lib import figures` does not wait for matplotlib.
"""

from importlib import import_module
from pkgutil import iter_modules

__all__ = sorted({module.name for module in iter_modules(__path__)} - {"scores", "tile_maps", "widgets"})


def __getattr__(name: str):
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"There are no figures named {name!r}; there are {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return __all__
