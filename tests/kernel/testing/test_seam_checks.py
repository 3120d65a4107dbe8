"""The checks of components, op handlers, tasks, compactors, interceptors and agents find what is wrong, and nothing else."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time

import pytest

from codex_framework import (
    Agent,
    Compaction,
    Compactor,
    Component,
    FunctionSpec,
    Interceptor,
    Limits,
    Op,
    Task,
    ThreadComponent,
    Tool,
    ToolOutput,
    ToolRefused,
    Value,
    handles,
    tool,
)
from codex_framework.contract.protocol.items import user_message
from codex_framework.testing import (
    ContractViolation,
    Offer,
    call,
    check_agent,
    check_compactor,
    check_component,
    check_interceptor,
    check_op_handler,
    check_task,
    say,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    """Let what is left behind be found soon."""
    monkeypatch.setattr("codex_framework.testing.leftovers.GRACE_S", 0.3)


def violations(check, *arguments, **keywords):
    with pytest.raises(ContractViolation) as caught:
        check(*arguments, **keywords)
    return "\n".join(caught.value.violations)


LEFT = []


@tool
async def count(number: int) -> str:
    """Count."""
    return str(number)


class Part(ThreadComponent):
    def tools(self, turn):
        return [count]


class Good(Component):
    name = "good"

    def for_thread(self, thread):
        return Part()


def component(**members):
    return type("Made", (Good,), members)


async def swallow(self, *_):
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return


async def leave_a_task(self, *_):
    LEFT.append(asyncio.ensure_future(asyncio.sleep(3600)))


async def fail(self, *_):
    raise RuntimeError("no idea")


def test_a_good_component():
    check_component(Good, replies=[call("count", number=3), say("Three.")])


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"requires": ["x"]}, "its requires is ['x'], not a list of ServiceKey"),
        ({"start": fail}, "did not start: RuntimeError: no idea"),
        ({"start": swallow, "start_timeout_s": 0.1}, "a start, when cancelled, goes on and returns"),
        ({"start": leave_a_task}, "in a turn: the task sleep ("),
        ({"for_thread": lambda self, thread: "x"}, "for_thread() failed: it returned str"),
        ({"aclose": fail}, "aclose() failed: RuntimeError: no idea"),
    ],
)
def test_what_is_wrong_with_a_component_is_found(members, found):
    assert found in violations(check_component, component(**members))


def test_a_part_that_fails_with_a_changed_configuration_is_found():
    class Part(ThreadComponent):
        def reconfigured(self):
            raise RuntimeError("no idea")

    found = violations(check_component, component(for_thread=lambda self, thread: Part()))
    assert "reconfigured() failed: RuntimeError: no idea" in found


@pytest.mark.parametrize(("member", "meant"), [("close", "aclose"), ("turn_end", "turn_ended")])
def test_a_misspelt_member_of_a_part_is_found(member, meant):
    async def unused(self, *_):
        pass

    part = type("Part", (ThreadComponent,), {member: unused})
    found = violations(check_component, component(for_thread=lambda self, thread: part()))
    assert f"its {member} has no effect" in found
    assert f"Did you mean {meant}?" in found


def test_a_component_that_closes_once_only_is_found():
    class Once(Good):
        def __init__(self):
            self.log = []

        async def start(self, kernel):
            self.log = ["open"]

        async def aclose(self):
            self.log.remove("open")

    assert "a second aclose() raises ValueError" in violations(check_component, Once)


def test_a_component_that_two_kernels_cannot_have_is_found():
    class Single(Good):
        running = 0

        async def start(self, kernel):
            Single.running += 1
            await asyncio.sleep(0.02)
            if Single.running > 1:
                raise RuntimeError("it runs already")

        async def aclose(self):
            Single.running = 0

    assert "in two kernels at once: " in violations(check_component, Single)


class Note(Op):
    type = "test_note"

    text: str = "x"


def handler(work):
    @handles
    async def note(op: Note, thread, id):  # noqa: A002  # the wire's name
        await work(thread)

    return note


async def entry(thread):
    thread.append_entry("note", {"a": 1})


def test_a_good_op_handler():
    check_op_handler(handler(entry), Note("hi"))


@pytest.mark.parametrize(
    ("work", "found"),
    [(fail, "failed to handle the op 'test_note': RuntimeError: no idea"), (leave_a_task, "the task sleep (")],
)
def test_what_is_wrong_with_an_op_handler_is_found(work, found):
    assert found in violations(check_op_handler, handler(work), Note())


def test_an_op_of_another_class_is_found():
    class Other(Op):
        type = "test_other"

    assert "its op is Note, and Other was given" in violations(check_op_handler, handler(entry), Other())


class Counting(Task):
    kind = "counting"

    async def run(self, turn, input):  # noqa: A002  # the word of the contract
        result = await turn.sample(turn.draft())
        turn.record([user_message(f"said: {result.message}")])
        return result.message


def task(**members):
    return type("Made", (Counting,), members)


async def deaf(self, *_):
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            continue


def test_a_good_task():
    check_task(Counting, replies=[say("One.")])


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"run": fail}, "it ends as failed: "),
        pytest.param({"run": deaf}, " s to end when it is interrupted", marks=pytest.mark.thorough),  # waits 15 s
        ({"run": leave_a_task}, "the task sleep ("),
        ({"kind": "regular"}, "its kind is 'regular': give it one of its own"),
        ({"when_busy": "queue"}, "its when_busy is 'queue'"),
    ],
)
def test_what_is_wrong_with_a_task_is_found(members, found):
    assert found in violations(check_task, task(**members), replies=[say("One.")])


class Short(Compactor):
    name = "short"

    def due(self, status, turn):
        return "full" if status.window and status.tokens > status.window else None

    async def compact(self, turn, reason):
        result = await turn.sample(turn.draft(tools=False))
        return Compaction(items=[user_message(result.message or "")], message=result.message or "")


def compactor(**members):
    return type("Made", (Short,), members)()


async def give_text(self, turn, reason):
    return Compaction(items=["short"], message="")


async def give_anything(self, turn, reason):
    try:
        await turn.sample(turn.draft())
    except Exception:  # on purpose
        return Compaction(items=[], message="")
    return Compaction(items=[], message="")


def test_a_good_compactor():
    check_compactor(Short())


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"due": lambda self, status, turn: status.tokens / status.window}, "raises TypeError"),
        ({"due": lambda self, status, turn: True}, "returns True, not a reason or None"),
        ({"due": lambda self, status, turn: time.sleep(0.06)}, "it may take 0.05 s"),
        ({"compact": fail}, "compact() fails: "),
        ({"compact": give_text}, "has str in it, which is not a conversation item"),
        ({"compact": give_anything}, "compact() succeeds although the model failed"),
    ],
)
def test_what_is_wrong_with_a_compactor_is_found(members, found):
    assert found in violations(check_compactor, compactor(**members))


class Careful(Interceptor):
    name = "careful"
    redacts = True

    async def before_tool(self, call, turn):
        if len(call.arguments) > 1000:
            raise ToolRefused("too long")
        return call

    def redact(self, text, turn):
        return text.replace("secret", "******")

    async def after_item(self, item, turn):
        return item


async def first_word(self, call, turn):
    return call.evolve(arguments=call.arguments.split()[0])


async def same(self, given, turn):
    return given


async def odd_details(self, call, output, turn):
    return output.evolve(details={"what": object()})


class Cutting:
    """A view that shows the start of each piece."""

    def feed(self, text):
        return text[:3]

    def end(self):
        return ""


def interceptor(**members):
    return type("Made", (Careful,), members)()


def test_a_good_interceptor():
    check_interceptor(Careful())


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"before_tool": first_word}, "before_tool() raises IndexError"),
        ({"after_item": fail}, "after_item() raises RuntimeError: no idea"),
        ({"request": fail}, "request() failed: RuntimeError: no idea"),
        ({"after_tool": odd_details}, "after_tool() returns a ToolOutput that cannot be recorded as JSON: TypeError"),
        ({"view_message": lambda self, turn: Cutting()}, "shows other text when the message is cut differently"),
        ({"view_message": lambda self, turn: {}["x"]}, "view_message() raises KeyError: 'x'"),
        ({"redact": lambda self, text, turn: None}, "redact() returns NoneType, not a string"),
        ({"applies": lambda self, turn: time.sleep(0.06)}, "it may take 0.05 s"),
        ({"input": same, "takes": lambda self, given, turn: None}, "takes() returns None, not True or False"),
        ({"order": "first"}, "its order is 'first', not a number"),
    ],
)
def test_what_is_wrong_with_an_interceptor_is_found(members, found):
    assert found in violations(check_interceptor, interceptor(**members))


def burn(self, text, *_):
    """Take as long as a quadratic search in a long text, and fail in a longer one."""
    assert len(text) < 200_000
    began = time.thread_time()
    while len(text) == 20_000 and time.thread_time() - began < 0.3:
        pass
    return text


async def burn_arguments(self, call, turn):
    burn(self, call.arguments)
    return call


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"redact": burn}, "redact() takes 0.3 s for 20,000 characters; longer texts are not tried"),
        (
            {"before_tool": burn_arguments},
            "the interceptor takes 0.3 s for 20,000 characters; longer texts are not tried",
        ),
    ],
)
def test_an_interceptor_whose_time_grows_too_fast_gets_no_longer_text(members, found):
    with pytest.raises(ContractViolation) as caught:
        check_interceptor(interceptor(**members))
    assert found in caught.value.violations
    assert not any("AssertionError" in each for each in caught.value.violations)


class Ticket(Value):
    title: str


TRIAGE = Agent(name="triage", output_type=Ticket, allowed_tools=("count",), context=())
TICKET = say('{"title": "x"}')


def test_a_good_agent():
    check_agent(TRIAGE, replies=[TICKET], plugins=[Offer(tools=[count])])


@pytest.mark.parametrize(
    ("fields", "replies", "found"),
    [
        ({}, [TICKET], "its allowed_tools names 'count', but there is no such tool"),
        ({"allowed_tools": "count"}, [TICKET], "its allowed_tools is 'count', not a list of strings"),
        ({"allowed_tools": ()}, [say("no")] * 3, "the output does not have its type: "),
        ({"permissions": ":nowhere"}, [TICKET], ":nowhere"),
        ({"allowed_tools": (), "limits": Limits(requests=0)}, [TICKET], "a run ends as limited"),
        ({"tools": [object()], "allowed_tools": None}, [TICKET], "a tool of agent 'triage' is ignored"),
    ],
)
def test_what_is_wrong_with_an_agent_is_found(fields, replies, found):
    assert found in violations(check_agent, TRIAGE.evolve(**fields), replies=replies)


OWN_PLUGIN = """
from codex_framework import Agent, Component, Plugin, hookimpl, tool


class Notebook(Component):
    name = "notebook"

    def for_thread(self, thread):
        return None


class Goals(Notebook):
    name = "goals"


@tool
def note(text: str) -> str:
    return text


sorter = Agent(name="sorter", allowed_tools=("note",))


class Acme(Plugin):
    codex_components = hookimpl(lambda self: [Notebook()])
    codex_agents = hookimpl(lambda self: [sorter])
    codex_tools = hookimpl(lambda self: [note])
"""


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """The module of an installed distribution that offers a component, an agent and the agent's tool."""
    info = tmp_path / "acme_notes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-notes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[codex_framework]\nacme = acme_notes:Acme\n")
    (tmp_path / "acme_notes.py").write_text(OWN_PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("acme_notes")
    del sys.modules["acme_notes"]


def test_the_installed_plugin_of_the_checked_object_may_offer_it_too(acme):
    check_component(acme.Notebook, installed=True)
    check_agent(acme.sorter, installed=True)
    check_agent(acme.sorter, plugins=[acme.Acme])


def test_a_conflict_with_a_bundled_plugin_is_found(acme):
    found = violations(check_component, acme.Goals, installed=True)
    assert "the component 'goals' is offered by 'checked'" in found
    assert "'notebook'" not in found


class CountsAtUse(Good):
    """A component whose parts are created at their first use."""

    part_when = "use"
    part_class = type("Counter", (ThreadComponent,), {})

    def for_thread(self, thread):
        return self.part_class()


def test_a_good_component_with_parts_at_use():
    check_component(CountsAtUse)


@pytest.mark.parametrize(
    ("members", "found"),
    [
        (
            {"shared_tools": lambda self, turn: [tool(counted_anew())]},
            "shared_tools() creates its tools anew at each call",
        ),
        (
            {"for_thread": lambda self, thread: ThreadComponent()},
            "returned ThreadComponent, but `part_class` is Counter",
        ),
        (
            {"part_class": type("Counter", (ThreadComponent,), {"tools": lambda self, turn: ()})},
            "its part Counter has tools, which nothing would ask for",
        ),
    ],
)
def test_a_wrong_declaration_of_a_part_is_found(members, found):
    wrong = type("Wrong", (CountsAtUse,), members)
    assert found in violations(check_component, wrong)


def counted_anew():
    def count(number: int) -> str:
        """Count."""
        return str(number)

    return count


def test_a_tool_whose_spec_changes_is_found():
    class Restless(Tool):
        number = 0

        @property
        def spec(self):
            self.number += 1
            return FunctionSpec("restless", f"Counts to {self.number}.", {"type": "object", "properties": {}})

        async def run(self, call, context):
            return ToolOutput("done")

    restless = (Restless(),)
    wrong = type("Wrong", (CountsAtUse,), {"shared_tools": lambda self, turn: restless})
    assert "the spec of its tool 'restless' changes" in violations(check_component, wrong)
