"""The claims of a JSON web token. Its signature is not checked: the token came from its issuer, and only its issuer relies on it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["account_id", "claims_of", "email", "expires_at", "is_fedramp", "plan"]

_AUTH = "https://api.openai.com/auth"
_PROFILE = "https://api.openai.com/profile"
_LATEST = 253_402_300_799
"""The last second of the year 9999."""


def claims_of(token: str) -> Mapping[str, Any]:
    """Return the claims of a token. They are empty if the text is no such token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def account_id(claims: Mapping[str, Any]) -> str | None:
    """Return the id of the ChatGPT workspace that a token is for."""
    return _text(_auth(claims).get("chatgpt_account_id"))


def plan(claims: Mapping[str, Any]) -> str | None:
    """Return the name of the ChatGPT plan."""
    return _text(_auth(claims).get("chatgpt_plan_type"))


def email(claims: Mapping[str, Any]) -> str | None:
    """Return the address of the user."""
    profile = claims.get(_PROFILE)
    inner = profile.get("email") if isinstance(profile, dict) else None
    return _text(claims.get("email")) or _text(inner)


def is_fedramp(claims: Mapping[str, Any]) -> bool:
    """Return whether the workspace requires FedRAMP routing."""
    return _auth(claims).get("chatgpt_account_is_fedramp") is True


def expires_at(claims: Mapping[str, Any]) -> float | None:
    """Return when a token expires, in seconds since the epoch, or None if it names no valid date."""
    value = claims.get("exp")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _LATEST:
        return None
    return float(value)


def _auth(claims: Mapping[str, Any]) -> Mapping[str, Any]:
    auth = claims.get(_AUTH)
    return auth if isinstance(auth, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
