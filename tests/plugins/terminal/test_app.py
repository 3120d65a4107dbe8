"""The application and its screen, on a pseudo-terminal without a kernel."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_client_terminal.alternate import AlternateScreen
from codex_client_terminal.app import App
from codex_client_terminal.composer import Composer
from codex_client_terminal.decisions import Option, Question
from codex_client_terminal.editor import edit_text
from codex_client_terminal.keys import Key, Keys, Paste
from codex_client_terminal.screen import Screen
from codex_client_terminal.text import PLAIN, plain_text
from codex_client_terminal.themes import palette_of
from codex_framework import CodexError
from codex_framework.contract.protocol.events import ExecApprovalRequestEvent


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a pseudo-terminal: the one of the person, and the one of programs."""
    ends = os.openpty()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):  # closed by the test
            os.close(end)


def _app(terminal: tuple[int, int]) -> Any:
    return App(None, Screen(terminal[1], terminal[1]), Composer({}), -1, Keys())  # type: ignore[arg-type]


def test_what_was_being_typed_does_not_answer_a_question(terminal: tuple[int, int]) -> None:
    async def type_while_it_appears() -> None:
        app = _app(terminal)
        yes = Option(label="Yes", key="y", answer="yes")
        asked = asyncio.ensure_future(app.ask(Question(lines=[[("Trust?", "")]], options=[yes], on_escape=yes)))
        await asyncio.sleep(0)
        for key in ("y", "e", "s", "enter"):
            app._press(Key(key))
            app._draw()
        await asyncio.sleep(0)
        assert not asked.done()
        assert app.composer.text == "yes"
        asked.cancel()

    asyncio.run(type_while_it_appears())


def test_an_approval_that_appears_takes_no_key_that_was_meant_for_the_message(terminal: tuple[int, int]) -> None:
    async def type_while_it_appears() -> None:
        app = _app(terminal)
        request = ExecApprovalRequestEvent(
            command=("ls", "x" * 900), cwd="/w", started_at_ms=0, call_id="c", turn_id="t"
        )
        app._ask_about(request)
        app._draw()
        app._press(Key("y"))
        assert len(app._views) == 1
        assert app.composer.text == "y"

    asyncio.run(type_while_it_appears())
    written = b""
    while written.count(b"x") <= 1_800:  # in the command, and in the whole question
        assert select.select([terminal[0]], [], [], 60)[0]
        written += os.read(terminal[0], 65_536)


@pytest.mark.parametrize("mark", ["!", "/"])
@pytest.mark.parametrize("key", ["enter", "tab"])
def test_a_folded_paste_is_no_command(terminal: tuple[int, int], mark: str, key: str) -> None:
    app = _app(terminal)
    pasted = f"{mark}quit {'x' * 2000}"
    app._press(Paste(pasted))
    app._press(Key(key))
    app.composer.insert(mark)
    app._press(Paste("y" * 2000))
    app._press(Key(key))
    assert app._queued == [f"\n{pasted}", f"{mark}{'y' * 2000}"]


def test_the_configured_theme_is_used_and_an_unknown_one_is_reported(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def configure() -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        app = _app(terminal)
        app._use_settings({"theme": "light"})
        assert (app.theme, app._screen.palette) == ("light", palette_of("light"))
        app._use_settings({"theme": "sepia"})
        assert app.theme == "light"
        assert "there is no theme 'sepia'" in "".join(plain_text(line) for line in app._finished)
        monkeypatch.setenv("NO_COLOR", "1")
        app = _app(terminal)
        app.set_theme("dracula")
        assert app._screen.palette == PLAIN

    asyncio.run(configure())


def test_a_message_that_comes_back_is_no_command(terminal: tuple[int, int]) -> None:
    app = _app(terminal)
    app._steered = ["!rm -rf /"]
    app._give_back()
    assert not app.composer.is_shell_command
    app.suggest("!rm -rf /")  # when the person goes back to it
    assert not app.composer.is_shell_command
    app._press(Key("c-c"))
    for key in "!ls":
        app._press(Key(key))
    assert app.composer.is_shell_command
    assert "without approval and sandbox" in app._status()


def test_what_cannot_be_drawn_ends_the_run_and_restores_the_terminal(terminal: tuple[int, int]) -> None:
    class Broken:
        def lines(self, width: int) -> Any:
            raise ModuleNotFoundError("No module named 'wcwidth'")

    async def run_with_a_broken_view() -> None:
        app = _app(terminal)
        app._output, writing = os.pipe()
        app._open = asyncio.Event().wait  # the kernel takes its time
        running = asyncio.ensure_future(app.run(()))
        await asyncio.sleep(0)
        app._views.append(("", Broken()))
        app._draw_soon()
        with pytest.raises(CodexError, match="cannot be displayed: ModuleNotFoundError: No module named 'wcwidth'"):
            await asyncio.wait_for(running, 20)
        os.close(app._output)
        os.close(writing)

    before = termios.tcgetattr(terminal[1])
    asyncio.run(run_with_a_broken_view())
    assert termios.tcgetattr(terminal[1]) == before


def test_a_terminal_that_is_gone_is_written_to_without_failing(terminal: tuple[int, int]) -> None:
    screen = Screen(terminal[1], terminal[1])
    screen.open()
    os.close(terminal[0])
    screen.draw([[("bye", "")]], [], (0, 0))
    screen.close()


def test_a_terminal_that_stops_reading_delays_nothing_and_gets_every_line_later(terminal: tuple[int, int]) -> None:
    async def print_while_nobody_reads() -> bytes:
        app = _app(terminal)
        loop = asyncio.get_running_loop()
        app._screen.attach(loop, app._draw)
        app.print([[(f"line {number} {'x' * 60}", "")] for number in range(2000)])
        app._draw()
        assert app._screen.is_behind
        pending = len(app._screen._output._pending)
        app._press(Key("k"))  # keys still work
        app.print("the last line")
        app._draw()
        assert len(app._screen._output._pending) == pending  # no frame waits behind another one
        received = bytearray()
        everything = asyncio.Event()

        def read() -> None:
            received.extend(os.read(terminal[0], 65_536))
            if b"the last line" in received and b"k" in received.rpartition(b"the last line")[2]:
                everything.set()

        loop.add_reader(terminal[0], read)
        await asyncio.wait_for(everything.wait(), 60)
        assert not app._screen.is_behind
        return bytes(received)

    received = asyncio.run(print_while_nobody_reads())
    numbers = re.findall(rb"line (\d+) x", received)
    assert [int(number) for number in numbers] == [*range(2000)]
    assert received.count(b"the last line") == 1


def test_a_terminal_that_never_reads_again_does_not_keep_the_process(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_client_terminal.screen._PATIENCE_S", 0.01)
    before = termios.tcgetattr(terminal[1])
    screen = Screen(terminal[1], terminal[1])
    screen.open()
    screen.draw([[("x" * 70, "")]] * 2000, [], (0, 0))
    assert screen.is_behind
    screen.close()
    assert not screen.is_behind
    assert termios.tcgetattr(terminal[1]) == before


def test_a_terminal_that_does_not_know_its_size(terminal: tuple[int, int]) -> None:
    fcntl.ioctl(terminal[1], termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    screen = Screen(terminal[1], terminal[1])
    assert (screen.width, screen.height) == (80, 24)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_start_restores_the_terminal(terminal: tuple[int, int], number: int) -> None:
    script = (
        "import os, sys; from codex_client_terminal import front\n"
        f"front._take_early_keys = lambda *_: os.kill(os.getpid(), {int(number)})\n"
        "sys.exit(front.main(None))"
    )
    before = termios.tcgetattr(terminal[1])
    environ = {**os.environ, "TERM": "xterm"}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal[1])
    assert (
        subprocess.run([sys.executable, "-c", script], **streams, env=environ, check=False).returncode == 128 + number
    )  # type: ignore[call-overload]
    assert termios.tcgetattr(terminal[1]) == before


def test_the_editor_keeps_ctrl_c_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "edit"
    editor.write_text('#!/bin/sh\nkill -INT $PPID\nprintf more >> "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTSTP)
    assert asyncio.run(edit_text("a \ud800 ", 1)) == "a ? more"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTSTP)) == before


def test_the_alternate_screen_keeps_a_limited_number_of_lines(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_client_terminal.alternate.MOST_LINES", 100)
    screen = Screen(terminal[1], terminal[1])
    pane = AlternateScreen(screen)
    for number in range(1000):
        pane.draw([[(f"line {number}", "")]], [[("composer", "")]], (0, 0))
    pane.scroll(10_000)
    frame = pane.draw([], [[("composer", "")]], (0, 0))
    assert 900 <= int(re.findall(r"line (\d+)", frame)[0]) < 1000 - 24
    assert pane.draw([], [[("composer", "")]], (0, 0)) == ""


def test_the_place_in_the_alternate_screen_stays_while_lines_are_added(terminal: tuple[int, int]) -> None:
    pane = AlternateScreen(Screen(terminal[1], terminal[1]))
    pane.draw([[(f"line {number}", "")] for number in range(100)], [[("composer", "")]], (0, 0))
    pane.scroll(50)
    pane.draw([], [[("composer", "")]], (0, 0))
    frame = pane.draw([[("new", "")]], [[("composer", "")]], (0, 0))
    assert re.findall(r"line \d+", frame) == []  # only the count of rows below differs
    assert "52 more rows below" in frame
    pane.scroll(-10_000)
    assert "new" in pane.draw([], [[("composer", "")]], (0, 0))
