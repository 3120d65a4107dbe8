"""What the request of a compaction says of it: the words of Codex 0.169, as recorded from it for the same occasions."""

from __future__ import annotations

import json

import pytest

from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.testing import Offer, call, fault, reply, say
from codex_plugin_compaction import Compact
from codex_plugin_openai.provider import ResponsesProvider

LIMIT = "model_auto_compact_token_limit=900"
IMPLEMENTATIONS = {True: "responses_compaction_v2", False: "responses"}
SEALED = reply(UnknownItem({"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}))
OVERFLOW = fault(400, body={"error": {"code": "context_length_exceeded", "message": "Too long."}})


class Sized(ResponsesProvider):
    name = "sized"

    def model(self, slug):
        return super().model("gpt-5.5").evolve(slug=slug, context_window={"small": 1000, "big": 4000}[slug])


def about(request):
    """Return the metadata of the turn that a request names, in the body and as a header."""
    in_body = json.loads(request.json["client_metadata"]["x-codex-turn-metadata"])
    assert json.loads(request.headers["x-codex-turn-metadata"]) == in_body
    return in_body


async def on_request(kernel, carry_out):
    thread = await kernel.start_thread()
    await thread.run("Hi!")
    await carry_out(thread, Compact())


async def two_turns(kernel, carry_out):
    thread = await kernel.start_thread()
    await thread.run("Hi!")
    await thread.run("How are you?")


async def one_turn(kernel, carry_out):
    await (await kernel.start_thread()).run("Hi!")


async def smaller(kernel, carry_out):
    thread = await kernel.start_thread(model="big")
    await thread.run("Hi!")
    await thread.submit(ThreadSettings(ThreadSettingsOverrides(model="small")))
    await thread.run("How are you?")


async def other_model(kernel, carry_out):
    thread = await kernel.start_thread(model="gpt-5.5")
    await thread.run("Hi!")
    await thread.submit(ThreadSettings(ThreadSettingsOverrides(model="gpt-5.6-sol")))
    await thread.run("How are you?")


CALL = call("update_plan", plan=[])
SIZED = ('model_providers.here.wire_api="sized"', 'model="big"')
OCCASIONS = [
    (on_request, [say("Hello.")], (), ("manual", "user_requested", "standalone_turn")),
    (two_turns, [(say("Hello."), 1000)], (LIMIT,), ("auto", "context_limit", "pre_turn")),
    (one_turn, [(CALL, 1000)], (LIMIT,), ("auto", "context_limit", "mid_turn")),
    (smaller, [(say("Hello."), 3000)], SIZED, ("auto", "model_downshift", "pre_turn")),
    (other_model, [say("Hello.")], (), ("auto", "comp_hash_changed", "pre_turn")),
    (two_turns, [say("Hello."), OVERFLOW], (), ("auto", "context_limit", "mid_turn")),
]


@pytest.mark.parametrize("remote", [True, False])
@pytest.mark.parametrize(("story", "before", "config", "words"), OCCASIONS)
def test_a_request_says_why_when_and_how_it_compacts(scene, carry_out, used, story, before, config, words, remote):
    replies = [used(*given) if isinstance(given, tuple) else given for given in before]
    replies += [SEALED if remote else say("They greeted."), say("Fine.")]
    config = (*config, f"model_providers.here.remote_compaction={str(remote).lower()}")
    scene.play(lambda kernel: story(kernel, carry_out), replies, *config, plugins=[Offer(providers=[Sized()])])
    first, compacting = scene.server.requests[0], scene.server.requests[len(before)]
    trigger, reason, phase = words
    implementation = IMPLEMENTATIONS[remote]
    told = about(compacting)
    assert told.pop("compaction") == {
        "trigger": trigger,
        "reason": reason,
        "implementation": implementation,
        "phase": phase,
        "strategy": "memento",
    }
    usual = about(first)
    assert (told.pop("request_kind"), usual.pop("request_kind")) == ("compaction", "turn")
    assert set(usual) - set(told) == {"model", "reasoning_effort"}, "as in Codex"
    names = set(compacting.json["client_metadata"])
    assert names == set(first.json["client_metadata"])
    if len(scene.server.requests) > len(before) + 1:
        after = about(scene.server.requests[-1])
        assert ("compaction" in after, after["request_kind"]) == (False, "turn")


def test_a_summary_after_a_refusal_keeps_the_phase(scene, used):
    replies = [used(say("Hello."), 1000), fault(404), say("They greeted."), say("Fine.")]
    config = LIMIT, "model_providers.here.remote_compaction=true"
    scene.play(lambda kernel: two_turns(kernel, None), replies, *config)
    told = [about(request)["compaction"] for request in scene.server.requests[1:3]]
    assert [(one["implementation"], one["phase"]) for one in told] == [
        ("responses_compaction_v2", "pre_turn"),
        ("responses", "pre_turn"),
    ]
