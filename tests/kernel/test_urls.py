from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import CodexError, ConfigError, ModelError, ToolError
from codex_framework.config.toml_file import parse_override, parse_toml
from codex_framework.contract.errors import described
from codex_framework.contract.urls import shown_url, without_logins, without_queries


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.example/v1", "https://api.example/v1"),
        ("https://me:s3cret@api.example:8080/v1?key=s3cret#s3cret", "https://api.example:8080/v1"),
        ("https://s3cret@api.example", "https://api.example"),
        ("https://me:s3/cr?et#@api.example/v1", "https://api.example/v1"),
        ("https://registry.example/@scope/name", "https://registry.example/@scope/name"),
        ("me:s3cret@api.example/v1?key=s3cret", "api.example/v1"),
        ("https://[::1", "https://[::1"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_it_keeps_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_urls_in_texts_lose_their_logins_and_queries() -> None:
    text = "GET 'https://me:s3cret@host.example/a?b=s3cret', then http://s3cret@other/x#y and mail me@host.example"
    assert (
        without_logins(text) == "GET 'https://host.example/a?b=s3cret', then http://other/x#y and mail me@host.example"
    )
    assert without_queries(text) == "GET 'https://host.example/a', then http://other/x and mail me@host.example"


PART = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"], exclude_characters="'\"<>`@"), max_size=12).map(
    "s3cret".__add__
)


@given(login=PART, password=PART, query=PART, path=st.sampled_from(["", "/", "/v1", "/a/b"]))
def test_no_login_and_no_query_is_left(login: str, password: str, query: str, path: str) -> None:
    url = f"https://{login}:{password}@host.example{path}?{query}"
    assert "s3cret" not in shown_url(url)
    assert "s3cret" not in without_queries(f"see {url}, or '{url}'")


def test_no_error_has_a_login_in_it() -> None:
    url = "https://me:s3cret@host.example/v1"
    for kind in (CodexError, ConfigError, ModelError, ToolError):
        error = kind(f"cannot reach {url}", hint=f"Try {url}.")
        assert (str(error), error.fact, error.hint) == (
            *["cannot reach https://host.example/v1"] * 2,
            "Try https://host.example/v1.",
        )
    assert described(OSError(f"no {url}")) == "OSError: no https://host.example/v1"


def test_a_line_of_the_configuration_is_quoted_without_them() -> None:
    url = "https://me:s3cret@host.example/v1?s3cret"
    for action in (
        lambda: parse_toml(Path("/c"), f'base_url = "{url}'.encode()),
        lambda: parse_override(f"base_url {url}"),
    ):
        with pytest.raises(ConfigError) as caught:
            action()
        assert "https://host.example/v1" in str(caught.value)
        assert "s3cret" not in str(caught.value)
