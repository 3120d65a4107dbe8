"""Data in a reasoning item that only one API understands, such as the field in which its server wrote the reasoning.

It is in the item's ``extra``, so that it survives in the history and on disk. A server of another API would refuse it, so a
client leaves out reasoning with private data of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.protocol.items import Reasoning, ResponseItem
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.contract.roles.models import Prompt

__all__ = ["encoded_without_foreign", "is_foreign", "marked", "private_data"]

_KEY = "provider_private"


def marked(api: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``extra`` of a reasoning item with private data, a JSON object. Its key ``api`` is reserved."""
    return {_KEY: {**data, "api": api}}


def private_data(item: ResponseItem, api: str) -> Mapping[str, Any] | None:
    """Return the private data of an item, with the API's name under the key ``api``, if any."""
    data = item.extra.get(_KEY) if type(item) is Reasoning else None
    return data if isinstance(data, Mapping) and data.get("api") == api else None


def encoded_without_foreign(prompt: Prompt, api: str) -> bytes:
    """Return a prompt's items as a JSON array, without reasoning that has private data of another API."""
    foreign = {id(item) for item in prompt.items if type(item) is Reasoning and item.extra and is_foreign(item, api)}
    if not foreign:
        return prompt.encoded()
    return b"[" + b",".join(encode_item(item) for item in prompt.items if id(item) not in foreign) + b"]"


def is_foreign(item: Reasoning, api: str) -> bool:
    """Return whether an item has private data of another API."""
    return _KEY in item.extra and private_data(item, api) is None
