"""The tables ``[mcp_servers.<name>]`` of the configuration, read and checked.

The configuration's schema has checked the types of files already. Here every table is checked as a whole, and separately: a wrong
one becomes an error that names the server and the key, and the other servers stay usable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.urls import shown_url
from codex_framework.contract.value import Value, field

__all__ = [
    "INHERITED",
    "ApprovalMode",
    "ServerConfig",
    "enabled_servers",
    "is_feature_on",
    "read_server",
    "read_servers",
]

ApprovalMode = Literal["auto", "prompt", "writes", "approve"]
"""When a call needs approval: as the tool's annotations say, always, unless the tool states that it only reads, or never."""

INHERITED = (
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "USER",
    "__CF_USER_TEXT_ENCODING",
    "LANG",
    "LC_ALL",
    "TERM",
    "TMPDIR",
    "TZ",
)
"""The variables that every stdio server inherits (Codex's list)."""


class ServerConfig(Value, kw_only=True):
    """One MCP server, as configured. Values that may be secrets are not shown by ``repr``.

    Attributes:
        name: The server's name: its key in ``[mcp_servers]``.
        display_name: The name shown to users: the setting ``name``.
        command: The program of a stdio server. A server that is reached over HTTP has a ``url`` instead.
        args: The program's arguments.
        env: Variables that the program gets.
        env_vars: Names of variables that it inherits besides ``INHERITED``.
        cwd: Its working folder. By default, the session's.
        url: The URL of a server that is reached over HTTP.
        bearer_token_env_var: The variable that contains the bearer token.
        http_headers: Headers of every request.
        env_http_headers: Headers whose values are in variables: from header to variable.
        enabled: Whether the server is used.
        disabled_reason: Why a server that the configuration enables is not used, if there is such a reason.
        required: Whether a session fails if the server does not start.
        startup_timeout_sec: Time limit for its start, in seconds.
        tool_timeout_sec: Time limit for a call, in seconds.
        enabled_tools: The only tools to offer. By default, all.
        disabled_tools: Tools not to offer. They are removed from ``enabled_tools``.
        supports_parallel_tool_calls: Whether calls may overlap.
        default_tools_approval_mode: The approval mode of tools without their own setting.
        tools: Settings of individual tools: from the tool's name to a table.
        scopes: OAuth scopes to request. By default, the scopes that the server announces.
        oauth: The OAuth client: ``client_id``, ``client_secret``, ``callback_url``, ``callback_port``.
        oauth_resource: The OAuth resource parameter.
        environment_id: The environment of the server: always ``local``.
        sandbox: The permission profile that confines a stdio server; a sandbox mode is given as its profile. By default, the
            server is not confined.
    """

    name: str
    display_name: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict, repr=False)
    env_vars: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = field(default=None, repr=False)
    bearer_token_env_var: str | None = None
    http_headers: Mapping[str, str] = field(factory=dict, repr=False)
    env_http_headers: Mapping[str, str] = field(factory=dict)
    enabled: bool = True
    disabled_reason: str | None = None
    required: bool = False
    startup_timeout_sec: float = 30.0
    tool_timeout_sec: float = 120.0
    enabled_tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] = ()
    supports_parallel_tool_calls: bool = False
    default_tools_approval_mode: ApprovalMode = "auto"
    tools: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    scopes: tuple[str, ...] | None = None
    oauth: Mapping[str, Any] = field(factory=dict, repr=False)
    oauth_resource: str | None = None
    environment_id: str = "local"
    sandbox: str | None = None

    @property
    def is_stdio(self) -> bool:
        """Whether the server is a program that is started, rather than reached over HTTP."""
        return self.command is not None

    @property
    def shown_url(self) -> str | None:
        """The URL without a login and without a query, for messages and logs."""
        return None if self.url is None else shown_url(self.url)

    def tool_approval_mode(self, tool: str) -> ApprovalMode:
        """Return the approval mode of a tool.

        Args:
            tool: The name that the server gives the tool.
        """
        mode = self.tools.get(tool, {}).get("approval_mode", self.default_tools_approval_mode)
        return cast("ApprovalMode", mode)

    def output_token_limit(self, tool: str) -> int | None:
        """Return the maximum number of tokens of a tool's output for the model. None means the default for all tools.

        Args:
            tool: The tool's name on the server.
        """
        limit: int | None = self.tools.get(tool, {}).get("output_token_limit")
        return limit

    def offers(self, tool_name: str) -> bool:
        """Return whether the lists ``enabled_tools`` and ``disabled_tools`` let the model see a tool.

        Args:
            tool_name: The name that the server gives the tool.
        """
        if self.enabled_tools is not None and tool_name not in self.enabled_tools:
            return False
        return tool_name not in self.disabled_tools

    def child_env(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of a stdio server's process.

        Args:
            environ: The variables of the session.
        """
        inherited = {name: environ[name] for name in (*INHERITED, *self.env_vars) if name in environ}
        return {**inherited, **self.env}


def read_servers(config: Mapping[str, Any]) -> tuple[dict[str, ServerConfig], dict[str, ConfigError]]:
    """Read ``[mcp_servers]``.

    Args:
        config: The merged configuration.

    Returns:
        The servers and the errors, both by the server's name. Every server is in one of them. Servers that are disabled are
        included.
    """
    tables = config.get("mcp_servers") or {}
    servers: dict[str, ServerConfig] = {}
    errors: dict[str, ConfigError] = {}
    if not isinstance(tables, Mapping):
        hint = "Write one table for each server: [mcp_servers.NAME]"
        return {}, {"": ConfigError("`mcp_servers` is not a table", key="mcp_servers", slug="mcp-server", hint=hint)}
    for name, table in tables.items():
        try:
            servers[name] = read_server(name, table, config)
        except ConfigError as error:
            errors[name] = error
    return servers, errors


def enabled_servers(config: Mapping[str, Any]) -> dict[str, ServerConfig]:
    """Return the servers of a configuration that are used."""
    servers, _ = read_servers(config)
    return {name: server for name, server in servers.items() if server.enabled and not server.disabled_reason}


def is_feature_on(config: Mapping[str, Any], name: str) -> bool:
    """Return whether ``[features]`` turns a feature on."""
    features = config.get("features")
    return isinstance(features, Mapping) and features.get(name) is True


def read_server(name: str, table: Any, config: Mapping[str, Any] | None = None) -> ServerConfig:
    """Read the table of one server.

    Args:
        name: Its key in ``[mcp_servers]``.
        table: Its table.
        config: The merged configuration, which contains the permission profiles that ``sandbox`` can name.

    Raises:
        ConfigError: The table is wrong. The fact names the server and the key, and never contains a value that may be secret.
    """
    from codex_plugin_mcp.reading import fields_of_table

    return ServerConfig(name=name, **fields_of_table(name, table, config or {}))
