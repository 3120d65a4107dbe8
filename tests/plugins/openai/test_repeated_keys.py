"""A server that repeats the key of a request in what is no error object. Nobody is shown the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import ItemDone, ModelError
from codex_framework.contract.roles.models import ModelWarning
from codex_framework.testing.replies import fault, say
from codex_framework.testing.requests import model_request

KEY = "q7z-0123456789-abcdefghij"
LONG = '{"type":"response.output_item.done","item":' + " " * 40

Ask = Callable[..., Any]


def raw(text: str) -> Any:
    return fault(200, headers={"content-type": "text/plain"}, body=text)


@pytest.mark.parametrize(
    "body",
    [
        f"bad key {KEY}, ask for another {{}}\n\n",
        f"data: bad key {{{KEY}}}\n\n",
        f'data: ["bad key", "{KEY}"\n\n',
        f'data: {{"type":"response.completed","bad key":"{KEY}"\n\n',
        f'data: "{"x" * 95}{KEY}\n\n',
        f"data: {LONG}{KEY} and more\n\n",
        f'data: {{"type":"response.completed","response":"{KEY}"}}\n\n',
        f'data: {{"type":"response.failed","response":{{"error":null,"error":{{"message":"{KEY}"}}}}}}\n\n',
    ],
    ids=["text", "a word", "a list", "half an event", "a long word", "a long event", "a wrong event", "two errors"],
)
def test_what_is_no_event_is_shown_without_the_key(ask: Ask, body: str) -> None:
    error = ask([raw(body)], experimental_bearer_token=KEY).error
    assert "(hid" in str(error)
    assert all(KEY[:3] not in text for text in (error.fact, error.hint, str(error), repr(error)))


def test_the_warning_about_a_connection_is_shown_without_the_key(ask: Ask) -> None:
    """The text of the failure is kept for the warning. The key is removed from it before."""
    broken = fault(raw_before=f'data: {{"type":"response.completed","key":"{KEY}"\n\n')
    requests = [model_request()] * 2
    outcome = ask(
        [broken, say("b")],
        *requests,
        experimental_bearer_token=KEY,
        stream_max_retries=0,
        websockets=True,
        options={"supports_websockets": True},
    )
    error, answer = outcome.answers
    assert isinstance(error, ModelError)
    assert isinstance(answer[0], ModelWarning)
    assert "(hidden)" in answer[0].message
    assert KEY not in answer[0].message


@pytest.mark.parametrize("pad", ["", " "])
def test_the_output_of_the_model_is_never_changed(ask: Ask, pad: str) -> None:
    item = f'{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{KEY}"}}]}}'
    event = f'data: {pad}{{"type":"response.output_item.done","item":{item}}}\n\n'
    events = ask([say("hi") + fault(raw_before=event)], experimental_bearer_token=KEY).events
    first = next(event.item for event in events if isinstance(event, ItemDone))
    assert first.content[0].text == KEY
