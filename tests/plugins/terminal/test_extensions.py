"""What plugins add to the terminal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_client_terminal import plugin
from codex_client_terminal.extensions import Extensions, check_widget
from codex_client_terminal.items import render
from codex_client_terminal.session import extensions_of
from codex_client_terminal.text import plain_text
from codex_framework import Component, Kernel, ServiceKey, hookimpl

TERMINAL: ServiceKey[Any] = ServiceKey("terminal")
CALL = {"type": "McpToolCall", "id": "1", "server": "p", "tool": "t", "arguments": {}, "status": "completed"}


async def _run(view: Any, argument: str) -> None:
    del view, argument


class Adding(Component):
    name = "adding"
    requires = (TERMINAL,)

    async def start(self, kernel: Any) -> dict[Any, Any]:
        kernel.service(TERMINAL).add_command("greet", "Greet.", _run)
        return {}


class Plugin:
    @hookimpl
    def codex_components(self) -> list[Component]:
        return [Adding()]


def test_a_component_of_a_plugin_adds_a_command() -> None:
    async def run() -> set[str]:
        async with await Kernel.create(entry_points=(), plugins=(plugin, Plugin())) as kernel:
            return set(extensions_of(kernel).commands)

    assert asyncio.run(run()) == {"greet"}


@pytest.mark.parametrize("name", ["", "Greet", "a b", "../x", "\x1b[m", "greet"])
def test_wrong_and_taken_names_are_refused(name: str) -> None:
    extensions = Extensions()
    extensions.add_command("greet", "Greet.", _run)
    with pytest.raises(ValueError, match=r"cannot be|exists already"):
        extensions.add_command(name, "Greet.", _run)


def test_a_widget_that_raises_is_named_and_replaced() -> None:
    def broken(item: Any) -> Any:
        raise KeyError("city")

    shown = [plain_text(line) for line in render(CALL, {"t": broken})]
    assert shown[0] == "⚠ the widget of t failed: KeyError: 'city'"
    assert shown[1].startswith("• Called p.t")


@pytest.mark.parametrize("result", [None, 3, ["text"], [[("a",)]], [[("a", "b", "c")]]])
def test_a_widget_that_returns_no_lines_is_replaced(result: Any) -> None:
    shown = [plain_text(line) for line in render(CALL, {"t": lambda _: result})]
    assert "the widget of t failed" in shown[0]


def test_widgets_are_checked() -> None:
    assert check_widget(lambda item: [[(str(item["tool"]), "bold")]]) == []
    assert check_widget(lambda item: "text") == []
    assert len(check_widget(lambda item: [[("x", "")]] if item["arguments"]["a"] else [])) == 1
    assert check_widget(lambda item: 5)  # type: ignore[arg-type,return-value]
