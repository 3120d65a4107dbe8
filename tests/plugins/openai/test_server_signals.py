"""What servers say besides their answers: another model, checks of the account, moderation of the text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.roles.models import ModelNotice, ModelWarning
from codex_framework.testing import fault, model_request, reply, say
from codex_plugin_openai.server_signals import (
    ModelRerouteEvent,
    ModelsChangedEvent,
    ModelVerificationEvent,
    TurnModerationMetadataEvent,
)


def metadata(**keys: Any) -> str:
    return f"data: {json.dumps({'type': 'response.metadata', 'metadata': keys})}\n\n"


def notices(events: list[Any]) -> list[EventMsg]:
    return [event.event for event in events if isinstance(event, ModelNotice)]


def test_another_model_is_told_with_a_warning(ask: Any) -> None:
    events = ask([reply(headers={"openai-model": "other-model"}) + say("hi")]).events
    assert notices(events) == [ModelRerouteEvent("test-model", "other-model")]
    assert [event.message for event in events if isinstance(event, ModelWarning)] == [
        "the server answers with the model `other-model`, although `test-model` was asked"
    ]


@pytest.mark.parametrize("name", ["test-model", "TEST-model", "test-model-2026-10-01", " "])
def test_the_same_model_by_another_name_is_not_told(ask: Any, name: str) -> None:
    assert notices(ask([reply(headers={"openai-model": name}) + say("hi")]).events) == []


def test_a_new_tag_of_the_list_of_models_is_told_once(ask: Any) -> None:
    tags = ("a", "a", "b", "", "\u00e4", "c" * 201)
    outcome = ask([reply(headers={"x-models-etag": tag}) + say("hi") for tag in tags], *[model_request()] * len(tags))
    answers = [event for answer in outcome.answers if isinstance(answer, list) for event in answer]
    assert notices(answers) == [ModelsChangedEvent("a"), ModelsChangedEvent("b")]


def test_verifications_and_moderation_are_told_as_the_server_says_them(ask: Any) -> None:
    said = metadata(
        openai_verification_recommendation=["trusted_access_for_cyber", 7],
        openai_chatgpt_moderation_metadata={"a": [1]},
    )
    assert notices(ask([say("hi") + fault(raw_before=said)]).events) == [
        ModelVerificationEvent(("trusted_access_for_cyber",)),
        TurnModerationMetadataEvent({"a": [1]}),
    ]


@pytest.mark.parametrize("wrong", [None, [], "x", {"openai_verification_recommendation": "x"}, {"other": 1}])
def test_metadata_of_another_shape_is_ignored(ask: Any, wrong: Any) -> None:
    said = f"data: {json.dumps({'type': 'response.metadata', 'metadata': wrong})}\n\n"
    answer = ask([say("hi") + fault(raw_before=said)])
    assert notices(answer.events) == []
    assert answer.events[-1].response_id
