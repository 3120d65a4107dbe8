"""URLs in messages and records: without logins, and without queries, which may contain keys and signatures."""

from __future__ import annotations

import re

__all__ = ["shown_url", "without_logins", "without_queries"]

_LOGIN = r"(?<=://)[^\s/?#@'\"<>`]*@"
_WIDE_LOGIN = r"(?<=://)[^\s'\"<>`]*@"
"""A password may contain unescaped ``/``, ``?`` and ``#``."""
_QUERY = r"(?<=://)([^\s?#'\"<>`]*)[?#][^\s'\"<>`]*"


def shown_url(url: str) -> str:
    """Return a URL without its login, query and fragment, whether it is a valid one or not."""
    scheme, separator, rest = url.partition("://")
    rest = rest if separator else scheme
    if "@" in rest:
        login, _, after = rest.rpartition("@")
        rest = after if ":" in login or "/" not in login else rest
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{rest}" if separator else rest


def without_logins(text: str) -> str:
    """Return a text without the logins in its URLs (``https://user:password@host``)."""
    return re.sub(_LOGIN, "", text) if "://" in text else text


def without_queries(text: str) -> str:
    """Return a text without the logins, queries and fragments of its URLs."""
    return re.sub(_QUERY, r"\1", re.sub(_WIDE_LOGIN, "", text)) if "://" in text else text
