"""Agents: found by name, and turned into the settings of a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codex_framework.commands.access import file_access
from codex_framework.config import Config
from codex_framework.contract.errors import ConfigError, ThreadError
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.settings import Settings
from codex_framework.plugins.offer_values import agent_problems
from codex_framework.plugins.registry import Registry

__all__ = ["agent_named", "agent_settings", "check_agent", "narrowed"]

_LISTS = ("allowed_tools", "disallowed_tools", "context")
_TEXTS = ("description", "instructions", "model", "permissions", "approval_policy")


def agent_named(name: str, config: Config, registry: Registry) -> Agent[Any]:
    """Return an agent: of ``[agents.NAME]``, else of a plugin.

    Raises:
        ThreadError: There is none of this name.
        ConfigError: Its table is wrong.
    """
    table = (config.get("agents") or {}).get(name)
    if isinstance(table, Mapping):
        return _from_table(name, table, config)
    if name in registry.agents:
        return registry.agents[name].item
    known = sorted(
        {*registry.agents, *(key for key, value in (config.get("agents") or {}).items() if isinstance(value, Mapping))}
    )
    raise ThreadError(
        f"there is no agent {name!r}",
        slug="no-agent",
        hint=f"The agents are: {', '.join(known) or 'none'}. Add one as [agents.{name}], or install a plugin that offers it.",
    )


def check_agent(agent: object, method: str) -> None:
    """Check an agent that a program or a plugin made.

    Raises:
        TypeError: It is no agent, or a field of it is of the wrong class.
    """
    problems = list(agent_problems(agent))
    if problems:
        name = f"agent {agent.name!r}" if isinstance(agent, Agent) else f"the agent of {method}()"
        raise TypeError(f"{name}: {'; '.join(problems)}")


def _from_table(name: str, table: Mapping[str, Any], config: Config) -> Agent[Any]:
    given: dict[str, Any] = {}
    for key, value in table.items():
        path = ("agents", name, key)
        if key in _TEXTS or key == "model_reasoning_effort":
            if not isinstance(value, str):
                raise config.error(path, f"agents.{name}.{key} is not a string", hint="Write it in quotes.")
            given["reasoning_effort" if key == "model_reasoning_effort" else key] = value
        elif key in _LISTS:
            if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
                raise config.error(
                    path, f"agents.{name}.{key} is not a list of strings", hint=f'Write {key} = ["..."].'
                )
            given[key] = tuple(value)
    return Agent(name=name, **given)


def agent_settings(settings: Settings, agent: Agent[Any], named_permissions: Callable[[str], Permissions]) -> Settings:
    """Return the settings of a thread that an agent runs in.

    Raises:
        CodexError: There is no permission profile, or no approval policy, of that name.
    """
    changes: dict[str, Any] = {}
    if agent.model is not None:
        changes["model"] = agent.model
    if agent.reasoning_effort is not None:
        changes["reasoning_effort"] = agent.reasoning_effort
    if agent.permissions is not None:
        wanted = named_permissions(agent.permissions)
        changes["permissions"] = wanted.evolve(options=settings.permissions.options)
    if agent.approval_policy is not None:
        try:
            changes["approval_policy"] = ApprovalPolicy(agent.approval_policy)
        except ValueError:
            raise ConfigError(
                f"agent {agent.name!r} has the approval policy {agent.approval_policy!r}",
                hint=f"Use one of: {', '.join(ApprovalPolicy)}.",
            ) from None
    if agent.ephemeral:
        changes["ephemeral"] = True
    return settings.evolve(**changes) if changes else settings


def narrowed(settings: Settings, parent: Settings, agent: Agent[Any], environ: Mapping[str, str]) -> Settings:
    """Return a child's settings if they allow nothing that its parent's do not.

    Raises:
        ThreadError: They do; the fact names the agent.
    """
    wanted = file_access(settings.permissions, settings.cwd, environ)
    allowed = file_access(parent.permissions, parent.cwd, environ)
    if not wanted.within(allowed):
        raise ThreadError(
            f"agent {agent.name!r} asks for the permissions {agent.permissions!r}, which are more than its parent has",
            slug="wider-agent",
            hint="Give it permissions within those of the parent, or none, to have the parent's.",
        )
    policies = (parent.approval_policy, ApprovalPolicy.NEVER, ApprovalPolicy.UNTRUSTED)
    if settings.approval_policy not in policies:
        raise ThreadError(
            f"agent {agent.name!r} asks for the approval policy {agent.approval_policy!r}, and its parent has another",
            slug="wider-agent",
            hint="A child has the policy of its parent, never or untrusted.",
        )
    return settings
