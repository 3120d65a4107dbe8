"""Environment variables with credentials, as named by the configuration. Commands never get them, whatever their names are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codex_framework.config.secrecy import is_secret
from codex_framework.contract.roles.models import ProviderInfo

__all__ = ["Credentials", "credentials"]

_SHORTEST = 12
"""Minimum length, in characters, of secrets that are searched for in the values of other variables."""

_NAMES_VARIABLES = ("env_http_headers",)
_VARIABLE_SUFFIXES = ("env_key", "env_var")
_OPENAI = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY")
"""The variables that providers with ``requires_openai_auth`` read (Codex's names)."""


class Credentials:
    """Names of variables with credentials, and secrets in the configuration itself.

    Attributes:
        names: The variables.
        secrets: The secrets. They are not shown by ``repr``.
    """

    def __init__(self, names: Iterable[str], secrets: Iterable[str] = ()) -> None:
        self.names = frozenset(filter(None, names))
        self.secrets = frozenset(secret for secret in secrets if len(secret) >= _SHORTEST)

    def and_also(self, other: Credentials) -> Credentials:
        """Return these credentials and the credentials of another configuration."""
        return Credentials(self.names | other.names, self.secrets | other.secrets)

    def values(self, environ: Mapping[str, str]) -> frozenset[str]:
        """Return all secrets, including those in variables, that are long enough to be recognised in other texts."""
        found = (environ.get(name, "").strip() for name in self.names)
        return self.secrets | {value for value in found if len(value) >= _SHORTEST}


def credentials(tables: Mapping[str, Any], providers: Iterable[ProviderInfo] = ()) -> Credentials:
    """Return the credentials that a configuration and providers name.

    These are ``env_key``, ``bearer_token_env_var`` and all settings with the same endings, the variables of ``env_http_headers``,
    and the ``env_vars`` and secrets in ``env`` of MCP servers. Tables of plugins are searched for the same names.

    Args:
        tables: The merged configuration.
        providers: Providers that may be used, including those without a table.
    """
    names: set[str] = set()
    secrets: set[str] = set()
    _search(tables, (), names, secrets)
    for info in providers:
        names.update(filter(None, (info.env_key, *info.env_http_headers.values())))
        names.update(_OPENAI if info.requires_openai_auth else ())
        secrets.update(filter(None, (info.experimental_bearer_token,)))
        _search(info.options, ("model_providers", info.id), names, secrets)
    return Credentials(names, secrets)


def _search(table: Mapping[str, Any], path: tuple[str, ...], names: set[str], secrets: set[str]) -> None:
    for key, value in table.items():
        at = (*path, key)
        if at == ("shell_environment_policy",):  # it names the variables that commands get
            continue
        if isinstance(value, str):
            if key.endswith(_VARIABLE_SUFFIXES):
                names.add(value)
            elif key.endswith("bearer_token"):
                secrets.add(value)
        elif key in _NAMES_VARIABLES and isinstance(value, Mapping):
            names.update(name for name in value.values() if isinstance(name, str))
        elif key == "env_vars" and isinstance(value, (list, tuple)):
            names.update(_variable_names(value))
        elif key in ("env", "http_headers", "headers") and isinstance(value, Mapping):
            secret = {name: text for name, text in value.items() if isinstance(text, str) and is_secret((name,))}
            secrets.update(secret.values())
            names.update(secret if key == "env" else ())
        elif isinstance(value, Mapping):
            _search(value, at, names, secrets)


def _variable_names(variables: Iterable[Any]) -> Iterator[str]:
    for variable in variables:
        name = variable.get("name") if isinstance(variable, Mapping) else variable
        if isinstance(name, str):
            yield name
