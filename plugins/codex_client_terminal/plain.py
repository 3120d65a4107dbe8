"""The terminal without a screen: for terminals that cannot move the cursor, and for screen readers. One line in, lines out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import termios
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from codex_client_terminal.commands import COMMANDS, choose_thread
from codex_client_terminal.composer import as_message
from codex_client_terminal.decisions import Option, Question, question_of
from codex_client_terminal.extensions import SlashCommand
from codex_client_terminal.pickers import Entry
from codex_client_terminal.session import Session
from codex_client_terminal.session_picker import entry_of
from codex_client_terminal.text import Line, lines_of, one_line, plain_text, terminal_encoding, to_bytes
from codex_client_terminal.themes import DEFAULT_THEME
from codex_client_terminal.transcript import Past, Transcript
from codex_client_terminal.trust import trust_question
from codex_framework import CodexError, Event, Request, RequestResolvedEvent, ThreadStore
from codex_framework.contract.protocol.events import TurnAbortedEvent, TurnCompleteEvent
from codex_framework.contract.roles.stores import ThreadQuery
from codex_framework.toolkit.documentation import printed_error

if TYPE_CHECKING:
    from codex_client_terminal.vi import ViKeys
    from codex_framework.toolkit.front_ends import FrontEndStart

__all__ = ["choose_session", "run_plain"]

_ON_A_SCREEN = frozenset({"clear", "copy", "theme", "vim"})
"""Commands that need a screen."""

_MOST_SHOWN = 20


def run_plain(start: FrontEndStart) -> int:
    """Run the conversation with plain lines, and return the exit status. Raises CodexError."""
    return asyncio.run(_Conversation(start).run())


def choose_session(title: str, store: ThreadStore, home: str, folder: str) -> str | None:
    """Let the user choose a stored session. Sessions of a folder come first. Return its id, or None."""
    return asyncio.run(_Plain().choose_session(title, store, home, folder=folder))


class _Plain:
    """Lines in and out, with questions and lists."""

    def __init__(self) -> None:
        self._typed = b""
        self._early: list[str] = []  # lines that were typed before a question, which they do not answer
        self._encoding = terminal_encoding()

    def print(self, text: str | Sequence[Line], style: str = "") -> None:
        """Print lines."""
        for line in lines_of(text, style) if isinstance(text, str) else text:
            self._write(f"{plain_text(line)}\n")

    def _write(self, text: str) -> None:
        data = memoryview(to_bytes(text, self._encoding))
        while data:
            data = data[os.write(1, data) :]

    async def read_line(self, prompt: str) -> str | None:
        """Return a line of the input, or None at its end."""
        self._write(prompt)
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(0, arrived.set)  # a thread that waits for a line would outlive ^C
        try:
            while b"\n" not in self._typed:
                await arrived.wait()
                arrived.clear()
                data = os.read(0, 65_536)
                if not data:
                    self._write("\n")
                    return None
                self._typed += data
        finally:
            loop.remove_reader(0)
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(self._encoding, "replace")

    @property
    def has_input(self) -> bool:
        """Whether something has been typed that was not read yet."""
        return bool(self._typed) or bool(select.select([0], [], [], 0)[0])

    def _set_early_lines_aside(self) -> None:
        """Keep the lines that have been typed for later, and drop the beginning of another one."""
        while select.select([0], [], [], 0)[0] and (data := os.read(0, 65_536)):
            self._typed += data
        *lines, _ = self._typed.split(b"\n")
        self._early += [line.decode(self._encoding, "replace") for line in lines]
        self._typed = b""
        with contextlib.suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)

    async def ask(self, question: Question) -> Any:
        """Ask a question. Return the answer, or None at the end of the input."""
        while True:
            self._set_early_lines_aside()
            self.print([*question.details, *question.lines])
            for number, option in enumerate(question.options, 1):
                self.print(f"{number}. {option.label}")
            chosen = _chosen_option(question.options, await self.read_line("Number: "))
            if chosen is None:
                return None
            answer = chosen.answer
            if chosen.asks_text:
                text = await self.read_line(f"{plain_text([(chosen.asks_text, '')])} ")
                if text is None:
                    return None
                answer = chosen.answer(text)
            if question.follows is not None:
                answer = question.follows(answer)
            if not isinstance(answer, Question):
                return answer
            question = answer

    async def choose(self, title: str, entries: Sequence[Entry], *, chosen: int = 0) -> Any:
        """Let the person choose from a list by a number, after a search if it is long. Return the value, or None."""
        del chosen
        return await self._choose(title, entries, lambda words: _search(entries, words))

    async def choose_session(self, title: str, store: ThreadStore, home: str, *, folder: str | None) -> str | None:
        """Let the person choose a stored session by a number, or search all of them. Return its id, or None. Raises ThreadError."""

        def find(words: str, cwd: str | None = None) -> list[Entry]:
            query = ThreadQuery(limit=_MOST_SHOWN, text=words or None, cwd=cwd)
            return [entry_of(each) for each in store.find(query, home).threads]

        here = await asyncio.to_thread(find, "", folder) or await asyncio.to_thread(find, "")
        chosen: str | None = await self._choose(title, here, find)
        return chosen

    async def _choose(self, title: str, entries: Sequence[Entry], find: Callable[[str], Sequence[Entry]]) -> Any:
        while True:
            self.print(title)
            for number, entry in enumerate(entries[:_MOST_SHOWN], 1):
                self.print(f"{number}. {one_line(entry.label)}{f' ({one_line(entry.about)})' if entry.about else ''}")
            if len(entries) > _MOST_SHOWN:
                self.print(f"... and {len(entries) - _MOST_SHOWN} more")
            answer = await self.read_line("Number, or words to search for (empty: go back): ")
            if answer is None or not (words := answer.strip()):
                return None
            if words.isascii() and words.isdigit() and 0 < int(words) <= min(len(entries), _MOST_SHOWN):
                return entries[int(words) - 1].value
            if found := await asyncio.to_thread(find, words):
                entries = found
            else:
                self.print("Nothing found.")


class _Conversation(_Plain):
    """The conversation. To commands it is a :class:`~codex_client_terminal.view.View`."""

    theme = DEFAULT_THEME

    def __init__(self, start: FrontEndStart) -> None:
        super().__init__()
        self.commands: dict[str, SlashCommand] = {}
        self.vi_keys: ViKeys | None = None
        self.transcript = Transcript({})
        self._start = start
        self._session: Session | None = None
        self._requests: asyncio.Queue[Request[Any] | None] = asyncio.Queue()
        self._asking: tuple[str, asyncio.Task[Any]] | None = None
        self._messages: list[str] = []
        self._ends = False

    @property
    def session(self) -> Session:
        """The kernel and the thread."""
        assert self._session is not None
        return self._session

    async def run(self) -> int:
        """Run until the person leaves or the input ends. Return the exit status. Raises CodexError."""
        config = self._start.load_config()
        if config.trust is None and config.get("approval_policy") != "never":
            answer = await self.ask(trust_question(config))
            if answer in ("quit", None):
                return 0
            if answer != "once":
                self._start.decide_trust(config, answer)
                config = self._start.load_config()
        self._session = session = await Session.open(config, self._start, self._take)
        self.commands = {
            **{name: command for name, command in COMMANDS.items() if name not in _ON_A_SCREEN},
            **session.extensions.commands,
        }
        try:
            for warning in session.kernel.registry.warnings:
                self.print(f"Warning: {warning}")
            self.show_past(None)
            await self._open_thread()
            if self._start.prompt:
                await self._run_turn(self._start.prompt, self._start.images)
            while not self._ends and (message := await self._read_message()) is not None:
                await self._do(message)
        finally:
            await session.close()
        return 0

    async def _open_thread(self) -> None:
        start = self._start
        if start.command == "start":
            await self.session.new()
            return
        thread_id = start.thread
        if thread_id is None and start.newest:
            thread_id = self.session.latest(all_folders=start.all_folders)
        elif thread_id is None:
            title = "Resume a session" if start.command == "resume" else "Fork a session"
            thread_id = await choose_thread(self, title, all_folders=start.all_folders)
        if thread_id is None:
            await self.session.new()
        elif start.command == "resume":
            self.show_past(await self.session.resume(thread_id))
        else:
            self.show_past(await self.session.fork(thread_id, start.at))

    # What the person does

    async def _read_message(self) -> str | None:
        r"""Return the next message: a command's message, or lines of the user, of which all but the last end with ``\``."""
        if self._messages:
            return self._messages.pop(0)
        if self._early:
            self._write(f"> {plain_text([(self._early[0], '')])}\n")
            return as_message(self._early.pop(0))
        waited = self.has_input
        message = await self.read_line("> ")
        if message is not None and (waited or self.has_input):  # pasted, perhaps without having been read
            message = as_message(message)
        while message is not None and message.endswith("\\"):
            line = await self.read_line(". ")
            message = None if line is None else f"{message[:-1]}\n{line}"
        return message

    async def _do(self, message: str) -> None:
        name, _, argument = message[1:].partition(" ")
        try:
            if message.startswith("/") and (command := self.commands.get(name.strip())) is not None:
                await command.run(self, argument.strip())
                await self._attend_turn()
            elif message.startswith("/") and name.strip() and "/" not in name:
                self.print(f"There is no command /{one_line(name, 40)} here. /help lists the commands.")
            elif message.startswith("!") and message[1:].strip():
                await self.session.submit("run_user_shell_command", command=message[1:].strip())
                await self._attend_turn()
            elif message.strip():
                await self._run_turn(message)
        except CodexError as error:
            self.print(printed_error(error))

    async def _run_turn(self, message: str, images: Sequence[str] = ()) -> None:
        self.session.send(message.strip("\n"), images)
        await self._attend_turn()

    async def _attend_turn(self) -> None:
        """Answer questions until the turn has ended, if one runs. ^C interrupts it."""
        if not self.session.thread.running:
            return
        import signal

        loop = asyncio.get_running_loop()
        interrupts: set[asyncio.Task[None]] = set()
        interrupt = self.session.thread.interrupt
        loop.add_signal_handler(signal.SIGINT, lambda: interrupts.add(loop.create_task(interrupt())))
        try:
            while (request := await self._requests.get()) is not None:
                await self._answer(request)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _answer(self, request: Request[Any]) -> None:
        question = question_of(request)
        answer: Any = None
        if question is None:
            self.print(f"Warning: {request.subject} cannot be answered here")
        else:
            asking = asyncio.ensure_future(self.ask(question))
            self._asking = (request.request_id, asking)
            await asyncio.wait((asking,))
            self._asking = None
            if asking.cancelled():  # it has been answered, or its turn has ended
                self._write("\n")
                return
            answer = asking.result()
        try:
            self.session.thread.answer(request.request_id, request.unattended() if answer is None else answer)
        except CodexError as error:
            self.print(printed_error(error))

    def _take(self, event: Event) -> None:
        self.print(self.transcript.take(event))
        match event.msg:
            case Request():
                self._requests.put_nowait(event.msg)
            case RequestResolvedEvent(request_id=request_id):
                if self._asking is not None and self._asking[0] == request_id:
                    self._asking[1].cancel()
            case TurnCompleteEvent() | TurnAbortedEvent():
                self._requests.put_nowait(None)

    # What commands use

    def send(self, text: str, images: Sequence[str] = ()) -> None:
        """Send a message when the command has ended."""
        del images
        self._messages.append(text)

    def suggest(self, text: str) -> None:
        """Print a message that the person may want to write again."""
        self.print(f"The message was:\n{text}")

    def show_past(self, past: Past | None) -> None:
        """Print a stored conversation, or begin an empty one."""
        settings = self.session.kernel.settings()
        shows_reasoning = not settings.hide_agent_reasoning
        self.transcript = Transcript(
            self.session.extensions.widgets, cwd=str(settings.cwd), shows_reasoning=shows_reasoning
        )
        if past is not None:
            self.print(list(self.transcript.print_past(past)))

    async def read(
        self,
        title: str,
        lines: Iterable[Line],
        *,
        running: Callable[[int], list[Line]] = lambda _: [],
        follow: Callable[[Callable[[Iterable[Line]], None]], Awaitable[None]] | None = None,
    ) -> None:
        """Print lines."""
        del running, follow
        self.print([[(title, "")], *lines])

    def set_theme(self, name: str) -> None:
        """Do nothing: there are no colours."""

    def copy(self, text: str) -> None:
        """Do nothing: the terminal has no clipboard."""

    def erase(self) -> None:
        """Do nothing: there is no screen."""

    def quit(self) -> None:
        """Leave the conversation."""
        self._ends = True


def _chosen_option(options: Sequence[Option], text: str | None) -> Option | None:
    """Return the chosen option. Anything but a number chooses the last one, which refuses."""
    if text is None:
        return None
    number = text.strip()
    if number.isascii() and number.isdigit() and 0 < int(number) <= len(options):
        return options[int(number) - 1]
    return next((each for each in options if each.key and each.key == number), options[-1])


def _search(entries: Sequence[Entry], words: str) -> list[Entry]:
    wanted = words.casefold().split()
    return [each for each in entries if all(word in f"{each.label} {each.about}".casefold() for word in wanted)]
