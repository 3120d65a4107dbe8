"""The credentials of a provider: an API key, or a program that prints tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo

if TYPE_CHECKING:
    from codex_framework.toolkit.model_server.token_command import TokenCommand

__all__ = ["api_key", "credentials"]


def credentials(info: ProviderInfo, env: Mapping[str, str]) -> tuple[str | None, TokenCommand | None]:
    """Return the key to send as a bearer token, or the source of tokens if the table has ``auth``, or neither.

    Raises:
        ModelError: The provider needs a key and none is set, or its ``auth`` is invalid.
    """
    if "auth" not in info.options:
        return api_key(info, env), None
    from codex_framework.toolkit.model_server.token_command import TokenCommand

    return None, TokenCommand.of(info, env)


def api_key(info: ProviderInfo, env: Mapping[str, str]) -> str | None:
    """Return the key to send as a bearer token, or None if the provider needs no key.

    The first of these sources that is set provides the key: the environment variable named by ``env_key``, then
    ``experimental_bearer_token``, and for OpenAI itself ``CODEX_API_KEY``, ``OPENAI_API_KEY`` and ``$CODEX_HOME/auth.json``.

    Raises:
        ModelError: The provider needs a key, and none is set.
    """
    if info.env_key:
        key = env.get(info.env_key, "").strip()
        if not key:
            raise _missing(
                f"Missing environment variable: `{info.env_key}`",
                info.env_key_instructions or f"Set {info.env_key} to the API key of {info.name or info.id}.",
            )
        return key
    if info.experimental_bearer_token:
        return info.experimental_bearer_token
    if not (info.requires_openai_auth or info.id == "openai") or _sends_own(info, env):
        return None
    home = Path(env.get("CODEX_HOME") or Path(env.get("HOME") or Path.home()) / ".codex")
    key = env.get("CODEX_API_KEY", "").strip() or env.get("OPENAI_API_KEY", "").strip() or _stored(home / "auth.json")
    if not key:
        raise _missing(
            f"no API key for the provider {info.id!r}",
            f'Set OPENAI_API_KEY, or put {{"OPENAI_API_KEY": "..."}} into {home / "auth.json"},'
            " or choose another model_provider in config.toml.",
        )
    return key


def _missing(fact: str, hint: str) -> ModelError:
    return ModelError(fact, info="unauthorized", slug="missing-key", hint=hint)


def _sends_own(info: ProviderInfo, env: Mapping[str, str]) -> bool:
    """Return whether the provider's table sets the ``authorization`` header itself."""
    sent = [*info.http_headers, *(name for name, variable in info.env_http_headers.items() if env.get(variable))]
    return any(name.lower() == "authorization" for name in sent)


def _stored(path: Path) -> str:
    try:
        stored = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise _missing(f"{path} cannot be read: {error}", f"Repair or delete {path}, or set OPENAI_API_KEY.") from error
    key = stored.get("OPENAI_API_KEY") if isinstance(stored, dict) else None
    return key.strip() if isinstance(key, str) else ""
