"""The missing requirements of a skill: MCP servers and environment variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codex_plugin_skills.events import SkillToolDependency
from codex_plugin_skills.reading import Skill

__all__ = ["unmet_needs"]


def unmet_needs(skill: Skill, config: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Return the missing requirements of a skill, as phrases with advice. Other kinds of needs are not checked."""
    given = skill.metadata.dependencies
    return [] if given is None else [text for need in given.tools for text in _unmet(need, config, environ)]


def _unmet(need: SkillToolDependency, config: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    if need.type == "env_var" and not environ.get(need.value):
        purpose = f" ({need.description})" if need.description else ""
        yield f"the environment variable {need.value}{purpose}, which is not set. Set it before you start"
    if need.type == "mcp" and not any(_serves(name, table, need) for name, table in _servers(config)):
        yield f"the MCP server {need.value}, which is not configured. To add it: {_addition(need)}"


def _servers(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    servers = config.get("mcp_servers")
    for name, table in servers.items() if isinstance(servers, Mapping) else ():
        if isinstance(table, Mapping) and table.get("enabled") is not False:
            yield name, table


def _serves(name: str, table: Mapping[str, Any], need: SkillToolDependency) -> bool:
    same_url = need.url is not None and table.get("url") == need.url
    same_command = need.command is not None and table.get("command") == need.command
    return name == need.value or same_url or same_command


def _addition(need: SkillToolDependency) -> str:
    if need.url:
        return f"codex-framework mcp add {need.value} --url {need.url}"
    return f"codex-framework mcp add {need.value} -- {need.command or 'COMMAND'}"
