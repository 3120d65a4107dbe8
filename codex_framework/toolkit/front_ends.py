"""How the command line starts a front end: a program for people at a terminal, such as the bundled plugin ``terminal``.

A distribution adds one by an entry point of the group ``codex_framework.front_ends``: a function that takes a
:class:`FrontEndStart` and returns the exit status. ``codex-framework`` without a command, with a prompt, and ``resume`` and
``fork`` without ``exec`` start it if stdin and stdout are a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

__all__ = ["FrontEndStart"]


class FrontEndStart:
    """The request of the command line to a front end.

    Attributes:
        command: ``start`` for a new thread, ``resume``, or ``fork``.
        thread: The id, name or file of the thread to resume or fork.
        newest: Whether to resume or fork the newest thread. With neither, the person chooses a thread.
        all_folders: Whether threads of other folders are considered too.
        at: The last turn that a fork keeps: its number or its id. If it is None, the fork keeps all turns.
        prompt: The first message.
        images: The absolute paths of the images of the first message.
        plugin_files: The one-file plugins to load in addition.
        writable_folders: Additional folders that commands may write.
        load_config: Loads the configuration (``codex_framework.config.Config``) with the options of the command line. Raises
            CodexError.
        decide_trust: Stores for a configuration's project that it is ``trusted`` or ``untrusted``. Raises CodexError.
    """

    __slots__ = (
        "all_folders",
        "at",
        "command",
        "decide_trust",
        "images",
        "load_config",
        "newest",
        "plugin_files",
        "prompt",
        "thread",
        "writable_folders",
    )

    def __init__(
        self,
        load_config: Callable[[], Any],
        decide_trust: Callable[[Any, str], None],
        *,
        command: Literal["start", "resume", "fork"] = "start",
        thread: str | None = None,
        newest: bool = False,
        all_folders: bool = False,
        at: int | str | None = None,
        prompt: str | None = None,
        images: Sequence[str] = (),
        plugin_files: Sequence[str] = (),
        writable_folders: Sequence[str] = (),
    ) -> None:
        self.load_config = load_config
        self.decide_trust = decide_trust
        self.command = command
        self.thread = thread
        self.newest = newest
        self.all_folders = all_folders
        self.at = at
        self.prompt = prompt
        self.images = images
        self.plugin_files = plugin_files
        self.writable_folders = writable_folders
