"""The names of servers' tools for the model."""

from __future__ import annotations

import pytest

from codex_plugin_mcp.naming import namespaces, tool_names


def full(tools, **options):
    return {(name.server, name.tool): name.full for name in tool_names(tools, **options)}


def test_names_are_sanitised_and_sorted():
    names = tool_names({"b-x": ["get-sum", "a.b"], "a": ["z"]})
    assert [name.full for name in names] == ["mcp__a__z", "mcp__b_x__a_b", "mcp__b_x__get_sum"]
    assert [(name.namespace, name.local) for name in names][2] == ("mcp__b_x", "get_sum")


def test_servers_with_one_sanitised_name_both_get_a_hash():
    first, second = namespaces(["my-every", "my_every"]).values()
    assert first != second
    assert first[:14] == second[:14] == "mcp__my_every_"
    assert namespaces(["my-every"]) == {"my-every": "mcp__my_every"}


def test_tools_with_one_sanitised_name_both_get_a_hash_whatever_their_order():
    first, again = full({"s": ["a-b", "a_b"]}), full({"s": ["a_b", "a-b"]})
    assert first == again
    assert len(set(first.values())) == 2
    assert all(name.startswith("mcp__s__a_b_") for name in first.values())


def test_tools_of_two_servers_cannot_have_one_name():
    names = full({"a": ["b__c"], "a__b": ["c"]})
    assert len(set(names.values())) == 2


@pytest.mark.parametrize("length", [55, 56, 57, 200])
def test_long_names_are_cut_and_stay_distinct(length):
    names = full({"s": ["x" * length, "x" * length + "y"]})
    assert all(len(name) <= 64 for name in names.values())
    assert len(set(names.values())) == 2
    assert (names["s", "x" * length] == f"mcp__s__{'x' * length}") is (length <= 56)


def test_the_prefix_can_be_left_out():
    assert full({"s": ["t"]}, prefixed=False) == {("s", "t"): "s__t"}


def test_a_namespace_and_a_name_mean_one_tool():
    """Models state the namespace and the name separately, and a call is found by both together."""
    names = tool_names({"a": ["bc", "_ab__c", "__b__x"], "ab": ["c"], "a__b": ["x"], "b": ["x", "y"]})
    calls = [f"{name.namespace}{name.local}" for name in names]
    assert len({*calls}) == len(calls)
    assert not {*calls} & {name.full for name in names}
    assert {(name.server, name.tool): name.local for name in names}["b", "x"] == "x"


@pytest.mark.parametrize("server", ["s", "s" * 43, "s" * 60, "s" * 200])
@pytest.mark.parametrize("tool", ["t", "t" * 60, "t" * 200])
def test_a_namespace_and_a_name_fit_into_the_limit(server, tool):
    one, other = tool_names({server: [tool, f"{tool}x"]})
    assert len({one.full, other.full, one.namespace + one.local, other.namespace + other.local}) == 4
    assert all(len(name) <= 64 for name in (one.full, one.namespace + one.local, one.namespace + other.local))
