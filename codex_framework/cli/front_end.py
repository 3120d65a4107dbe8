"""Starts the installed front end for a person at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codex_framework.toolkit.front_ends import FrontEndStart

if TYPE_CHECKING:
    from codex_framework.cli.exec_options import ExecOptions
    from codex_framework.loader.discovery import PluginSource

__all__ = ["find_front_end", "start_front_end"]

_GROUP = "codex_framework.front_ends"


def find_front_end() -> PluginSource | None:
    """Return the front end, if there is one. One of another distribution has precedence over the bundled one."""
    from codex_framework.loader.discovery import discover

    return min(discover(_GROUP), key=lambda source: (source.bundled, source.name), default=None)


def is_command(word: str, options: Sequence[str]) -> bool:
    """Return whether a single word is a command. Otherwise it is a prompt, as in Codex. Plugins are asked only about unknown words.

    Raises:
        ConfigError: The configuration, to which the options belong, is invalid.
    """
    from codex_framework.loader.static_commands import bundled_commands, static_commands

    if word in ("resume", "fork"):
        return False
    if word in bundled_commands() or word in static_commands():
        return True
    from codex_framework.cli.commands import ANSWERS

    return word in ANSWERS or _is_offered(word, options)


def _is_offered(word: str, options: Sequence[str]) -> bool:
    """Return whether a plugin offers a command, or might do so if it could be loaded. Raises ConfigError."""
    from pathlib import Path

    from codex_framework.cli.exec_options import read_options
    from codex_framework.loader.registry import load_registry

    known = read_options(options, skip_unknown=True)
    registry = load_registry(_load(known), extra_plugins=[Path(file) for file in known.texts("plugin")])
    failed = any(report.status == "failed" for report in registry.reports_with_commands)
    alone = (offer.item.name for offer in registry.exec_commands.values() if offer.item.alone)
    return failed or word in registry.commands or word in alone


def start_front_end(source: PluginSource, argv: Sequence[str]) -> int:
    """Start a front end and return its exit status.

    Args:
        argv: The arguments: options, and the prompt or ``resume`` or ``fork`` with its own.

    Raises:
        CodexError: It cannot be imported, or it reports an error.
    """
    from codex_framework.cli.argv import UsageError

    try:
        start = _read_start(argv) if argv else FrontEndStart(_load_defaults, _decide_trust)
    except UsageError as error:
        print(f"error: {error}\n\nFor more information, try '--help'.", file=sys.stderr)
        return 2
    status: int | None = _load_function(source)(start)
    return status or 0


def _load_function(source: PluginSource) -> Any:
    """Import a front end. The loader's checks of plugins would take longer than the front end until its first screen."""
    from importlib import import_module

    module, _, name = source.target.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:
        from codex_framework.contract.errors import CodexError, described

        raise CodexError(
            f"the front end {source.name!r} of {source.origin} cannot be used: {described(error)}",
            slug="command",
            hint=f"Reinstall {source.distribution}, or work without it: codex-framework exec PROMPT",
        ) from error


def _load_defaults() -> Any:
    from codex_framework.cli.exec_options import ExecOptions

    return _load(ExecOptions({}, None, ()))


def _read_start(argv: Sequence[str]) -> FrontEndStart:
    from codex_framework.cli.exec import parse_options

    options = parse_options(argv)
    return FrontEndStart(
        lambda: _load(options),
        _decide_trust,
        command="fork" if options.fork else "resume" if options.resume else "start",
        thread=options.thread,
        newest=options.flag("last"),
        all_folders=options.flag("all"),
        at=options.at,
        prompt=options.prompt,
        images=options.images,
        plugin_files=options.texts("plugin"),
        writable_folders=options.texts("add_dir"),
    )


def _load(options: ExecOptions) -> Any:
    from codex_framework.cli.exec import load_unchecked

    policy = options.text("ask_for_approval")  # a front end can ask, which `exec` cannot
    return load_unchecked(options, {} if policy is None else {"approval_policy": policy})


def _decide_trust(config: Any, level: str) -> None:
    from codex_framework.cli.worktrees import store_trust

    store_trust(config, level)
