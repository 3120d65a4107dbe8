"""Who changed what in a turn: the entries of the record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    Approval,
    ApprovalReviewer,
    CommandPolicy,
    Decision,
    Fragment,
    InputRefused,
    InputText,
    Interceptor,
    Message,
    OutputText,
    ReviewDecision,
    RolledBack,
    StopTurn,
    ToolContext,
    ToolOutput,
    ToolRefused,
    tool,
)
from codex_framework.contract.protocol.events import ToolApprovalRequestEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.policies import CommandVerdict, Verdict
from codex_framework.contract.roles.provenance import KIND
from codex_framework.testing import answer
from codex_framework.testing.kernels import KernelFactory
from codex_framework.testing.offering import Offer
from codex_framework.testing.replies import call, say
from codex_framework.testing.threads import ThreadFactory
from codex_framework.toolkit.item_marks import item_mark
from codex_framework.toolkit.json_patch import apply_json_patch
from codex_plugin_rollout.store import RolloutStore

ONLY_RECORDS = [entry for entry in entry_points(group="codex_framework") if entry.name in ("rollout", "provenance")]
"""The plugins that make the record. The others make these tests slow."""

SECRET = "sk-canary-31337"


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool(needs_approval=True)
def deploy(place: str) -> str:
    """Deploy to a place."""
    return f"deployed to {place}"


def lines(home: Path) -> list[dict[str, Any]]:
    """Return the lines of all records, in order."""
    files = sorted(home.rglob("rollout-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def records(home: Path, *, context: bool = False) -> list[dict[str, Any]]:
    """Return the provenance of all records, without that of the context, unless it is asked for."""
    found = [
        line["payload"] for line in lines(home) if line["type"] == "plugin_entry" and line["payload"]["kind"] == KIND
    ]
    return [entry["data"] for entry in found if (entry["data"]["what"] == "context") == context]


def loaded(home: Path, thread_id: str) -> Any:
    """Return a thread as the store reads it."""
    return RolloutStore().load(thread_id, str(home))


def by(record: dict[str, Any]) -> str:
    """Return who acted."""
    return " ".join(filter(None, (record["by"]["role"], record["by"].get("name"))))


class Kept:
    """Runs turns and returns what was recorded about them."""

    def __init__(self, home: Path, make_thread: Any) -> None:
        self.home = home
        self._make_thread = make_thread

    def __call__(
        self,
        offer: Offer,
        replies: Sequence[Any] = (),
        *answers: Any,
        prompts: Sequence[str] = ("hello",),
        **settings: Any,
    ) -> list[dict[str, Any]]:
        async def turns() -> None:
            replies_of_all = [*replies, say("Done.")]
            settings.setdefault("entry_points", ONLY_RECORDS)
            async with self._make_thread(offer, *answers, replies=replies_of_all, **settings) as thread:
                for prompt in prompts:
                    await thread.turn(prompt)

        asyncio.run(turns())
        return records(self.home)


@pytest.fixture
def make_thread(codex_home: Path, workspace: Path) -> ThreadFactory:
    """Threads with the installed plugins, whose record is on disk."""
    return ThreadFactory(KernelFactory(codex_home, workspace))


@pytest.fixture
def kept(codex_home: Path, make_thread: Any) -> Kept:
    return Kept(codex_home, make_thread)


def named(name: str, order: int = 100, **methods: Any) -> Interceptor:
    """Return an interceptor with some methods."""
    kind = type(name.title(), (Interceptor,), {"name": name, "order": order, **methods})
    made: Interceptor = kind()
    return made


# Changes


async def shouts(self, input, turn):  # noqa: A002
    turn.because("rule 7")
    return input.evolve(items=[user_message("HELLO")], context=[*input.context, "Be loud."])


def test_a_changed_input_is_kept_with_who_why_and_how_long(kept: Kept) -> None:
    (record,) = kept(Offer(interceptors=[named("shout", input=shouts)]))
    items = [item_mark(line["payload"]) for line in lines(kept.home) if line["type"] == "response_item"]
    assert record["by"] == {
        "role": "interceptor",
        "name": "shout",
        "plugin": record["by"]["plugin"],
        "causes": ["rule 7"],
    }
    assert (record["did"], record["what"]) == ("changed", "input")
    assert 0 < record["seconds"] < 60
    assert record["patch"] == [
        {"op": "replace", "path": "/items/0/content/0/text", "value": "HELLO"},
        {"op": "add", "path": "/context/0", "value": "Be loud."},
    ]
    assert set(record["items"]) <= set(items)
    assert len(record["items"]) == 2, "the message, and what was added as context"


def test_what_returns_what_it_was_given_leaves_no_record(kept: Kept) -> None:
    async def same(self, first, *rest):
        return rest[0] if len(rest) > 1 else first

    quiet = dict.fromkeys(("input", "request", "after_item", "before_tool", "after_tool"), same)
    assert kept(Offer(interceptors=[named("quiet", **quiet)], tools=[echo]), [call("echo", text="a")]) == []


def test_a_copy_that_is_equal_is_no_change(kept: Kept) -> None:
    async def copies(self, first, *rest):
        return (rest[0] if len(rest) > 1 else first).evolve()

    alike = dict.fromkeys(("input", "request", "after_item", "before_tool", "after_tool"), copies)
    assert kept(Offer(interceptors=[named("alike", **alike)], tools=[echo]), [call("echo", text="a")]) == []


async def hides(self, request, turn):
    return request.evolve(tools=tuple(spec for spec in request.tools if spec.name != "echo"))


def test_a_removed_tool_is_kept_by_name_and_once_for_all_requests_of_a_turn(kept: Kept) -> None:
    offer = Offer(interceptors=[named("hide", request=hides)], tools=[echo])
    found = kept(offer, [call("echo", text="a"), call("echo", text="b")], prompts=("one", "two"))
    assert [record["sample"] for record in found] == [1, 1], "one record in each turn"
    assert {"op": "remove", "path": "/tools/echo"} in found[0]["patch"]


def test_the_end_of_a_change_to_requests_is_kept(kept: Kept) -> None:
    async def first_only(self, request, turn):
        return request.evolve(instructions="Be brief.") if turn.samples == 0 else request

    offer = Offer(interceptors=[named("first", request=first_only)], tools=[echo])
    found = kept(offer, [call("echo", text="a"), call("echo", text="b")])
    assert [(record["sample"], record["patch"]) for record in found] == [
        (1, [{"op": "replace", "path": "/instructions", "value": "Be brief."}]),
        (2, []),
    ]


def test_a_patch_that_grows_is_kept_without_what_it_repeats(kept: Kept) -> None:
    async def masks(self, request, turn):
        draft = [
            item.evolve(content=(InputText("***"),)) if item.type == "message" and item.role == "user" else item
            for item in request.prompt.items
        ]
        draft.append(Message("developer", (InputText(f"reminder {turn.samples}"),)))
        return request.evolve(prompt=Prompt(draft))

    offer = Offer(interceptors=[named("mask", request=masks)], tools=[echo])
    found = kept(offer, [call("echo", text="a")])
    assert found[0].get("repeats") is None
    assert found[1]["repeats"] == len(found[0]["patch"]) - 1
    assert [operation["op"] for operation in found[1]["patch"]] == ["add"]


class Prompt:
    """A prompt of items."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def encoded(self) -> bytes:
        return b"[]"


def test_changed_arguments_are_kept_as_a_patch_of_the_arguments(kept: Kept) -> None:
    async def louder(self, call, turn):
        return call.evolve(arguments=json.dumps({"text": "B", "more": 1}))

    (record,) = kept(
        Offer(interceptors=[named("louder", before_tool=louder)], tools=[echo]), [call("echo", text="a", more=2)]
    )
    assert (record["what"], record["tool"]) == ("call", "echo")
    assert record["patch"] == [
        {"op": "replace", "path": "/arguments/text", "value": "B"},
        {"op": "replace", "path": "/arguments/more", "value": 1},
    ]
    assert record["call_id"] in {line["payload"].get("call_id") for line in lines(kept.home)}


def test_a_changed_output_is_kept_without_what_it_was(kept: Kept) -> None:
    async def hushes(self, call, output, turn):
        return output.evolve(content="(hushed)")

    found = kept(Offer(interceptors=[named("hush", after_tool=hushes)], tools=[echo]), [call("echo", text="aloud")])
    assert [record["patch"] for record in found] == [[{"op": "replace", "path": "/content", "value": "(hushed)"}]]


def test_a_changed_message_of_the_model_is_kept_with_its_mark(kept: Kept) -> None:
    async def polite(self, item, turn):
        return item.evolve(content=(OutputText("Please: done."),)) if item.type == "message" else item

    (record,) = kept(Offer(interceptors=[named("polite", after_item=polite)]))
    marks = [item_mark(line["payload"]) for line in lines(kept.home) if line["type"] == "response_item"]
    assert record["patch"] == [{"op": "replace", "path": "/content/0/text", "value": "Please: done."}]
    assert record["items"] == [marks[-1]]


def test_a_continued_turn_is_kept_with_its_message(kept: Kept) -> None:
    async def again(self, outcome, turn):
        return "Check again." if turn.continuations == 0 else None

    (record,) = kept(Offer(interceptors=[named("checker", stop=again)]), [say("One.")])
    assert (record["did"], record["what"], by(record)) == ("changed", "stop", "interceptor checker")
    assert record["patch"][0]["value"]["content"][0]["text"] == "Check again."


def test_two_interceptors_are_kept_in_turn_and_what_the_second_takes_out_is_not(kept: Kept) -> None:
    async def leaks(self, call, output, turn):
        return output.evolve(content=f"{output.content} {SECRET}")

    async def cleans(self, call, output, turn):
        return output.evolve(content=output.content.replace(SECRET, "[key]"))

    offer = Offer(
        interceptors=[named("clean", 10, after_tool=cleans), named("leak", 20, after_tool=leaks)], tools=[echo]
    )
    first, second = kept(offer, [call("echo", text="a")])
    assert (by(first), first["withheld"]) == ("interceptor leak", ["/content"])
    assert first["patch"] == [{"op": "replace", "path": "/content", "value": None}]
    assert second["patch"] == [{"op": "replace", "path": "/content", "value": "a [key]"}]
    assert SECRET not in "".join(map(json.dumps, records(kept.home)))


# Refusals, decisions, ends


def refuses(error: Exception) -> Any:
    async def method(self, *given):
        given[-1].because("the rules of the house")
        raise error

    return method


@pytest.mark.parametrize(
    ("method", "what", "error", "did"),
    [
        ("input", "input", InputRefused("not that"), "refused"),
        ("input", "input", StopTurn("not that"), "stopped"),
        ("request", "request", StopTurn("not that"), "stopped"),
        ("after_item", "item", StopTurn("not that"), "stopped"),
        ("before_tool", "call", ToolRefused("not that"), "refused"),
        ("before_tool", "call", StopTurn("not that"), "stopped"),
        ("after_tool", "output", ToolRefused("not that"), "refused"),
        ("stop", "stop", StopTurn("not that"), "stopped"),
    ],
)
def test_refusals_and_ends_are_kept_once_with_their_reason(
    kept: Kept, method: str, what: str, error: Exception, did: str
) -> None:
    offer = Offer(interceptors=[named("guard", **{method: refuses(error)})], tools=[echo])
    (record,) = kept(offer, [call("echo", text="a")])
    assert (record["did"], record["what"], record["reason"], by(record)) == (did, what, "not that", "interceptor guard")
    assert record["by"]["causes"] == ["the rules of the house"]
    assert record["seconds"] > 0


@pytest.mark.parametrize("method", ["input", "before_tool", "after_tool"])
def test_an_interceptor_that_fails_closed_is_kept_as_a_refusal(kept: Kept, method: str) -> None:
    async def broken(self, *given):
        raise RuntimeError("broken")

    offer = Offer(interceptors=[named("guard", **{method: broken})], tools=[echo])
    (record,) = kept(offer, [call("echo", text="a")])
    assert (record["did"], by(record)) == ("refused", "interceptor guard")
    assert "broken" in record["reason"]


def test_changes_before_a_refusal_are_kept_without_their_values(kept: Kept) -> None:
    async def adds(self, call, turn):
        return call.evolve(arguments=json.dumps({"text": SECRET}))

    offer = Offer(
        interceptors=[named("adds", 1, before_tool=adds), named("guard", 2, before_tool=refuses(ToolRefused("no")))],
        tools=[echo],
    )
    changed, refused = kept(offer, [call("echo", text="a")])
    assert (by(changed), changed["patch"][0]["value"], changed["withheld"]) == (
        "interceptor adds",
        None,
        ["/arguments/text"],
    )
    assert by(refused) == "interceptor guard"


class Forbids(CommandPolicy):
    name = "no-rm"

    def judge(self, command: Any, facts: Any) -> Any:
        return CommandVerdict(verdict=Verdict.FORBID, reason="rejected: no rm here") if "rm" in command.argv else None


@tool
async def remove(path: str, context: ToolContext) -> str:
    """Remove a file."""
    return (await context.run(["rm", path])).output


def test_a_command_policy_that_forbids_is_kept(kept: Kept) -> None:
    (record,) = kept(Offer(policies=[Forbids()], tools=[remove]), [call("remove", path="x")])
    assert (by(record), record["reason"], record["did"]) == ("command policy no-rm", "rejected: no rm here", "refused")


class Asks(CommandPolicy):
    name = "careful"

    def judge(self, command: Any, facts: Any) -> Any:
        return CommandVerdict(verdict=Verdict.ASK, reason="careful")


def test_the_policy_whose_question_must_not_be_asked_is_kept_as_the_cause(kept: Kept) -> None:
    (record,) = kept(Offer(policies=[Asks()], tools=[remove]), [call("remove", path="x")])
    assert (by(record), record["by"]["causes"]) == ("approval policy never", ["command policy 'careful'"])


def test_the_approval_policy_that_forbids_a_question_is_kept(kept: Kept) -> None:
    (record,) = kept(Offer(tools=[deploy]), [call("deploy", place="moon")])
    assert by(record) == "approval policy never"
    assert (record["did"], record["what"]) == ("refused", "call")


ASKED = ('approval_policy="on-request"',)


@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.DENIED, Decision.APPROVED_FOR_SESSION])
def test_answers_of_people_are_kept(kept: Kept, decision: Decision) -> None:
    reply = answer(ToolApprovalRequestEvent, ReviewDecision(decision))
    (record,) = kept(Offer(tools=[deploy]), [call("deploy", place="moon")], reply, config=ASKED)
    assert (by(record), record["did"], record["decision"]) == ("user", "decided", decision.value)


def test_that_nobody_was_there_is_kept(kept: Kept) -> None:
    (record,) = kept(Offer(tools=[deploy]), [call("deploy", place="moon")], config=ASKED)
    assert (by(record), record["decision"], record["by"]["causes"]) == ("nobody", "denied", ["unattended"])


def test_an_earlier_answer_for_the_session_is_kept_for_each_call(kept: Kept) -> None:
    @tool(needs_approval=lambda call, turn: Approval(question="May it?", key="always"))
    def launch() -> str:
        """Launch."""
        return "launched"

    reply = answer(ToolApprovalRequestEvent, ReviewDecision(Decision.APPROVED_FOR_SESSION))
    first, second = kept(Offer(tools=[launch]), [call("launch"), call("launch")], reply, config=ASKED)
    assert first["by"] == {"role": "user"}
    assert second["by"] == {"role": "user", "causes": ["an earlier answer, for the session"]}


def test_a_reviewer_is_kept_with_its_cause_and_reason(kept: Kept) -> None:
    class Reviewer(ApprovalReviewer):
        name = "auditor"

        async def review(self, request: Any, turn: Any) -> Any:
            turn.because("section 4")
            return ReviewDecision(Decision.DENIED, message="not on a Friday")

    (record,) = kept(Offer(tools=[deploy], reviewers=[Reviewer()]), [call("deploy", place="moon")], config=ASKED)
    assert by(record) == "approval reviewer auditor"
    assert (record["reason"], record["by"]["causes"]) == ("not on a Friday", ["section 4"])


def test_a_refusal_by_a_tool_itself_is_kept(kept: Kept) -> None:
    @tool
    def picky() -> str:
        """Refuse."""
        raise ToolRefused("not me")

    (record,) = kept(Offer(tools=[picky]), [call("picky")])
    assert (by(record), record["reason"]) == ("tool picky", "not me")


# Redaction


def redacting(self, text, turn):
    return text.replace(SECRET, "[key]")


def test_redaction_is_kept_with_its_place_and_without_the_text(kept: Kept) -> None:
    guard = named("keys", redacts=True, redact=redacting)
    found = kept(Offer(interceptors=[guard], tools=[echo]), [call("echo", text=f"a {SECRET}")])
    assert {(record["did"], record["what"], by(record)) for record in found} == {
        ("redacted", "text", "interceptor keys")
    }
    places = [place for record in found for place in record["withheld"]]
    assert sorted(places) == sorted(set(places)), "none is kept twice"
    assert "output.content" in places
    assert SECRET not in json.dumps(found)


def test_a_place_that_is_redacted_twice_is_kept_once(kept: Kept) -> None:
    @tool
    async def spill(context: ToolContext) -> str:
        """Redact the same text twice."""
        return context.redact(SECRET) + context.redact(SECRET)

    found = kept(Offer(interceptors=[named("keys", redacts=True, redact=redacting)], tools=[spill]), [call("spill")])
    places = [place for record in found for place in record["withheld"]]
    assert places.count("output") == 1


def test_a_cause_is_that_of_the_interceptor_that_named_it(kept: Kept) -> None:
    async def names(self, call, turn):
        turn.because("mine")
        return call

    async def louder(self, call, turn):
        return call.evolve(arguments=json.dumps({"text": "B"}))

    offer = Offer(
        interceptors=[named("names", 1, before_tool=names), named("louder", 2, before_tool=louder)], tools=[echo]
    )
    (record,) = kept(offer, [call("echo", text="a")])
    assert "causes" not in record["by"]


def test_items_left_out_of_a_request_are_kept_with_their_marks(kept: Kept) -> None:
    async def trims(self, request, turn):
        return request.evolve(prompt=Prompt([item for item in request.prompt.items if item.role != "user"]))

    (record,) = kept(Offer(interceptors=[named("trims", request=trims)]))
    marks = [item_mark(line["payload"]) for line in lines(kept.home) if line["payload"].get("role") == "user"]
    assert record["without"] == marks
    assert "items" not in record


def test_what_interceptors_put_into_a_record_is_redacted_there_too(kept: Kept) -> None:
    async def leaks(self, call, output, turn):
        return output.evolve(content=f"{output.content} {SECRET}")

    async def passes(self, call, turn):
        if call.name == "deploy":
            raise ToolRefused(f"no {SECRET}")
        return call

    offer = Offer(
        interceptors=[
            named("keys", redacts=True, redact=redacting),
            named("leak", after_tool=leaks, before_tool=passes),
        ],
        tools=[echo, deploy],
    )
    found = kept(offer, [call("echo", text="a"), call("deploy", place="x")])
    changed = next(record for record in found if record["did"] == "changed")
    assert (changed["patch"][0]["value"], changed["withheld"]) == ("a [key]", ["/content"])
    assert next(record for record in found if record["did"] == "refused")["reason"] == "no [key]"
    assert SECRET not in json.dumps(found)


# Additions


def test_each_part_of_the_context_is_kept_with_its_source(kept: Kept) -> None:
    class House:
        name = "house"

        def fragments(self, facts: Any) -> Any:
            return [Fragment(role="developer", text="<house>Be tidy.</house>", start="<house>", end="</house>")]

    kept(Offer(context=[House()]), prompts=("one", "two"))
    (record,) = records(kept.home, context=True)
    assert record["did"] == "added"
    by_mark = {
        item_mark(line["payload"]): line["payload"] for line in lines(kept.home) if line["type"] == "response_item"
    }
    texts = {
        by_mark[source["item"]]["content"][source["part"]]["text"]: source["by"]["name"] for source in record["sources"]
    }
    assert texts["<house>Be tidy.</house>"] == "house"
    assert all(source["seconds"] > 0 for source in record["sources"])


def test_deliveries_of_plugins_and_programs_are_kept(kept: Kept, make_thread: Any) -> None:
    async def adds(self, call, turn):
        turn.because("a hook")
        turn.thread.deliver([Message("developer", (InputText("by the way"),))])
        return call

    async def turns() -> None:
        offer = Offer(interceptors=[named("adds", before_tool=adds)], tools=[echo])
        async with make_thread(offer, replies=[call("echo", text="a"), say("Done.")]) as thread:
            thread.client.deliver([user_message("from the program")])
            await thread.turn("hello")

    asyncio.run(turns())
    marks = [item_mark(line["payload"]) for line in lines(kept.home) if line["type"] == "response_item"]
    program, plugin = records(kept.home)
    assert (by(program), by(plugin), plugin["by"]["causes"]) == ("client", "component", ["a hook"])
    assert set(program["items"]) | set(plugin["items"]) <= set(marks)


# The record


def test_a_rollback_takes_the_provenance_of_its_turns_along_and_a_resumed_thread_goes_on(
    kept: Kept, make_thread: Any
) -> None:
    stored: list[Any] = []

    async def turns() -> None:
        offer = Offer(interceptors=[named("hide", request=hides)], tools=[echo])
        async with make_thread(offer, replies=[say("One."), say("Two.")]) as thread:
            await thread.turn("one")
            again = await thread.restarted()
            await again.turn("two")
            stored.append(loaded(kept.home, again.client.id))
            await again.inside("checked").edit_history(RolledBack(1))
            stored.append(loaded(kept.home, again.client.id))

    asyncio.run(turns())
    kinds = [[entry.kind for entry in each.entries if entry.data["what"] == "request"] for each in stored]
    assert kinds == [[KIND, KIND], [KIND]], "of the turn that was rolled back, nothing is left"
    turn_ids = [line["payload"]["turn_id"] for line in lines(kept.home) if line["type"] == "plugin_entry"]
    assert len(set(turn_ids)) == 2
    assert len([record for record in records(kept.home) if record["what"] == "request"]) == 2


def test_a_thread_without_a_record_keeps_nothing_and_costs_nothing(make_thread: Any, codex_home: Path) -> None:
    async def turns() -> None:
        offer = Offer(interceptors=[named("hide", request=hides)], tools=[echo])
        async with make_thread(offer, replies=[say("One.")], ephemeral=True) as thread:
            await thread.turn("one")

    asyncio.run(turns())
    assert lines(codex_home) == []


def test_a_change_that_is_no_json_is_kept_without_a_patch_and_the_turn_goes_on(kept: Kept) -> None:
    async def odd(self, call, output, turn):
        return output.evolve(content="odd", details={"what": object()})

    found = kept(Offer(interceptors=[named("odd", after_tool=odd)], tools=[echo]), [call("echo", text="a")])
    assert [(by(record), record["reason"][:38]) for record in found] == [
        ("interceptor odd", "the change cannot be shown as JSON: Ty")
    ]


def test_patches_give_what_the_model_got(kept: Kept) -> None:
    """The patch of a call, applied to the call of the model, gives the arguments with which the tool ran."""

    async def louder(self, call, turn):
        given = json.loads(call.arguments)
        return call.evolve(arguments=json.dumps({"text": given["text"].upper()}))

    (record,) = kept(Offer(interceptors=[named("louder", before_tool=louder)], tools=[echo]), [call("echo", text="a")])
    item = next(line["payload"] for line in lines(kept.home) if line["payload"].get("type") == "function_call")
    document = {"name": item["name"], "kind": "function", "arguments": json.loads(item["arguments"])}
    assert apply_json_patch(document, record["patch"])["arguments"] == {"text": "A"}
    output = next(line["payload"] for line in lines(kept.home) if line["payload"].get("type") == "function_call_output")
    assert output["output"] == "A"
    assert isinstance(ToolOutput("A"), ToolOutput)
