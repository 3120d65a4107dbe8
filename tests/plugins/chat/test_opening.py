"""What a table must say before the server is asked, and which provider serves it."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import Kernel, ModelError, ProviderInfo
from codex_framework.config import load_config
from codex_framework.contract.roles.models import ModelProvider
from codex_framework.testing.replies import say
from codex_plugin_chat.options import ChatOptions
from codex_plugin_chat.provider import ChatProvider


def table(**options: Any) -> ProviderInfo:
    return ProviderInfo(id="mine", wire_api="chat", base_url="http://127.0.0.1:9/v1", options=options)


def failure(info: ProviderInfo, env: dict[str, str] | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ChatProvider().open(info, env or {})
    assert caught.value.hint
    assert not caught.value.retryable
    return caught.value


@pytest.mark.parametrize(
    ("option", "fact"),
    [
        ({"developer_role": "boss"}, "model_providers.mine.developer_role is 'boss'"),
        ({"developer_role": 7}, "model_providers.mine.developer_role is 7"),
        ({"send_reasoning": True}, "model_providers.mine.send_reasoning is True"),
        ({"input_modalities": "text"}, "model_providers.mine.input_modalities is not a list of strings"),
        ({"input_modalities": [1]}, "model_providers.mine.input_modalities is not a list of strings"),
        ({"omit_fields": {"a": 1}}, "model_providers.mine.omit_fields is not a list of strings"),
        ({"omit_fields": ["messages"]}, "model_providers.mine.omit_fields names 'messages', which is always sent"),
        ({"request_fields": ["x"]}, "model_providers.mine.request_fields is not a table"),
        (
            {"request_fields": {"stream": False}},
            "model_providers.mine.request_fields names 'stream', which is always sent",
        ),
        ({"developer_rôle": "user"}, "[model_providers.mine] has an unknown key: developer_rôle"),
        ({"aws": {}}, "[model_providers.mine] asks for credentials from `aws`, which is unsupported"),
    ],
)
def test_a_wrong_option_is_named(option: dict[str, Any], fact: str) -> None:
    error = failure(table(**option))
    assert error.fact == fact
    assert error.slug == "provider-option"


def test_right_options_are_read() -> None:
    info = table(
        developer_role="developer",
        send_reasoning="all",
        input_modalities=["text"],
        request_fields={"temperature": 0},
        omit_fields=["stream_options"],
        record="x.jsonl",
    )
    ChatProvider().open(info, {})
    assert ChatOptions.of(info) == ChatOptions(
        developer_role="developer",
        send_reasoning="all",
        request_fields={"temperature": 0},
        omit_fields=("stream_options",),
    )


def test_a_missing_key_or_url_is_named() -> None:
    assert failure(ProviderInfo(id="mine", wire_api="chat")).slug == "base-url"
    assert (
        failure(ProviderInfo(id="mine", wire_api="chat", base_url="http://h/v1", env_key="NOPE")).slug == "missing-key"
    )


def test_known_models_have_their_limits_but_no_tool_search() -> None:
    known = ChatProvider().model("gpt-5.5")
    assert known is not None
    assert (known.apply_patch, known.tool_search, known.namespaces) == ("freeform", False, False)
    assert ChatProvider().model("llama") is None


async def _asked(tmp_path: Any, *overrides: str) -> tuple[str | None, str]:
    environ = {"CODEX_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    (tmp_path / "home").mkdir(exist_ok=True)
    config = load_config(cwd=tmp_path, environ=environ, overrides=overrides)
    async with await Kernel.create(config, environ=environ) as kernel:
        thread = await kernel.start_thread(ephemeral=True)
        result = await thread.run("hi")
        return result.final_message, str(result.error)


@pytest.mark.parametrize("wire", ["chat", "responses", ""])
def test_the_table_chooses_the_api(tmp_path: Any, model_server: Any, wire: str) -> None:
    import asyncio

    server = model_server([say("hello")])
    word = f', wire_api="{wire}"' if wire else ""
    overrides = ('model="m"', 'model_provider="p"', f'model_providers.p={{base_url="{server.url}"{word}}}')
    assert asyncio.run(_asked(tmp_path, *overrides))[0] == "hello"
    (request,) = server.requests
    assert request.path == {"chat": "/v1/chat/completions"}.get(wire, "/v1/responses")


def test_the_built_in_providers_keep_their_api(tmp_path: Any) -> None:
    assert ChatProvider().builtin == ModelProvider.builtin == {}


def test_a_login_of_chatgpt_or_one_that_is_not_permitted_is_refused(codex_home: Any) -> None:
    import json

    from codex_framework import ModelError
    from codex_plugin_chat.provider import ChatProvider

    env = {"CODEX_HOME": str(codex_home)}
    info = ProviderInfo(id="openai", wire_api="chat", base_url="http://127.0.0.1:9/v1", requires_openai_auth=True)
    (codex_home / "auth.json").write_text(json.dumps({"auth_mode": "chatgpt", "tokens": {"access_token": "a"}}))
    with pytest.raises(ModelError, match="the login is one of ChatGPT"):
        ChatProvider().open(info, env)
    with pytest.raises(ModelError, match="ChatGPT login is required"):
        ChatProvider({"forced_login_method": "chatgpt"}).open(info, {**env, "CODEX_API_KEY": "k"})
