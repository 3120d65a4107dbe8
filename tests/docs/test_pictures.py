"""The pictures: those of the code's structure are up to date, each is on a page, and a terminal's text is drawn as it looks."""

from __future__ import annotations

import ast
import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from codex_framework.threads.turn.machine import State

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("render_pictures", ROOT / "docs" / "render_pictures.py")
assert _spec
assert _spec.loader
pictures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pictures)


@pytest.mark.parametrize("name", pictures.STRUCTURAL)
def test_the_picture_is_up_to_date(name):
    drawn = (pictures.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == pictures.STRUCTURAL[name](), "run: python docs/render_pictures.py " + name


def test_every_picture_is_well_formed_and_on_a_page():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    assert shown == set(pictures.PICTURES.iterdir())
    drawn = [picture for picture in shown if picture.suffix == ".svg"]
    assert all(ElementTree.parse(picture).getroot().tag.endswith("svg") for picture in drawn)


def test_the_life_of_a_turn_has_every_state():
    assert set(pictures.TURN) == {state.value for state in State}


@pytest.mark.parametrize("station", pictures.CALL, ids=lambda station: station[0])
def test_a_station_of_a_call_exists(station):
    _, _, file, function = station
    tree = ast.parse((ROOT / "codex_framework" / file).read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert function in names


def texts(svg):
    """Return the texts after the title, with fill and place."""
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [(each.text, each.get("fill"), float(each.get("y"))) for each in found][1:]


def test_a_terminals_colours_are_drawn():
    red, own, table = texts(pictures.screen_svg("\x1b[31mred\x1b[0m\x1b[38;2;1;2;255mown\x1b[38;5;196mtable", "t", 80))
    assert red == ("red", pictures._BASIC[1], 56)
    assert own == ("own", "#0102ff", 56)
    assert table == ("table", "#ff0000", 56)


def test_a_line_that_is_too_long_continues_in_the_next_row():
    drawn = texts(pictures.screen_svg("abcdef\ng", "t", 4))
    assert [(text, (y - 56) / 19) for text, _, y in drawn] == [("abcd", 0), ("ef", 1), ("g", 2)]


def test_escapes_that_do_not_colour_are_not_drawn():
    assert [text for text, _, _ in texts(pictures.screen_svg("\x1b]8;;x\x1b\\link\x1b]8;;\x1b\\ <&>", "t", 80))] == [
        "link",
        " <&>",
    ]
