"""``[mcp_servers.<name>]``: what is read, what is refused and in which words, and what a server's process inherits."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from codex_framework import ConfigError
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.servers import INHERITED, ServerConfig, is_feature_on, read_server, read_servers
from codex_plugin_mcp.transports.sse import SseTransport
from codex_plugin_mcp.transports.stdio import _instead


def stdio(**keys: Any) -> ServerConfig:
    return read_server("s", {"command": "run", **keys})


def http(**keys: Any) -> ServerConfig:
    return read_server("s", {"url": "https://host/mcp", **keys})


def refused(table: Any, name: str = "s", config: dict[str, Any] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_server(name, table, config)
    assert caught.value.slug == "mcp-server"
    assert caught.value.hint
    assert caught.value.key is not None
    return caught.value


def test_defaults_of_a_stdio_server() -> None:
    server = stdio()
    assert server == ServerConfig(name="s", command="run")
    assert server.is_stdio
    assert server.enabled
    assert not server.required
    assert (server.startup_timeout_sec, server.tool_timeout_sec) == (30.0, 120.0)
    assert server.default_tools_approval_mode == "auto"
    assert server.sandbox is None
    assert server.shown_url is None


def test_every_key_of_a_stdio_server() -> None:
    server = stdio(
        name="Server",
        args=["-a", "b c"],
        env={"A": "1"},
        env_vars=["B", {"name": "C"}, {"name": "D", "source": "local"}],
        cwd="/tmp",
        sandbox=":workspace",
        enabled=False,
        required=True,
        startup_timeout_sec=2,
        tool_timeout_sec=3.5,
        enabled_tools=["x"],
        disabled_tools=["y"],
        supports_parallel_tool_calls=True,
        default_tools_approval_mode="prompt",
        tools={"x": {"approval_mode": "approve"}},
        scopes=["read"],
        environment_id="local",
    )
    assert server == ServerConfig(
        name="s",
        display_name="Server",
        command="run",
        args=("-a", "b c"),
        env={"A": "1"},
        env_vars=("B", "C", "D"),
        cwd="/tmp",
        sandbox=":workspace",
        enabled=False,
        required=True,
        startup_timeout_sec=2.0,
        tool_timeout_sec=3.5,
        enabled_tools=("x",),
        disabled_tools=("y",),
        supports_parallel_tool_calls=True,
        default_tools_approval_mode="prompt",
        tools={"x": {"approval_mode": "approve"}},
        scopes=("read",),
    )


def test_every_key_of_an_http_server() -> None:
    oauth = {"client_id": "id", "client_secret": "key", "callback_url": "http://127.0.0.1/cb", "callback_port": 8080}
    server = http(
        bearer_token_env_var="TOKEN",
        http_headers={"X-A": "1"},
        env_http_headers={"X-B": "B"},
        oauth=oauth,
        oauth_resource="https://host",
    )
    assert not server.is_stdio
    assert server == ServerConfig(
        name="s",
        url="https://host/mcp",
        bearer_token_env_var="TOKEN",
        http_headers={"X-A": "1"},
        env_http_headers={"X-B": "B"},
        oauth=oauth,
        oauth_resource="https://host",
    )


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ({"startup_timeout_ms": 1500}, 1.5),
        ({"startup_timeout_ms": 1500, "startup_timeout_sec": 3.25}, 3.25),
        ({"startup_timeout_sec": 10}, 10.0),
    ],
)
def test_the_startup_timeout_in_both_units(keys: dict[str, Any], seconds: float) -> None:
    assert stdio(**keys).startup_timeout_sec == seconds


@pytest.mark.parametrize("key", ["startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1e300, True, "3"])
def test_a_time_limit_is_a_positive_number(key: str, value: Any) -> None:
    assert refused({"command": "run", key: value}).key == f"mcp_servers.s.{key}"


STDIO_ONLY = {"args": ["a"], "env": {"A": "b"}, "env_vars": ["A"], "cwd": "/", "sandbox": "read-only"}
HTTP_ONLY = {
    "bearer_token_env_var": "T",
    "http_headers": {"A": "b"},
    "env_http_headers": {"A": "B"},
    "http_headers_helper": "run",
    "oauth": {"client_id": "x"},
    "oauth_resource": "x",
}


@pytest.mark.parametrize("key", HTTP_ONLY)
def test_a_program_has_no_key_of_http(key: str) -> None:
    error = refused({"command": "run", key: HTTP_ONLY[key]})
    assert error.fact == f"the MCP server 's': {key} is not supported for stdio"
    assert error.key == f"mcp_servers.s.{key}"


@pytest.mark.parametrize("key", STDIO_ONLY)
def test_a_server_over_http_has_no_key_of_a_program(key: str) -> None:
    error = refused({"url": "https://host", key: STDIO_ONLY[key]})
    assert error.fact == f"the MCP server 's': {key} is not supported for streamable_http"


def test_a_server_has_one_transport() -> None:
    assert "url is not supported for stdio" in refused({"command": "run", "url": "https://host"}).fact
    assert "invalid transport" in refused({"enabled": True}).fact


@pytest.mark.parametrize("transport", [{"command": "run"}, {"url": "https://host"}])
def test_a_token_in_the_file_is_refused_and_not_repeated(transport: dict[str, str]) -> None:
    error = refused({**transport, "bearer_token": "hunter2"})
    assert "bearer_token is not supported for" in error.fact
    assert "bearer_token_env_var" in error.hint
    assert "hunter2" not in error.fact + error.hint


@pytest.mark.parametrize("name", ["a", "A-b_9", "we.ird/x:y@z"])
def test_names_that_codex_adds(name: str) -> None:
    assert read_server(name, {"command": "run"}).name == name


@pytest.mark.parametrize("name", ["", "a b", "a\n", "ä", "a\0"])
def test_names_that_are_refused(name: str) -> None:
    assert "invalid MCP server name" in refused({"command": "run"}, name).fact


@pytest.mark.parametrize(
    "url", ["not a url", "ftp://host", "https://", "http://host:99999/", "http://ho st/", "http://h/\n"]
)
def test_a_url_must_name_a_server(url: str) -> None:
    assert refused({"url": url}).key == "mcp_servers.s.url"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("command", ""),
        ("command", "a\0b"),
        ("command", 3),
        ("args", "a"),
        ("args", [1]),
        ("args", ["a\0"]),
        ("env", {"A=B": "c"}),
        ("env", {"": "c"}),
        ("env", {"A": 1}),
        ("env", {"A": "b\0"}),
        ("env_vars", [{"source": "local"}]),
        ("env_vars", ["A=B"]),
        ("env_vars", "A"),
        ("cwd", 1),
        ("enabled", "yes"),
        ("required", 1),
        ("enabled_tools", "x"),
        ("disabled_tools", [1]),
        ("tools", []),
        ("tools", {"x": "approve"}),
        ("tools", {"x": {"approval_mode": "never"}}),
        ("tools", {"x": {"aproval_mode": "prompt"}}),
        ("default_tools_approval_mode", "never"),
        ("sandbox", "none"),
        ("sandbox", ""),
        ("environment_id", "remote"),
        ("unknown", 1),
    ],
)
def test_values_of_a_program_that_are_refused(key: str, value: Any) -> None:
    error = refused({"command": "run", key: value})
    assert (error.key or "").startswith(f"mcp_servers.s.{key}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("http_headers", {"A b": "c"}),
        ("http_headers", {"A": "b\r\nEvil: c"}),
        ("env_http_headers", {"A": 1}),
        ("bearer_token_env_var", ""),
        ("oauth", {"client_id": 1}),
        ("oauth", {"callback_port": "80"}),
        ("oauth", {"id": "x"}),
        ("oauth", {"grant": "password"}),
        ("oauth", {"signing_algorithm": "none"}),
        ("http_headers_helper", "run"),
    ],
)
def test_values_of_a_server_over_http_that_are_refused(key: str, value: Any) -> None:
    error = refused({"url": "https://host", key: value})
    assert (error.key or "").startswith(f"mcp_servers.s.{key}")


@pytest.mark.parametrize("source", ["remote", "elsewhere"])
def test_variables_come_from_this_machine(source: str) -> None:
    error = refused({"command": "run", "env_vars": [{"name": "A", "source": source}]})
    assert f"source `{source}`" in error.fact


def test_unknown_keys_can_be_left_to_the_warning_of_the_configuration() -> None:
    config = {"framework": {"unknown_keys": "warn"}}
    assert read_server("s", {"command": "run", "unknown": 1}, config).command == "run"


def test_a_sandbox_may_be_a_profile_of_the_configuration() -> None:
    config = {"permissions": {"mine": {}}}
    assert read_server("s", {"command": "run", "sandbox": "mine"}, config).sandbox == "mine"
    assert "`mcp_servers.s.sandbox` is 'mime'" in refused({"command": "run", "sandbox": "mime"}, config=config).fact


@pytest.mark.parametrize(
    ("mode", "profile"),
    [("read-only", ":read-only"), ("workspace-write", ":workspace"), ("danger-full-access", ":danger-full-access")],
)
def test_a_sandbox_mode_stands_for_its_profile(mode: str, profile: str) -> None:
    assert stdio(sandbox=mode).sandbox == profile


def test_a_wrong_server_does_not_take_the_others_away() -> None:
    servers, errors = read_servers(
        {"mcp_servers": {"a": {"command": "run"}, "b": {}, "c": 3, "d": {"url": "http://h"}}}
    )
    assert list(servers) == ["a", "d"]
    assert list(errors) == ["b", "c"]
    assert read_servers({}) == ({}, {})
    assert list(read_servers({"mcp_servers": ["a"]})[1]) == [""]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("grant", ["authorization_code", "client_credentials", "identity_assertion"]),
        ("signing_algorithm", ["ES256", "RS256"]),
    ],
)
def test_words_of_a_login_are_those_of_a_list(key: str, words: list[str]) -> None:
    assert [http(url="https://h", oauth={key: word}).oauth[key] for word in words] == words
    assert f"`mcp_servers.s.oauth.{key}` is 'none'" in str(refused({"url": "https://h", "oauth": {key: "none"}}))


def test_a_stream_that_is_not_open_takes_no_message() -> None:
    with pytest.raises(ConnectionFailed, match="the connection is closed"):
        asyncio.run(SseTransport(http(url="https://h")).send({}))


@pytest.mark.parametrize("features", [None, {}, [], "x", {"a": False}, {"a": "true"}, {"a": 1}, {"b": True}])
def test_a_feature_is_on_only_if_it_is_true(features: Any) -> None:
    assert is_feature_on({"features": {"a": True}}, "a")
    assert not is_feature_on({"features": features}, "a")


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(stdio(env={"A": "hunter2"})) + repr(
        http(url="https://u:hunter2@h/?k=hunter2", http_headers={"A": "hunter2"})
    )
    assert "hunter2" not in shown
    assert http(url="https://u:hunter2@h/p?k=hunter2").shown_url == "https://h/p"
    for table in ({"command": 3, "env": {"A": "hunter2"}}, {"command": "c", "env": {"A": "hunter2\0"}}):
        assert "hunter2" not in refused(table).fact


@pytest.mark.parametrize(("login", "is_used"), [("oauth", True), ("chatgpt", False), ("ema_auth", False)])
def test_a_server_whose_login_is_not_supported_is_not_used(login: str, is_used: bool) -> None:
    server = read_server("s", {"url": "https://example.com/mcp", "auth": login})
    assert (server.disabled_reason is None) is is_used
    assert is_used or login in (server.disabled_reason or "")


def test_a_login_is_one_of_codexs_and_only_for_http() -> None:
    for table in ({"url": "https://example.com/mcp", "auth": "magic"}, {"command": "x", "auth": "oauth"}):
        with pytest.raises(ConfigError):
            read_server("s", table)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "9"])
def test_a_limit_of_tokens_is_a_whole_number_of_more_than_0(limit: Any) -> None:
    with pytest.raises(ConfigError):
        read_server("s", {"command": "x", "tools": {"t": {"output_token_limit": limit}}})
    server = read_server("s", {"command": "x", "tools": {"t": {"output_token_limit": 9}}})
    assert (server.output_token_limit("t"), server.output_token_limit("other")) == (9, None)


def test_the_lists_of_tools() -> None:
    assert stdio().offers("x")
    assert not stdio(disabled_tools=["x"]).offers("x")
    assert not stdio(enabled_tools=["x"], disabled_tools=["x"]).offers("x")
    assert stdio(enabled_tools=["x"]).offers("x")
    assert not stdio(enabled_tools=["x"]).offers("y")
    assert not stdio(enabled_tools=[]).offers("x")


def test_the_approval_mode_of_a_tool() -> None:
    server = stdio(default_tools_approval_mode="prompt", tools={"x": {"approval_mode": "approve"}, "y": {}})
    assert [server.tool_approval_mode(tool) for tool in "xyz"] == ["approve", "prompt", "prompt"]
    assert stdio().tool_approval_mode("x") == "auto"


def test_the_variables_of_a_process() -> None:
    environ = {name: f"{name}-value" for name in (*INHERITED, "SECRET", "WANTED", "OVER")}
    server = stdio(env={"OVER": "own", "NEW": "new", "LANG": "de"}, env_vars=["WANTED", "OVER", "ABSENT"])
    inherited = {name: f"{name}-value" for name in INHERITED}
    assert server.child_env(environ) == {
        **inherited,
        "WANTED": "WANTED-value",
        "OVER": "own",
        "NEW": "new",
        "LANG": "de",
    }
    assert stdio().child_env({"SECRET": "x", "PATH": "p"}) == {"PATH": "p"}


@pytest.mark.parametrize(
    ("head", "answered"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, "result": {', [7]),
        (b' {"id": 7, "error": {', [7]),
        (b'[{"id": 7, "result": {', []),
        (b'debug: "id": 7', []),
        (b'{"id": 7, "method": "x"', []),
        (b'{"result": {', []),
    ],
)
def test_only_what_looks_like_an_answer_is_answered_with_an_error(head: bytes, answered: list[int]) -> None:
    assert [message["id"] for message in _instead(head, b"", "too long")] == answered
