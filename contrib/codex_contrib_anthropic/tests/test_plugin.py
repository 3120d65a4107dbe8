"""The plugin as a whole, and the role that it fulfils, also when its server fails."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from codex_contrib_anthropic import codex_model_providers
from codex_contrib_anthropic.provider import MessagesProvider
from codex_framework import ModelError, ProviderInfo
from codex_framework.loader import PluginStatus
from codex_framework.loader.registry import load_registry
from codex_framework.testing import MESSAGES, check_provider


def test_the_plugin_is_installed_and_loaded():
    (report,) = [report for report in load_registry({}).reports if report.name == "anthropic"]
    assert (report.distribution, report.status, report.problems) == ("codex-contrib-anthropic", PluginStatus.LOADED, ())
    assert report.contributes == {"providers": ("messages",)}


def test_the_provider_fulfils_its_role_whatever_the_server_does():
    check_provider(MessagesProvider(), wire=MESSAGES)


def test_a_missing_key_is_named():
    info = MessagesProvider.builtin["anthropic"]
    with pytest.raises(ModelError, match="ANTHROPIC_API_KEY") as caught:
        MessagesProvider().open(info, {})
    assert "console.anthropic.com" in caught.value.hint


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        ({"forced_login_method": "chatgpt"}, "ChatGPT login is required"),
        ({"cli_auth_credentials_store": "ephemeral"}, "no API key for the provider 'mine'"),
        ({}, None),
    ],
)
def test_the_configuration_says_which_login_is_used(config, fact, tmp_path):
    (tmp_path / "auth.json").write_text('{"auth_mode": "apikey", "OPENAI_API_KEY": "stored-key"}')
    (provider,) = codex_model_providers(SimpleNamespace(config=config))
    info = ProviderInfo(id="mine", wire_api="messages", base_url="http://127.0.0.1:9/v1", requires_openai_auth=True)
    with nullcontext() if fact is None else pytest.raises(ModelError, match=fact):
        provider.open(info, {"CODEX_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"max_token": 3}, "unknown key: max_token"),
        ({"max_tokens": "many"}, "max_tokens is 'many'"),
        ({"max_tokens": True}, "max_tokens is True"),
        ({"thinking_budget": 3}, "thinking_budget is 3"),
        ({"thinking": "deep"}, "thinking is 'deep'"),
        ({"cache": "2h"}, "cache is '2h'"),
        ({"betas": "a"}, "betas is not a list"),
        ({"request_fields": 3}, "request_fields is not a table"),
        ({"request_fields": {"system": "x"}}, "names 'system'"),
        ({"omit_fields": ["messages"]}, "names 'messages'"),
    ],
)
def test_a_wrong_option_is_named(options, fact):
    info = ProviderInfo(id="mine", wire_api="messages", base_url="http://127.0.0.1:9/v1", options=options)
    with pytest.raises(ModelError, match=r"model_providers\.mine") as caught:
        MessagesProvider().open(info, {})
    assert fact in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("slug", "window", "reasoning"),
    [
        ("claude-2.1", 200_000, False),
        ("claude-3-5-sonnet-20241022", 200_000, False),
        ("claude-3-7-sonnet-20250219", 200_000, True),
        ("claude-sonnet-4-20250514", 200_000, True),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", 200_000, True),
        ("anthropic/claude-opus-4.6", 1_000_000, True),
        ("claude-opus-5", 1_000_000, True),
        ("claude-haiku-5-5", 1_000_000, True),
        ("claude-fable-5-2", 1_000_000, True),
        ("claude-mythos-preview", 1_000_000, True),
    ],
)
def test_claude_models_are_known(slug, window, reasoning):
    info = MessagesProvider().model(slug)
    assert info is not None
    assert (info.slug, info.known, info.context_window, info.reasoning) == (slug, True, window, reasoning)


def test_other_models_are_not():
    assert MessagesProvider().model("gpt-5.4") is None
