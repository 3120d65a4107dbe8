"""The ranking: which tools a query finds, and in which order."""

from __future__ import annotations

import pytest

from codex_framework import DeferredTool, FreeformSpec, FunctionSpec
from codex_framework.contract.roles.tool_specs import FreeformFormat
from codex_plugin_tool_search.ranking import Index, words


def deferred(name, description="", arguments=None, **fields):
    properties = {key: {"type": "string", "description": text} for key, text in (arguments or {}).items()}
    return DeferredTool(
        spec=FunctionSpec(name, description, {"type": "object", "properties": properties}), plugin="p", **fields
    )


TOOLS = [
    deferred("mcp__github__create_issue", "Opens an issue in a repository.", {"repo": "Owner and name"}),
    deferred("mcp__github__list_commits", "Lists the commits of a branch."),
    deferred("mcp__mail__send", "Sends an e-mail.", {"recipients": "Addresses", "subject": "", "body": ""}),
    deferred("mcp__weather__getForecast", "Returns the next days.", keywords="Weather outlook", source="Met office"),
    deferred("wetter", "Gibt das Wetter für Köln zurück."),
]


def found(query, limit=8, tools=TOOLS):
    return [tools[number].spec.name.rpartition("__")[2] for number in Index(tools).find(query, limit)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create issue github", "create_issue"),
        ("creating issues", "create_issue"),
        ("ISSUE", "create_issue"),
        ("commits", "list_commits"),
        ("list the commit history", "list_commits"),
        ("who gets the mail: recipient", "send"),
        ("get forecast", "getForecast"),
        ("getforecast outlook", "getForecast"),
        ("met office", "getForecast"),
        ("für", "wetter"),
        ("köln", "wetter"),
    ],
)
def test_the_best_match_comes_first(query, first):
    assert found(query)[0] == first


@pytest.mark.parametrize("query", ["zebra", "the of and", "!?", "   "])
def test_a_query_without_matching_words_finds_nothing(query):
    assert found(query) == []


def test_limit_and_order_are_kept():
    assert found("github", 1) == ["list_commits"]  # it has fewer other words
    assert found("github") == ["list_commits", "create_issue"]
    same = [deferred(f"mcp__s__tool_{letter}", "does it") for letter in "zxy"]
    assert found("tool", tools=same) == ["tool_z", "tool_x", "tool_y"]


def test_a_name_counts_more_than_a_description():
    tools = [deferred("a", "sends a letter and a letter and a letter"), deferred("letter", "sends it")]
    assert found("letter", tools=tools) == ["letter", "a"]


def test_a_rare_word_counts_more_than_a_frequent_one():
    tools = [*(deferred(f"file_{number}", "file") for number in range(10)), deferred("x", "rotates a picture")]
    assert found("file picture", 1, tools) == ["x"]


def test_tools_without_words_and_odd_schemas_do_not_fail():
    tools = [
        deferred("__"),
        DeferredTool(
            spec=FunctionSpec("odd", "", {"type": "object", "properties": {"a": True, "b": {"description": 7}}}),
            plugin="p",
        ),
        DeferredTool(spec=FreeformSpec("patch", "Applies a patch.", FreeformFormat("lark", "")), plugin="p"),
    ]
    assert found("patch", tools=tools) == ["patch"]
    assert found("b", tools=tools) == ["odd"]
    assert Index([]).find("x", 3) == []


def test_names_are_split_into_words():
    assert list(words("getHTTPResponse_v2-fooBar")) == ["get", "http", "respons", "v", "2", "foo", "bar"]


def test_an_index_covers_only_its_own_tools():
    index = Index(TOOLS)
    assert index.covers([tool.evolve(offered=True) for tool in TOOLS])
    assert not index.covers(TOOLS[1:])
    assert not index.covers([*TOOLS[:-1], deferred("other")])
