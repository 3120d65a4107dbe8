"""What to do about a refused request, where the server's own words do not say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.urls import shown_url
from codex_lib_model_client.faults import ADDRESS_HINT, KEY_HINT

if TYPE_CHECKING:
    from codex_lib_model_client.transport import Answer

__all__ = ["check_encoding", "with_advice"]


def with_advice(
    error: ModelError, answer: Answer, info: ProviderInfo, url: str, path: str, *, authorized: bool
) -> ModelError:
    """Return the error with a hint that names the provider, for a wrong key or address.

    Args:
        path: What is added to ``base_url``.
        authorized: Whether the request had a bearer token. The key may also be in another header.
    """
    table = f"the model provider {info.id!r}"
    if error.hint and error.hint != KEY_HINT and not error.hint.startswith(ADDRESS_HINT):
        return error  # whoever knows the API knows better
    if answer.status == 401 or error.hint == KEY_HINT:
        keyed = authorized or info.env_key or info.http_headers or info.env_http_headers or info.query_params
        error.hint = _of_key(info) if keyed else f"The request had no key. Set env_key or auth of {table}."
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


def _of_key(info: ProviderInfo) -> str:
    if info.env_key:
        return f"Check the key of the model provider {info.id!r} in the variable {info.env_key}."
    if info.requires_openai_auth:
        return "Check the key, or log in again: `codex-framework login status` says which login is used."
    return f"Check the key of the model provider {info.id!r}."


def check_encoding(headers: Mapping[str, str], info: ProviderInfo) -> None:
    """Check that the body of a response is not compressed. Requests say that it must not be.

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
