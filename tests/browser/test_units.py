"""Each unit in a browser: it opens, its figures are shown and legible, its widgets answer."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from axe import serious
from contrast import TEXT, faint, over
from lab import DARK, LIGHT, Notebook
from playwright.sync_api import Locator, expect

from course_lib.exercises import UNITS
from tritontrace.picture import contrast

IMPORTS = r"(?m).*^from course_lib import .*"
FIGURE = r"figures\.\w+\.\w+\(\)"  # without arguments: it needs no cell but the imports
WIDGET = r"figures\.\w+\.explore_\w+\(\)"
PICTURE = "figure[class$=-picture] > :is(svg, img)"
COLOURS = "svg => [getComputedStyle(svg).color, getComputedStyle(svg.querySelector('path')).fill]"  # of its words, of its ground
CAPTION = "figure[class$=-picture] figcaption"


@pytest.fixture(scope="module", params=UNITS)
def notebook(opened, request):
    """A unit with its imports, its first figure and its widgets run."""
    with opened(request.param) as notebook:
        notebook.run(notebook.find(IMPORTS)[0])
        for index in figures(notebook):
            notebook.run(index)
        yield notebook


def figures(notebook: Notebook) -> list[int]:
    return sorted({notebook.find(FIGURE)[0], *notebook.find(WIDGET)})


def test_figures_are_shown(notebook):
    for index in figures(notebook):
        picture = notebook.show(index).locator(PICTURE)
        expect(picture).to_be_visible()
        assert picture.bounding_box()["width"] > 300


def test_figures_are_legible_in_both_themes(notebook):
    grounds = {}
    for theme in (LIGHT, DARK):
        notebook.theme(theme)
        for index in figures(notebook):
            cell, what = notebook.show(index), f"{notebook.sources[index]} in {theme}"
            ink, ground = (over(colour, np.ones(3)) for colour in cell.locator(PICTURE).evaluate(COLOURS))
            grounds[theme, index] = ground
            assert contrast(ink, ground) >= TEXT, f"{what}: ink on its ground"
            assert cell.locator(CAPTION).inner_text().strip(), f"{what}: no caption"
            assert cell.locator(PICTURE).get_attribute("aria-label"), f"{what}: no alternative text"
            assert not (found := faint(cell.locator(".jp-OutputArea-output").first)), f"{what}: {'; '.join(found)}"
    for index in figures(notebook):
        assert grounds[LIGHT, index].mean() > 0.9 > 0.2 > grounds[DARK, index].mean(), (
            f"{notebook.sources[index]} is a card"
        )


def test_every_control_changes_the_picture(notebook):
    widgets = notebook.find(WIDGET)
    assert widgets
    for index in widgets:
        cell, what = notebook.show(index), notebook.sources[index]
        controls, resets = cell.locator(CONTROLS), cell.locator(RESETS)
        expect(controls.first).to_be_visible()
        known = controls.count() + resets.count() + cell.locator(PRESETS).count()
        assert known == cell.locator(LEAVES).count(), f"{what} has a control that this test cannot move"
        for control in filter(Locator.is_visible, controls.all()):
            move_there_and_back(cell, control, what)
        for reset in resets.all():
            before = shown(cell)
            move(cell.get_by_role("slider").first)  # a view that was chosen would stay
            becomes(cell, before.__ne__, f"{what}: the first slider changes nothing")
            reset.click()
            becomes(cell, before.__eq__, f"{what}: {reset.inner_text()} does not go back")


def test_what_plays_moves_the_picture(notebook):
    for index in notebook.find(WIDGET):
        cell = notebook.show(index)
        for player in cell.locator(".widget-play").all():
            before = shown(cell)
            player.locator("button").first.click()
            becomes(cell, before.__ne__, f"{notebook.sources[index]} does not play")
            player.locator("button").first.click()  # it pauses


def test_every_handle_has_a_name_and_a_track_of_240_pixels(notebook):
    for index in notebook.find(WIDGET):
        cell = notebook.show(index)
        for handle in filter(Locator.is_visible, cell.get_by_role("slider").all()):
            expect(handle).to_have_accessible_name(re.compile(r"\S"))
            track = handle.evaluate("e => e.closest('.noUi-base').getBoundingClientRect().width")
            assert track >= 240, (notebook.sources[index], track)


def test_axe_finds_nothing_serious_in_what_the_course_puts_out(notebook):
    """JupyterLab around it is not ours."""
    assert serious(notebook.page, ".jp-OutputArea-output") == {}


def test_a_preset_moves_its_slider(notebook):
    for index in notebook.find(WIDGET):
        cell = notebook.show(index)
        for preset in cell.locator(PRESETS).all():
            preset.click()
            value = preset.inner_text().split()[-1]
            expect(cell.get_by_role("slider").first).to_have_attribute(
                "aria-valuetext", re.compile(rf"^{value}(\.0*)?$")
            )


def test_no_tooltip_says_null(notebook):
    """ipywidgets writes null for a button without one."""
    for index in notebook.find(WIDGET):
        assert not notebook.show(index).locator("[title=null]").count(), notebook.sources[index]


# ------------------------------------------------------------------------------------------------ moving controls

CONTROLS = "[role=slider], select, .widget-toggle-button, input[type=checkbox], input[type=number]"
PRESETS = "button.preset"
RESETS = f"button.jupyter-button:not(.widget-toggle-button):not(.widget-play *):not({PRESETS})"
LEAVES = ".widget-container > :not(.widget-container):not(.widget-play)"


def move_there_and_back(cell: Locator, control: Locator, what: str) -> None:
    """Moves a control, which gives another picture, and back, which gives the first one again."""
    before = shown(cell)
    back = move(control)
    name = control.evaluate("e => e.closest('.widget-container > *').innerText || e.title")
    becomes(cell, before.__ne__, f"{what}: {name!r} changes nothing")
    back()
    becomes(cell, before.__eq__, f"{what}: {name!r} does not go back to the same picture")


def move(control: Locator) -> Callable[[], object]:
    """Gives a control another value; returns the function that gives it the first one again."""
    kind = control.evaluate("e => e.getAttribute('role') ?? e.type ?? e.tagName")
    if kind == "slider":
        there, back = ("ArrowRight", "ArrowLeft")
        if control.get_attribute("aria-valuenow") == control.get_attribute("aria-valuemax"):
            there, back = back, there
        control.press(there)
        return lambda: control.press(back)
    if kind == "select-one":
        first, count = control.evaluate("e => [e.selectedIndex, e.options.length]")
        control.select_option(index=(first + 1) % count)
        return lambda: control.select_option(index=first)
    if kind == "number":
        value = control.input_value()

        def enter(number: str) -> None:
            control.fill(number)
            control.press("Enter")

        enter(f"{float(value) * 2 + 1:g}")
        return lambda: enter(value)
    control.click()
    return control.click


def shown(cell: Locator) -> str:
    return cell.locator(PICTURE).evaluate("picture => picture.outerHTML")


def becomes(cell: Locator, wanted: Callable[[str], bool], otherwise: str) -> None:
    """Waits for such a picture."""
    for _ in range(200):
        if wanted(shown(cell)):
            return
        cell.page.wait_for_timeout(50)
    raise AssertionError(otherwise)
