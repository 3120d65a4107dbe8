"""The terminal without a screen: for terminals that cannot move the cursor, and for screen readers. One line in, lines out."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codex_client_terminal.decisions import Option, Question, question_of
from codex_client_terminal.session import Session
from codex_client_terminal.text import Line, plain_text
from codex_client_terminal.transcript import Transcript
from codex_client_terminal.trust import trust_question
from codex_framework import CodexError, Event, Request
from codex_framework.contract.protocol.events import TurnAbortedEvent, TurnCompleteEvent

if TYPE_CHECKING:
    from codex_framework.toolkit.front_ends import FrontEndStart

__all__ = ["run_plain"]


def run_plain(start: FrontEndStart) -> int:
    """Run the conversation with plain lines, and return the exit status. Raises CodexError."""
    return asyncio.run(_Plain(start).run())


class _Plain:
    def __init__(self, start: FrontEndStart) -> None:
        self._start = start
        self._transcript = Transcript({})
        self._requests: asyncio.Queue[Request[Any] | None] = asyncio.Queue()

    async def run(self) -> int:
        config = self._start.load_config()
        if config.trust is None and config.get("approval_policy") != "never":
            answer = await self._choose(trust_question(config))
            if answer in ("quit", None):
                return 0
            if answer != "once":
                self._start.decide_trust(config, answer)
                config = self._start.load_config()
        session = await Session.open(config, self._start, self._take)
        try:
            self._transcript = Transcript(session.extensions.widgets, cwd=str(session.kernel.settings().cwd))
            await self._open_thread(session)
            prompt: str | None = self._start.prompt
            while True:
                prompt = await self._read("> ") if prompt is None else prompt
                if prompt is None or prompt.strip() in ("/quit", "/exit"):
                    return 0
                if prompt.strip():
                    await self._run_turn(session, prompt)
                prompt = None
        finally:
            await session.close()

    async def _open_thread(self, session: Session) -> None:
        start = self._start
        if start.command == "start":
            await session.new()
            return
        thread_id = start.thread or session.latest(all_folders=start.all_folders)
        if thread_id is None:
            await session.new()
            return
        past = await (session.resume(thread_id) if start.command == "resume" else session.fork(thread_id, start.at))
        self._print(list(self._transcript.print_past(past)))

    async def _run_turn(self, session: Session, prompt: str) -> None:
        """Send a message, and answer questions until the turn has ended. ^C interrupts it."""
        loop = asyncio.get_running_loop()
        try:
            session.send(prompt)
        except CodexError as error:
            self._print([[(f"Error: {error}", "")]])
            return
        import signal

        interrupts: set[asyncio.Task[None]] = set()
        loop.add_signal_handler(signal.SIGINT, lambda: interrupts.add(loop.create_task(session.thread.interrupt())))
        try:
            while (request := await self._requests.get()) is not None:
                question = question_of(request)
                answer = request.unattended() if question is None else await self._choose(question)
                with contextlib.suppress(CodexError):
                    session.thread.answer(request.request_id, request.unattended() if answer is None else answer)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _take(self, event: Event) -> None:
        self._print(self._transcript.take(event))
        if isinstance(event.msg, Request):
            self._requests.put_nowait(event.msg)
        elif isinstance(event.msg, (TurnCompleteEvent, TurnAbortedEvent)):
            self._requests.put_nowait(None)

    async def _choose(self, question: Question) -> Any:
        """Ask a question. Return the answer, or None at the end of the input."""
        while True:
            self._print([*question.details, *question.lines])
            for number, option in enumerate(question.options, 1):
                self._print([[(f"{number}. {option.label}", "")]])
            chosen = self._option(question.options, await self._read("Number: "))
            if chosen is None:
                return None
            answer = chosen.answer
            if chosen.asks_text:
                text = await self._read(f"{chosen.asks_text} ")
                if text is None:
                    return None
                answer = chosen.answer(text)
            if question.follows is not None:
                answer = question.follows(answer)
            if not isinstance(answer, Question):
                return answer
            question = answer

    @staticmethod
    def _option(options: Sequence[Option], text: str | None) -> Option | None:
        """Return the option that was chosen. What is no number chooses the last one, which refuses."""
        if text is None:
            return None
        number = text.strip()
        if number.isascii() and number.isdigit() and 0 < int(number) <= len(options):
            return options[int(number) - 1]
        return next((each for each in options if each.key and each.key == number), options[-1])

    @staticmethod
    async def _read(prompt: str) -> str | None:
        """Return a line of the input, or None at its end."""
        print(prompt, end="", flush=True)
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(0, arrived.set)  # a thread that waits for a line would outlive ^C
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(0)
        if line := sys.stdin.readline():
            return line.rstrip("\n")
        print(flush=True)
        return None

    @staticmethod
    def _print(lines: Sequence[Line]) -> None:
        for line in lines:
            print(plain_text(line), flush=True)
