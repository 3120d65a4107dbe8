"""Which servers are said to compact conversations, and how such a request and its item travel."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import ItemDone, ModelError, ProviderInfo
from codex_framework.contract.protocol.items import UnknownItem, user_message
from codex_framework.testing.replies import reply, say
from codex_framework.testing.requests import model_request
from codex_plugin_openai.provider import ResponsesProvider

SEALED = UnknownItem({"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"})
TRIGGER = UnknownItem({"type": "compaction_trigger"})
OFF = {"features": {"remote_compaction_v2": False}}


@pytest.mark.parametrize(
    ("table", "config", "compacts"),
    [
        ({"name": "OpenAI"}, {}, True),
        ({"name": "Azure"}, {}, True),
        ({"base_url": "https://mine.openai.azure.com/v1"}, {}, True),
        ({"name": "openai"}, {}, False),
        ({"base_url": "https://api.openai.com/v1"}, {}, False),
        ({"options": {"remote_compaction": True}}, {}, True),
        ({"name": "OpenAI", "options": {"remote_compaction": False}}, {}, False),
        ({"name": "OpenAI"}, OFF, False),
    ],
)
def test_who_compacts_is_decided_as_in_codex(table: dict[str, Any], config: dict[str, Any], *, compacts: bool) -> None:
    info = ProviderInfo(id="mine", **{"name": "Mine", "base_url": "http://127.0.0.1:9/v1", **table})
    client: Any = ResponsesProvider(config).open(info, {})
    assert client.compacts is compacts


def test_a_setting_that_is_neither_true_nor_false_is_an_error() -> None:
    info = ProviderInfo(id="mine", base_url="http://127.0.0.1:9/v1", options={"remote_compaction": "yes"})
    with pytest.raises(ModelError, match=r"remote_compaction in \[model_providers.mine\]") as caught:
        ResponsesProvider().open(info, {})
    assert "compaction_trigger" in caught.value.hint


@pytest.mark.parametrize("websockets", [False, True])
def test_the_trigger_and_the_item_are_sent_as_they_are(ask: Any, *, websockets: bool) -> None:
    said = user_message("Hi!")
    requests = [model_request(said, TRIGGER), model_request(said, SEALED)]
    options = {"remote_compaction": True, "supports_websockets": websockets}
    outcome = ask([reply(SEALED), say("a")], *requests, websockets=websockets, options=options)
    compacted, _ = outcome.answers
    assert [event.item for event in compacted if isinstance(event, ItemDone)] == [SEALED]
    sent = [request for request in outcome.server.requests if request.json and "input" in request.json]
    assert [request.json["input"][-1] for request in sent] == [dict(TRIGGER.raw), dict(SEALED.raw)]
    assert not sent[1].json.get("previous_response_id")
    assert {request.headers.get("x-codex-beta-features") for request in sent} == {"remote_compaction_v2"}
