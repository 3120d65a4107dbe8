"""``exec``: one turn without a person at hand, for scripts and for other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.cli.argv import UsageError
from codex_framework.cli.exec_options import ExecOptions, exec_help, read_options, usage
from codex_framework.cli.prompt import drain_stdin, read_prompt
from codex_framework.errors import CodexError, ConfigError

if TYPE_CHECKING:
    from codex_framework.config import Config, Settings
    from codex_framework.kernel import Kernel
    from codex_framework.protocol.ops import UserInputItem

__all__ = ["exec_main"]

_FULL_AUTO = "warning: `--full-auto` was removed; use `--sandbox workspace-write` instead."
_LOCAL_MODELS = {"ollama": "gpt-oss:20b", "lmstudio": "openai/gpt-oss-20b"}
"""The models that ``--oss`` means where none is named (Codex's)."""


def exec_main(argv: Sequence[str], root: Mapping[str, Any]) -> int:
    """Run; the exit status.

    Whatever goes wrong before stdin has been read, stdin is read: see ``drain_stdin``.

    Args:
        argv: What stands after ``exec``.
        root: Options that stood before it.

    Raises:
        CodexError: The run could not begin, or its conversation could not be saved.
    """
    try:
        options = read_options(argv, root)
    except UsageError as error:
        drain_stdin()
        print(f"error: {error}\n\nUsage: {usage()[0]}\n\nFor more information, try '--help'.", file=sys.stderr)
        return 2
    if options.flag("help"):
        sys.stdout.write(exec_help(resume=options.resume))
        return 0
    if options.flag("version"):
        from codex_framework import __version__

        print(f"codex-framework-exec {__version__}")
        return 0
    if options.flag("full_auto"):
        print(_FULL_AUTO, file=sys.stderr)
    try:
        config = load(options)
        schema = _schema(options.text("output_schema"))
    except CodexError:
        drain_stdin()
        raise
    prompt = read_prompt(options.prompt)
    from codex_framework.cli.exec_run import run_exec

    return run_exec(options, config, prompt, schema)


def load(options: ExecOptions) -> Config:
    """The configuration for this run.

    Raises:
        ConfigError: It is wrong, or the folder to work in is.
    """
    from codex_framework.config import load_config

    cwd = Path.cwd()
    if named := options.text("cd"):
        cwd = Path(os.path.normpath(cwd / named))
        if not cwd.is_dir():
            state = "is not a folder" if cwd.exists() else "does not exist"
            raise ConfigError(
                f"the folder {cwd} {state}", path="--cd", slug="cd", hint="Name an existing folder with -C."
            )
    config = load_config(
        cwd=cwd,
        environ=os.environ,
        profile=options.text("profile"),
        overrides=options.overrides,
        flags=options.flags,
        ignore_user_config=options.flag("ignore_user_config"),
    )
    if options.flag("oss"):
        config = _with_local_provider(config, options)
    _check_trusted(config, options)
    return config


def _with_local_provider(config: Config, options: ExecOptions) -> Config:
    from codex_framework.config import load_config

    provider = options.text("local_provider") or config.get("oss_provider")
    if provider is None:
        raise ConfigError(
            "--oss does not say which provider",
            path="--oss",
            slug="oss",
            hint="Give --local-provider ollama or --local-provider lmstudio, or set oss_provider in config.toml.",
        )
    flags = {"model": _LOCAL_MODELS.get(provider), **options.flags, "model_provider": provider}
    return load_config(
        cwd=config.cwd,
        environ=os.environ,
        profile=options.text("profile"),
        overrides=options.overrides,
        flags={key: value for key, value in flags.items() if value is not None},
        ignore_user_config=options.flag("ignore_user_config"),
    )


def _check_trusted(config: Config, options: ExecOptions) -> None:
    from codex_framework.config.trust import git_root

    if options.flag("skip_git_repo_check") or options.flag("dangerously_bypass_approvals_and_sandbox"):
        return
    if config.trust != "trusted" and git_root(config.cwd) is None:
        raise ConfigError(
            "Not inside a trusted directory and --skip-git-repo-check was not specified.",
            slug="trust",
            hint="Run it in a git repository, where changes can be undone, or give --skip-git-repo-check.",
        )


def _schema(path: str | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    import json

    try:
        schema = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"Failed to read output schema file {path}: {error.strerror}",
            path=path,
            slug="output-schema",
            hint="Name a readable file with --output-schema.",
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"Output schema file {path} is not valid JSON: {error}",
            path=path,
            slug="output-schema",
            hint="Write a JSON Schema into it: an object.",
        ) from error
    if not isinstance(schema, dict):
        raise ConfigError(
            f"Output schema file {path} holds no JSON object",
            path=path,
            slug="output-schema",
            hint="Write a JSON Schema into it: an object.",
        )
    return schema


def exec_settings(kernel: Kernel, options: ExecOptions) -> Settings:
    """The settings of the turn: nobody can be asked, unless ``-c approval_policy`` says that somebody can.

    Raises:
        ConfigError: They cannot be made of the configuration.
    """
    from codex_framework.protocol.policies import ApprovalPolicy

    settings = kernel.settings(ephemeral=options.flag("ephemeral"))
    asked_for = any(
        layer.name in ("override", "flags") and "approval_policy" in layer.table for layer in kernel.config.layers
    )
    if not asked_for:
        settings = settings.evolve(approval_policy=ApprovalPolicy.NEVER)
    folders = [os.path.normpath(settings.cwd / folder) for folder in options.texts("add_dir")]
    if folders and settings.permissions.writes_workspace:
        settings = settings.evolve(permissions=settings.permissions.with_writable(folders))
    return settings


def exec_input(options: ExecOptions, prompt: str) -> list[UserInputItem]:
    """Images first, as Codex sends them, then the text."""
    from codex_framework.protocol.ops import LocalImageInput, TextInput

    return [*(LocalImageInput(path) for path in options.images), TextInput(prompt)]
