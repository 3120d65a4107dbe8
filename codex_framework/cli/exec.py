"""``exec``: one non-interactive turn, for scripts and other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codex_framework.cli.argv import Option, UnknownOption, UsageError
from codex_framework.cli.exec_options import ExecOptions, exec_help, first_word, read_options, usage
from codex_framework.cli.prompt import drain_stdin, read_prompt
from codex_framework.contract.errors import CodexError, ConfigError

if TYPE_CHECKING:
    from codex_framework.cli.plugin_options import PluginOption
    from codex_framework.config import Config
    from codex_framework.contract.roles.exec_commands import ExecCommand, ExecRequest

__all__ = ["exec_main", "load_unchecked", "parse_options", "uses_tls"]

_FULL_AUTO = "warning: `--full-auto` was removed; use `--sandbox workspace-write` instead."


def exec_main(argv: Sequence[str], program: str = "codex-framework exec") -> int:
    """Run ``exec`` and return its exit status.

    If an error occurs before stdin was read, stdin is drained; see ``drain_stdin``.

    Args:
        argv: The arguments of ``exec``.
        program: The words before the arguments, for usage lines. ``resume`` and ``fork`` need no ``exec``.

    Raises:
        CodexError: The run could not start, or its conversation could not be saved.
    """
    command: ExecCommand | None = None
    request: ExecRequest | None = None
    try:
        command = _command(argv)
        options = parse_options(argv, command)
        options.check_thread()
        command = options.plugin_command
        if command is not None and not (options.flag("help") or options.flag("version")):
            request = options.make_request(_argument(options.prompt))
    except UsageError as error:
        drain_stdin()
        line = _usage(argv, command, program)
        print(f"error: {error}\n\nUsage: {line}\n\nFor more information, try '--help'.", file=sys.stderr)
        return 2
    except CodexError:
        drain_stdin()
        raise
    if options.flag("help"):
        sys.stdout.write(_help(options, program))
        return 0
    if options.flag("version"):
        from codex_framework import __version__

        print(f"codex-framework-exec {__version__}")
        return 0
    if options.flag("full_auto"):
        print(_FULL_AUTO, file=sys.stderr)
    only_fork = options.fork and options.prompt is None
    runs_here = options.opening is None
    try:
        _check_combinations(options)
        config = load(options) if runs_here and not only_fork else _config(options)
        schema = _schema(options.text("output_schema"))
        _check_files(options)
    except CodexError:
        drain_stdin()
        raise
    if only_fork:
        from codex_framework.cli.exec_run import fork_only

        drain_stdin()
        return fork_only(options, _in_worktree(options, config))
    if runs_here and uses_tls(config):
        _preconnect(config)
    try:
        prompt = read_prompt(options.prompt) if request is None else request.shown
        from codex_framework.cli.exec_run import run_exec

        config = _in_worktree(options, config)
        return run_exec(options, config, prompt, schema, None if request is None else request.op)
    finally:
        _close_unused_connection()


def uses_tls(config: Config) -> bool:
    """Return whether the first request probably uses TLS: a provider without a table is built in."""
    url, is_built_in = _address(config)
    return is_built_in if url is None else url.startswith("https:")


def _address(config: Config) -> tuple[str | None, bool]:
    """Return the URL of the provider, if the configuration says it, and whether the provider is built in."""
    tables = config.tables.get("model_providers") or {}
    table = tables.get(config.get("model_provider"))
    url = config.get("openai_base_url") if table is None else table.get("base_url")
    return url if isinstance(url, str) else None, table is None


def _preconnect(config: Config) -> None:
    """Open a connection to the provider while the thread is prepared."""
    from codex_lib_model_client.preconnect import open_early

    url, _ = _address(config)
    provider = str(config.get("model_provider") or "openai")
    open_early(config.codex_home / "servers_cache.json", provider, url, os.environ)


def _close_unused_connection() -> None:
    """Close the connection if no request has used it."""
    opened = sys.modules.get("codex_lib_model_client.preconnect")
    if opened is not None:
        opened.close_unused()


def _command(argv: Sequence[str], offered: Sequence[PluginOption] = ()) -> ExecCommand | None:
    """Return the subcommand of a plugin that the arguments name, if any. Plugins are asked only about a single word.

    Args:
        offered: The options of plugins, if some are given.

    Raises:
        ConfigError: The configuration, which says which plugins there are, is invalid.
    """
    word = first_word(argv, offered)
    if word is None or word in ("resume", "fork"):
        return None
    from codex_framework.cli.plugin_options import plugin_commands

    known = read_options(argv, skip_unknown=True)
    return plugin_commands(_plugin_config(known), known.texts("plugin")).get(word)


def is_standalone_command(word: str, options: Sequence[str]) -> bool:
    """Return whether a word is a subcommand of a plugin that is also a separate command.

    Raises:
        ConfigError: The configuration, to which the options belong, is invalid.
    """
    from codex_framework.cli.plugin_options import plugin_commands

    known = read_options(options, skip_unknown=True)
    command = plugin_commands(_config(known), known.texts("plugin")).get(word)
    return command is not None and command.alone


def _argument(given: str | None) -> str | None:
    """Return the argument of a subcommand, read from stdin if it is ``-``."""
    return read_prompt(given) if given == "-" else given


def _usage(argv: Sequence[str], command: ExecCommand | None, program: str) -> str:
    if command is not None:
        from codex_framework.cli.exec_options import command_usage

        return command_usage(command, program)
    try:
        word = first_word(argv)
    except UsageError:
        word = None
    return usage(word if word in ("resume", "fork") else None, program)[0]


def _help(options: ExecOptions, program: str) -> str:
    command = options.plugin_command
    if command is None:
        return exec_help(options.command, program, offered=_plugin_options(options))
    from codex_framework.cli.exec_options import command_help
    from codex_framework.cli.plugin_options import own_options

    return command_help(command, own_options(command), program)


def parse_options(argv: Sequence[str], command: ExecCommand | None = None) -> ExecOptions:
    """Parse the options. Plugins are searched only for options that are not built in.

    Raises:
        UsageError: The command line is invalid.
        ConfigError: The configuration, which selects the plugins, is invalid.
    """
    try:
        return read_options(argv, command=command)
    except UnknownOption:
        from codex_framework.cli.plugin_options import plugin_options

        known = read_options(argv, skip_unknown=True)
        offered = plugin_options(_plugin_config(known), known.texts("plugin"))
        return read_options(argv, offered, command=command or _command(argv, offered))


def _plugin_options(options: ExecOptions) -> list[Option]:
    """Return the options of plugins, for help. If the configuration is invalid, warn and return an empty list."""
    from codex_framework.cli.plugin_options import plugin_options

    try:
        return [each.option for each in plugin_options(_config(options), options.texts("plugin"))]
    except CodexError as error:
        print(f"warning: the options of plugins are not shown: {error}", file=sys.stderr)
        return []


def load(options: ExecOptions) -> Config:
    """Load the configuration for this run.

    Raises:
        ConfigError: The configuration or the working folder is invalid.
    """
    config = _config(options)
    if options.flag("trust") and config.trust != "trusted":
        from codex_framework.cli.worktrees import trust_project

        _check_trust(config, options)
        trust_project(config)
    config = load_unchecked(options)
    _check_trust(config, options)
    return config


def load_unchecked(options: ExecOptions, implied: Mapping[str, Any] = MappingProxyType({})) -> Config:
    """Load the configuration, whether or not the folder is trusted.

    Args:
        implied: Further configuration that the options imply.

    Raises:
        ConfigError: The configuration or the working folder is invalid.
    """
    config = _config(options, implied)
    more: dict[str, Any] = {}
    for option, value in options.implying:
        more |= option.implied_settings(value, config)
    return _config(options, {**implied, **more}) if more else config


def _check_combinations(options: ExecOptions) -> None:
    """Refuse the combinations of options that Codex refuses, because one option would have no effect.

    Raises:
        ConfigError: Such options were given.
    """
    fact = hint = ""
    if options.flag("worktree") and options.plugin_command is not None:
        fact, hint = f"--worktree is not supported for `{options.plugin_command.name}`", "Leave it out."
    elif options.flag("worktree") and options.command == "resume":
        fact, hint = "--worktree cannot resume a session", "To continue in a worktree, run: codex-framework exec fork"
    elif options.flag("worktree") and options.flag("ephemeral"):
        fact, hint = "--worktree cannot be combined with --ephemeral", "The worktree would stay without its session."
    elif options.flag("trust") and options.flag("ignore_user_config"):
        fact = "--trust cannot be combined with --ignore-user-config"
        hint = "The decisions about projects are in config.toml. Leave out one of the options."
    if fact:
        raise ConfigError(fact, slug="worktree" if "worktree" in fact else "trust", hint=hint)


def _in_worktree(options: ExecOptions, config: Config) -> Config:
    """Return the configuration of a run. With ``--worktree``, create a new worktree and return its configuration.

    Raises:
        ConfigError: It cannot be created, or the configuration in it is invalid.
    """
    if not options.flag("worktree"):
        return config
    from codex_framework.cli.worktrees import create_worktree

    options.move_to(create_worktree(config))
    return load(options)


def _config(
    options: ExecOptions, implied: Mapping[str, Any] = MappingProxyType({}), folder: Path | None = None
) -> Config:
    """Load the configuration of the working folder, or of another one."""
    from codex_framework.config import load_config

    return load_config(
        cwd=_working_folder(options) if folder is None else folder,
        environ=os.environ,
        profile=options.text("profile"),
        overrides=options.overrides,
        flags={**implied, **options.flags},
        ignore_user_config=options.flag("ignore_user_config"),
    )


def _plugin_config(options: ExecOptions) -> Config:
    """Load the configuration that says which plugins there are. The working folder may be one of another machine."""
    folder = Path.cwd() / (options.text("cd") or "")
    return _config(options, folder=None if folder.is_dir() else Path.cwd())


def _working_folder(options: ExecOptions) -> Path:
    if (named := options.text("cd")) is None or options.opening is not None:
        return Path.cwd()
    folder = Path(os.path.normpath(Path.cwd() / named))
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise ConfigError(
            f"the folder {folder} {state}", path="--cd", slug="cd", hint="Name an existing folder with -C."
        )
    return folder


def _check_trust(config: Config, options: ExecOptions) -> None:
    from codex_framework.toolkit.projects import git_root

    if options.flag("skip_git_repo_check") or options.flag("dangerously_bypass_approvals_and_sandbox"):
        return
    if config.trust != "trusted" and git_root(config.cwd) is None:
        raise ConfigError(
            "Not inside a trusted directory and --skip-git-repo-check was not specified.",
            slug="trust",
            hint="Run it in a git repository, where changes can be undone, or add --skip-git-repo-check.",
        )


def _check_files(options: ExecOptions) -> None:
    """Check the files that the run needs later, before anything is printed, asked or paid for.

    Raises:
        CodexError: An image cannot be sent, or the final message cannot be written.
    """
    if images := options.images:
        from codex_framework.threads.user_input import check_image

        for image in images:
            check_image(Path(image))
    if target := options.text("output_last_message"):
        from codex_framework.cli.last_message import check_target

        check_target(target)


def _schema(path: str | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    import json

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not a value of JSON")

    try:
        schema = json.loads(Path(path).read_text("utf-8-sig"), parse_constant=refuse)
    except OSError as error:
        raise ConfigError(
            f"Failed to read output schema file {path}: {error.strerror}",
            path=path,
            slug="output-schema",
            hint="Name a readable file with --output-schema.",
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"Output schema file {path} is not valid JSON: {error}",
            path=path,
            slug="output-schema",
            hint="Put a JSON Schema in it, which is an object.",
        ) from error
    if not isinstance(schema, dict):
        raise ConfigError(
            f"Output schema file {path} does not contain a JSON object",
            path=path,
            slug="output-schema",
            hint="Put a JSON Schema in it, which is an object.",
        )
    return schema
