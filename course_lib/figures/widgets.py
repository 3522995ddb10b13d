"""Controls above a picture where there is a notebook; elsewhere the picture alone has to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from tritontrace.picture import live

__all__ = ["Explorer", "Sliders", "choice", "explore", "live", "slider", "stops", "switch"]

TRACK = "420px"  # of a slider with its name and its value: 240 of them are left to move along
# ipywidgets names neither the handle that one moves nor the buttons that play: a screen reader calls them "slider" and "button"
NAMES = """<script>for (const wait of [0, 500, 2000]) setTimeout(() => {
for (const handle of document.querySelectorAll(".jupyter-widgets .noUi-handle:not([aria-label])"))
  handle.setAttribute("aria-label", handle.closest(".jupyter-widgets").querySelector("label")?.textContent ?? "");
for (const player of document.querySelectorAll(".widget-play"))
  player.querySelectorAll("button").forEach((button, i) => button.setAttribute("aria-label", ["play", "stop", "repeat"][i]));
}, wait);</script>"""


class Explorer:
    """A picture and, above it, the controls that say what to draw. The picture is an output of its own, so that a notebook
    read without a live kernel still shows the last one.

    A subclass sets `controls`, the widget to show, watches them and draws once.
    """

    controls: Any
    _handle = None  # of the picture once displayed

    @cached_property
    def places(self) -> dict:
        """Return the places of the axes in the pictures drawn so far: Picture.places."""
        return {}

    def picture(self) -> Figure:
        """Draw the picture for the current values of the controls."""
        raise NotImplementedError

    def watch(self, *controls: Any) -> None:
        """Redraw whenever the value of one of these controls changes."""
        for control in controls:
            control.observe(self.draw, names="value")

    def draw(self, _change: Any = None) -> None:
        self.figure = self.picture()
        self.figure.places = self.places
        self._bundle = self.figure._repr_mimebundle_()  # once: drawing takes most of the time
        if self._handle:
            data, metadata = self._with_names()
            self._handle.update(data, metadata=metadata, raw=True)

    def _with_names(self) -> tuple[dict, dict]:
        """The picture for a page that has the controls, too."""
        data, metadata = self._bundle
        return data | ({"text/html": data["text/html"] + NAMES} if "text/html" in data else {}), metadata

    @property
    def shown(self) -> str | bytes:
        """Return the picture as it is shown now: HTML in a live notebook, else a PNG."""
        return next(iter(self._bundle[0].values()))

    def _ipython_display_(self) -> None:
        from IPython.display import display

        _prepare(self.controls)
        words = ", ".join(dict.fromkeys(filter(None, _descriptions(self.controls))))
        note = {"text/plain": f"Controls, live in JupyterLab: {words}"}
        display(self.controls._repr_mimebundle_() | note, raw=True)
        data, metadata = self._with_names()
        self._handle = display(data, metadata=metadata, raw=True, display_id=True)


def _prepare(control: Any) -> None:
    """Give each control a tooltip, by default what stands beside it: ipywidgets shows the word "null" for none. Sliders get a track."""
    if control.tooltip is None:
        control.tooltip = getattr(control, "description", "")
    if "Slider" in type(control).__name__:
        control.layout.width = TRACK
    for child in getattr(control, "children", ()):
        _prepare(child)


def _descriptions(control: Any) -> list[str]:
    """List the words next to the controls of a box, in order."""
    inside = [name for child in getattr(control, "children", ()) for name in _descriptions(child)]
    return [getattr(control, "description", ""), *inside]


def _player(slider: Any) -> Any:
    """Make the buttons that move a slider on, a step in 0.8 seconds, and stop it."""
    from ipywidgets import Play, link

    ends = {end: getattr(slider, end) for end in ("value", "min", "max", "step")}
    player = Play(**ends, interval=800, tooltip="move on by itself")
    link((player, "max"), (slider, "max"))
    link((player, "value"), (slider, "value"))
    return player


def _preset(slider: Any, value: Any) -> Any:
    """Make a button that gives a slider a value which tells something."""
    from ipywidgets import Button, Layout

    button = Button(description=f"{slider.description} {value}", layout=Layout(width="auto"))
    button.add_class("preset")
    button.on_click(lambda _: setattr(slider, "value", value))
    return button


class Sliders(Explorer):
    """A control for each argument of a function that draws, by name.

    ends: the values of all controls, by name -> where those sliders end whose end depends on the others, by name
    play: the name of a slider that buttons move on, step by step
    telling: values of the first control that have a button each
    """

    def __init__(
        self,
        function: Callable[..., Figure],
        ends: Callable[..., dict[str, int]] | None = None,
        play: str = "",
        telling: Sequence[Any] = (),
        **named: Any,
    ):
        from ipywidgets import HBox, Layout

        self.function, self.named, self.ends, self._settling = function, named, ends, False
        self.play, self.telling = named.get(play), telling
        moving = [_player(named[play])] if play else []
        presets = [_preset(next(iter(named.values())), value) for value in telling]
        self.controls = HBox([*named.values(), *moving, *presets], layout=Layout(flex_flow="row wrap"))
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


class Control(NamedTuple):
    """Control of an argument, before there is a notebook to show it in. kind: its class in ipywidgets."""

    kind: str
    options: dict[str, Any]


def slider(name: str, low: int, high: int, step: int = 1) -> Control:
    """Slide over numbers."""
    return Control("IntSlider", dict(description=name, min=low, max=high, step=step))


def stops(name: str, options: Sequence[Any]) -> Control:
    """Slide over these values."""
    return Control("SelectionSlider", dict(description=name, options=options))


def choice(name: str, options: Sequence[Any]) -> Control:
    """Choose one of these values."""
    return Control("Dropdown", dict(description=name, options=options))


def switch(name: str) -> Control:
    """Switch on or off."""
    return Control("Checkbox", dict(description=name))


def explore(
    function: Callable[..., Figure],
    ends: Callable[..., dict[str, int]] | None = None,
    play: str = "",
    telling: Sequence[Any] = (),
    **controls: Control,
) -> Sliders | Figure:
    """Show what the function draws by default, in a notebook with ipywidgets under these controls of its arguments: see Sliders."""
    if not live():
        return function()
    parameters, widgets = inspect.signature(function).parameters, import_module("ipywidgets")
    made = {
        name: getattr(widgets, control.kind)(value=parameters[name].default, **control.options)
        for name, control in controls.items()
    }
    return Sliders(function, ends, play, telling, **made)
