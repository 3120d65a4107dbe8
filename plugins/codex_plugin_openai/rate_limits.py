"""Parsing of the usage limits in response headers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.roles.models import RateLimits

__all__ = ["event_limits", "rate_limits"]

_PREFIX = "x-codex-"

_MOST = 1e15
"""No percentage, number of minutes or Unix time is as large."""


def rate_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Return a ``RateLimitSnapshot`` from the ``x-codex-*`` headers, or None."""
    primary, secondary = _window(headers, "primary"), _window(headers, "secondary")
    funds = _credits(headers)
    if primary is None and secondary is None and funds is None:
        return None
    snapshot: dict[str, Any] = {"limit_id": "codex", "primary": primary, "secondary": secondary, "credits": funds}
    return RateLimits({key: value for key, value in snapshot.items() if value is not None})


def event_limits(payload: Mapping[str, Any]) -> RateLimits | None:
    """Return the limits in a ``codex.rate_limits`` event, which replaces the headers over a WebSocket. None without limits."""
    limits = payload.get("rate_limits")
    limits = limits if isinstance(limits, Mapping) else {}
    snapshot: dict[str, Any] = {"limit_id": payload.get("metered_limit_name") or "codex"}
    for which in ("primary", "secondary"):
        window = limits.get(which)
        used = _finite(window.get("used_percent")) if isinstance(window, Mapping) else None
        if isinstance(window, Mapping) and used is not None:
            moments = {"window_minutes": window.get("window_minutes"), "resets_at": window.get("reset_at")}
            known = {
                key: value for key, value in moments.items() if isinstance(value, int) and _finite(value) is not None
            }
            snapshot[which] = {"used_percent": used, **known}
    funds = payload.get("credits")
    if isinstance(funds, Mapping):
        snapshot["credits"] = {key: funds[key] for key in ("has_credits", "unlimited", "balance") if key in funds}
    if isinstance(plan := payload.get("plan_type"), str):
        snapshot["plan_type"] = plan
    return RateLimits(snapshot) if snapshot.keys() & {"primary", "secondary", "credits"} else None


def _window(headers: Mapping[str, str], which: str) -> dict[str, Any] | None:
    used = _number(headers.get(f"{_PREFIX}{which}-used-percent"))
    if used is None:
        return None
    window: dict[str, Any] = {"used_percent": used}
    for key, header in (("window_minutes", "window-minutes"), ("resets_at", "reset-at")):
        value = _number(headers.get(f"{_PREFIX}{which}-{header}"))
        if value is not None:
            window[key] = int(value)
    return window


def _credits(headers: Mapping[str, str]) -> dict[str, Any] | None:
    has = headers.get(f"{_PREFIX}credits-has-credits")
    unlimited = headers.get(f"{_PREFIX}credits-unlimited")
    if has is None or unlimited is None:
        return None
    known: dict[str, Any] = {"has_credits": _truth(has), "unlimited": _truth(unlimited)}
    balance = headers.get(f"{_PREFIX}credits-balance", "").strip()
    return {**known, "balance": balance} if balance else known


def _truth(text: str) -> bool:
    return text.strip().lower() in ("true", "1")


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else _finite(float(text))
    except ValueError:
        return None


def _finite(value: object) -> float | None:
    """Return a number that can be shown, or None."""
    try:
        number = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return None
    return number if abs(number) < _MOST else None
