"""The options of ``exec``, and the settings that they imply."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.cli.argv import Option, UsageError, help_of, index, read_argv
from codex_framework.contract.protocol.policies import SandboxMode

if TYPE_CHECKING:
    from codex_framework.cli.plugin_options import PluginOption
    from codex_framework.contract.roles.exec_commands import ExecCommand, ExecRequest

__all__ = [
    "EXEC_OPTIONS",
    "FORK_OPTIONS",
    "RESUME_OPTIONS",
    "SHARED_OPTIONS",
    "ExecOptions",
    "command_help",
    "command_usage",
    "exec_help",
    "first_word",
    "read_options",
    "split_root_options",
    "usage",
]

_PROGRAM = "codex-framework exec"
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")


def _is_picture(argument: str) -> bool:
    return argument.lower().endswith(_PICTURES) and Path(argument).is_file()


SHARED_OPTIONS = (
    Option(
        "-c --config",
        "Set a configuration key for this run. The key is a dotted path. The value is parsed as TOML or, if that fails, used as"
        " a string.",
        metavar="KEY=VALUE",
        many=True,
    ),
    Option("--enable", "Enable a feature, like -c features.FEATURE=true.", metavar="FEATURE", many=True),
    Option("--disable", "Disable a feature, like -c features.FEATURE=false.", metavar="FEATURE", many=True),
    Option(
        "--strict-config",
        "Treat unknown configuration keys as errors, even if the configuration asks only for warnings.",
    ),
    Option(
        "-i --image",
        "Attach an image to the prompt. Separate several images with commas.",
        metavar="FILE",
        many=True,
        also=_is_picture,
    ),
    Option("-m --model", "The model to use.", metavar="MODEL"),
    Option(
        "-p --profile", "Use a named set of settings: [profiles.PROFILE] or PROFILE.config.toml.", metavar="PROFILE"
    ),
    Option(
        "-s --sandbox",
        "The sandbox mode for the model's commands.",
        metavar="MODE",
        choices=tuple(mode.value for mode in SandboxMode),
    ),
    Option(
        "--dangerously-bypass-approvals-and-sandbox --yolo",
        "Run all commands without approval and without a sandbox. Use it only on machines that are isolated in another way.",
    ),
    Option(
        "--dangerously-bypass-hook-trust",
        "Run untrusted hooks. Use it only if the hooks have been checked in another way.",
    ),
    Option("--approve-for-me", "Let a model answer approval requests, and use the mode workspace-write."),
    Option(
        "-a --ask-for-approval",
        "When to ask you before a command runs. `exec` cannot ask, so it treats on-request as never.",
        metavar="POLICY",
        choices=("on-request", "never"),
    ),
    Option("--search", "Let the model search the web."),
    Option("--worktree", "Work in a new worktree of the git repository, in $CODEX_HOME/worktrees."),
    Option("--no-alt-screen", "Accepted, without effect.", hidden=True),
    Option("--no-daemon", "Accepted, without effect.", hidden=True),
    Option(
        "--plugin", "Load a plugin from a file, in addition to the installed plugins.", metavar="FILE.py", many=True
    ),
    Option("-C --cd", "The working folder.", metavar="DIR"),
    Option("--add-dir", "An additional writable folder.", metavar="DIR", many=True),
)

HELP = Option("-h --help", "Print this help.")
VERSION = Option("-V --version", "Print the version.", hidden=True)

_ROOT_INDEX = index(
    (
        *SHARED_OPTIONS,
        Option("--oss", ""),  # of a plugin, which `exec` loads
        Option("--local-provider", "", metavar="PROVIDER"),
        HELP,
        VERSION,
    )
)

EXEC_OPTIONS = (
    Option(
        "--agent",
        "The agent to use: a table [agents.AGENT] of the configuration, or an agent of a plugin.",
        metavar="AGENT",
    ),
    Option("--thread-source", "The kind of program that starts the thread.", metavar="SOURCE"),
    Option("--cyber-access-program", "Accepted, without effect.", metavar="PROGRAM", hidden=True),
    Option("--skip-git-repo-check", "Allow running outside of a git repository."),
    Option(
        "--trust",
        "Trust this project from now on: its settings apply, and its MCP servers run outside of the sandbox. A project that you do"
        " not trust stays so.",
    ),
    Option("--ephemeral", "Do not save the thread on disk."),
    Option("--ignore-user-config", "Ignore $CODEX_HOME/config.toml."),
    Option("--ignore-rules", "Ignore the files with command rules."),
    Option("--output-schema", "A file with a JSON Schema that the final message must match.", metavar="FILE"),
    Option(
        "--color", "Use colours in the output (default: auto).", metavar="WHEN", choices=("always", "never", "auto")
    ),
    Option("--json --experimental-json", "Print events to stdout as JSON lines."),
    Option(
        "--heartbeat",
        "Print a sign of life after this many seconds without output: with --json an event of the type heartbeat, else a line on"
        " stderr. A terminal shows the elapsed time anyway.",
        metavar="SECONDS",
    ),
    Option("-o --output-last-message", "Write the final message to this file.", metavar="FILE"),
    Option("--full-auto", "Deprecated: use --sandbox workspace-write.", hidden=True),
    HELP,
    VERSION,
)

RESUME_OPTIONS = (
    Option("--last", "Use the newest thread that was started in this folder."),
    Option("--all", "With --last, consider the threads of all folders."),
    Option("--include-non-interactive", "Accepted, without effect: all threads are considered.", hidden=True),
)

FORK_OPTIONS = (
    Option("--at", "The last turn to keep: its number or its id. Without it, all turns are kept.", metavar="TURN"),
)

_EXEC_INDEX = index((*SHARED_OPTIONS, *EXEC_OPTIONS))
_RESUME_INDEX = {**_EXEC_INDEX, **index((*RESUME_OPTIONS, *FORK_OPTIONS))}


class ExecOptions:
    """The parsed options.

    Args:
        values: The values by key.
        command: ``resume``, ``fork``, or another subcommand that was given.
        arguments: The arguments that are not options.
        offered: The options of plugins.
        plugin_command: The subcommand of a plugin that was given.

    Attributes:
        command: ``resume``, ``fork`` or None.
        resume: Whether to resume a thread, or a fork of it.
        fork: Whether to fork the thread first.
        at: The last turn that the fork keeps: its number or its id. If it is None, the fork keeps all turns.
        thread: The id or name of the thread. If it is None, the newest thread is resumed (``--last``), or none was named.
        prompt: The prompt as given. None and ``-`` mean stdin.
        opening: The option of a plugin that opens the thread elsewhere, with its value. If it is None, the turn runs in this
            process.
        heartbeat_s: Seconds without output after which a heartbeat is printed. If it is None, none is printed.

    Raises:
        UsageError: The options contradict each other, or a value is invalid.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        command: str | None,
        arguments: Sequence[str],
        offered: Sequence[PluginOption] = (),
        plugin_command: ExecCommand | None = None,
    ) -> None:
        self._values = values
        self._offered = offered
        self.plugin_command = plugin_command
        self.command = command if command in ("resume", "fork") else None
        self.fork = command == "fork"
        self.resume = self.fork or command == "resume"
        at = self.text("at")
        self.at = int(at) if at is not None and at.isascii() and at.isdigit() else at
        words = list(arguments)
        self.thread = words.pop(0) if self.resume and words and not self.flag("last") else None
        self.prompt = words.pop(0) if words else None
        if words:
            raise UsageError(f"unexpected argument '{words[0]}' found")
        for key in ("sandbox", "dangerously_bypass_approvals_and_sandbox"):
            if self.flag("approve_for_me") and self.flag(key):
                option = f"--{key.replace('_', '-')}"
                raise UsageError(f"the argument '--approve-for-me' cannot be used with '{option}'")
        self.heartbeat_s = _seconds(self.text("heartbeat"))
        self.opening = self._find_opening()

    def check_thread(self) -> None:
        """Check that the thread to resume or fork is known.

        Raises:
            UsageError: It was neither named nor requested with ``--last``.
        """
        if self.resume and self.thread is None and not self.flag("last"):
            raise UsageError(
                f"name the thread to {self.command}, or add --last\n\n  tip: `codex-framework sessions list` lists the threads"
            )

    def make_request(self, argument: str | None) -> ExecRequest:
        """Return the submission of the plugin's subcommand.

        Args:
            argument: The prompt from the command line or from stdin.

        Raises:
            UsageError: The options contradict each other.
            CodexError: The command cannot be run with these options.
        """
        command = self.plugin_command
        assert command is not None
        if self.images:
            raise UsageError(f"the argument '--image' cannot be used with '{command.name}'")
        keys = {option.name: option.name.replace("-", "_") for option in command.options}
        given = {name: self._values[key] for name, key in keys.items() if key in self._values}
        try:
            return command.request(given, argument)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def move_to(self, folder: Path) -> None:
        """Make a folder the working folder."""
        self._values = {**self._values, "cd": str(folder)}

    def flag(self, key: str) -> bool:
        """Return whether a switch was given."""
        return bool(self._values.get(key))

    def text(self, key: str) -> str | None:
        """Return an option's value, or None if it was not given."""
        value = self._values.get(key)
        return None if value is None else str(value)

    def texts(self, key: str) -> list[str]:
        """Return the values of an option that may be repeated."""
        return list(self._values.get(key, ()))

    @property
    def implying(self) -> list[tuple[PluginOption, Any]]:
        """The given options of plugins that imply further settings, with their values."""
        given = [each for each in self._offered if each.implies is not None and each.option.key in self._values]
        return [(each, self._values[each.option.key]) for each in given]

    def _find_opening(self) -> tuple[PluginOption, Any] | None:
        given = [each for each in self._offered if each.open_thread is not None and each.option.key in self._values]
        if len(given) > 1:
            first, second = (each.option.names[0] for each in given[:2])
            raise UsageError(f"the argument '{first}' cannot be used with '{second}'")
        return (given[0], self._values[given[0].option.key]) if given else None

    @property
    def by_name(self) -> dict[str, Any]:
        """The options by their long names without dashes. Options of a plugin's subcommand are in its op."""
        own = () if self.plugin_command is None else {option.name for option in self.plugin_command.options}
        found = {key.replace("_", "-"): value for key, value in self._values.items()}
        return {name: value for name, value in found.items() if name not in own}

    @property
    def images(self) -> list[str]:
        """The absolute paths of the images."""
        return [os.path.abspath(path) for value in self.texts("image") for path in value.split(",") if path]  # noqa: PTH100

    @property
    def overrides(self) -> list[str]:
        """The ``-c`` arguments."""
        return self.texts("config")

    @property
    def flags(self) -> dict[str, Any]:
        """The configuration that the other options imply."""
        flags: dict[str, Any] = {
            each.key: each.setting(self._values[each.option.key])
            for each in self._offered
            if each.key is not None and each.option.key in self._values
        }
        flags |= {f"features.{name}": True for name in self.texts("enable")}
        flags |= {f"features.{name}": False for name in self.texts("disable")}
        if self.flag("strict_config"):
            flags["framework.unknown_keys"] = "error"
        if self.flag("ignore_rules"):
            flags["framework.plugins.execpolicy.ignore_rules"] = True
        if self.flag("dangerously_bypass_hook_trust"):
            flags["framework.plugins.hooks.bypass_trust"] = True
        if model := self.text("model"):
            flags["model"] = model
        if self.flag("full_auto"):
            flags["sandbox_mode"] = SandboxMode.WORKSPACE_WRITE.value
        if self.text("ask_for_approval") == "never":
            flags["approval_policy"] = "never"
        if self.flag("search"):
            flags["web_search"] = "live"
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


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds < float("inf"):
        raise UsageError(f"invalid value '{text}' for '--heartbeat <SECONDS>': a number of seconds, at least 0.1")
    return seconds


def read_options(
    argv: Sequence[str],
    offered: Sequence[PluginOption] = (),
    *,
    command: ExecCommand | None = None,
    skip_unknown: bool = False,
) -> ExecOptions:
    """Parse the arguments after ``exec``.

    Args:
        argv: The arguments.
        offered: The options of plugins.
        command: The subcommand of a plugin that the arguments name.
        skip_unknown: Whether to skip unknown options and all arguments. The result is only good for loading the configuration.

    Raises:
        UnknownOption: An option is neither built in nor one of ``offered``.
        UsageError: The command line is invalid.
    """
    known = {**index(each.option for each in offered), **_RESUME_INDEX} if offered else _RESUME_INDEX
    commands: tuple[str, ...] = ("resume", "fork", "help")
    if command is not None:
        from codex_framework.cli.plugin_options import own_options

        known = {**index(own_options(command)), **known}
        commands = (*commands, command.name)
    values, word, arguments = read_argv(argv, known, commands=commands, skip_unknown=skip_unknown)
    if word == "help":
        values["help"] = True
    if values.get("help") or values.get("version") or skip_unknown:
        return ExecOptions({**values, "last": True}, word, (), plugin_command=command)
    misplaced = {"last", "all", "include_non_interactive"} & values.keys()
    if misplaced and word not in ("resume", "fork"):
        option = min(misplaced).replace("_", "-")
        raise UsageError(f"unexpected argument '--{option}' found\n\n  tip: it belongs to `exec resume`")
    if word != "fork" and "at" in values:
        raise UsageError("unexpected argument '--at' found\n\n  tip: it belongs to `exec fork`")
    return ExecOptions(values, word, arguments, offered, command)


def split_root_options(argv: Sequence[str]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the options before the subcommand by key and as words, and the rest of the command line.

    Raises:
        UsageError: An option is unknown, or it has an invalid value.
    """
    values, _, rest = read_argv(argv, _ROOT_INDEX, stop_at_positional=True)
    words = list(argv[: len(argv) - len(rest)])
    return values, words[:-1] if words[-1:] == ["--"] else words, rest


def first_word(argv: Sequence[str], offered: Sequence[PluginOption] = ()) -> str | None:
    """Return the first argument if it may be the subcommand of a plugin: one word that is not built in."""
    known = {**index(each.option for each in offered), **_EXEC_INDEX}
    _, _, rest = read_argv(argv, known, stop_at_positional=True, skip_unknown=True)
    word = rest[0] if rest else ""
    before = argv[: len(argv) - len(rest)]
    if word == "help" or "--" in before:
        return None
    if not word.isascii() or " " in word:  # most prompts, for which nothing more is imported
        return None
    import re

    from codex_framework.loader.value_checks import COMMAND_NAME

    return word if re.fullmatch(COMMAND_NAME, word) else None


def usage(command: str | None = None, program: str = _PROGRAM) -> list[str]:
    """Return the usage lines of ``exec``, or of one of its subcommands."""
    if command is not None:
        return [f"{program} {command} [OPTIONS] [THREAD] [PROMPT]"]
    return [
        f"{program} [OPTIONS] [PROMPT]",
        f"{program} [OPTIONS] resume [OPTIONS] [THREAD] [PROMPT]",
        f"{program} [OPTIONS] fork [OPTIONS] [THREAD] [PROMPT]",
    ]


def command_usage(command: ExecCommand, program: str = _PROGRAM) -> str:
    """Return the usage line of a plugin's subcommand."""
    argument = "" if command.argument is None else " [PROMPT]"
    return f"{program} {command.name} [OPTIONS]{argument}"


def command_help(command: ExecCommand, own: Sequence[Option], program: str = _PROGRAM) -> str:
    """Return the text of ``exec NAME --help``.

    Args:
        own: The options that the subcommand adds.
        program: The words before the name.
    """
    arguments = {} if command.argument is None else {"[PROMPT]": command.argument}
    return help_of([command_usage(command, program)], command.text, arguments, (*own, *SHARED_OPTIONS, *EXEC_OPTIONS))


def exec_help(command: str | None = None, program: str = _PROGRAM, *, offered: Sequence[Option] = ()) -> str:
    """Return the help text of ``exec`` or of one of its subcommands.

    Args:
        command: The subcommand.
        program: The words before it.
        offered: The options of plugins.
    """
    prompt = "The task. Without a prompt, or with -, it is read from stdin. If you give a prompt, piped stdin is appended to it."
    if command is None:
        about = "Run one turn non-interactively: do the work, print the final message, and exit."
        return help_of(usage(None, program), about, {"[PROMPT]": prompt}, (*SHARED_OPTIONS, *EXEC_OPTIONS, *offered))
    thread = "The thread's id or its beginning, name or file. Not allowed with --last."
    about = "Resume an earlier thread."
    own: tuple[Option, ...] = RESUME_OPTIONS
    if command == "fork":
        about, own = (
            "Start a copy of an earlier thread. The original does not change.",
            (*RESUME_OPTIONS, *FORK_OPTIONS),
        )
        prompt = "The task for the new thread. Without a prompt, no turn runs, and the id of the new thread is printed."
    if program != _PROGRAM:
        about += f" In a terminal, the conversation continues there. Otherwise it is the same as `exec {command}`."
    arguments = {"[THREAD]": thread, "[PROMPT]": prompt}
    return help_of(usage(command, program), about, arguments, (*own, *SHARED_OPTIONS, *EXEC_OPTIONS, *offered))
