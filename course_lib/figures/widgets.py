"""Controls above a picture where there is a notebook; elsewhere the picture alone has to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure


def live() -> bool:
    """Whether there is a notebook to put controls into, and ipywidgets to make them."""
    try:
        import ipywidgets  # noqa: F401
        from IPython import get_ipython
    except ImportError:
        return False
    return get_ipython() is not None


class Explorer:
    """A picture and, above it, the controls that say what to draw. The picture is an output of its own, so that a notebook
    read without a live kernel still shows the last one.

    A subclass sets `controls`, the widget to show, watches them and draws once.
    """

    controls: Any
    _shown = None  # the handle of the picture once displayed

    def picture(self) -> Figure:
        """Draw the picture that the controls ask for now."""
        raise NotImplementedError

    def watch(self, *controls: Any) -> None:
        """Draw whenever the value of one of these changes."""
        for control in controls:
            control.observe(self.draw, names="value")

    def draw(self, _change: Any = None) -> None:
        self.figure = self.picture()
        self.png = self.figure._repr_png_()
        if self._shown:
            self._shown.update(self._image())

    def _image(self) -> Any:
        from IPython.display import Image

        return Image(self.png, alt=repr(self.figure))

    def _ipython_display_(self) -> None:
        from IPython.display import display

        _name(self.controls)
        display(self.controls)
        self._shown = display(self._image(), display_id=True)


def _name(control: Any) -> None:
    """Give each control a tooltip, by default what stands beside it: ipywidgets shows the word "null" for none."""
    if control.tooltip is None:
        control.tooltip = getattr(control, "description", "")
    for child in getattr(control, "children", ()):
        _name(child)


class Sliders(Explorer):
    """A control for each argument of a function that draws, by name.

    ends: the values of all controls, by name -> where those sliders end whose end depends on the others, by name
    """

    def __init__(
        self, function: Callable[..., Figure], ends: Callable[..., dict[str, int]] | None = None, **named: Any
    ):
        from ipywidgets import HBox, Layout

        self.function, self.named, self.ends, self._settling = function, named, ends, False
        self.controls = HBox(list(named.values()), layout=Layout(flex_flow="row wrap"))
        self.watch(*named.values())
        self.draw()

    @property
    def values(self) -> dict[str, Any]:
        return {name: control.value for name, control in self.named.items()}

    def draw(self, _change: Any = None) -> None:
        if self._settling:  # a slider whose end moves may have to move with it; the picture is drawn once, after that
            return
        self._settling = True
        for name, end in (self.ends(**self.values) if self.ends else {}).items():
            self.named[name].max = end
        self._settling = False
        super().draw()

    def picture(self) -> Figure:
        return self.function(**self.values)
