"""Agents: lookup by name, and conversion to the settings of a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codex_framework.commands.access import file_access
from codex_framework.config import Config
from codex_framework.config.permissions import named_permissions
from codex_framework.contract.errors import CodexError, ConfigError, ThreadError
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.outcomes import Limits
from codex_framework.contract.roles.settings import Settings
from codex_framework.loader.registry import Registry
from codex_framework.loader.value_checks import agent_problems
from codex_framework.threads.host import Host
from codex_framework.toolkit.faults import WrongValue

__all__ = ["agent_settings", "check_agent", "find_agent", "narrow_settings", "starting_settings"]

_LISTS = ("allowed_tools", "disallowed_tools", "context")
_TEXTS = ("description", "instructions", "model", "permissions", "approval_policy")


def find_agent(name: str, config: Config, registry: Registry) -> Agent[Any]:
    """Return an agent by name: a plugin's agent, or a new one with the settings of ``[agents.NAME]``.

    Raises:
        ThreadError: Neither an agent nor a table has this name.
        ConfigError: Its table names a permission profile that does not exist.
    """
    table = (config.get("agents") or {}).get(name)
    offered = registry.agents.get(name)
    if isinstance(table, Mapping):
        return _with_table(Agent(name=name) if offered is None else offered.item, table, config)
    if offered is not None:
        return offered.item
    known = sorted(
        {*registry.agents, *(key for key, value in (config.get("agents") or {}).items() if isinstance(value, Mapping))}
    )
    from codex_framework.toolkit.suggestions import did_you_mean

    raise ThreadError(
        f"there is no agent {name!r}",
        slug="no-agent",
        hint=f"{did_you_mean(name, known)}The agents are: {', '.join(known) or 'none'}."
        f" Add one as [agents.{name}], or install a plugin that offers it.",
    )


def check_agent(agent: object, method: str) -> None:
    """Check an agent of a program or a plugin.

    Raises:
        WrongValue: It is not an agent, or one of its fields has the wrong class.
    """
    problems = list(agent_problems(agent))
    if problems:
        name = f"agent {agent.name!r}" if isinstance(agent, Agent) else f"the agent of {method}()"
        raise WrongValue(
            f"{name}: {'; '.join(problems)}", hint="Pass an Agent whose fields have the annotated classes."
        )


def _with_table(agent: Agent[Any], table: Mapping[str, Any], config: Config) -> Agent[Any]:
    """Return an agent with the settings of a table, whose types have already been checked."""
    given: dict[str, Any] = {key: table[key] for key in _TEXTS if key in table}
    given |= {key: tuple(table[key]) for key in _LISTS if key in table}
    if "model_reasoning_effort" in table:
        given["reasoning_effort"] = table["model_reasoning_effort"]
    if "limits" in table:
        given["limits"] = Limits(**table["limits"])
    if "permissions" in table:
        try:
            named_permissions(config, table["permissions"])
        except ConfigError as error:
            key = ("agents", agent.name, "permissions")
            raise config.error(key, f"agent {agent.name!r}: {error}", hint=error.hint, slug=error.slug) from None
    return agent.evolve(**given) if given else agent


def _is_declared(agent: Agent[Any], config: Config, registry: Registry) -> bool:
    """Return whether the configuration or a plugin declares the agent, and not the program."""
    try:
        declared = find_agent(agent.name, config, registry)
    except CodexError:
        return False
    return agent.permissions in (None, declared.permissions) and agent.approval_policy in (
        None,
        declared.approval_policy,
    )


def starting_settings(settings: Settings, agent: Agent[Any], host: Host) -> Settings:
    """Return the settings of a thread that a program starts with an agent.

    An agent of the configuration or of a plugin can only restrict the session's permissions. An agent of the program can extend
    them.

    Raises:
        CodexError: The permission profile or approval policy does not exist, or the agent asks for more.
    """
    wanted = agent_settings(settings, agent, host.named_permissions)
    if not _is_declared(agent, host.config, host.registry):
        return wanted
    return narrow_settings(wanted, settings, agent, host, around="the session")


def agent_settings(settings: Settings, agent: Agent[Any], permissions: Callable[[str], Permissions]) -> Settings:
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
        wanted = permissions(agent.permissions)
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


def narrow_settings(
    settings: Settings, parent: Settings, agent: Agent[Any], host: Host, *, around: str = "its parent"
) -> Settings:
    """Return an agent's settings if they permit no more than the surrounding ones.

    Args:
        parent: The surrounding settings.
        around: The owner of these settings, for errors.

    Raises:
        ThreadError: They permit more. The fact names the agent.
    """
    wanted = file_access(settings.permissions, settings.cwd, host.environ, host.deciding)
    allowed = file_access(parent.permissions, parent.cwd, host.environ, host.deciding)
    if not wanted.within(allowed):
        raise ThreadError(
            f"agent {agent.name!r} requests the permissions {agent.permissions!r}, which exceed the permissions of {around}",
            slug="wider-agent",
            hint=f"Give it permissions within those of {around.removeprefix('its ')}, or omit them to use the same.",
        )
    if settings.approval_policy != parent.approval_policy:
        stricter = stricter_policies(parent.approval_policy)
        if settings.approval_policy not in stricter:
            words = "".join(f"{policy}, " for policy in stricter)
            raise ThreadError(
                f"agent {agent.name!r} requests the approval policy {agent.approval_policy!r}, which is"
                f" neither the policy of {around} nor stricter",
                slug="wider-agent",
                hint=f"Give it {words}{'or ' if words else ''}the policy of {around.removeprefix('its ')}.",
            )
    return settings


def stricter_policies(policy: ApprovalPolicy | GranularApproval) -> tuple[ApprovalPolicy, ...]:
    """Return the policies under which no command runs that this policy would ask about or refuse.

    ``never`` refuses instead of asking, and ``untrusted`` asks about every command that is not known to be harmless. So neither
    is stricter than the other.
    """
    if policy in (ApprovalPolicy.NEVER, ApprovalPolicy.UNTRUSTED):
        return ()
    if isinstance(policy, GranularApproval) and not (policy.sandbox_approval and policy.rules):
        return (ApprovalPolicy.NEVER,)
    return (ApprovalPolicy.NEVER, ApprovalPolicy.UNTRUSTED)
