"""The sentence that tells the user why a server did not start, and what to do."""

from __future__ import annotations

from codex_plugin_mcp.errors import ConnectionFailed, McpError
from codex_plugin_mcp.servers import ServerConfig

__all__ = ["failure_text"]

_GITHUB = "https://api.githubcopilot.com/mcp"


def failure_text(server: ServerConfig, error: McpError) -> str:
    """Return why a server did not start, and how the user can fix it."""
    name = server.name
    kind = error.kind if isinstance(error, ConnectionFailed) else "other"
    if kind == "not_logged_in":
        if (server.url or "").rstrip("/") == _GITHUB and not server.bearer_token_env_var:
            return (
                "GitHub MCP does not support OAuth. Log in by adding a personal access token"
                " (https://github.com/settings/personal-access-tokens) to your environment and config.toml:\n"
                f'[mcp_servers.{name}]\nbearer_token_env_var = "GITHUB_PERSONAL_ACCESS_TOKEN"'
            )
        return f"The {name} MCP server is not logged in. Run `codex-framework mcp login {name}`."
    if kind == "timeout":
        return (
            f"MCP client for `{name}` timed out after {server.startup_timeout_sec:g} seconds. Add or adjust"
            f" `startup_timeout_sec` in your config.toml:\n[mcp_servers.{name}]\nstartup_timeout_sec = XX"
        )
    hint = f" {error.hint}" if error.hint else ""
    return f"MCP client for `{name}` failed to start: {error}.{hint}"
