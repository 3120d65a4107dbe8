"""What a provider needs before it can be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelError, ModelInfo, ProviderInfo
from codex_lib_model_client.credentials import api_key
from codex_plugin_openai.provider import ResponsesProvider

OPENAI = ResponsesProvider.builtin["openai"]


def failure(info: ProviderInfo, env: dict[str, str]) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ResponsesProvider().open(info, env)
    assert caught.value.hint
    assert not caught.value.retryable
    return caught.value


def test_the_builtin_providers_are_where_they_are_known_to_be() -> None:
    assert {name: info.base_url for name, info in ResponsesProvider.builtin.items()} == {
        "openai": "https://api.openai.com/v1",
        "ollama": "http://localhost:11434/v1",
        "lmstudio": "http://localhost:1234/v1",
    }


def test_openai_takes_the_key_from_four_places_in_order(codex_home: Path) -> None:
    (codex_home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": "stored", "tokens": None}))
    home = {"CODEX_HOME": str(codex_home)}
    asked = OPENAI.evolve(env_key="MINE")
    everything = {**home, "MINE": "mine", "CODEX_API_KEY": "codex", "OPENAI_API_KEY": "openai"}
    assert [
        api_key(asked, everything, {}),
        api_key(OPENAI, everything, {}),
        api_key(OPENAI, {**home, "OPENAI_API_KEY": "openai"}, {}),
        api_key(OPENAI, {"CODEX_HOME": "/nowhere", "OPENAI_API_KEY": "openai"}, {}),
    ] == ["mine", "codex", "stored", "openai"]


def test_a_local_server_wants_no_key() -> None:
    env = {"OPENAI_API_KEY": "must not leave"}
    assert api_key(ResponsesProvider.builtin["ollama"], env, {}) is None
    assert api_key(ProviderInfo(id="mine", base_url="http://localhost/v1"), env, {}) is None


def test_a_table_with_its_own_authorization_wants_no_key() -> None:
    info = ProviderInfo(id="mine", requires_openai_auth=True, http_headers={"Authorization": "Basic x"})
    assert api_key(info, {"HOME": "/nowhere"}, {}) is None


def test_a_missing_key_says_what_to_set(codex_home: Path) -> None:
    error = failure(OPENAI, {"CODEX_HOME": str(codex_home)})
    assert error.fact == "no API key for the provider 'openai'"
    assert error.hint.startswith("Run `codex-framework login`, or set OPENAI_API_KEY")


def test_a_missing_variable_is_named_with_the_tables_own_advice() -> None:
    info = ProviderInfo(id="mine", base_url="http://h/v1", env_key="MY_KEY", env_key_instructions="ask Ann")
    error = failure(info, {"MY_KEY": " "})
    assert (error.fact, error.hint) == ("Missing environment variable: `MY_KEY`", "ask Ann")


def test_a_broken_auth_file_is_named(codex_home: Path) -> None:
    (codex_home / "auth.json").write_text("{")
    assert str(codex_home / "auth.json") in failure(OPENAI, {"CODEX_HOME": str(codex_home)}).fact


@pytest.mark.parametrize(
    "url", [None, "", "localhost:1234", "ftp://host/v1", "http://", "http://host:x/v1", "http://a b/v1"]
)
def test_a_url_that_cannot_be_used_is_refused(url: str | None) -> None:
    error = failure(ProviderInfo(id="mine", base_url=url), {})
    assert "base_url" in error.fact


@pytest.mark.parametrize(
    "table",
    [
        {"http_headers": {"X-A": "line\nbreak"}},
        {"experimental_bearer_token": "kéy"},
        {"http_headers": {"X A": "1"}},
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(table: dict[str, Any]) -> None:
    error = failure(ProviderInfo(id="mine", base_url="http://h/v1", **table), {})
    assert "HTTP does not allow" in error.fact
    assert "kéy" not in error.fact


def test_an_unknown_key_in_the_table_is_named_with_the_one_that_was_meant() -> None:
    error = failure(ProviderInfo(id="mine", base_url="http://h/v1", options={"base_ulr": "x"}), {})
    assert error.fact == "[model_providers.mine] has an unknown key: base_ulr"
    assert "base_url" in error.hint


def test_models_it_knows_have_their_limits() -> None:
    known = ResponsesProvider().model("gpt-5.2")
    assert known == ModelInfo(
        slug="gpt-5.2",
        context_window=272_000,
        truncation=("bytes", 10_000),
        default_effort="medium",
        verbosity="low",
        namespaces=True,
        display_name="GPT-5.2",
        max_context_window=272_000,
    )
    assert ResponsesProvider().model("gpt-none") is None
