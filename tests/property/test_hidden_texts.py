"""No form of a secret stays in a text, whatever is around it."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from codex_framework.toolkit.hidden_texts import SHORTEST, forms_of, without

SECRETS = st.text(min_size=SHORTEST, max_size=40)
AROUND = st.text("abc \n/é", max_size=5)


def encodings(text: str) -> list[str]:
    data = text.encode()
    return [
        text,
        json.dumps(text),
        quote(text, safe=""),
        quote(text),
        data.hex(),
        data.hex().upper(),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
    ]


@given(SECRETS, AROUND, AROUND)
def test_a_secret_is_hidden_in_every_encoding(secret: str, before: str, after: str) -> None:
    forms = forms_of([secret])
    for text in encodings(f"{before}{secret}{after}"):
        assert "(hidden)" in without(text, forms)


@given(SECRETS, st.text(alphabet="xyz0123456789", max_size=200))
def test_other_texts_stay_as_they_are(secret: str, text: str) -> None:
    if not any(form in text for form in encodings(secret)):
        assert secret in text or without(text, forms_of([secret])) == text


def test_what_is_short_is_not_hidden_and_the_longest_is_hidden_first() -> None:
    assert forms_of(["short"]) == ()
    assert (
        without("a secret-123 and secret-12345", forms_of(["secret-123", "secret-12345"])) == "a (hidden) and (hidden)"
    )
