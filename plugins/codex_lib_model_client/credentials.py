"""The credentials of a provider: an API key, a login, or a program that prints tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.value import Value, field

if TYPE_CHECKING:
    from codex_lib_model_client.token_source import TokenSource

__all__ = ["Access", "access", "api_key", "credentials"]


class Access(Value):
    """How requests to a provider authenticate.

    Attributes:
        key: The key to send as a bearer token, if the provider has one.
        tokens: The source of bearer tokens, if they change.
        base_url: The base URL for these credentials, used if the provider's table names no server.
    """

    key: str | None = field(default=None, repr=False)
    tokens: TokenSource | None = field(default=None, repr=False)
    base_url: str | None = None


def access(info: ProviderInfo, env: Mapping[str, str], config: Mapping[str, Any]) -> Access:
    """Return the credentials of a provider.

    The first of these sources that is set provides them: ``auth``, the environment variable named by ``env_key``,
    ``experimental_bearer_token``, and for OpenAI itself ``CODEX_API_KEY``, ``CODEX_ACCESS_TOKEN``, the stored login and
    ``OPENAI_API_KEY``.

    Args:
        config: The merged configuration (``PluginContext.config``), which determines where logins are stored and which are
            permitted.

    Raises:
        ModelError: The credentials that the provider needs are missing or cannot be read.
    """
    if "auth" in info.options:
        from codex_lib_model_client.token_command import TokenCommand

        return Access(tokens=TokenCommand.of(info, env))
    if info.env_key:
        key = env.get(info.env_key, "").strip()
        if not key:
            raise _missing(
                f"Missing environment variable: `{info.env_key}`",
                info.env_key_instructions or f"Set {info.env_key} to the API key of {info.name or info.id}.",
            )
        return Access(key)
    if info.experimental_bearer_token:
        return Access(info.experimental_bearer_token)
    if not (info.requires_openai_auth or info.id == "openai") or _sends_own(info, env):
        return Access()
    return _openai_access(info, env, config)


def _openai_access(info: ProviderInfo, env: Mapping[str, str], config: Mapping[str, Any]) -> Access:
    from codex_lib_model_client.login.access import find_login, home_of

    login = find_login(env, config)
    if login is None:
        raise _missing(
            f"no API key for the provider {info.id!r}",
            "Run `codex-framework login`, or set OPENAI_API_KEY, or choose another model_provider in config.toml."
            f" Logins are stored in {home_of(env) / 'auth.json'}.",
        )
    return Access(login) if isinstance(login, str) else Access(tokens=login, base_url=login.base_url)


def credentials(
    info: ProviderInfo, env: Mapping[str, str], config: Mapping[str, Any]
) -> tuple[str | None, TokenSource | None]:
    """Return the key to send as a bearer token, or the source of tokens, or neither; see :func:`access`.

    For APIs that ChatGPT's tokens are not for: with such a login, OpenAI itself is an error.

    Raises:
        ModelError: As for :func:`access`.
    """
    found = access(info, env, config)
    if found.base_url is not None and info.id == "openai":
        raise _missing(
            f"the login is one of ChatGPT, which cannot be used with wire_api {info.wire_api!r}",
            'Set wire_api = "responses", or use an API key.',
        )
    return found.key, found.tokens


def api_key(info: ProviderInfo, env: Mapping[str, str], config: Mapping[str, Any]) -> str | None:
    """Return the key to send as a bearer token, or None if the provider has no key; see :func:`access`.

    Raises:
        ModelError: As for :func:`access`.
    """
    return access(info, env, config).key


def _missing(fact: str, hint: str) -> ModelError:
    return ModelError(fact, info="unauthorized", slug="missing-key", hint=hint)


def _sends_own(info: ProviderInfo, env: Mapping[str, str]) -> bool:
    """Return whether the provider's table sets the ``authorization`` header itself."""
    sent = [*info.http_headers, *(name for name, variable in info.env_http_headers.items() if env.get(variable))]
    return any(name.lower() == "authorization" for name in sent)
