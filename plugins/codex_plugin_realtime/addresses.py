"""The URLs of the realtime server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from codex_framework import ConfigError
from codex_framework.contract.urls import shown_url

__all__ = ["call_id_of", "calls_url", "is_backend", "socket_url"]

_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_INTENT = ("intent", "quicksilver")
"""The data that is requested from servers of ``v1``."""

_CALL_ID = "rtc_"


def socket_url(
    base: str, key: str, version: str, more: Mapping[str, str], *, model: str = "", call_id: str = ""
) -> str:
    """Return the URL of a WebSocket.

    As in Codex, ``/realtime`` is added to a path that ends with ``/v1``, an empty path becomes ``/v1/realtime``, and any other
    path is unchanged.

    Args:
        base: The URL of the server.
        key: The setting that it comes from.
        more: Parameters of the provider's table.
        model: The model of a new session.
        call_id: The call of an existing session. Either it or the model is given.

    Raises:
        ConfigError: The URL is unusable.
    """
    parts = _check_url(base, key, _SCHEMES)
    path = parts.path
    if path in ("", "/"):
        path = "/v1/realtime"
    elif path.endswith("/realtime/"):
        path = path.rstrip("/")
    elif path.endswith(("/v1", "/v1/")):
        path = f"{path.rstrip('/')}/realtime"
    own: list[tuple[str, str]] = [_INTENT] if version == "v1" else []
    if model:
        own.append(("model", model))
    theirs = [pair for pair in more.items() if pair[0] != "intent" and not (pair[0] == "model" and model)]
    last = [("call_id", call_id)] if call_id else []
    return _with_parameters(parts, [*own, *theirs, *last], scheme=_SCHEMES[parts.scheme], path=path)


def calls_url(base: str, key: str, version: str, more: Mapping[str, str]) -> str:
    """Return the URL to which an SDP offer is posted. Raises ConfigError as :func:`socket_url` does."""
    parts = _check_url(base, key, ("http", "https"))
    own = [_INTENT, ("architecture", "avas")] if version == "v1" else []
    return _with_parameters(
        parts, [*own, *more.items()], scheme=parts.scheme, path=f"{parts.path.rstrip('/')}/realtime/calls"
    )


def is_backend(url: str) -> bool:
    """Return whether a URL is one of ChatGPT's, whose servers take offers as JSON."""
    return "/backend-api" in urlsplit(url).path


def call_id_of(location: str | None) -> str | None:
    """Return the id of a call, from the header ``location`` of the answer to an offer, or None if it names none."""
    if location is None:
        return None
    segments = location.partition("?")[0].split("/")
    found = (each for each in reversed(segments) if each.startswith(_CALL_ID) and len(each) > len(_CALL_ID))
    return next(found, None)


def _check_url(base: str, key: str, schemes: Iterable[str]) -> SplitResult:
    try:
        parts = urlsplit(base)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _unusable(base, key, schemes) from None
    if parts.scheme not in schemes or not host or not base.isascii() or not base.isprintable() or " " in base:
        raise _unusable(base, key, schemes)
    return parts


def _unusable(base: str, key: str, schemes: Iterable[str]) -> ConfigError:
    return ConfigError(
        f"{key} = {shown_url(base)!r} is not a URL with one of the schemes {', '.join(sorted(schemes))}",
        slug="realtime-url",
        hint=f'Set {key} = "https://host/v1".',
    )


def _with_parameters(parts: SplitResult, added: Iterable[tuple[str, str]], *, scheme: str, path: str) -> str:
    query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *added])
    return parts._replace(scheme=scheme, path=path, query=query, fragment="").geturl()
