"""``codex-framework config edit``: an editor on a copy of the file, which replaces the file if it is valid."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codex_framework.cli.config_check import check_content
from codex_framework.config.editing.files import replace_content
from codex_framework.config.toml_file import content_of
from codex_framework.contract.errors import CodexError, ConfigError
from codex_framework.toolkit.documentation import printed_error

if TYPE_CHECKING:
    from codex_framework.config.target import Target

__all__ = ["edit_file"]


def edit_file(target: Target) -> None:
    """Let the user edit a file, and write it if the result is valid.

    Raises:
        ConfigError: The file cannot be read, there is no editor, the editor failed, or the new text is invalid and the user
            does not edit it again. The fact says where the text is kept.
    """
    editor = _editor()
    before = content_of(target.path)
    folder = Path(tempfile.mkdtemp(prefix="codex-config-"))  # only its owner may enter it
    copy = folder / target.path.name
    copy.write_bytes(before or b"")
    is_done = False
    try:
        while not _edit_once(editor, target, copy, before):
            pass
        is_done = True
    finally:
        if is_done or not copy.exists() or copy.read_bytes() == (before or b""):
            shutil.rmtree(folder, ignore_errors=True)


def _edit_once(editor: list[str], target: Target, copy: Path, before: bytes | None) -> bool:
    """Run the editor once. Return whether that is the end, or the user wants to edit again."""
    _run(editor, copy)
    content = _content(copy)
    if content == (before or b""):
        click.echo(f"{target.path}: not changed")
        return True
    try:
        replace_content(target.path, before, content, lambda new: check_content(target, new, plugins=True))
    except CodexError as error:
        return _give_up(error, copy)
    click.echo(f"{target.path}: written")
    return True


def _give_up(error: CodexError, copy: Path) -> bool:
    """Ask whether to edit again.

    Raises:
        CodexError: The error, with the place of the text, if the user does not want to, or cannot be asked.
    """
    can_ask = sys.stdin.isatty() and sys.stderr.isatty()
    if can_ask and error.slug not in ("config-changed", "config-unwritable", "config-locked"):
        click.echo(printed_error(error), err=True)
        if _wants_again():
            return False
    kept = f"The file is as it was; your text is kept in {copy}"
    path, line = getattr(error, "path", None), getattr(error, "line", None)
    hint = f"{error.hint} {kept}".strip()
    raise ConfigError(error.fact, path=path, line=line, slug=error.slug, hint=hint) from error


def _wants_again() -> bool:
    try:
        return click.confirm("Edit again?", default=True, err=True)
    except click.Abort:  # ^C or the end of the terminal's input: the text is kept as well
        return False


def _content(copy: Path) -> bytes:
    content = content_of(copy)
    if content is None:
        raise ConfigError(
            f"the editor has removed {copy}",
            slug="config-editor",
            hint="Nothing has been changed. Save the text under the same name.",
        )
    return content


def _editor() -> list[str]:
    """Return the command of the editor.

    Raises:
        ConfigError: The variable is not a command, or the program does not exist.
    """
    name = next((name for name in ("VISUAL", "EDITOR") if os.environ.get(name, "").strip()), None)
    text = os.environ[name] if name else "vi"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(
            f"{name} is {text!r}, which is not a command: {error}",
            key=name,
            slug="config-editor",
            hint=f"Set {name} to the command of an editor.",
        ) from None
    if shutil.which(words[0]) is None:
        fact = (
            f"{name} is {text!r}, but there is no program {words[0]!r}"
            if name
            else "no editor was found: vi is not installed"
        )
        raise ConfigError(
            fact, key=name, slug="config-editor", hint="Set VISUAL or EDITOR to an editor that is installed."
        )
    return words


def _run(editor: list[str], copy: Path) -> None:
    """Run the editor. It gets ^C itself.

    Raises:
        ConfigError: It failed.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen([*editor, str(copy)], preexec_fn=_default_interrupt)  # noqa: PLW1509  # one thread
    except OSError as error:
        raise ConfigError(
            f"the editor {editor[0]!r} cannot be started: {error.strerror}",
            slug="config-editor",
            hint="Set VISUAL or EDITOR to another editor.",
        ) from None
    else:
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if status:
        raise ConfigError(
            f"the editor {editor[0]!r} ended with exit status {status}",
            slug="config-editor",
            hint=f"Nothing has been written. If you have changed the text, it is kept in {copy}",
        )


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
