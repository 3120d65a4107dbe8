"""The invariants of a turn, over generated interleavings of everything that can happen to it.

``World`` is what a driver would have, and checks every command as it is given. Each text that can come into the history begins with
a word that says where it came from, and is unique, so that the world knows what was recorded, when, and how often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.items import (
    ABORTED_OUTPUT,
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
    output_for,
    user_message,
    with_paired_outputs,
)
from codex_framework.contract.roles.outcomes import Compaction, Outcome, Status
from codex_framework.threads.turn.commands import (
    Admit,
    CancelCompact,
    CancelSample,
    CancelStop,
    CancelTool,
    CancelWait,
    CheckStop,
    Command,
    Compact,
    Emit,
    Finish,
    Flush,
    Record,
    Replace,
    RunTool,
    Sample,
    Wait,
)
from codex_framework.threads.turn.inputs import (
    Admitted,
    Compacted,
    CompactionFailed,
    Delivered,
    Input,
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    Refused,
    StopChecked,
    StopRequested,
    TimerFired,
    ToolFinished,
)
from codex_framework.threads.turn.machine import (
    BACKOFF_BASE_S,
    INTERRUPT_MARKER,
    MAX_CONTINUATIONS,
    OVERFLOW,
    State,
    Turn,
)

MAX_RETRIES = 2
OWN = "input 0"
LIMIT = "the limit is reached"


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


def arrived(text: str) -> InputArrived:
    return InputArrived((user_message(text),), UserMessageEvent(text))


def delivered(text: str, when: str) -> Delivered:
    return Delivered((user_message(text),), UserMessageEvent(text), when)  # type: ignore[arg-type]


def texts(items: Sequence[ResponseItem]) -> list[str]:
    """What came from outside of the model and its calls."""
    return [message_text(item) for item in items if isinstance(item, Message) and item.role == "user"]


def origin(text: str) -> str:
    return text.split(maxsplit=1)[0]


INPUT = {"input", "steer", "follow", "go-on"}
"""Origins of what asks for a sample."""


@attrs.define
class World:
    """What a driver would have, what was given to the turn, and what came of it."""

    guarded: bool
    compacts: bool
    checks_stop: bool
    marks: bool

    due: str | None = None
    limit: str | None = None

    # What is under way
    sampling: bool = False
    waiting: bool = False
    compacting: bool = False
    stopping: bool = False
    running: dict[int, ResponseItem] = attrs.field(factory=dict)
    undecided: dict[int, str] = attrs.field(factory=dict)

    # What is in the conversation. `record` keeps what a compaction has taken out of `history`.
    history: list[ResponseItem] = attrs.field(factory=list)
    record: list[ResponseItem] = attrs.field(factory=list)
    flushed: int = 0
    in_a_request: set[str] = attrs.field(factory=set)

    # What is still to be recorded, oldest first. `fresh` came while the step was being performed: it may wait for the next.
    inputs: list[str] = attrs.field(factory=list)
    contexts: list[str] = attrs.field(factory=list)
    joins: list[str] = attrs.field(factory=list)
    follow_ups: list[str] = attrs.field(factory=list)
    fresh: set[str] = attrs.field(factory=set)

    # What has happened since the last sample, or since the last whole response
    wanted: bool = False  # something recorded asks for a sample
    more: bool = False  # the response itself asks for another one
    failure: ModelFailed | None = None
    retries: int = 0
    compactions: int = 0
    replaced: bool = False
    let_end: bool = False

    # What has happened in the whole turn
    begun: bool = False
    own_refused: bool = False
    any_admitted: bool = False
    samples: int = 0
    continuations: int = 0
    starts: list[int] = attrs.field(factory=list)
    cancelled: set[int] = attrs.field(factory=set)
    ending: str | None = None  # "interrupt", "stop" or "fatal", whichever came first
    reason: str = ""
    outcomes: list[Outcome] = attrs.field(factory=list)

    @property
    def finished(self) -> bool:
        return bool(self.outcomes)

    @property
    def busy(self) -> bool:
        return self.sampling or self.waiting or self.compacting or self.stopping or bool(self.running)

    @property
    def overflowed(self) -> bool:
        return self.failure is not None and self.failure.info == OVERFLOW

    def waiting_inputs(self) -> set[str]:
        """Input that the next sample has to follow."""
        return {*self.inputs, *self.undecided.values()} - self.fresh

    def nothing_is_left_to_do(self) -> None:
        assert not self.waiting_inputs()
        assert not set(self.follow_ups) - self.fresh, "follow-ups are taken when nothing else is left"
        assert not self.wanted, "what was recorded is answered"
        assert not self.more, "the response wants no other one"
        assert self.failure is None

    # Commands

    def perform(self, command: Command) -> None:
        assert not self.finished, "nothing happens after the end"
        match command:
            case Record(items):
                self._recorded(items)
            case Emit():
                pass
            case Sample():
                self._sample()
            case CancelSample():
                assert self.sampling
                self.sampling = False
            case RunTool(key, item):
                self._run(key, item)
            case CancelTool(key):
                assert key in self.running
                self.cancelled.add(key)
            case Wait(seconds):
                self._wait(seconds)
            case CancelWait():
                assert self.waiting
                self.waiting = False
            case Admit():
                assert self.guarded
                assert self.ending is None, "what comes after an interrupt is for the next turn"
            case Compact(reason):
                self._compact(reason)
            case CancelCompact():
                assert self.compacting
                self.compacting = False
            case Replace(edit):
                self._replace(edit)
            case CheckStop():
                self._check_stop()
            case CancelStop():
                assert self.stopping
                self.stopping = False
            case Flush():
                assert self.marks
                self.flushed = len(self.record)
            case Finish(outcome):
                self._finish(outcome)

    def _recorded(self, items: Sequence[ResponseItem]) -> None:
        self.record.extend(items)
        self.history.extend(items)
        for text in texts(items):
            match origin(text):
                case "input" | "steer":
                    assert text in self.inputs, "recorded once, after it was admitted"
                    self.inputs.remove(text)
                    self.begun = self.begun or text == OWN
                    self.wanted = True
                case "go-on":
                    assert text in self.inputs
                    self.inputs.remove(text)
                    self.wanted = True
                case "follow":
                    assert text == self.follow_ups.pop(0), "follow-ups are recorded in order"
                    assert not self.more, "a follow-up waits until nothing is left to do"
                    self.wanted = True
                case "context":
                    self.contexts.remove(text)
                case "join":
                    assert text == self.joins.pop(0), "deliveries are recorded in order"
                    assert self.ending is None
                    assert self.wanted or self.more, "a delivery comes along with a sample that there is anyway"
                case _:
                    assert text == INTERRUPT_MARKER

    def _sample(self) -> None:
        assert not self.busy, "a sample starts only when everything else has ended"
        assert self.ending is None
        assert self.limit is None
        assert self.wanted or self.more, "nothing else is the reason for a sample"
        assert [item.call_id for item in self.record if is_call(item)] == [
            item.call_id for item in self.record if is_output(item)
        ], "the request holds an output for every call"
        if self.begun and not self.samples and not self.own_refused and OWN in texts(self.record):
            assert [text for text in texts(self.record) if origin(text) in INPUT] == [OWN], "steered input comes later"
        else:
            assert not self.waiting_inputs(), "what was steered goes with the next sample"
        assert not set(self.joins) - self.fresh
        assert not self.contexts or (not self.samples and not self.own_refused)
        if self.compacts and not self.compactions:
            assert self.due is None, "a compaction that is due comes before the sample"
        assert not self.overflowed or self.replaced, "what did not fit is not asked for again as it is"
        self.in_a_request.update(texts(self.history))
        self.sampling = True
        self.samples += 1
        self.wanted = self.more = self.let_end = False
        self.failure = None

    def _run(self, key: int, item: ResponseItem) -> None:
        assert self.ending is None
        if self.running:
            assert is_parallel(item), "an exclusive call overlaps nothing"
            assert all(is_parallel(other) for other in self.running.values())
        assert key not in self.starts, "a call runs once"
        self.starts.append(key)
        self.running[key] = item

    def _wait(self, seconds: float) -> None:
        assert not self.busy
        assert self.ending is None
        assert self.failure is not None
        assert self.failure.retryable
        assert not self.overflowed
        self.retries += 1
        assert self.retries <= MAX_RETRIES
        assert seconds == self.failure.retry_after_s or seconds == BACKOFF_BASE_S * 2 ** (self.retries - 1)
        self.waiting = True

    def _compact(self, reason: str) -> None:
        assert self.compacts
        assert not self.busy, "nothing samples, runs or waits during a compaction"
        assert self.ending is None
        assert self.limit is None, "a compaction is a sample as well"
        self.compactions += 1
        assert self.compactions == 1, "there is no second one before a response is whole"
        assert reason == ("overflow" if self.overflowed else self.due)
        self.compacting = True

    def _replace(self, edit: Compaction) -> None:
        assert not self.busy
        assert self.ending is None, "nothing is replaced after an interrupt"
        assert self.compactions == 1
        assert not self.replaced
        unseen = {text for text in texts(self.history) if origin(text) in INPUT} - self.in_a_request
        assert not unseen, "input is never summarised before a model was asked with it"
        assert with_paired_outputs(self.history) == self.history
        self.history = list(edit.items)
        self.replaced = True

    def _check_stop(self) -> None:
        assert self.checks_stop
        assert not self.busy
        assert self.ending is None
        assert self.samples, "a turn that never asked a model just ends"
        assert self.continuations < MAX_CONTINUATIONS
        self.nothing_is_left_to_do()
        self.stopping = True

    def _finish(self, outcome: Outcome) -> None:
        assert not self.busy, "nothing runs on"
        assert self.flushed == (len(self.record) if self.marks else 0), "history is on disk before the end is visible"
        marker = (
            [INTERRUPT_MARKER] if self.marks and self.ending == "interrupt" and self.reason == "interrupted" else []
        )
        assert [text for text in texts(self.record) if text == INTERRUPT_MARKER] == marker
        assert not marker or texts(self.record)[-1:] == marker
        assert {
            "interrupt": Status.INTERRUPTED,
            "stop": Status.COMPLETED,
            "fatal": Status.FAILED,
            None: outcome.status,
        }[self.ending] is outcome.status, "the first that ends a turn says how"
        if self.ending is not None:
            assert not self.inputs, "what was let pass before an interrupt is recorded"
        elif outcome.status is Status.COMPLETED:
            self._completed()
        elif outcome.status is Status.LIMITED:
            assert self.limit is not None
            assert (outcome.error, outcome.reason) == (LIMIT, "budget_limited")
            assert self.wanted or self.more, "a limit ends a turn that would go on"
        else:
            assert outcome.status is Status.FAILED
            self._failed(outcome)
        if self.ending == "interrupt":
            assert outcome.reason == self.reason
        self.outcomes.append(outcome)

    def _completed(self) -> None:
        self.nothing_is_left_to_do()
        if not self.samples:
            assert not self.any_admitted, "a turn ends unsampled only if all of its input was refused"
        elif self.checks_stop and self.continuations < MAX_CONTINUATIONS:
            assert self.let_end, "interceptors have let it end"

    def _failed(self, outcome: Outcome) -> None:
        assert self.failure is not None
        assert (outcome.error, outcome.info) == (self.failure.message, self.failure.info)
        if self.overflowed:
            assert not self.compacts or self.compactions, "an overflow is compacted first"
        else:
            assert not self.failure.retryable or self.retries == MAX_RETRIES


_RANK = {"output": 0, "replace": 1, "input": 2, "join": 3, "sample": 4, "end": 5}


def rank(command: Command) -> int | None:
    """The place of a command in the order between two samples."""
    match command:
        case Record(items) if is_output(items[0]):
            return _RANK["output"]
        case Record(items) if isinstance(items[0], Message) and items[0].role == "user":
            return _RANK["join" if origin(message_text(items[0])) == "join" else "input"]
        case Compact() | Replace():
            return _RANK["replace"]
        case Sample() | CheckStop():
            return _RANK["sample"]
        case Flush() | Finish():
            return _RANK["end"]
        case _:
            return None


class TurnMachine(RuleBasedStateMachine):
    """Feeds a turn whatever a provider, tools, plugins, a person and a clock can come up with, in any order."""

    @initialize(
        guarded=st.booleans(),
        compacts=st.booleans(),
        checks_stop=st.booleans(),
        marks=st.integers(0, 9),
        opening=st.sampled_from(["input", "input", "input", "steer, input", "begin", "join, begin"]),
        stubborn=st.integers(0, 3),
        admits=st.integers(0, 3),
    )
    def begin(  # one argument for each thing that may be different
        self, guarded: bool, compacts: bool, checks_stop: bool, marks: int, opening: str, stubborn: int, admits: int
    ) -> None:
        world = self.world = World(guarded=guarded, compacts=compacts, checks_stop=checks_stop, marks=marks > 0)
        self.turn = Turn(
            parallel=is_parallel,
            max_retries=MAX_RETRIES,
            guarded=guarded,
            compacts=compacts,
            due=lambda: world.due,
            checks_stop=checks_stop,
            limit=lambda: world.limit,
            marks=marks > 0,
        )
        self.serial = 0
        self.sent: list[str] = []  # by a person, and what was delivered to steer, in the order of arrival
        self.refused: set[str] = set()
        self.contexts: list[str] = []
        self.delivered: list[str] = []
        self.continued: list[str] = []
        self.late: set[str] = set()
        self.stubborn = stubborn == 0
        self.admits = admits > 0
        for how in opening.split(", "):
            match how:
                case "input":
                    self.sent.insert(0, OWN)
                    self.hand_in(OWN)
                case "begin":
                    world.begun = world.wanted = True
                    self.step(self.turn.begin)
                case other:
                    self.deliver(other)

    # Feeding

    def feed(self, event: Input) -> None:
        self.step(lambda: self.turn.receive(event))

    def step(self, take: Callable[[], list[Command]]) -> None:
        commands = take()
        ranks = [place for place in map(rank, commands) if place is not None]
        assert ranks == sorted(ranks), "outputs, compaction, inputs, deliveries, sample: in this order"
        for index, command in enumerate(commands):
            self.perform(command)
            if isinstance(command, Finish):
                assert index == len(commands) - 1, "nothing follows the end"
            if isinstance(command, Record) and texts(command.items)[:1] != [INTERRUPT_MARKER]:
                for text in texts(command.items):
                    shown = Emit(UserMessageEvent(text))
                    assert origin(text) == "context" or commands[index + 1] == shown, "shown as soon as it is recorded"
        self.world.fresh.clear()

    def perform(self, command: Command) -> None:
        if isinstance(command, Admit):
            self.world.undecided[command.key] = message_text(command.input.items[0])  # type: ignore[arg-type]
        self.world.perform(command)
        if isinstance(command, Replace | Sample) and self.serial % 3 == 0:
            self.deliver(
                ["join", "steer", "follow"][self.serial % 9 // 3]
            )  # a plugin's context source, in this very step

    def new(self, kind: str) -> str:
        self.serial += 1
        return f"{kind} {self.serial}"

    def hand_in(self, text: str) -> None:
        world = self.world
        if world.finished or world.ending:
            self.late.add(text)
        elif not world.guarded:
            world.inputs.append(text)
            world.any_admitted = True
        self.feed(arrived(text))

    def deliver(self, kind: str) -> None:
        world = self.world
        text = self.new(kind)
        world.fresh.add(text)
        late = world.finished or world.ending is not None
        if kind == "steer":
            self.sent.append(text)
            if late:
                self.late.add(text)
            else:
                world.inputs.append(text)
                world.any_admitted = True
        else:
            self.delivered.append(text)
            if not late:
                (world.joins if kind == "join" else world.follow_ups).append(text)
        when = "follow_up" if kind == "follow" else kind
        assert self.turn.receive(delivered(text, when)) == [], "nothing follows from a delivery at once"

    def decide(self, key: int, *, admit: bool, changed: bool = False, context: bool = False) -> None:
        world = self.world
        text = world.undecided[key]
        if world.finished:
            assert self.turn.receive(Admitted(key, arrived(text))) == []
            return
        del world.undecided[key]
        if admit:
            world.any_admitted = True
            if changed:
                self.sent[self.sent.index(text)] = text = f"{text} changed" if text != OWN else text
            world.inputs.append(text)
            self.feed(Admitted(key, arrived(text)))
            return
        self.refused.add(text)
        world.own_refused = world.own_refused or text == OWN
        note = f"context of {text}"
        if context:
            world.contexts.append(note)
            self.contexts.append(note)
        self.feed(Refused(key, (user_message(note),) if context else ()))

    # What the model does

    @precondition(lambda self: self.world.sampling)
    @rule(kind=st.sampled_from(["function", "custom", "local_shell"]), parallel=st.booleans())
    def model_calls(self, kind: str, parallel: bool) -> None:
        self.serial += 1
        item = call(kind, self.serial, parallel=parallel)
        before = len(self.world.record)
        self.world.more = True
        self.feed(ModelItem(item))
        assert is_call(self.world.record[before]), "a call is recorded the moment it is complete"

    @precondition(lambda self: self.world.sampling)
    @rule(phase=st.sampled_from([None, "commentary", "final_answer"]))
    def model_speaks(self, phase: str | None) -> None:
        self.serial += 1
        self.feed(ModelItem(Message("assistant", (OutputText(f"text {self.serial}"),), phase=phase)))

    @precondition(lambda self: self.world.sampling)
    @rule(end_turn=st.sampled_from([None, True, False]), due=st.sampled_from([None, None, "context_limit"]))
    def response_completes(self, end_turn: bool | None, due: str | None) -> None:
        self.world.due = due
        self.complete(end_turn)

    def complete(self, end_turn: bool | None = None) -> None:
        world = self.world
        world.sampling = world.replaced = False
        world.retries = world.compactions = 0
        world.more = world.more or end_turn is False
        self.feed(ModelCompleted(end_turn))

    @precondition(lambda self: self.world.sampling)
    @rule(
        retryable=st.booleans(), after=st.sampled_from([None, 1.5]), info=st.sampled_from(["other", "other", OVERFLOW])
    )
    def response_breaks(self, retryable: bool, after: float | None, info: str) -> None:
        world = self.world
        world.sampling = False
        world.more = True
        world.failure = ModelFailed("broken", retryable, after, info)
        kept = list(world.record)
        self.feed(world.failure)
        assert world.record[: len(kept)] == kept, "nothing recorded is lost"

    @precondition(lambda self: self.world.waiting)
    @rule()
    def timer_fires(self) -> None:
        self.world.waiting = False
        self.feed(TimerFired())

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), fatal=st.integers(0, 30))
    def call_ends(self, data: st.DataObject, fatal: int) -> None:
        self.end_call(data.draw(st.sampled_from(sorted(self.world.running))), "fatal" if fatal == 0 else None)

    def end_call(self, key: int, fatal: str | None = None) -> None:
        world = self.world
        item = world.running.pop(key)
        if fatal and world.ending is None:
            world.ending = "fatal"
        assert is_call(item)
        self.feed(ToolFinished(key, output_for(item, f"output {key}"), fatal))  # type: ignore[arg-type]

    # What plugins do

    @precondition(lambda self: self.world.undecided)
    @rule(data=st.data(), admit=st.integers(0, 2), changed=st.booleans(), context=st.booleans())
    def guard_decides(self, data: st.DataObject, admit: int, changed: bool, context: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.world.undecided)))
        self.decide(key, admit=admit > 0, changed=changed, context=context)

    @rule(kind=st.sampled_from(["join", "steer", "follow"]))
    def plugin_delivers(self, kind: str) -> None:
        self.deliver(kind)
        self.world.fresh.clear()

    @precondition(lambda self: self.world.compacting)
    @rule(works=st.booleans())
    def compaction_ends(self, works: bool) -> None:
        self.end_compaction(works=works)

    def end_compaction(self, *, works: bool) -> None:
        self.world.compacting = False
        if not works:
            self.feed(CompactionFailed("it cannot be"))
            return
        summary = Message("assistant", (OutputText("summary"),))
        self.feed(Compacted(Compaction(items=(summary,), message="summary")))
        assert self.world.replaced

    @precondition(lambda self: self.world.stopping)
    @rule(go_on=st.booleans())
    def stop_is_checked(self, go_on: bool) -> None:
        self.check_stop(go_on=go_on)

    def check_stop(self, *, go_on: bool) -> None:
        world = self.world
        world.stopping = False
        if not go_on:
            world.let_end = True
            self.feed(StopChecked())
            return
        text = self.new("go-on")
        world.continuations += 1
        world.inputs.append(text)
        self.continued.append(text)
        self.feed(StopChecked(arrived(text)))

    @precondition(lambda self: not self.world.finished)
    @rule(often=st.integers(0, 12))
    def plugin_stops_the_turn(self, often: int) -> None:
        if often == 0:
            self.cut("stop", StopRequested("enough"))

    # What people do

    @rule()
    def person_steers(self) -> None:
        text = self.new("input")
        self.sent.append(text)
        self.hand_in(text)
        assert not self.world.stopping, "input of a person ends the asking"

    @precondition(lambda self: not self.world.finished)
    @rule(often=st.integers(0, 8), reason=st.sampled_from(["interrupted", "interrupted", "replaced"]))
    def person_interrupts(self, often: int, reason: str) -> None:
        if often == 0:
            self.cut("interrupt", Interrupted(reason), reason)

    def cut(self, how: str, event: Input, reason: str = "") -> None:
        world = self.world
        if world.ending is None:
            world.ending, world.reason = how, reason
        self.feed(event)
        assert set(world.running) <= world.cancelled, "every running call is cancelled at once"
        under_way = [world.sampling, world.waiting, world.compacting, world.stopping]
        assert under_way == [False] * 4, "and everything else is given up"

    @precondition(lambda self: not self.world.finished)
    @rule(reached=st.integers(0, 3))
    def limit_changes(self, reached: int) -> None:
        self.world.limit = LIMIT if reached == 0 else None

    @rule(due=st.sampled_from([None, "context_limit"]))
    def history_grows(self, due: str | None) -> None:
        self.world.due = due

    @rule()
    def stray_inputs_change_nothing(self) -> None:
        world = self.world
        stray: list[Input] = [
            ToolFinished(10_000, FunctionCallOutput("nobody", "late")),
            Admitted(10_000, arrived("late")),
            Refused(10_000, (user_message("late"),)),
        ]
        if not world.sampling:
            stray += [ModelItem(user_message("late")), ModelCompleted(), ModelFailed("late")]
        if not world.waiting:
            stray.append(TimerFired())
        if not world.compacting:
            stray += [Compacted(Compaction(items=(), message="late")), CompactionFailed("late")]
        if not world.stopping:
            stray += [StopChecked(), StopChecked(arrived("late"))]
        if 0 not in world.undecided:
            stray += [Admitted(0, arrived("late")), Refused(0, (user_message("late"),))]
        stray += [
            ToolFinished(key, FunctionCallOutput("x", "again"), "again")
            for key in world.starts
            if key not in world.running
        ]
        for event in stray:
            assert self.turn.receive(event) == []
        assert self.turn.begin() == []

    # What always holds

    @invariant()
    def outputs_answer_calls_in_order(self) -> None:
        calls = [item for item in self.world.record if is_call(item)]
        outputs = [item for item in self.world.record if is_output(item)]
        assert [item.call_id for item in outputs] == [item.call_id for item in calls[: len(outputs)]]  # type: ignore[union-attr]

    @invariant()
    def recorded_input_is_in_order_and_never_was_refused(self) -> None:
        said = [text for text in texts(self.world.record) if origin(text) in ("input", "steer")]
        assert said == [text for text in self.sent if text in set(said)], "in order, once"
        assert not set(said) & self.refused, "what was refused is never recorded"

    @invariant()
    def the_turn_is_never_stuck(self) -> None:
        world = self.world
        if world.finished:
            assert self.turn.state is State.DONE
        elif self.turn.state is State.ADMITTING:
            assert world.undecided
        else:
            assert world.busy, f"nothing can happen any more in state {self.turn.state}"

    # The end

    def teardown(self) -> None:
        if not hasattr(self, "turn"):
            return
        self.let_it_end()
        world = self.world
        assert len(world.outcomes) == 1, "a turn ends once"
        calls = [item for item in world.record if is_call(item)]
        outputs = [item for item in world.record if is_output(item)]
        assert [item.call_id for item in outputs] == [item.call_id for item in calls]  # type: ignore[union-attr]
        assert with_paired_outputs(world.history) == world.history
        unrun = [item for item in outputs if item.output == ABORTED_OUTPUT]  # type: ignore[union-attr]
        assert len(world.starts) + len(unrun) == len(calls), "a call runs, or says that it did not"
        self.nothing_is_lost()

    def nothing_is_lost(self) -> None:
        world = self.world
        recorded = Counter(texts(world.record))
        pending = Counter(text for late in self.turn.take_pending() for text in texts(late.items))
        undecided = self.turn.take_undecided()
        assert sorted(undecided) == sorted(world.undecided)
        told = Counter(world.undecided.values())
        for text in self.sent:
            ends = recorded[text] + pending[text] + told[text] + (text in self.refused)
            assert ends == 1, f"{text!r} is recorded, refused, told undecided, or left over: one of them, once"
            assert text not in self.late or pending[text] == 1, "late input is for the next turn"
        left = Counter(text for late in self.turn.take_deliveries() for text in texts(late.items))
        for text in [*self.delivered, *self.contexts]:
            assert recorded[text] + left[text] == 1, f"{text!r} is recorded once, or left over"
        for text in self.continued:
            assert recorded[text] == 1, "what makes a turn go on is recorded"
        everything = {*self.sent, *self.delivered, *self.contexts, *self.continued, INTERRUPT_MARKER}
        assert set(recorded) | set(pending) | set(left) <= everything
        assert self.turn.take_pending() == ()
        assert self.turn.take_deliveries() == ()
        assert self.turn.take_undecided() == ()

    def let_it_end(self) -> None:
        """Finish whatever is under way, the way a driver would; a stubborn interceptor never lets the turn stop."""
        world = self.world
        for _ in range(1000):
            if world.finished:
                return
            if world.running:
                self.end_call(next(reversed(world.running)))
            elif world.sampling:
                self.complete()
            elif world.waiting:
                world.waiting = False
                self.feed(TimerFired())
            elif world.compacting:
                self.end_compaction(works=self.admits)
            elif world.stopping:
                self.check_stop(go_on=self.stubborn)
            elif world.undecided:
                self.decide(next(iter(world.undecided)), admit=self.admits)
        raise AssertionError(f"the turn does not end: {self.turn.state}")


class TestTurn(TurnMachine.TestCase):
    """The invariants."""


PARTS = 20

if not settings().derandomize:  # in parts, so that workers share them, and so that a run can end between two of them
    TestTurn.settings = settings(max_examples=settings().max_examples // PARTS)
    for part in range(2, PARTS + 1):
        name = f"TestTurnPart{part}"
        globals()[name] = type(name, (TurnMachine.TestCase,), {"settings": TestTurn.settings, "__module__": __name__})


def test_input_for_a_turn_that_was_interrupted_before_it_began_is_not_recorded() -> None:
    turn = Turn(parallel=is_parallel)
    commands = turn.receive(Interrupted())
    assert [type(command) for command in commands] == [Flush, Finish]
    assert turn.state is State.DONE
