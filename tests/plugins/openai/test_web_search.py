"""The search of the web that the model's server runs: how it is offered, and how its calls are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelInfo, NativeSpec, TurnFacts
from codex_framework.config import load_config
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.protocol.turn_items import turn_item
from codex_framework.testing.facts import turn_facts
from codex_plugin_openai.web_search import WebSearch

KNOWN = ModelInfo(slug="gpt-5.5")


def facts(config: dict[str, Any], model: ModelInfo = KNOWN) -> TurnFacts:
    return turn_facts(config=config, model=model)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({}, None),
        ({"web_search": "disabled", "tools": {"web_search": True}}, None),
        ({"web_search": "?"}, None),
        ({"tools": {"web_search": {"context_size": "low"}}}, None),
        ({"web_search": "live"}, {"external_web_access": True}),
        ({"web_search": "cached"}, {"external_web_access": False}),
        ({"tools": {"web_search": True}}, {"external_web_access": True}),
        ({"tools": {"web_search_request": True}}, {"external_web_access": True}),
        ({"features": {"web_search_request": True}}, {"external_web_access": True}),
        ({"features": {"web_search": True, "web_search_cached": True}}, {"external_web_access": True}),
        ({"features": {"web_search_cached": True}, "tools": {"view_image": True}}, {"external_web_access": False}),
        ({"features": {"web_search_request": False}}, None),
        ({"features": {"web_search_request": True}, "tools": {"web_search": False}}, None),
        ({"features": {"web_search_request": True}, "web_search": "disabled"}, None),
        (
            {
                "web_search": "live",
                "tools": {
                    "web_search": {
                        "context_size": "high",
                        "allowed_domains": ["a.org"],
                        "location": {"country": "AT", "city": "Graz", "planet": "Earth"},
                    }
                },
            },
            {
                "external_web_access": True,
                "filters": {"allowed_domains": ["a.org"]},
                "user_location": {"type": "approximate", "country": "AT", "city": "Graz"},
                "search_context_size": "high",
            },
        ),
    ],
)
def test_the_configuration_says_whether_and_how(config: dict[str, Any], options: dict[str, Any] | None) -> None:
    tool, turn = WebSearch(), facts(config)
    assert tool.offered(turn) is (options is not None)
    if options is not None:
        both = {"search_content_types": ["text", "image"]}
        assert tool.spec_for(turn) == NativeSpec("web_search", "web_search", {**options, **both})
        unknown = tool.spec_for(facts(config, ModelInfo(slug="x", known=False)))
        assert unknown == NativeSpec("web_search", "web_search", options)


@pytest.mark.parametrize(
    ("action", "query"),
    [
        ({"type": "search", "query": "rain"}, "rain"),
        ({"type": "search", "queries": ["rain", "snow"]}, "rain"),
        ({"type": "open_page", "url": "https://a.org/"}, "https://a.org/"),
        ({"type": "find_in_page", "url": "https://a.org/", "pattern": "x"}, "'x' in https://a.org/"),
        ({"type": "dream"}, ""),
        (None, ""),
    ],
)
def test_a_search_is_a_turn_item(action: dict[str, Any] | None, query: str) -> None:
    shown = turn_item(UnknownItem({"type": "web_search_call", "id": "ws", "action": action}))
    assert shown == {"type": "WebSearch", "id": "ws", "query": query, "action": action or {"type": "other"}}


def test_other_items_that_nobody_knows_are_not_shown() -> None:
    assert turn_item(UnknownItem({"type": "hologram", "id": "h", "result": "..."})) is None


def test_a_project_cannot_have_the_web_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(
        'web_search = "live"\n[tools]\nweb_search = true\nview_image = false\n'
    )
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f"[projects.{json.dumps(str(tmp_path))}]\ntrust_level = 'trusted'\n")
    config = load_config(cwd=tmp_path, environ={"CODEX_HOME": str(home), "HOME": str(tmp_path)})
    assert "web_search" not in config.tables
    assert config.tables["tools"] == {"view_image": False}
