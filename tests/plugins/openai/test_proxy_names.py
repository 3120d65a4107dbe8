"""Names of the variables of proxies, in capitals or not."""

from __future__ import annotations

import pytest

from codex_framework import ModelError
from codex_lib_model_client.proxies import Proxy, proxy_for

URLS = {"HTTP": "http://a.org/v1", "HTTPS": "https://a.org/v1", "ALL": "https://a.org/v1"}
P = Proxy("http", "p", 1)


@pytest.mark.parametrize("kind", URLS)
def test_each_variable_counts_in_capitals_and_in_small_letters(kind: str) -> None:
    for name in (f"{kind}_PROXY", f"{kind}_proxy".lower(), f"{kind.title()}_Proxy"):
        assert proxy_for(URLS[kind], {name: "http://p:1"}) == P
    both = {f"{kind}_PROXY": "http://other:1", f"{kind}_proxy".lower(): "http://p:1"}
    assert proxy_for(URLS[kind], both) == proxy_for(URLS[kind], dict(reversed(both.items()))) == P
    assert proxy_for(URLS[kind], both | {f"{kind}_proxy".lower(): ""}) is None


def test_only_the_variable_of_the_scheme_counts_before_the_one_for_all() -> None:
    assert proxy_for(URLS["HTTP"], {"HTTPS_PROXY": "http://p:1"}) is None
    assert proxy_for(URLS["HTTPS"], {"HTTP_PROXY": "http://p:1"}) is None
    assert proxy_for(URLS["HTTPS"], {"ALL_PROXY": "http://other:1", "HTTPS_PROXY": "http://p:1"}) == P


def test_in_a_cgi_program_a_header_names_no_proxy() -> None:
    cgi = {"REQUEST_METHOD": "GET", "HTTP_PROXY": "http://evil:1"}
    assert proxy_for(URLS["HTTP"], cgi) is None
    assert proxy_for(URLS["HTTPS"], cgi | {"HTTPS_PROXY": "http://p:1"}) == P


def test_the_error_names_the_variable_without_its_password() -> None:
    with pytest.raises(ModelError, match="HTTPS_PROXY is not the URL of a proxy") as caught:
        proxy_for(URLS["HTTPS"], {"HTTPS_PROXY": "gopher://ann:secret@host"})
    assert "secret" not in str(caught.value)
