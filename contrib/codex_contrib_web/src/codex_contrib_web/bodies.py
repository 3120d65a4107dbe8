"""The bodies of clients: JSON, read into values, with errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from starlette.requests import Request

from codex_contrib_web.errors import WebError
from codex_framework import Value
from codex_framework.contract.protocol.ops import ImageInput, TextInput
from codex_framework.contract.protocol.wire import WireError, read
from codex_framework.contract.value import fields_of

__all__ = ["NewThread", "NewTurn", "Steering", "read_body", "read_json"]

T = TypeVar("T", bound="NewThread | NewTurn | Steering")

_MOST_BYTES = 16 << 20
"""The largest body. Images come in bodies."""


class NewThread(Value):
    """The body of ``POST /threads``. With an input, the first turn begins immediately."""

    input: tuple[TextInput | ImageInput, ...] = ()


class NewTurn(Value):
    """The body of ``POST /threads/ID/turns``."""

    input: tuple[TextInput | ImageInput, ...]


class Steering(Value):
    """The body of ``POST /threads/ID/steer``.

    Attributes:
        turn_id: The turn that the input is for. By default, whichever is running.
    """

    input: tuple[TextInput | ImageInput, ...]
    turn_id: str | None = None


async def read_json(request: Request) -> Any:
    """Return the body of a request. An empty one is an empty object.

    Raises:
        WebError: It is no JSON, is not declared as JSON, or is too large.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise WebError(f"the body has more than {_MOST_BYTES} bytes", slug="too-large", hint="Send less.")
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page of another site cannot send this type without being asked about first
        fact = f"the body is declared as {kind!r}"
        raise WebError(fact, slug="not-json", hint="Send JSON with `content-type: application/json`.")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WebError(f"the body is no JSON: {error}", slug="invalid-json", hint="Send a JSON object.") from None


async def read_body(request: Request, kind: type[T]) -> T:
    """Return the body of a request as a value. A text in place of ``input`` is one text input.

    Raises:
        WebError: It does not fit. The fact names the field.
    """
    raw = await read_json(request)
    names = [each.name for each in fields_of(kind)]
    if isinstance(raw, Mapping):
        if isinstance(raw.get("input"), str):
            raw = {**raw, "input": [{"type": "text", "text": raw["input"]}]}
        if unknown := [name for name in raw if name not in names]:
            fact = f"unknown field @ body.{unknown[0][:100]}"
            raise WebError(fact, slug="bad-request", hint=f"The fields are: {', '.join(names)}.")
    try:
        body = read(kind, raw, where="body")
    except WireError as error:
        raise WebError(str(error), slug="bad-request", hint=f"The fields are: {', '.join(names)}.") from None
    if "input" in raw and all(isinstance(each, TextInput) and not each.text.strip() for each in body.input):
        raise WebError("the input is empty", slug="empty-input", hint="Send a text or an image.")
    return body
