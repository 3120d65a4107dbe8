"""Errors as JSON: ``{"error": {"slug", "message", "hint"}}``, with a status of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from codex_framework import CodexError

__all__ = ["STATUS", "WebError", "show_error"]

STATUS = {
    "already-answered": HTTPStatus.CONFLICT,
    "bad-request": HTTPStatus.UNPROCESSABLE_ENTITY,
    "busy": HTTPStatus.CONFLICT,
    "empty-input": HTTPStatus.UNPROCESSABLE_ENTITY,
    "events-lost": HTTPStatus.GONE,
    "forbidden": HTTPStatus.FORBIDDEN,
    "input-refused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "input-too-long": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "invalid-json": HTTPStatus.BAD_REQUEST,
    "no-active-turn": HTTPStatus.CONFLICT,
    "not-stored": HTTPStatus.CONFLICT,
    "not-json": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "not-running": HTTPStatus.SERVICE_UNAVAILABLE,
    "not-steerable": HTTPStatus.CONFLICT,
    "overloaded": HTTPStatus.SERVICE_UNAVAILABLE,
    "request-not-found": HTTPStatus.NOT_FOUND,
    "session-in-use": HTTPStatus.CONFLICT,
    "shut-down": HTTPStatus.CONFLICT,
    "thread-not-found": HTTPStatus.NOT_FOUND,
    "too-large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "unauthenticated": HTTPStatus.UNAUTHORIZED,
    "wire": HTTPStatus.UNPROCESSABLE_ENTITY,
    "wrong-turn": HTTPStatus.CONFLICT,
}
"""The status of an error by its slug. Any other error of the framework is not the client's fault."""


class WebError(CodexError):
    """A request that cannot be fulfilled."""


def show_error(_: Request, error: Exception) -> JSONResponse:
    """Return the response for an exception. An unexpected one says nothing about the server."""
    headers: Mapping[str, str] | None = None
    if isinstance(error, CodexError):
        status, message = STATUS.get(error.slug, HTTPStatus.INTERNAL_SERVER_ERROR), str(error)
        slug, hint = error.slug, error.hint
    elif isinstance(error, HTTPException):
        status, message, headers = HTTPStatus(error.status_code), error.detail, error.headers
        slug, hint = _slug(status), ""
    else:
        status, message = HTTPStatus.INTERNAL_SERVER_ERROR, "the server failed"
        slug, hint = "internal", "See the log of the server."
    body = {"error": {"slug": slug, "message": message, "hint": hint}}
    return JSONResponse(body, status_code=status, headers=headers)


def _slug(status: HTTPStatus) -> str:
    return "unauthenticated" if status == HTTPStatus.UNAUTHORIZED else status.phrase.lower().replace(" ", "-")
