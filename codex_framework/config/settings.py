"""The settings of a new thread, made from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.config.config import Config
from codex_framework.config.permissions import starting_permissions
from codex_framework.config.provider_table import provider_info
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.value import fields_of

__all__ = ["DEFAULT_MODEL", "OPENAI_MODEL", "fallback_warning", "service_tier", "settings_from", "with_overrides"]

DEFAULT_MODEL = "gpt-5.5"
"""The model if none is configured: the newest one of Codex's catalogue whose requests any server understands."""

OPENAI_MODEL = "gpt-6.2-sol"
"""The model if none is configured and the server is OpenAI's: the first one of Codex's catalogue, as in Codex."""

_FAST = "priority"
_SERVICE_TIERS = {"fast": _FAST, "default": None}
"""Service tiers of the configuration, and their values in a request (as in Codex)."""


def settings_from(config: Config, builtin_providers: Mapping[str, ProviderInfo]) -> Settings:
    """Return the settings that a configuration asks for.

    Args:
        config: A checked configuration.
        builtin_providers: Providers that exist without a table, by id, as the loaded plugins offer them.

    Raises:
        ConfigError: The model has no name, the provider is unknown or contradicts itself, or the permission profile is unknown.
    """
    tier = service_tier(config.get("service_tier"))
    if tier == _FAST and config.get("features.fast_mode") is False:
        tier = None
    provider = provider_info(config, builtin_providers)
    return Settings(
        model=_model(config, provider),
        provider=provider,
        approval_policy=_approval_policy(config),
        permissions=starting_permissions(config),
        cwd=config.cwd,
        reasoning_effort=config.get("model_reasoning_effort"),
        reasoning_summary=config.get("model_reasoning_summary"),
        verbosity=config.get("model_verbosity"),
        service_tier=tier,
        context_window=config.get("model_context_window"),
        tool_output_token_limit=config.get("tool_output_token_limit"),
        reasoning=config.get("model_supports_reasoning_summaries"),
        shell_environment_policy=_environment_policy(config.get("shell_environment_policy", {})),
        keep_variables=tuple(config.get("framework.keep_variables", ())),
        hide_agent_reasoning=config.get("hide_agent_reasoning", default=False),
        show_raw_agent_reasoning=config.get("show_raw_agent_reasoning", default=False),
        personality=config.get("personality"),
    )


def _environment_policy(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table with ``filters`` as the two older lists, which mean the same."""
    if not (filters := table.get("filters")):
        return table
    rest = {name: value for name, value in table.items() if name != "filters"}
    lists = {"exclude": "exclude", "include": "include_only"}
    return rest | {key: [name for name, act in filters.items() if act == word] for word, key in lists.items()}


def _model(config: Config, provider: ProviderInfo) -> str:
    default = OPENAI_MODEL if provider.requires_openai_auth else DEFAULT_MODEL
    model: str = config.get("model", default)
    if not model.strip():
        hint = f"Name a model, or remove the setting to get {default}."
        raise config.error("model", "`model` is empty", hint=hint, slug="config-type")
    return model


def with_overrides(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return settings with some fields replaced by the keyword arguments of a program.

    ``cwd`` may be a string, ``approval_policy`` one of its words, and ``sandbox_policy`` sets the permissions.

    Raises:
        ConfigError: A field does not exist, or its value has the wrong type.
    """
    if not overrides:
        return settings
    from codex_framework.config.overriding import checked_override

    given = {name: checked_override(settings, name, value) for name, value in overrides.items()}
    if (variables := given.get("shell_environment_policy")) is not None:
        given["shell_environment_policy"] = _environment_policy(variables)
    return settings.evolve(**given)


def service_tier(word: str | None) -> str | None:
    """Return the service tier of a request that a word of the user means. None is the provider's default."""
    return _SERVICE_TIERS.get(word, word) if word else None


def fallback_warning(slug: str) -> str:
    """Return the warning for an unknown model. It is Codex's sentence, which clients look for."""
    return (
        f"Model metadata for `{slug}` not found."
        " Defaulting to fallback metadata; this can degrade performance and cause issues."
    )


def _approval_policy(config: Config) -> ApprovalPolicy | GranularApproval:
    value = config.get("approval_policy")
    if isinstance(value, str):
        return ApprovalPolicy(value)
    if isinstance(value, Mapping):
        return _granular(config, value)
    return ApprovalPolicy.UNTRUSTED if config.trust == "untrusted" else ApprovalPolicy.ON_REQUEST


def _granular(config: Config, value: Mapping[str, Any]) -> GranularApproval:
    answers = value.get("granular") or {}
    required = [field.name for field in fields_of(GranularApproval) if field.required]
    missing = [name for name in required if name not in answers]
    if missing:
        raise config.error(
            "approval_policy.granular",
            f"`approval_policy.granular` lacks {', '.join(f'`{name}`' for name in missing)}",
            hint="Set each of them to true or false.",
        )
    return GranularApproval(**answers)
