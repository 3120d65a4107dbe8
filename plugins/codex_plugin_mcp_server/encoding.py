"""Data that the SDK can encode."""

from __future__ import annotations

import json
from typing import TypeVar

__all__ = ["sendable"]

T = TypeVar("T")


def sendable(data: T) -> T:
    """Return plain JSON data in which lone surrogates, as in undecodable file names, are U+FFFD.

    The SDK encodes messages when it writes them. A message that it cannot encode would end the connection.

    Raises:
        TypeError, ValueError: It is no JSON data.
    """
    text = json.dumps(data, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        clean: T = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return clean
    return data
