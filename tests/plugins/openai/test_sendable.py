"""Which reasoning is sent, whatever has been sent before."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from codex_framework.contract.protocol.items import Reasoning, ResponseItem, user_message
from codex_framework.threads.history import History
from codex_plugin_openai.sendable import SendableItems

KEPT = Reasoning(id="rs_1", summary=(), encrypted_content="secret")
REFUSED = Reasoning(id="rs_2", summary=())
SAID = user_message("Hello.")


def sent(sendable: SendableItems, items: Sequence[ResponseItem]) -> list[str]:
    return [item.get("id") or item["type"] for item in json.loads(sendable.encoded(History(items).prompt()))]


@pytest.mark.parametrize(
    "prompts",
    [
        [(SAID, KEPT), (SAID, KEPT, SAID, REFUSED)],
        [(SAID, KEPT, SAID), (SAID, REFUSED, SAID)],
        [(SAID, REFUSED), (SAID, KEPT), (SAID, KEPT, REFUSED)],
        [(SAID, KEPT, SAID, SAID), (REFUSED,), (SAID, KEPT, REFUSED)],
    ],
    ids=["appended", "replaced", "mended", "compacted"],
)
def test_reasoning_that_leads_to_nothing_is_never_sent(prompts: Sequence[Sequence[ResponseItem]]) -> None:
    sendable = SendableItems(store=False)
    for items in prompts:
        expected = [getattr(item, "id", None) or item.type for item in items if item is not REFUSED]
        assert sent(sendable, items) == expected
