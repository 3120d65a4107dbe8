"""Hides secrets in texts from elsewhere, such as server messages and program output, also if the secrets are encoded there."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote

__all__ = ["HIDDEN", "SHORTEST", "forms_of", "without"]

HIDDEN = "(hidden)"
SHORTEST = 8
"""Minimum length of a hidden text. Shorter texts occur in ordinary words."""

_STARTS = (0, 2, 3)
"""Characters of base64 to which bytes before a secret contribute, by their number modulo 3."""


def without(text: str, forms: Iterable[str]) -> str:
    """Return a text without these forms of secrets."""
    for form in forms:
        if form in text:
            text = text.replace(form, HIDDEN)
    return text


def forms_of(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the forms in which secrets may occur in a text, the longest first.

    These are the secret itself, and the secret in JSON, in a URL, in hexadecimal, and in base64 with anything before and after
    it. Secrets and forms that are shorter than :data:`SHORTEST` are left out.
    """
    found = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


@lru_cache(maxsize=64)
def _forms(secret: str) -> tuple[str, ...]:
    data = secret.encode("utf-8", "surrogateescape")
    quoted = [quote(data, safe=""), quote(data)]
    plain = [secret, json.dumps(secret)[1:-1], *quoted, *map(_lower_escapes, quoted), data.hex(), data.hex().upper()]
    return tuple({form for form in (*plain, *_in_base64(data)) if len(form) >= SHORTEST})


def _lower_escapes(text: str) -> str:
    head, *rest = text.split("%")
    return "%".join((head, *(f"{part[:2].lower()}{part[2:]}" for part in rest)))


def _in_base64(data: bytes) -> Iterator[str]:
    """Yield the base64 fragments that every longer text with this data contains."""
    for before, start in enumerate(_STARTS):
        end = (before + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + data)[start:end].decode("ascii")
