"""The model provider that the configuration selects: a built-in one or a table of ``[model_providers]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.config.config import Config
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.value import fields_of

__all__ = ["DEFAULT_PROVIDER", "provider_info"]

DEFAULT_PROVIDER = "openai"

_RESERVED = ("openai", "ollama", "lmstudio")
"""Ids that a table cannot redefine, so that everyone can be sure which server gets their data (Codex's rule)."""

_MAX_RETRIES = 100
"""The maximum number of retries (Codex's limit)."""

_FIELDS = frozenset(field.name for field in fields_of(ProviderInfo)) - {"id", "options"}


def provider_info(config: Config, builtin: Mapping[str, ProviderInfo], name: str | None = None) -> ProviderInfo:
    """Return a provider.

    Args:
        config: A checked configuration.
        builtin: Providers that exist without a table, by id.
        name: Its id. By default, the selected one.

    Raises:
        ConfigError: The provider does not exist, or its table contradicts itself.
    """
    tables: Mapping[str, Mapping[str, Any]] = config.get("model_providers", {})
    for reserved in _RESERVED:
        if reserved in tables:
            raise config.error(
                ("model_providers", reserved),
                f"`model_providers.{reserved}` redefines a built-in provider",
                hint=f"Give it another id, for example {reserved}-custom, and set model_provider to that."
                + (" To change only the URL, set openai_base_url." if reserved == "openai" else ""),
                slug="provider",
            )
    for other, table in tables.items():
        _check_credentials(config, other, table)
    chosen: str = config.get("model_provider", DEFAULT_PROVIDER) if name is None else name
    if chosen in tables:
        return _read_provider(config, chosen, tables[chosen], builtin.get(chosen))
    if chosen not in builtin:
        raise _unknown(config, chosen, {*tables, *builtin})
    info = builtin[chosen]
    url = config.get("openai_base_url")
    return info.evolve(base_url=url) if url and chosen == "openai" else info


def _unknown(config: Config, name: str, known: set[str]) -> Exception:
    listed = ", ".join(sorted(known)) or "none, because no plugin offers one and [model_providers] is empty"
    from codex_framework.toolkit.suggestions import did_you_mean

    hint = f"{did_you_mean(name, known)}Add a table [model_providers.{name}], or set model_provider to one of these."
    if name == DEFAULT_PROVIDER:
        hint = "Enable the plugin `openai` (see `codex-framework plugins`), or set model_provider to another one."
    fact = f"unknown model provider {name!r}; existing providers: {listed}"
    if name != config.get("model_provider", DEFAULT_PROVIDER):  # a plugin, an agent or a client asks for it
        hint = f"{did_you_mean(name, known)}Add a table [model_providers.{name}], or use one of these."
        return ConfigError(fact, slug="provider", hint=hint)
    return config.error("model_provider", fact, hint=hint, slug="provider")


def _read_provider(config: Config, name: str, table: Mapping[str, Any], base: ProviderInfo | None) -> ProviderInfo:
    _check_retries(config, name, table)
    fields = {key: value for key, value in table.items() if key in _FIELDS}
    options = {key: value for key, value in table.items() if key not in _FIELDS}
    if base is not None:
        return base.evolve(**fields, options={**base.options, **options})
    return ProviderInfo(**{"id": name, "name": name, **fields}, options=options)


def _check_retries(config: Config, name: str, table: Mapping[str, Any]) -> None:
    for key in ("request_max_retries", "stream_max_retries"):
        if table.get(key, 0) > _MAX_RETRIES:
            raise config.error(
                ("model_providers", name, key),
                f"`{key}` of the model provider {name!r} is {table[key]}, but at most {_MAX_RETRIES} are allowed",
                hint=f"Set it to {_MAX_RETRIES} or less.",
                slug="provider",
            )


def _check_credentials(config: Config, name: str, table: Mapping[str, Any]) -> None:
    """Check that a table with ``auth`` or ``aws`` has no second source of credentials."""
    for source in ("auth", "aws"):
        if source not in table:
            continue
        others = ("env_key", "experimental_bearer_token", "requires_openai_auth", *({"auth", "aws"} - {source}))
        conflicts = [key for key in others if table.get(key)]
        if conflicts:
            raise config.error(
                ("model_providers", name, conflicts[0]),
                f"the model provider {name!r} has both `{source}` and `{conflicts[0]}`",
                hint=f"Remove one of them. `{source}` already provides the credentials.",
                slug="provider",
            )
    auth = table.get("auth")
    if auth is not None and not str(auth.get("command", "")).strip():
        raise config.error(
            ("model_providers", name, "auth"),
            f"`auth` of the model provider {name!r} has no `command`",
            hint="Set `command` to the program that prints a token.",
            slug="provider",
        )
