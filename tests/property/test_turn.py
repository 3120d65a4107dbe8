"""The invariants of a turn, over generated interleavings of everything that can happen to it."""

from __future__ import annotations

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codex_framework.history import normalised
from codex_framework.protocol.events.command import ExecApprovalRequestEvent
from codex_framework.protocol.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    OutputText,
    ResponseItem,
    is_call,
    is_output,
    message_text,
    user_message,
)
from codex_framework.protocol.policies import Decision, ReviewDecision
from codex_framework.turn import (
    ABORTED_OUTPUT,
    INTERRUPT_MARKER,
    ApprovalAnswered,
    ApprovalRequested,
    CancelSample,
    CancelTool,
    CancelWait,
    Command,
    Emit,
    Finish,
    Flush,
    Input,
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    Record,
    Resolve,
    RunTool,
    Sample,
    State,
    Status,
    TimerFired,
    ToolFinished,
    Turn,
    Wait,
    output_for,
)

MAX_RETRIES = 2


def call(kind: str, serial: int, *, parallel: bool) -> FunctionCall | CustomToolCall | LocalShellCall:
    name = "parallel" if parallel else "exclusive"
    match kind:
        case "function":
            return FunctionCall(name=name, arguments="{}", call_id=f"call-{serial}")
        case "custom":
            return CustomToolCall(name=name, input="x", call_id=f"call-{serial}")
        case _:
            return LocalShellCall(action={"type": "exec", "name": name}, call_id=None, id=f"shell-{serial}")


def is_parallel(item: ResponseItem) -> bool:
    if isinstance(item, LocalShellCall):
        return item.action["name"] == "parallel"
    return getattr(item, "name", "") == "parallel"


@attrs.define
class World:
    """What a driver would have: history, running calls, open questions; and what was seen of each."""

    history: list[ResponseItem] = attrs.field(factory=list)
    flushed: int = 0
    sampling: bool = False
    waiting: bool = False
    samples: int = 0
    running: dict[int, ResponseItem] = attrs.field(factory=dict)
    cancelled: set[int] = attrs.field(factory=set)
    starts: list[int] = attrs.field(factory=list)
    finished: list[Status] = attrs.field(factory=list)
    visible: set[str] = attrs.field(factory=set)
    answered: dict[str, ReviewDecision] = attrs.field(factory=dict)
    asked: set[str] = attrs.field(factory=set)


class TurnMachine(RuleBasedStateMachine):
    """Feeds a turn whatever a provider, tools, a person and a clock can come up with, in any order."""

    @initialize()
    def begin(self) -> None:
        self.turn = Turn(parallel=is_parallel, max_retries=MAX_RETRIES)
        self.world = World()
        self.serial = 0
        self.steered: list[str] = []
        self.interrupted = False
        self.fatal = False
        self.retries_in_row = 0
        self.feed(InputArrived((user_message("the prompt"),)))
        assert self.world.samples == 1

    def feed(self, event: Input) -> None:
        commands = self.turn.receive(event)
        for index, command in enumerate(commands):
            self.perform(command)
            if isinstance(command, Finish):
                assert index == len(commands) - 1, "nothing follows the end"

    def perform(self, command: Command) -> None:
        world = self.world
        assert not world.finished, "nothing happens after the end"
        match command:
            case Record(items):
                world.history.extend(items)
            case Sample():
                assert not world.sampling
                assert not world.waiting
                assert not world.running, "a sample starts only when every call has ended"
                calls = [item for item in world.history if is_call(item)]
                outputs = [item for item in world.history if is_output(item)]
                assert len(calls) == len(outputs), "the request holds an output for every call"
                world.sampling = True
                world.samples += 1
            case CancelSample():
                assert world.sampling
                world.sampling = False
            case RunTool(key, item):
                if world.running:
                    assert is_parallel(item), "an exclusive call overlaps nothing"
                    assert all(is_parallel(other) for other in world.running.values())
                assert key not in world.starts, "a call runs once"
                world.starts.append(key)
                world.running[key] = item
            case CancelTool(key):
                assert key in world.running
                world.cancelled.add(key)
            case Wait(seconds):
                assert seconds > 0
                world.waiting = True
            case CancelWait():
                world.waiting = False
            case Resolve(approval, decision):
                assert approval not in world.answered, "a question is answered once"
                world.answered[approval] = decision
            case Emit(msg):
                if isinstance(msg, ExecApprovalRequestEvent):
                    world.visible.add(msg.call_id)
                    self.answerable_at_once(msg.call_id)
            case Flush():
                world.flushed = len(world.history)
            case Finish(outcome):
                assert world.flushed == len(world.history), "history is on disk before the end is visible"
                assert not world.running, "nothing runs on"
                assert not world.sampling
                assert not world.waiting
                world.finished.append(outcome.status)

    def answerable_at_once(self, approval: str) -> None:
        """A client may answer from within the very delivery of the request."""
        if self.serial % 3 == 0:
            self.feed(ApprovalAnswered(approval, ReviewDecision(Decision.APPROVED)))
            assert approval in self.world.answered

    # What may happen

    @precondition(lambda self: self.world.sampling)
    @rule(kind=st.sampled_from(["function", "custom", "local_shell"]), parallel=st.booleans())
    def model_calls(self, kind: str, parallel: bool) -> None:
        self.serial += 1
        item = call(kind, self.serial, parallel=parallel)
        before = len(self.world.history)
        self.feed(ModelItem(item))
        assert is_call(self.world.history[before]), "a call is recorded the moment it is complete"

    @precondition(lambda self: self.world.sampling)
    @rule(phase=st.sampled_from([None, "commentary", "final_answer"]))
    def model_speaks(self, phase: str | None) -> None:
        self.serial += 1
        self.feed(ModelItem(Message("assistant", (OutputText(f"text {self.serial}"),), phase=phase)))

    @precondition(lambda self: self.world.sampling)
    @rule(end_turn=st.sampled_from([None, True, False]))
    def response_completes(self, end_turn: bool | None) -> None:
        self.world.sampling = False
        self.retries_in_row = 0
        self.feed(ModelCompleted(end_turn))

    @precondition(lambda self: self.world.sampling)
    @rule(retryable=st.booleans(), after=st.sampled_from([None, 1.5]))
    def response_breaks(self, retryable: bool, after: float | None) -> None:
        self.world.sampling = False
        kept = list(self.world.history)
        self.feed(ModelFailed("broken", retryable=retryable, retry_after_s=after))
        assert self.world.history[: len(kept)] == kept, "nothing recorded is lost"

    @precondition(lambda self: self.world.waiting)
    @rule()
    def timer_fires(self) -> None:
        self.world.waiting = False
        self.retries_in_row += 1
        assert self.retries_in_row <= MAX_RETRIES
        self.feed(TimerFired())

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), fatal=st.integers(0, 30))
    def call_ends(self, data: st.DataObject, fatal: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.world.running)))
        item = self.world.running.pop(key)
        if fatal == 0:
            self.fatal = True
        assert is_call(item)
        self.feed(ToolFinished(key, output_for(item, f"output {key}"), "fatal" if fatal == 0 else None))  # type: ignore[arg-type]

    @precondition(lambda self: self.world.running)
    @rule()
    def call_asks(self) -> None:
        self.serial += 1
        approval = f"approval-{self.serial}"
        self.world.asked.add(approval)
        self.feed(
            ApprovalRequested(
                approval,
                ExecApprovalRequestEvent(call_id=approval, turn_id="t", command=("x",), cwd="/", started_at_ms=0),
            )
        )

    @rule(data=st.data(), decision=st.sampled_from([Decision.APPROVED, Decision.DENIED, Decision.ABORT]))
    def client_answers(self, data: st.DataObject, decision: Decision) -> None:
        open_ones = sorted(self.world.visible - set(self.world.answered))
        approval = data.draw(st.sampled_from([*open_ones, "unknown"]))
        if decision is Decision.ABORT and approval != "unknown":
            self.interrupted = True
        self.feed(ApprovalAnswered(approval, ReviewDecision(decision)))
        if approval != "unknown":
            assert self.world.answered[approval].decision is decision

    @rule()
    def person_steers(self) -> None:
        self.serial += 1
        text = f"steered {self.serial}"
        self.steered.append(text)
        self.feed(InputArrived((user_message(text),)))

    @precondition(lambda self: not self.world.finished)
    @rule(often=st.integers(0, 8))
    def person_interrupts(self, often: int) -> None:
        if often:
            return
        self.interrupted = True
        self.feed(Interrupted())
        assert not self.world.sampling, "an interrupt cuts the response at once"
        assert set(self.world.running) <= self.world.cancelled, "and every running call"

    @rule()
    def stray_inputs_change_nothing(self) -> None:
        if not self.world.sampling:
            assert self.turn.receive(ModelItem(user_message("late"))) == []
            assert self.turn.receive(ModelCompleted()) == []
            assert self.turn.receive(ModelFailed("late")) == []
        if not self.world.waiting:
            assert self.turn.receive(TimerFired()) == []
        assert self.turn.receive(ToolFinished(10_000, FunctionCallOutput("nobody", "late"))) == []

    # What always holds

    @invariant()
    def outputs_answer_calls_in_order(self) -> None:
        calls = [item for item in self.world.history if is_call(item)]
        outputs = [item for item in self.world.history if is_output(item)]
        assert [item.call_id for item in outputs] == [item.call_id for item in calls[: len(outputs)]]  # type: ignore[union-attr]

    @invariant()
    def steered_input_is_where_it_belongs(self) -> None:
        said = [message_text(item) for item in self.world.history if isinstance(item, Message)]
        assert said[0] == "the prompt", "never before the first sample of its turn"
        steered = [text for text in said if text.startswith("steered")]
        assert steered == self.steered[: len(steered)], "in order, once"

    @invariant()
    def the_turn_is_never_stuck(self) -> None:
        world = self.world
        moves = world.sampling or world.waiting or bool(world.running) or bool(world.finished)
        assert moves, f"nothing can happen any more in state {self.turn.state}"

    @invariant()
    def questions_are_answered_or_answerable(self) -> None:
        if self.world.finished:
            assert self.world.asked <= set(self.world.answered), "nobody waits for an answer that cannot come"

    def teardown(self) -> None:
        if not hasattr(self, "turn"):
            return
        self.let_it_end()
        world = self.world
        assert len(world.finished) == 1, "a turn ends once"
        calls = [item for item in world.history if is_call(item)]
        outputs = [item for item in world.history if is_output(item)]
        assert [item.call_id for item in outputs] == [item.call_id for item in calls]  # type: ignore[union-attr]
        assert normalised(world.history) == world.history
        kept = [message_text(item) for item in world.history if isinstance(item, Message)]
        kept += [
            message_text(item) for late in self.turn.take_pending() for item in late.items if isinstance(item, Message)
        ]
        assert [text for text in kept if text.startswith("steered")] == self.steered, "steered input is never lost"
        if world.finished == [Status.INTERRUPTED]:
            assert self.interrupted
            assert kept.count(INTERRUPT_MARKER) == 1
            last = [item for item in world.history if isinstance(item, Message)][-1]
            assert message_text(last) == INTERRUPT_MARKER
        ran = set(world.starts)
        unrun = [item for item in outputs if item.output == ABORTED_OUTPUT]  # type: ignore[union-attr]
        assert len(ran) + len(unrun) == len(calls), "a call runs, or says that it did not"

    def let_it_end(self) -> None:
        """Finish whatever is under way, the way a driver would."""
        for _ in range(1000):
            if self.world.finished:
                return
            if self.world.running:
                key, item = self.world.running.popitem()
                self.feed(ToolFinished(key, output_for(item, f"output {key}")))  # type: ignore[arg-type]
            elif self.world.sampling:
                self.world.sampling = False
                self.feed(ModelCompleted())
            elif self.world.waiting:
                self.world.waiting = False
                self.feed(TimerFired())
        raise AssertionError(f"the turn does not end: {self.turn.state}")


class TestTurn(TurnMachine.TestCase):
    """The invariants, on one of two workers where it is a long run."""


if not settings().derandomize:

    class TestTurnOnAnotherWorker(TurnMachine.TestCase):
        """The other half of the examples of a long run."""

    TestTurn.settings = TestTurnOnAnotherWorker.settings = settings(max_examples=settings().max_examples // 2)


def test_input_for_a_turn_that_was_interrupted_before_it_began_is_not_recorded() -> None:
    turn = Turn(parallel=is_parallel)
    commands = turn.receive(Interrupted())
    assert [type(command) for command in commands] == [Flush, Finish]
    assert turn.state is State.DONE
