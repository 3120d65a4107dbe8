"""Conversion of failed requests and responses to ``ModelError``.

The errors state whether a retry can help. Their messages are the same as in Codex 0.169, because clients and users' scripts
rely on them. For the same reason, a message from the server is shown without a hint, unless the key or the address is wrong.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urljoin, urlsplit

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.urls import shown_url

if TYPE_CHECKING:
    from codex_framework.contract.protocol.events.turn import TokenUsage
    from codex_lib_model_client.transport import Answer

__all__ = [
    "ImagesRefusedError",
    "KnownFault",
    "LongIdsRefusedError",
    "behaviour_fault",
    "broken_stream",
    "check_encoding",
    "failed_response",
    "garbled_event",
    "incomplete_response",
    "known_fault",
    "no_answer",
    "no_response",
    "plain_refusal",
    "retry_after",
    "status_error",
    "unreachable",
    "web_page",
    "with_advice",
]

KnownFault: TypeAlias = Callable[[int | None, str, str], ModelError | None]
"""Returns the error for a status (None within a stream), a code and a message of a server, or None if they mean nothing special."""

_BODY_LIMIT = 1000
"""Maximum number of characters shown of a body that is not an error object."""

_MESSAGE_LIMIT = 4000
"""Maximum number of characters shown of a server's message, or of the body of a refused request."""

_EVENT_SHOWN = 100
"""Maximum number of characters shown of an event that cannot be read."""

_PAGE_TITLE = 100
"""Maximum number of characters shown of the title of a web page."""

_REPLY_SHOWN = 200
"""Maximum number of characters shown of JSON that is no response."""

_STATUS_TEXTS = {401: "401 Unauthorized"}
_PHRASES = {413: "Payload Too Large", 414: "URI Too Long", 416: "Range Not Satisfiable", 422: "Unprocessable Entity"}

_SHORTEST_SECRET = 4
"""Minimum length of the parts of a URL that are hidden in messages."""

_IMAGE_CODES = frozenset({"image_parse_error", "invalid_base64_image", "invalid_image", "invalid_image_format"})
_IMAGE_TEXTS = ("does not represent a valid image", "Could not process image")
"""How OpenAI and Anthropic refuse an image."""

_DELAY = r"(?i)try again in (\d+(?:\.\d+)?)\s*(ms|s|seconds?)"

CONTEXT_EXCEEDED = (
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."
)
QUOTA = "Quota exceeded. Check your plan and billing details."
OVERLOADED = "Selected model is at capacity. Please try a different model."
HIGH_DEMAND = "We\u2019re currently experiencing high demand, which may cause temporary errors."
BAD_IMAGE = "Invalid image in your last message. Please remove it and try again."
"""Codex's text for an image that the server refuses."""
KEY_HINT = "Check the key that env_key or auth of the model provider gives."
ADDRESS_HINT = "Check base_url of the model provider"
NOT_INCLUDED = "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus."
"""For the error code ``usage_not_included``."""


class ImagesRefusedError(ModelError):
    """The model takes no images, or its server does not. A request without them succeeds."""


class LongIdsRefusedError(ModelError):
    """Ids of calls must have nine letters and digits. A request with such ids succeeds."""


def broken_stream(reason: str, status: int | None = None) -> ModelError:
    """Return the error for a response that was cut off."""
    return ModelError(
        f"stream disconnected before completion: {reason}",
        retryable=True,
        info={"response_stream_disconnected": {"http_status_code": status}},
        slug="stream-disconnected",
    )


def no_answer(provider: str, seconds: float) -> ModelError:
    """Return the error for a server that received the request but sent no response head within the time limit."""
    error = broken_stream(f"the model server sent no response within {seconds:g} s")
    error.hint = f"If the server needs longer, raise response_timeout_ms in [model_providers.{provider}]."
    return error


def unreachable(url: str, reason: str, hint: str = "") -> ModelError:
    """Return the error for a connection that failed before a response arrived. Without a hint, it says what usually helps."""
    return ModelError(
        f"Connection failed: error sending request for url ({shown_url(url)}): {_without_secrets(reason, url)}",
        retryable=True,
        info={"http_connection_failed": {"http_status_code": None}},
        slug="unreachable",
        hint=hint or "Check base_url of the model provider, the network, and whether the server runs.",
    )


def _without_secrets(text: str, url: str) -> str:
    """Return a message from the server or the system, with secrets from the URL replaced by ``(hidden)``."""
    try:
        parts = urlsplit(url)
        secrets = {
            parts.query,
            *(value for _, value in parse_qsl(parts.query)),
            parts.password or "",
            parts.username or "",
        }
    except ValueError:
        secrets = {url}
    secrets |= {quote(secret, safe="") for secret in secrets} | {unquote(secret) for secret in secrets}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "(hidden)")
    return text


def garbled_event(data: str) -> ModelError:
    """Return the error for an event that cannot be read. Its content is lost, so the response is incomplete."""
    shown = data if len(data) <= _EVENT_SHOWN else f"{data[:_EVENT_SHOWN]}..."
    return broken_stream(f"the model server sent an event that cannot be read: {shown}")


def incomplete_response(response: Mapping[str, Any], usage: TokenUsage | None) -> ModelError:
    """Return the error for a ``response.incomplete`` event."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    return ModelError(
        f"Incomplete response returned, reason: {_shorten(str(reason or 'unknown'))}", slug="incomplete", usage=usage
    )


def failed_response(
    response: Mapping[str, Any], usage: TokenUsage | None = None, known: KnownFault | None = None
) -> ModelError:
    """Return the error for a response whose ``error`` is this object: a ``response.failed`` or ``error`` event."""
    error = _failed_response(response, known or known_fault)
    error.usage = usage
    return error


def _failed_response(response: Mapping[str, Any], known: KnownFault) -> ModelError:
    error = response.get("error")
    error = error if isinstance(error, Mapping) else {}
    code, message = _shorten(str(error.get("code") or "")), _shorten(str(error.get("message") or ""))
    found = behaviour_fault(None, code, message) or known(None, code, message)
    if found is not None:
        return found
    delay = _asked_delay(message)
    if code == "rate_limit_exceeded":
        return ModelError(
            f"rate limit exceeded: {message}",
            retryable=True,
            retry_after_s=delay,
            info={"response_stream_disconnected": {"http_status_code": None}},
            slug="rate-limit",
        )
    failed = broken_stream(message or code or "response.failed event received")
    failed.retry_after_s = delay
    return failed


def status_error(
    status: int,
    phrase: str,
    headers: Mapping[str, str],
    body: bytes,
    url: str,
    known: KnownFault | None = None,
) -> ModelError:
    """Return the error for an HTTP response with an error status."""
    text = _without_page(_without_secrets(body.decode("utf-8", "replace").strip(), url))
    phrase = _phrase(status) or phrase
    error = _error_object(text)
    code, message = str(error.get("code") or error.get("type") or ""), _shorten(str(error.get("message") or ""))
    if status == 429:
        return _too_many(phrase, headers, error)
    found = behaviour_fault(status, f"{code} {error.get('type')}", message or text) or (known or known_fault)(
        status, code, message
    )
    if found is not None:
        found.retry_after_s = retry_after(headers) if found.retryable else None
        return found
    if status == 400:
        return ModelError(
            _shorten(text) or "the server refused the request (400 Bad Request)", info="bad_request", slug="bad-request"
        )
    if status == 404 and message:
        return ModelError(message, info="bad_request", slug="not-found")
    if status == 500:
        return ModelError(
            HIGH_DEMAND,
            retryable=True,
            retry_after_s=retry_after(headers),
            info="internal_server_error",
            slug="server-error",
        )
    return _unexpected_status(status, phrase, headers, message or text, url)


def _phrase(status: int) -> str:
    """Return the name of a status, in Codex's words. Python's words differ between versions."""
    from http import HTTPStatus

    try:
        return _PHRASES.get(status) or HTTPStatus(status).phrase
    except ValueError:
        return ""


def _without_page(text: str) -> str:
    """Return the text of a body. Of a web page, only the title or the first words are kept: the cause would be lost among the rest."""
    if re.match(r"(?i)<(?:!doctype\s+html|html|head|body)\b", text) is None:
        return text
    title = re.search(r"(?is)<(title|h1)\b[^>]{0,200}>(.{0,1000}?)</\1", text)
    shown = re.sub(r"(?is)<(style|script)\b.*?(</\1\s*>|\Z)", "", text) if title is None else title[2]
    words = " ".join(re.sub(r"<[^>]*>?", " ", shown).split())
    if not words:
        return "a web page"
    from html import unescape

    return f"a web page, {unescape(words)[:_PAGE_TITLE]!r}"


def _shorten(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[:_MESSAGE_LIMIT]}..."


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay in seconds that the server requests, or None if it requests none.

    The delay is read from ``retry-after-ms``, or from ``retry-after`` as seconds or a date. A delay of a day or more is ignored.
    """
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None:
        return _seconds(milliseconds, 0.001)
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _seconds(value, 1.0)
    if seconds is not None:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        return _sensible(max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0))
    except (ValueError, OverflowError):  # neither a number nor a date: ignored
        return None


def _seconds(value: str, unit: float) -> float | None:
    try:
        return _sensible(float(value) * unit)
    except ValueError:
        return None


def _sensible(seconds: float) -> float | None:
    """Return the delay, or None if it is negative, not a number, or a day or more."""
    return seconds if 0 <= seconds < 86_400 else None


def known_fault(status: int | None, code: str, message: str) -> ModelError | None:
    """Return the error for a code that has the same meaning in every response, or None for other codes.

    A retry does not help against any of these errors.
    """
    if status not in (None, 400, 403, 503):
        return None
    match code:
        case "context_length_exceeded":
            return ModelError(CONTEXT_EXCEEDED, info="context_window_exceeded", slug="context-window")
        case "insufficient_quota":
            return ModelError(QUOTA, info="usage_limit_exceeded", slug="quota")
        case "usage_not_included":
            return ModelError(NOT_INCLUDED, info="usage_limit_exceeded", slug="usage-limit")
        case "cyber_policy":
            return ModelError(
                message or "the request was refused (cyber_policy)", info="cyber_policy", slug="cyber-policy"
            )
        case "invalid_prompt":
            return ModelError(
                message or "the request was refused (invalid_prompt)", info="bad_request", slug="bad-request"
            )
        case "server_is_overloaded" | "slow_down":
            return ModelError(OVERLOADED, info="server_overloaded", slug="overloaded")
        case _ if status in (None, 400) and (code in _IMAGE_CODES or any(text in message for text in _IMAGE_TEXTS)):
            return ModelError(BAD_IMAGE, info="bad_request", slug="invalid-image")
        case _:
            return None


def behaviour_fault(status: int | None, code: str, message: str) -> ModelError | None:
    """Return the error for what some servers say and all may say, or None; see :mod:`codex_lib_model_client.server_behaviour`."""
    from codex_lib_model_client.server_behaviour import meaning_of

    match meaning_of(status, f"{code} {message}"):
        case "too long":
            return known_fault(None, "context_length_exceeded", "")
        case "no images" if known_fault(status, code, message) is None:
            return ImagesRefusedError(message, info="bad_request", slug="bad-request")
        case "short ids":
            return LongIdsRefusedError(message, info="bad_request", slug="bad-request")
        case _:
            return None


def plain_refusal(
    status: int | None, message: str, path: str, *, key_statuses: tuple[int, ...] = (401, 403)
) -> ModelError | None:
    """Return the error for a status with a clear cause, in the server's words, or None. For APIs other than OpenAI's own.

    Args:
        path: The path that is added to ``base_url``, such as ``/messages``.
        key_statuses: The statuses with which the server refuses a key.
    """
    if status == 500 and message:
        fact = f"the model server failed: {message}"
        return ModelError(fact, retryable=True, info="internal_server_error", slug="server-error")
    if status == 400 and message:
        return ModelError(message, info="bad_request", slug="bad-request")
    if status in key_statuses:
        fact = f"the model server refuses the key: {message or _STATUS_TEXTS.get(status, status)}"
        return ModelError(fact, info="unauthorized", slug="unexpected-status", hint=KEY_HINT)
    if status == 404 and not message:
        fact = "the model server has nothing at this address (404 Not Found)"
        hint = f"{ADDRESS_HINT}: {path} is added to it."
        return ModelError(fact, info="bad_request", slug="not-found", hint=hint)
    return None


def web_page(provider: str, path: str) -> ModelError:
    """Return the error for a server that answered with a web page. For the arguments, see :func:`no_response`."""
    return _not_a_response(provider, path, "a web page")


def no_response(provider: str, path: str, noun: str, data: str) -> ModelError:
    """Return the error for JSON that is not a response.

    Args:
        provider: The provider's id.
        path: The path that is added to ``base_url``, such as ``/messages``.
        noun: The API's word for a response, such as ``message``.
    """
    shown = data if len(data) <= _REPLY_SHOWN else f"{data[:_REPLY_SHOWN]}..."
    return _not_a_response(provider, path, f"JSON that is no {noun}: {shown}")


def _not_a_response(provider: str, path: str, what: str) -> ModelError:
    return ModelError(
        f"the server of the model provider {provider!r} answered with {what}",
        info="bad_request",
        slug="not-a-response",
        hint=f"Check base_url of the model provider {provider!r}: {path} is added to it.",
    )


def _too_many(phrase: str, headers: Mapping[str, str], error: Mapping[str, Any]) -> ModelError:
    kinds = {str(error.get("type")), str(error.get("code"))}
    if "usage_limit_reached" in kinds:
        return ModelError(_usage_limit(error), info="usage_limit_exceeded", slug="usage-limit")
    for kind in ("insufficient_quota", "usage_not_included"):
        if kind in kinds:
            known = known_fault(None, kind, "")
            assert known is not None
            return known
    delay = retry_after(headers)
    request_id = headers.get("x-request-id")
    request_note = f", request id: {request_id}" if request_id else ""
    return ModelError(
        f"exceeded retry limit, last status: 429 {phrase}".rstrip() + request_note,
        retryable=delay is not None,
        retry_after_s=delay,
        info={"response_too_many_failed_attempts": {"http_status_code": 429}},
        slug="rate-limit",
    )


def _usage_limit(error: Mapping[str, Any]) -> str:
    resets_at = error.get("resets_at")
    try:
        clock = _clock(resets_at) if isinstance(resets_at, (int, float)) else None
    except (ValueError, OverflowError, OSError):  # no moment of any calendar
        clock = None
    return _usage_limit_text(str(error.get("plan_type") or ""), clock)


def _usage_limit_text(plan: str, clock: str | None) -> str:
    when = "try again later." if clock is None else f"try again at {clock}."
    start = "You\u2019ve hit your usage limit."
    match plan:
        case "plus":
            return (
                f"{start} Upgrade to Pro (https://chatgpt.com/explore/pro), visit"
                f" https://chatgpt.com/settings/usage to purchase more credits or {when}"
            )
        case "free" | "go":
            return f"{start} Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus), or {when}"
        case "pro" | "prolite":
            return f"{start} Visit https://chatgpt.com/settings/usage to purchase more credits or {when}"
        case "team" | "business" | "self_serve_business_usage_based" | "enterprise_cbp_usage_based":
            return f"{start} To get more access now, send a request to your admin or {when}"
        case _:
            return f"{start} {when[0].upper()}{when[1:]}"


def _clock(moment: float) -> str:
    """Format a local time: ``3:04 PM`` for today, ``Nov 21st, 2026 3:04 PM`` for another day."""
    local, today = time.localtime(moment), time.localtime()
    clock = time.strftime("%I:%M %p", local).lstrip("0")
    if local[:3] == today[:3]:
        return clock
    day = local.tm_mday
    ending = "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return time.strftime(f"%b {day}{ending}, %Y ", local) + clock


def _unexpected_status(status: int, phrase: str, headers: Mapping[str, str], text: str, url: str) -> ModelError:
    parts = [
        f"unexpected status {status} {phrase}".rstrip() + f": {text[:_BODY_LIMIT] or 'Unknown error'}",
        f"url: {shown_url(url)}",
    ]
    for header, label in (("cf-ray", "cf-ray"), ("x-request-id", "request id")):
        if header in headers:
            parts.append(f"{label}: {headers[header]}")
    info: str | dict[str, Any] = (
        "unauthorized" if status == 401 else {"http_connection_failed": {"http_status_code": status}}
    )
    return ModelError(
        ", ".join(parts),
        # A retry can help only for these statuses. Other requests would be refused again. (Codex also retries 401 and 403.)
        retryable=status >= 500 or status in (408, 409, 425),
        retry_after_s=retry_after(headers),
        info=info,
        slug="unexpected-status",
    )


def _error_object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, list) and body:  # Gemini
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, str):
        return {"message": error}
    if isinstance(body, dict) and body.get("object") == "error":  # vLLM, Mistral
        return body
    return _with_inner_words(error) if isinstance(error, dict) else {}


def _with_inner_words(error: dict[str, Any]) -> dict[str, Any]:
    """Return an error object with the words of the server behind a proxy (OpenRouter: ``metadata.raw``)."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return {**error, "message": f"{error.get('message') or ''}: {raw}"} if isinstance(raw, str) and raw else error


def _asked_delay(message: str) -> float | None:
    match = re.search(_DELAY, message)
    if match is None:
        return None
    return _sensible(float(match[1]) * (0.001 if match[2].lower() == "ms" else 1.0))


def with_advice(
    error: ModelError, answer: Answer, info: ProviderInfo, url: str, path: str, *, authorized: bool
) -> ModelError:
    """Return the error with a hint that names the provider, for a wrong key or address.

    Args:
        path: The path that is added to ``base_url``.
        authorized: Whether the request had a bearer token. The key may also be in another header.
    """
    table = f"the model provider {info.id!r}"
    if error.hint and error.hint != KEY_HINT and not error.hint.startswith(ADDRESS_HINT):
        return error  # whoever knows the API knows better
    if answer.status == 401 or error.hint == KEY_HINT:
        keyed = authorized or info.env_key or info.http_headers or info.env_http_headers or info.query_params
        error.hint = _key_hint(info) if keyed else f"The request had no key. Set env_key or auth of {table}."
    elif answer.status in (404, 405) and (error.slug == "unexpected-status" or error.hint):
        error.hint = f"Check base_url of {table}: {path} is added to it."
    elif answer.status == 407:
        error.hint = "Write USER:PASSWORD@ before the host in HTTP_PROXY."
    elif 300 <= answer.status < 400 and (location := answer.headers.get("location")):
        target = shown_url(urljoin(url, location))
        error.hint = (
            f"The server redirects to {target}. Redirects are not followed, because the key would be sent there."
            f" Set base_url of {table} to the new address."
        )
    return error


def _key_hint(info: ProviderInfo) -> str:
    if info.env_key:
        return f"Check the key of the model provider {info.id!r} in the variable {info.env_key}."
    if info.requires_openai_auth:
        return "Check the key, or log in again: `codex-framework login status` says which login is used."
    return f"Check the key of the model provider {info.id!r}."


def check_encoding(headers: Mapping[str, str], info: ProviderInfo) -> None:
    """Check that the body of a response is not compressed, or was decompressed. Requests ask for encodings that are.

    Raises:
        ModelError: It is.
    """
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise ModelError(
            f"the server of the model provider {info.id!r} compressed its response ({encoding}), which was not asked for",
            info="bad_request",
            slug="not-a-response",
            hint="Turn off the compression of responses in the server, or in the proxy before it.",
        )
