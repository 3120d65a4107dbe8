"""The terminal's application: one loop for keys, events and drawing.

Everything here runs in the loop of the main thread. Nothing is drawn, and no timer runs, while nothing changes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from codex_client_terminal.capture import LineReader, captured_output
from codex_client_terminal.composer import Choice, Composer, as_message
from codex_client_terminal.keys import Key, Keys, Paste
from codex_client_terminal.screen import Screen
from codex_client_terminal.text import Line, cut, lines_of, one_line, uses_colour

if TYPE_CHECKING:
    from codex_client_terminal.extensions import SlashCommand
    from codex_client_terminal.files import FileNames
    from codex_client_terminal.pickers import Entry
    from codex_client_terminal.session import Session
    from codex_client_terminal.transcript import Past, Transcript
    from codex_client_terminal.vi import ViKeys
    from codex_framework import Event, Request, ThreadStore
    from codex_framework.toolkit.front_ends import FrontEndStart

__all__ = ["App", "run_app"]

_ESCAPE_S = 0.03
"""How long the rest of an escape sequence may take to arrive."""

_FRAME_S = 1 / 50
_TWICE_S = 2.0
"""Within which time a key pressed twice means more than once."""

_SEARCH_S = 0.02
"""Between two steps of a search for files."""

_GUARD_S = 0.4
"""How long a new question ignores keys, measured from the last key that was meant for something else."""


class InputView(Protocol):
    """The view at the bottom of the screen that takes the keys."""

    def press(self, key: Key | Paste) -> bool:
        """Take a key. Return whether it was used."""
        ...

    def lines(self, width: int) -> tuple[list[Line], tuple[int, int]]:
        """Return the lines to draw, and where the cursor is."""
        ...


def run_app(
    start: FrontEndStart, screen: Screen, composer: Composer, early: tuple[Keys, list[Key | Paste]]
) -> int | None:
    """Run the terminal on an open screen, and return the exit status, or None if plain lines are wanted instead. Raises CodexError.

    Args:
        early: The parser of keys, and keys that have come already.
    """
    with captured_output() as (terminal, output):
        screen.sink = terminal
        app = App(start, screen, composer, output, early[0])
        status = asyncio.run(app.run(early[1]))
        return None if app.wants_plain else status


class App:
    """The application. To commands it is a :class:`~codex_client_terminal.view.View`."""

    def __init__(self, start: FrontEndStart, screen: Screen, composer: Composer, output: int, keys: Keys) -> None:
        self.composer = composer
        self.commands: dict[str, SlashCommand] = {}
        self.vi_keys: ViKeys | None = None
        self.wants_plain = False
        self._start = start
        self._screen = screen
        self._output = output
        self._keys = keys
        self._views: list[
            tuple[str, InputView]
        ] = []  # what covers the composer, the last one on top, with ids of requests
        self._finished: list[Line] = []
        self._session: Session | None = None
        self._transcript: Transcript | None = None
        self._queued: list[str] = []  # messages for later turns
        self._steered: list[str] = []  # messages that the running turn has not taken yet
        self._notice = ""
        self._theme = "ansi"
        self._pressed: tuple[str, float] = ("", 0.0)
        self._frame: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._escape: asyncio.TimerHandle | None = None
        self._drawn_at = 0.0
        self._closed = False
        self._away = False  # while an editor has the terminal
        self._files: FileNames | None = None
        self._done: asyncio.Future[int] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        composer.completers.update({"/": self._complete_command, "@": self._complete_file})

    # What commands use

    @property
    def session(self) -> Session:
        """The kernel and the thread."""
        assert self._session is not None
        return self._session

    @property
    def transcript(self) -> Transcript:
        """The conversation."""
        assert self._transcript is not None
        return self._transcript

    def print(self, text: str | Sequence[Line], style: str = "") -> None:
        """Print text, or lines of (text, style), into the conversation."""
        lines = lines_of(text, style) if isinstance(text, str) else list(text)
        self._finished += [[], *lines]
        self._draw_soon()

    async def choose(self, title: str, entries: Sequence[Entry], *, chosen: int = 0) -> Any:
        """Let the person choose from a list. Return the value, or None."""
        from codex_client_terminal.pickers import Picker

        return await self.show(lambda answer: Picker(title, entries, answer, chosen=chosen))

    async def choose_session(self, title: str, store: ThreadStore, home: str, *, folder: str | None) -> str | None:
        """Let the user choose a stored session, and return its id, or None."""
        from codex_client_terminal.session_picker import SessionPicker

        picker: SessionPicker | None = None

        def make(answer: Callable[[Any], None]) -> InputView:
            nonlocal picker
            picker = SessionPicker(
                title, store, home, folder, answer, on_change=self._draw_soon, open_conversation=self.read
            )
            return picker

        try:
            chosen: str | None = await self.show(make)
        finally:
            if picker is not None:
                picker.close()
        return chosen

    async def read(
        self,
        title: str,
        lines: Iterable[Line],
        *,
        running: Callable[[int], list[Line]] = lambda _: [],
        follow: Callable[[Callable[[Iterable[Line]], None]], Awaitable[None]] | None = None,
    ) -> None:
        """Show lines to read and scroll, until the user goes back.

        Args:
            running: Returns the lines for running work.
            follow: Runs meanwhile. It adds lines with the function that it gets.
        """
        from codex_client_terminal.viewer import Viewer

        following: asyncio.Future[None] | None = None

        def make(answer: Callable[[Any], None]) -> InputView:
            nonlocal following
            viewer = Viewer(title, lines, height=lambda: self._screen.height, on_close=answer, running=running)

            def add(more: Iterable[Line]) -> None:
                viewer.add(more)
                self._draw_soon()

            if follow is not None:
                following = asyncio.ensure_future(self._guard(follow(add)))
            return viewer

        try:
            await self.show(make)
        finally:
            if following is not None:
                following.cancel()

    async def ask(self, question: Any) -> Any:
        """Ask a question (:class:`~codex_client_terminal.decisions.Question`) of the terminal itself. Return the answer."""
        from codex_client_terminal.decisions import Decision

        self._finished += question.printed(self._screen.width)
        return await self.show(lambda answer: Decision(question, lambda value, _: answer(value), guard_s=_GUARD_S))

    async def show(self, make: Callable[[Callable[[Any], None]], InputView]) -> Any:
        """Show a view in place of the composer until it answers. ``make`` gets the function to answer with."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        shown = ("", make(lambda value: None if answer.done() else answer.set_result(value)))
        self._views.append(shown)
        self._draw_soon()
        try:
            return await answer
        finally:
            if shown in self._views:
                self._views.remove(shown)
            self._draw_soon()

    def send(self, text: str, images: Sequence[str] = ()) -> None:
        """Start a turn with a message, or give it to the running turn."""
        from codex_framework import CodexError

        try:
            if self.session.thread.running:
                self._steered.append(text)
            self.session.send(text, [*images, *self.composer.images_in(text)])
        except CodexError as error:
            if text in self._steered:
                self._steered.remove(text)
            self.print(f"■ {error}\n{error.hint}".rstrip(), "red")
            self.suggest(text)
            return
        self._spawn(self.session.submit("add_to_history", text=text))

    def suggest(self, text: str) -> None:
        """Put a message into the composer."""
        self.composer.set(as_message(text))

    def show_past(self, past: Past | None) -> None:
        """Print a stored conversation, or begin an empty one, instead of the current one."""
        self._begin_transcript()
        if past is not None:
            self._finished += [[], [("─" * 20, "dim")], *self.transcript.print_past(past)]
        self._draw_soon()

    def erase(self) -> None:
        """Erase the screen."""
        self._screen.clear()

    def copy(self, text: str) -> None:
        """Put a text into the clipboard of the terminal."""
        self._screen.copy(text)

    @property
    def theme(self) -> str:
        """The name of the theme."""
        return self._theme

    def set_theme(self, name: str) -> None:
        """Use a theme for everything that is drawn from now on. Without colours (NO_COLOR), it has no effect. Raises ConfigError."""
        from codex_client_terminal.themes import palette_of

        palette = palette_of(name)
        self._theme = name
        if uses_colour():
            self._screen.palette = palette
        self._draw_soon()

    def quit(self) -> None:
        """Leave the terminal."""
        if self._done is not None and not self._done.done():
            self._done.set_result(0)

    # The run

    async def run(self, early: Sequence[Key | Paste]) -> int:
        """Run until the person leaves, beginning with keys that have come already. Raises CodexError."""
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        self._screen.attach(loop, lambda: self._draw_soon(now=True))
        loop.add_reader(self._screen.source, self._read_keys)
        reader = LineReader(self._output, lambda line: self.print([[("│ ", "dim"), (line, "dim")]]))
        loop.add_reader(self._output, reader.read)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end_by_signal, number)
        loop.add_signal_handler(signal.SIGWINCH, self._resize)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        for key in early:
            self._press(key)
        if early:
            self._draw_soon(now=True)
        opening = loop.create_task(self._open())
        try:
            await asyncio.wait((self._done, opening), return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
            return await self._done
        finally:
            opening.cancel()
            loop.remove_reader(self._screen.source)
            self._views.clear()
            try:
                await self._cancel_tasks()  # an editor that has the terminal
                self._show_farewell()
            finally:
                self._screen.close()
                await self._close()
                loop.remove_reader(self._output)
                reader.finish()
                self._screen.draw(self._finished, [], (0, 0))
                self._screen.flush()

    async def _open(self) -> None:
        """Load everything that the first screen does not need, start the thread, and send the first message."""
        await asyncio.to_thread(_import_heavy)
        from codex_client_terminal.commands import COMMANDS, choose_thread
        from codex_client_terminal.session import Session

        config = await asyncio.to_thread(self._start.load_config)
        if config.get("framework.plugins.terminal.plain"):
            self.wants_plain = True
            self.quit()
            return
        config = await self._check_trust(config)
        if config is None:
            self.quit()
            return
        self._use_settings(config.get("tui") or {})
        self._session = session = await Session.open(config, self._start, self._take)
        self.commands = {**COMMANDS, **session.extensions.commands}
        self.composer.show_choices()
        for warning in session.kernel.registry.warnings:
            self.print(f"⚠ {warning}", "yellow")
        self._begin_transcript()
        await self._open_thread(choose_thread)
        gc.freeze()  # objects from start-up live to the end; the command line has switched the collection off for it
        gc.enable()
        self._spawn(self._load_history())
        if self._start.prompt:
            self.send(self._start.prompt, self._start.images)
        self._send_queued()
        self._draw_soon()

    def _use_settings(self, tui: Mapping[str, Any]) -> None:
        """Use the settings of the table ``tui``. A wrong one is reported, and has no effect."""
        from codex_framework import ConfigError

        if (theme := tui.get("theme")) is not None:
            try:
                self.set_theme(str(theme))
            except ConfigError as error:
                self.print(f"⚠ {error}. {error.hint}", "yellow")
        match tui.get("alternate_screen", "auto"):
            case "always":
                from codex_client_terminal.alternate import AlternateScreen

                self._screen.use(AlternateScreen(self._screen))
            case "auto" | "never":
                pass
            case other:
                self.print(f"⚠ `tui.alternate_screen` must be auto, always or never, not {other!r}", "yellow")

    async def _open_thread(self, choose_thread: Callable[..., Awaitable[str | None]]) -> None:
        """Start, resume or fork the thread that the command line asks for."""
        start, session = self._start, self.session
        if start.command == "start":
            await session.new()
            self._show_banner()
            return
        thread_id = start.thread
        if thread_id is None and start.newest:
            thread_id = session.latest(all_folders=start.all_folders)
        elif thread_id is None:
            verb = "Resume" if start.command == "resume" else "Fork"
            thread_id = await choose_thread(self, f"{verb} a session", all_folders=start.all_folders)
        if thread_id is None:
            await session.new()
            self._show_banner()
            return
        past = await (session.resume(thread_id) if start.command == "resume" else session.fork(thread_id, start.at))
        self._show_banner()
        self.show_past(past)

    def _begin_transcript(self) -> None:
        from codex_client_terminal.transcript import Transcript

        settings = self.session.kernel.settings()
        self._transcript = Transcript(
            self.session.extensions.widgets, cwd=str(settings.cwd), shows_reasoning=not settings.hide_agent_reasoning
        )
        self._steered.clear()

    async def _check_trust(self, config: Any) -> Any:
        """Ask once whether the folder is trusted. Return the configuration after the answer, or None to leave."""
        if config.trust is not None or config.get("approval_policy") == "never":
            return config
        from codex_client_terminal.trust import trust_question

        answer = await self.ask(trust_question(config))
        if answer == "quit":
            return None
        if answer in ("trusted", "untrusted"):
            self._start.decide_trust(config, answer)
            return await asyncio.to_thread(self._start.load_config)
        return config

    def _show_banner(self) -> None:
        settings = self.session.thread.settings
        effort = settings.reasoning_effort or ""
        self.print(
            [
                [(">_ codex-framework", "bold")],
                [
                    ("   model:       ", "dim"),
                    (f"{settings.model} {effort}".rstrip(), ""),
                    ("   /model to change", "dim"),
                ],
                [("   directory:   ", "dim"), (_short_path(str(settings.cwd)), "")],
                [
                    ("   permissions: ", "dim"),
                    (settings.permissions.id or settings.permissions.sandbox_policy.type, ""),
                    (f", asks: {settings.approval_policy}", "dim"),
                ],
            ]
        )

    def _show_farewell(self) -> None:
        session = self._session
        if session is not None and session.started and session.thread.rollout_path is not None and session.used:
            self._finished += [
                [],
                [("To continue this session, run:", "dim")],
                [(f"codex-framework resume {session.thread.id}", "")],
            ]
        self._draw(closing=True)

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)

    async def _close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _end_by_signal(self, number: int) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(128 + number)

    async def _load_history(self) -> None:
        from codex_client_terminal.history import recent_prompts

        home = self.session.kernel.config.codex_home
        self.composer.load_history([*map(as_message, await asyncio.to_thread(recent_prompts, home))])

    def _spawn(self, work: Awaitable[Any]) -> None:
        """Run something in the background. Exceptions are printed."""
        task = asyncio.ensure_future(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Awaitable[Any]) -> None:
        from codex_framework import CodexError

        try:
            await work
        except CodexError as error:
            self.print(f"■ {error}\n{error.hint}".rstrip(), "red")
        except Exception as error:
            self.print(f"■ {type(error).__name__}: {error}", "red")

    # Events

    def _take(self, event: Event) -> None:
        """Show an event of the thread."""
        from codex_framework import Request, RequestResolvedEvent
        from codex_framework.contract.protocol.events import ItemCompletedEvent, TurnAbortedEvent, TurnCompleteEvent

        msg = event.msg
        try:
            self._finished += self.transcript.take(event)
        except Exception as error:  # what cannot be shown must not hide what follows
            self.print(f"■ an event {msg.type} could not be shown: {type(error).__name__}: {error}", "red")
        if isinstance(msg, Request):
            self._ask_about(msg)
        elif isinstance(msg, RequestResolvedEvent):
            self._views = [each for each in self._views if each[0] != msg.request_id]
        elif isinstance(msg, ItemCompletedEvent) and msg.item.get("type") == "UserMessage":
            self.session.used = True
            self._forget_steered(msg.item)
        elif isinstance(msg, (TurnCompleteEvent, TurnAbortedEvent)):
            if isinstance(msg, TurnAbortedEvent):
                self._give_back()
            else:
                asyncio.get_running_loop().call_soon(self._send_queued)
        self._draw_soon()

    def _forget_steered(self, item: Any) -> None:
        from codex_client_terminal.items import user_text

        text = user_text(item)
        if text in self._steered:
            self._steered.remove(text)

    def _ask_about(self, request: Request[Any]) -> None:
        """Show a request as a question. One that a person cannot answer here gets its unattended answer."""
        from codex_client_terminal.decisions import Decision, question_of

        question = question_of(request)
        if question is None:
            self.print(f"⚠ {request.subject} cannot be answered here", "yellow")
            self._answer(request, request.unattended())
            return

        def on_answer(answer: object, outcome: str) -> None:
            self._views = [each for each in self._views if each[0] != request.request_id]
            if outcome:
                self.print([[(one_line(outcome), "dim")]])
            self._answer(request, answer)

        self._finished += question.printed(self._screen.width)
        self._views.insert(0, (request.request_id, Decision(question, on_answer, guard_s=_GUARD_S)))

    def _answer(self, request: Request[Any], answer: object) -> None:
        from codex_framework import CodexError

        try:
            self.session.thread.answer(request.request_id, answer)
        except CodexError as error:
            self.print(f"■ {error}", "red")

    def _send_queued(self) -> None:
        """Start a turn with the next message that waits."""
        if self._queued and self._session is not None and self._session.started and not self._session.thread.running:
            self._submit(self._queued.pop(0), queue=False, running=False)

    def _give_back(self) -> None:
        """Put messages that were not sent back into the composer, because the turn was interrupted."""
        waiting = [*map(as_message, self._steered), *self._queued]
        self._steered.clear()
        self._queued.clear()
        if waiting:
            self.composer.set("\n".join(filter(None, [*waiting, self.composer.whole])))

    # Keys

    def _read_keys(self) -> None:
        try:
            data = os.read(self._screen.source, 65_536)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self._end_by_signal(signal.SIGHUP)
            return
        if self._escape is not None:
            self._escape.cancel()
            self._escape = None
        for key in self._keys.feed(data):
            self._press(key)
        if self._keys.waits:
            self._escape = asyncio.get_running_loop().call_later(_ESCAPE_S, self._flush_keys)
        self._draw_soon(now=True)

    def _flush_keys(self) -> None:
        self._escape = None
        for key in self._keys.flush():
            self._press(key)
        self._draw_soon(now=True)

    def _press(self, key: Key | Paste) -> None:
        now = time.monotonic()
        before, when = self._pressed
        self._pressed = (str(key) if isinstance(key, Key) else "", now)
        again = isinstance(key, Key) and key == before and now - when < _TWICE_S
        self._notice = ""
        if key == "c-z":
            self._suspend()
        elif key == "c-l":
            self._screen.clear()
        elif isinstance(key, Key) and (rows := self._scrolled_rows(key)):
            self._screen.scroll(rows)
        elif self._views:
            if not self._views[-1][1].press(key):  # it was meant for the message that the question has covered
                self.composer.press(key)
        elif isinstance(key, Paste) and (path := image_path(key)) is not None:
            self.composer.attach(path)
        elif not (isinstance(key, Key) and (self._press_vi(key) or self._press_own(key, again=again))):
            self.composer.press(key)

    def _scrolled_rows(self, key: Key) -> int:
        """Return by how many rows a key scrolls up, or down with a negative number."""
        page = 0 if self._views else max(self._screen.height // 2, 1)
        return {"wheel-up": 3, "wheel-down": -3, "pageup": page, "pagedown": -page}.get(key, 0)

    def _press_vi(self, key: Key) -> bool:
        """Take a key as vi does. Return whether it means something else there than otherwise."""
        if self.vi_keys is None or self.composer.choices:
            return False
        keys = self.vi_keys.translate(key)
        for each in keys or ():
            self.composer.press(Key(each))
        return keys is not None

    def _press_own(self, key: Key, *, again: bool) -> bool:
        """Take a key that means something beyond the composer. Return whether it does."""
        running = self._transcript is not None and self._transcript.turn_id is not None
        action = self._KEYS.get(key)
        if action is not None:
            return action(self, running, again)
        return False

    def _press_enter(self, running: bool, again: bool) -> bool:  # noqa: FBT001  # the keys' signature
        del again
        text = self.composer.whole
        if self.composer.choices and text.startswith("/") and " " not in text:
            self.composer.complete()
            text = self.composer.whole
        if text.endswith("\\"):
            self.composer.press(Key("backspace"))
            self.composer.insert("\n")
            return True
        if not text.strip():
            return True
        self._screen.scroll(-sys.maxsize)
        self._submit(self._take_message(), queue=False, running=running)
        return True

    def _press_tab(self, running: bool, again: bool) -> bool:  # noqa: FBT001
        del again
        if self.composer.choices or not self.composer.whole.strip():
            return False
        self._submit(self._take_message(), queue=True, running=running)
        return True

    def _take_message(self) -> str:
        """Return the user's message. A folded paste is never a command, because its beginning is not visible."""
        shown = self.composer.text[:1]
        text = self.composer.take()
        return text if text.startswith(shown) else f"\n{text}"

    def _submit(self, text: str, *, queue: bool, running: bool) -> None:
        if self._session is None or not self._session.started or (queue and running):
            self._queued.append(text)
        elif text.startswith("/") and self._run_command(text):
            pass
        elif text.startswith("!") and text[1:].strip():
            self._spawn(self.session.submit("run_user_shell_command", command=text[1:].strip()))
        else:
            self.send(text.strip("\n"))

    def _run_command(self, text: str) -> bool:
        """Run a slash command. Return whether it is one: a path that begins with a slash is a message."""
        name, _, argument = text[1:].partition(" ")
        name = name.strip()
        command = self.commands.get(name)
        if command is None:
            if "/" in name or not name:
                return False
            self.print(f"■ There is no command /{one_line(name, 40)}. /help lists the commands.", "red")
            return True
        if not command.during_turn and self.session.thread.running:
            self.print(f"■ /{name} cannot be used while a turn runs.", "red")
            return True
        self._spawn(command.run(self, argument.strip()))
        return True

    def _press_escape(self, running: bool, again: bool) -> bool:  # noqa: FBT001
        if self.composer.choices:
            return False
        if running:
            self._spawn(self.session.thread.interrupt())
        elif not self.composer.text and self._session is not None and self._session.started:
            if again:
                from codex_client_terminal.commands import go_back

                self._pressed = ("", 0.0)
                self._spawn(go_back(self))
            else:
                self._notice = "esc again to go back to an earlier message"
        return True

    def _press_interrupt(self, running: bool, again: bool) -> bool:  # noqa: FBT001
        if self.composer.text:
            self.composer.set("")
            self._pressed = ("", 0.0)
        elif running:
            self._spawn(self.session.thread.interrupt())
        elif again:
            self.quit()
        else:
            self._notice = "ctrl-c again to quit"
        return True

    def _press_end(self, running: bool, again: bool) -> bool:  # noqa: FBT001
        del running, again
        if self.composer.text:
            return False
        self.quit()
        return True

    def _press_unfold(self, running: bool, again: bool) -> bool:  # noqa: FBT001
        del running, again
        if self._transcript is not None and self._transcript.folded:
            self.print(self._transcript.folded[-1], "dim")
        return True

    def _press_editor(self, running: bool, again: bool) -> bool:  # noqa: FBT001
        del running, again
        self._spawn(self._edit_message())
        return True

    async def _edit_message(self) -> None:
        """Let the person write the message in an editor, which has the terminal meanwhile."""
        from codex_client_terminal.editor import edit_text

        loop = asyncio.get_running_loop()
        self._away = True
        loop.remove_reader(self._screen.source)
        self._screen.close()
        try:
            text = await edit_text(self.composer.whole, self._screen.sink)
        except OSError as error:
            text = None
            self.print(f"■ The editor cannot be started: {error}", "red")
        finally:
            if self._done is not None and not self._done.done():
                self._screen.open()
                loop.add_reader(self._screen.source, self._read_keys)
            self._away = False
            self._resize()
        if text is not None:
            self.composer.set(text.rstrip("\n"))

    # Completion

    def _complete_command(self, word: str) -> list[Choice]:
        return [
            Choice(f"/{command.name}", command.about)
            for command in sorted(self.commands.values())
            if command.name.startswith(word[1:])
        ]

    def _complete_file(self, word: str) -> list[Choice]:
        from codex_client_terminal.files import FileNames

        folder = str(self.session.thread.settings.cwd) if self._session is not None and self._session.started else "."
        if self._files is None or self._files.folder != folder or not self.composer.choices:
            self._files = FileNames(folder)
        if not self._files.search(word[1:]):
            asyncio.get_running_loop().call_later(_SEARCH_S, self._search_on, self._files, word)
        return [Choice(path) for path in self._files.found]

    def _search_on(self, files: FileNames, word: str) -> None:
        """Go on searching for files, as long as their names are wanted."""
        if files is self._files and self.composer.word == word:
            self.composer.show_choices()
            self._draw_soon()

    # Drawing

    def _draw_soon(self, *, now: bool = False) -> None:
        """Draw with the next frame, or immediately after a key."""
        loop = asyncio.get_running_loop()
        if self._frame is not None:
            if not now:
                return
            self._frame.cancel()
        wait = 0.0 if now else max(0.0, self._drawn_at + _FRAME_S - time.monotonic())
        self._frame = loop.call_later(wait, self._draw_frame)

    def _draw_frame(self) -> None:
        """Draw. A failure ends the run, because nothing could be shown any more, not even a question."""
        try:
            self._draw()
        except Exception as error:
            from codex_framework import CodexError

            self._closed = True
            if self._done is not None and not self._done.done():
                fact = f"the conversation cannot be displayed: {type(error).__name__}: {error}"
                hint = "Reinstall codex-framework, or work without the terminal: codex-framework exec PROMPT"
                self._done.set_exception(CodexError(fact, slug="command", hint=hint))

    def _draw(self, *, closing: bool = False) -> None:
        self._frame = None
        if self._closed or ((self._away or self._screen.is_behind) and not closing):
            return
        self._closed = closing
        self._drawn_at = time.monotonic()
        width = self._screen.width
        finished, self._finished = self._finished, []
        if closing:
            self._screen.draw(finished, [], (0, 0))
            return
        agents = [] if self._session is None else self._session.working_agents()
        live = [] if self._transcript is None else self._transcript.live(width, self._drawn_at, agents)
        live += [cut([("  ↳ ", "cyan"), (one_line(text), "dim")], width) for text in self._steered]
        live += [
            cut([("  ⋯ ", "cyan"), (one_line(text), "dim italic"), (" (queued)", "dim")], width)
            for text in self._queued
        ]
        view: InputView = self._views[-1][1] if self._views else self.composer
        shown, cursor = view.lines(width)
        if (wait_s := getattr(view, "waits_s", 0.0)) > 0:
            asyncio.get_running_loop().call_later(wait_s + 0.01, self._draw_soon)
        live.append([])
        place = (len(live) + cursor[0], min(cursor[1], width - 1))
        live += shown
        if self._views and self.composer.text:
            live.append(cut([("  kept for later: ", "dim"), (one_line(self.composer.text), "dim italic")], width))
        live.append(cut([(f"  {self._status()}", "dim")], width))
        self._screen.draw(finished, live, place)
        running = self._transcript is not None and self._transcript.turn_id is not None
        if (running or agents) and self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(1.0, self._tick_on)

    def _tick_on(self) -> None:
        self._tick = None
        self._draw_soon()

    def _status(self) -> str:
        """Return the status line."""
        if self._notice:
            return self._notice
        if any(request_id for request_id, _ in self._views[:-1]):
            return "a question waits: esc"
        if self.composer.is_shell_command and not self._views:
            return "enter runs this as a command of yours, without approval and sandbox"
        if self._session is None or not self._session.started:
            return "" if self._views else "loading ..."
        from codex_client_terminal.commands import context_left
        from codex_client_terminal.transcript import short_number

        settings = self._session.thread.settings
        parts = [
            f"{settings.model} {settings.reasoning_effort or ''}".rstrip(),
            _short_path(str(settings.cwd)),
            context_left(self),
        ]
        tokens = self._session.thread.usage.total_tokens
        if tokens:
            parts += [f"{short_number(tokens)} tokens", self._session.cost()]
        if self._transcript is not None and self._transcript.turn_id is None and self._transcript.took_s is not None:
            parts.append(f"{self._transcript.took_s:.0f}s")
        if self.vi_keys is not None:
            parts.insert(0, "NORMAL" if self.vi_keys.is_normal else "INSERT")
        if settings.collaboration_mode is not None and settings.collaboration_mode.kind == "plan":
            parts.append("plan mode")
        for name, segment in self._session.extensions.segments.items():
            try:
                parts.append(one_line(str(segment(self)), 40))
            except Exception as error:
                parts.append(f"{name}: {type(error).__name__}")
        return " · ".join(filter(None, parts))

    def _resize(self) -> None:
        if self._away:
            return
        self._screen.resize()
        self._draw_soon(now=True)

    def _suspend(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        self._screen.suspend()
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._screen.resize()
        self._draw_soon(now=True)

    _KEYS: ClassVar[Mapping[str, Callable[[Any, bool, bool], bool]]] = {
        "enter": _press_enter,
        "tab": _press_tab,
        "esc": _press_escape,
        "c-c": _press_interrupt,
        "c-d": _press_end,
        "c-o": _press_unfold,
        "c-g": _press_editor,
    }


def _import_heavy() -> None:
    """Import modules that the session needs on a separate thread, so that keys are displayed meanwhile."""
    import codex_client_terminal.commands
    import codex_client_terminal.decisions
    import codex_client_terminal.session  # noqa: F401


def image_path(text: str) -> str | None:
    """Return the path of an image file that was pasted or dropped. None if it is something else."""
    path = text.strip().strip("'\"").replace("\\ ", " ").removeprefix("file://")
    if len(path) > 4_096 or not path.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")):
        return None
    path = os.path.expanduser(path)  # noqa: PTH111  # pathlib is not loaded yet
    return os.path.abspath(path) if os.path.isfile(path) else None  # noqa: PTH100, PTH113


def _short_path(path: str) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111  # pathlib is not loaded yet
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
