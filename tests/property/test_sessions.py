"""A session over random operations: input, steering, interrupts, approvals, failures, rollbacks, forks, and kills at any byte.

A real kernel, its bundled record on disk and its tools run; only the model is scripted, and only the words of the model and of the
user are made up. A kill leaves what is on disk, cut off at a random byte behind the last flush, and another kernel resumes it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codex_framework import ModelError, ThreadError, tool
from codex_framework.contract.protocol.events import (
    Event,
    SessionConfiguredEvent,
    ThreadRolledBackEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_framework.contract.protocol.items import Message, is_call, is_output, message_text
from codex_framework.contract.protocol.ops import TextInput, ThreadSettings, ThreadSettingsOverrides, UserInputOp
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.roles.stores import ThreadQuery
from codex_framework.testing import call, say
from codex_framework.testing.kernels import KernelFactory
from codex_framework.threads.thread import Thread
from codex_plugin_rollout import RolloutStore

STEPS = 50
PATIENCE_S = 20.0


class Session(RuleBasedStateMachine):
    """What a client knows of a session, beside the session itself."""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="session-"))
        self.number = 0
        self.homes = 0
        self.home = self.folder / "home0"
        self.home.mkdir()
        self.effects: Counter[str] = Counter()
        self.expected: list[str] = []
        self.thread_id: str | None = None
        self.gate = asyncio.Event()
        self.replies: list[Any] = []
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(work, PATIENCE_S)

        return self.loop.run_until_complete(bounded())

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.gate.set()
            try:
                self.run(self._close())
            finally:
                self.loop.close()
                shutil.rmtree(self.folder, ignore_errors=True)

    # The world of the session

    async def _open(self) -> None:
        (self.folder / "work").mkdir(exist_ok=True)
        effects, machine = self.effects, self

        @tool
        async def act(word: str) -> str:
            """Do something that must happen once."""
            effects[word] += 1
            return f"did {word}"

        @tool
        async def wait(word: str) -> str:
            """Do something that takes until the gate opens."""
            await machine.gate.wait()
            effects[word] += 1
            return f"waited {word}"

        @tool(needs_approval=True)
        async def ask(word: str) -> str:
            """Do something that the user must allow."""
            effects[word] += 1
            return f"allowed {word}"

        self.gate = asyncio.Event()
        factory = KernelFactory(self.home, self.folder / "work")
        config = ('approval_policy="on-request"', "framework.plugins.disabled=['hooks']")
        self.made = factory(self._source(), tools=[act, wait, ask], config=config)
        self.kernel = await self.made.__aenter__()
        if self.thread_id is None:
            self.thread: Thread = await self.kernel.start_thread()
        else:
            self.thread = await self.kernel.resume_thread(self.thread_id)
        self.heard: list[Event] = []
        self.listener = asyncio.ensure_future(self.thread.events().each(self.heard.append))

    async def _close(self) -> None:
        await self.made.__aexit__(None, None, None)
        await self.listener

    def _source(self) -> Any:
        def reply(request: Any) -> Any:
            return self.replies.pop(0) if self.replies else say("Done.")

        return [reply] * 100_000

    def word(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    @property
    def running(self) -> bool:
        return self.thread.status in ("running", "waiting")

    async def _pause(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    # Operations

    @rule(plan=st.lists(st.sampled_from(["act", "wait", "ask", "unknown", "two", "fail"]), max_size=3))
    def start_a_turn(self, plan: list[str]) -> None:
        if self.running:
            return
        self.gate.clear()
        self.replies = [self._reply(kind) for kind in plan]
        prompt = self.word("prompt")

        async def go() -> None:
            await self.thread.submit(UserInputOp((TextInput(prompt),)))
            await self._pause()

        self.run(go())
        self.expected.append(prompt)

    def _reply(self, kind: str) -> Any:
        match kind:
            case "two":
                return call("act", word=self.word("effect")) + call("wait", word=self.word("effect"))
            case "fail":
                return ModelError("it cannot be mended", retryable=False)
            case _:
                return call(kind, word=self.word("effect"))

    @precondition(lambda self: self.running)
    @rule()
    def steer(self) -> None:
        prompt = self.word("steered")

        async def go() -> None:
            await self.thread.submit(UserInputOp((TextInput(prompt),)))
            await self._pause()

        self.run(go())
        self.expected.append(prompt)

    @precondition(lambda self: self.running)
    @rule()
    def interrupt(self) -> None:
        self.run(self.thread.interrupt())

    @rule()
    def interrupt_whatever_there_is(self) -> None:
        self.run(self.thread.interrupt())

    @rule(decision=st.sampled_from([Decision.APPROVED, Decision.DENIED, Decision.APPROVED_FOR_SESSION, Decision.ABORT]))
    def answer(self, decision: Decision) -> None:
        async def go() -> None:
            for request in list(self.thread.open_requests):
                assert self.thread.answer(request.request_id, ReviewDecision(decision))
                assert not self.thread.answer(request.request_id, ReviewDecision(Decision.APPROVED)), "answered twice"
            assert not self.thread.answer("nobody-asked", ReviewDecision(Decision.APPROVED))
            await self._pause()

        self.run(go())

    @rule()
    def let_go_on(self) -> None:
        async def go() -> None:
            self.gate.set()
            await self._pause()

        self.run(go())

    @rule(model=st.sampled_from(["m1", "m2", "m3"]))
    def change_settings(self, model: str) -> None:
        self.run(self.thread.submit(ThreadSettings(ThreadSettingsOverrides(model=model))))

    @rule(turns=st.integers(1, 4))
    def roll_back(self, turns: int) -> None:
        busy = self.running

        async def go() -> None:
            await self.thread.submit(self.kernel.op("thread_rollback", num_turns=turns))
            await self._pause()

        before, heard = self._said(), len(self.heard)
        self.run(go())
        news = [event.msg.type for event in self.heard[heard:]]
        if "thread_rolled_back" not in news:
            assert self._said()[: len(before)] == before
            return
        if busy:  # its turn ended before the op was handled
            ends = {"task_complete", "turn_aborted"}
            assert ends & set(news[: news.index("thread_rolled_back")])
        self.expected = [text for text in self.expected if text in self._said()]

    @precondition(lambda self: not self.running and self.expected)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        store, home = RolloutStore(), str(self.home)
        self.thread.save()
        whole = store.load(self.thread.id, home)
        if not whole.turns:
            return
        at = data.draw(st.integers(1, len(whole.turns)))
        forked = store.load(self.kernel.fork_thread(self.thread.id, at=at), home)
        assert len(forked.turns) == at
        assert forked.history == whole.history[: len(forked.history)] or at == len(whole.turns)
        assert forked.meta.forked_from_id == self.thread.id

    @rule(cut=st.integers(0, 400))
    def kill_and_resume(self, cut: int) -> None:
        """Go on with a copy of the disk as a killed process leaves it: nothing of what was flushed is lost."""
        said, was_idle = self._said(), not self.running
        self.homes += 1
        copy = self.folder / f"home{self.homes}"
        flushed = self._record()
        shutil.copytree(self.home, copy, ignore=shutil.ignore_patterns("*.lock"))
        self.gate.set()
        self.run(self._close())
        grown = self._record()
        if flushed is None:
            self.thread_id, self.expected = None, []
        else:
            path, size = flushed
            target = copy / path.relative_to(self.home)
            if grown is not None and grown[1] > size:  # a write that the kill cut off
                more = path.read_bytes()[size : size + cut]
                with target.open("ab") as file:
                    file.write(more)
            self.thread_id = self.thread.id
        self.home = copy
        self.run(self._open())
        kept = self._said()
        accepted = [*said, *(text for text in self.expected if text not in said)]  # a turn that ends records what waits
        assert kept == accepted[: len(kept)], "nothing is invented, and the order stays"
        assert kept == said or not was_idle or flushed is None, "what a turn said is on disk when it has ended"
        self.expected = [text for text in self.expected if text in kept]
        self.check_the_record()

    def _record(self) -> tuple[Path, int] | None:
        found = [path for path in self.home.rglob("rollout-*.jsonl") if self.thread.id in path.name]
        return (found[0], found[0].stat().st_size) if found else None

    # What always holds

    def _said(self) -> list[str]:
        texts = [message_text(item) for item in self.thread.history.items if isinstance(item, Message)]
        return [text for text in texts if text.startswith(("prompt", "steered"))]

    @invariant()
    def history_is_well_formed(self) -> None:
        if not hasattr(self, "thread"):
            return
        items = self.thread.history.prompt().items
        calls = [getattr(item, "call_id", "") for item in items if is_call(item)]
        outputs = [getattr(item, "call_id", "") for item in items if is_output(item)]
        assert Counter(calls) == Counter(outputs), "every call of a prompt has exactly one output"

    @invariant()
    def nothing_is_done_or_said_twice(self) -> None:
        if not hasattr(self, "thread"):
            return
        assert all(count == 1 for count in self.effects.values()), self.effects
        said = self._said()
        assert len(said) == len(set(said)), said

    @invariant()
    def every_turn_has_one_end(self) -> None:
        if not hasattr(self, "thread"):
            return
        kinds = [type(event.msg) for event in self.heard]
        assert not kinds or kinds[0] is SessionConfiguredEvent
        begun = [event.id for event in self.heard if isinstance(event.msg, TurnStartedEvent)]
        ended = [event.id for event in self.heard if isinstance(event.msg, (TurnCompleteEvent, TurnAbortedEvent))]
        assert len(set(ended)) == len(ended)
        assert set(ended) <= set(begun)
        assert len(begun) - len(ended) <= 1

    @invariant()
    def no_input_is_lost(self) -> None:
        if not hasattr(self, "thread") or self.running:
            return
        self.run(self._pause())
        if not self.running:
            rolled_back = any(isinstance(event.msg, ThreadRolledBackEvent) for event in self.heard)
            said = self._said()
            missing = [text for text in self.expected if text not in said]
            assert rolled_back or not missing, missing

    def check_the_record(self) -> None:
        if self._record() is None:
            return
        stored = RolloutStore().load(self.thread.id, str(self.home))
        assert [message_text(item) for item in stored.history if isinstance(item, Message) and item.role == "user"] == [
            message_text(item)
            for item in self.thread.history.items
            if isinstance(item, Message) and item.role == "user"
        ]
        listed = [summary.id for summary in RolloutStore().find(ThreadQuery(limit=100), str(self.home)).threads]
        assert self.thread.id in listed
        for line in (self._record() or (Path(), 0))[0].read_bytes().splitlines()[:-1]:
            json.loads(line)
        try:
            RolloutStore().reopen(stored, str(self.home))
        except ThreadError as error:
            assert error.slug == "session-in-use"


TestSession = Session.TestCase
TestSession.settings = settings(
    max_examples=max(1, settings().max_examples // 20), stateful_step_count=STEPS, deadline=None
)
