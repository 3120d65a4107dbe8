"""The options of ``exec``, and what they say."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.cli.argv import Option, UsageError, help_of, index, read_argv
from codex_framework.protocol.policies import SandboxMode

__all__ = ["EXEC_OPTIONS", "RESUME_OPTIONS", "SHARED_OPTIONS", "ExecOptions", "exec_help", "read_options", "usage"]

_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")


def _is_picture(argument: str) -> bool:
    return argument.lower().endswith(_PICTURES) and Path(argument).is_file()


SHARED_OPTIONS = (
    Option(
        "-c --config",
        "Set a key of the configuration for this run: a dotted path, and a value that is read as TOML, else as text.",
        metavar="KEY=VALUE",
        many=True,
    ),
    Option("--enable", "Switch a feature on: the same as -c features.FEATURE=true.", metavar="FEATURE", many=True),
    Option("--disable", "Switch a feature off: the same as -c features.FEATURE=false.", metavar="FEATURE", many=True),
    Option("--strict-config", "Refuse unknown keys in the configuration, also where it says to warn only."),
    Option("-i --image", "An image for the prompt; several with commas.", metavar="FILE", many=True, also=_is_picture),
    Option("-m --model", "The model to use.", metavar="MODEL"),
    Option("--oss", "Use a local provider of open models (see --local-provider)."),
    Option("--local-provider", "Which one.", metavar="PROVIDER", choices=("lmstudio", "ollama")),
    Option("-p --profile", "Settings of this name: [profiles.PROFILE] or PROFILE.config.toml.", metavar="PROFILE"),
    Option(
        "-s --sandbox",
        "What commands of the model may do.",
        metavar="MODE",
        choices=tuple(mode.value for mode in SandboxMode),
    ),
    Option(
        "--dangerously-bypass-approvals-and-sandbox --yolo",
        "Ask nothing and confine nothing. Only for machines that are confined by other means.",
    ),
    Option("--dangerously-bypass-hook-trust", "Accepted and without effect.", hidden=True),
    Option("-C --cd", "The folder to work in.", metavar="DIR"),
    Option("--add-dir", "A further folder that may be written.", metavar="DIR", many=True),
)

EXEC_OPTIONS = (
    Option("--thread-source", "What kind of program starts the thread.", metavar="SOURCE"),
    Option("--cyber-access-program", "Accepted and without effect.", metavar="PROGRAM", hidden=True),
    Option("--skip-git-repo-check", "Work outside of a git repository too."),
    Option("--approve-for-me", "Have a model answer what would be asked of a person; with the mode workspace-write."),
    Option("--ephemeral", "Keep nothing of the thread on disk."),
    Option("--ignore-user-config", "Leave $CODEX_HOME/config.toml out."),
    Option("--ignore-rules", "Leave files with command rules out."),
    Option("--output-schema", "A file with the JSON Schema that the final message must follow.", metavar="FILE"),
    Option("--color", "Colours in the output (default: auto).", metavar="WHEN", choices=("always", "never", "auto")),
    Option("--json --experimental-json", "Print events as lines of JSON on stdout."),
    Option("-o --output-last-message", "A file to write the final message into.", metavar="FILE"),
    Option("--full-auto", "Removed: now means --sandbox workspace-write.", hidden=True),
    Option("-h --help", "Print this."),
    Option("-V --version", "Print the version.", hidden=True),
)

RESUME_OPTIONS = (
    Option("--last", "Go on with the newest thread that was begun in this folder."),
    Option("--all", "With --last: that was begun in any folder."),
)

_KNOWN = index((*SHARED_OPTIONS, *EXEC_OPTIONS))
_KNOWN_TO_RESUME = {**_KNOWN, **index(RESUME_OPTIONS)}
_UNAVAILABLE = ("fork", "review")


class ExecOptions:
    """What was asked for.

    Attributes:
        resume: Whether a thread is to be resumed.
        thread: Its id or name; None with ``--last``.
        prompt: As given; None and ``-`` mean stdin.
    """

    def __init__(self, values: Mapping[str, Any], command: str | None, arguments: Sequence[str]) -> None:
        self._values = values
        self.resume = command == "resume"
        words = list(arguments)
        self.thread = words.pop(0) if self.resume and words and not self.flag("last") else None
        self.prompt = words.pop(0) if words else None
        if words:
            raise UsageError(f"unexpected argument '{words[0]}' found")
        for key in ("sandbox", "dangerously_bypass_approvals_and_sandbox"):
            if self.flag("approve_for_me") and self.flag(key):
                option = f"--{key.replace('_', '-')}"
                raise UsageError(f"the argument '--approve-for-me' cannot be used with '{option}'")
        if self.resume and self.thread is None and not self.flag("last"):
            raise UsageError("name the thread to resume, or give --last")

    def flag(self, key: str) -> bool:
        """Whether a switch was given."""
        return bool(self._values.get(key))

    def text(self, key: str) -> str | None:
        """An option's value."""
        value = self._values.get(key)
        return None if value is None else str(value)

    def texts(self, key: str) -> list[str]:
        """The values of an option that may be given again."""
        return list(self._values.get(key, ()))

    @property
    def images(self) -> list[str]:
        """Image files, absolute."""
        return [os.path.abspath(path) for value in self.texts("image") for path in value.split(",") if path]  # noqa: PTH100

    @property
    def overrides(self) -> list[str]:
        """The ``-c`` arguments."""
        return self.texts("config")

    @property
    def flags(self) -> dict[str, Any]:
        """What the other options set in the configuration."""
        flags: dict[str, Any] = {}
        flags |= {f"features.{name}": True for name in self.texts("enable")}
        flags |= {f"features.{name}": False for name in self.texts("disable")}
        if self.flag("strict_config"):
            flags["framework.unknown_keys"] = "error"
        if self.flag("ignore_rules"):
            flags["framework.plugins.execpolicy.ignore_rules"] = True
        if model := self.text("model"):
            flags["model"] = model
        if self.flag("full_auto"):
            flags["sandbox_mode"] = SandboxMode.WORKSPACE_WRITE.value
        if self.flag("approve_for_me"):
            flags["sandbox_mode"] = SandboxMode.WORKSPACE_WRITE.value
            flags["approval_policy"] = "on-request"
            flags["approvals_reviewer"] = "auto_review"
        if mode := self.text("sandbox"):
            flags["sandbox_mode"] = mode
        if self.flag("dangerously_bypass_approvals_and_sandbox"):
            flags["sandbox_mode"] = SandboxMode.DANGER_FULL_ACCESS.value
            flags["approval_policy"] = "never"
        return flags


def read_options(argv: Sequence[str], root: Mapping[str, Any]) -> ExecOptions:
    """Read the argv after ``exec``.

    Args:
        root: Options that stood before ``exec``.

    Raises:
        UsageError: It cannot be read.
    """
    values, command, arguments = read_argv(argv, _KNOWN_TO_RESUME, commands=("resume", "help", *_UNAVAILABLE))
    if command in _UNAVAILABLE:
        raise UsageError(f"`exec {command}` is not available")
    merged = {**root, **values}
    for key in root.keys() & values.keys():
        if isinstance(values[key], list):
            merged[key] = [*root[key], *values[key]]
    if command == "help":
        merged["help"] = True
    if merged.get("help") or merged.get("version"):
        return ExecOptions({**merged, "last": True}, command, ())
    if command != "resume" and (wrong := {"last", "all"} & values.keys()):
        raise UsageError(f"unexpected argument '--{min(wrong)}' found\n\n  tip: it belongs to `exec resume`")
    return ExecOptions(merged, command, arguments)


def usage(*, resume: bool = False) -> list[str]:
    """The usage lines."""
    if resume:
        return ["codex-framework exec resume [OPTIONS] [THREAD] [PROMPT]"]
    return [
        "codex-framework exec [OPTIONS] [PROMPT]",
        "codex-framework exec [OPTIONS] resume [OPTIONS] [THREAD] [PROMPT]",
    ]


def exec_help(*, resume: bool = False) -> str:
    """The text of ``exec --help`` or ``exec resume --help``."""
    prompt = "What to do. Without it, or with -, it is read from stdin; piped stdin is added to a prompt given here."
    if not resume:
        about = "Run one turn without a person at hand: do the work, print the final message, end."
        return help_of(usage(), about, {"[PROMPT]": prompt}, (*SHARED_OPTIONS, *EXEC_OPTIONS))
    arguments = {"[THREAD]": "Id or name of the thread, or its file; not with --last.", "[PROMPT]": prompt}
    about = "Go on with an earlier thread."
    return help_of(usage(resume=True), about, arguments, (*RESUME_OPTIONS, *SHARED_OPTIONS, *EXEC_OPTIONS))
