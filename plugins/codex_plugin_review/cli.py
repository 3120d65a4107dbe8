"""The subcommand ``exec review``, which is also the command ``review``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import CodexError, CommandOption, ExecCommand, ExecRequest
from codex_plugin_review.ops import Review, ReviewRequest

__all__ = ["COMMAND"]

_PROMPT = "[PROMPT]"


def _request(options: Mapping[str, str | bool], argument: str | None) -> ExecRequest:
    """Return the op for a command line.

    Raises:
        ValueError: The options contradict each other.
        CodexError: There is no target, or it is invalid.
    """
    targets = [name for name in ("uncommitted", "base", "commit") if name in options]
    given = [*(_display_name(name) for name in targets), *([_PROMPT] if argument is not None else [])]
    if len(given) > 1:
        raise ValueError(f"the argument '{given[0]}' cannot be used with '{given[1]}'")
    if "title" in options and "commit" not in options:
        raise ValueError("the following required arguments were not provided:\n  --commit <SHA>")
    from codex_plugin_review.targets import target_of

    target = target_of(_wire(options, argument))
    return ExecRequest(op=Review(ReviewRequest(target.wire)), shown=target.hint)


def _wire(options: Mapping[str, str | bool], argument: str | None) -> Mapping[str, Any]:
    if options.get("uncommitted"):
        return {"type": "uncommittedChanges"}
    if "base" in options:
        return {"type": "baseBranch", "branch": options["base"]}
    if "commit" in options:
        return {"type": "commit", "sha": options["commit"], "title": options.get("title")}
    if argument is None:
        raise CodexError(
            "Specify --uncommitted, --base, --commit, or provide custom review instructions",
            slug="no-prompt",
            hint="For example: codex-framework review --uncommitted",
        )
    return {"type": "custom", "instructions": argument}


def _display_name(name: str) -> str:
    metavar = next(option.metavar for option in COMMAND.options if option.name == name)
    return f"--{name}" if metavar is None else f"--{name} <{metavar}>"


COMMAND = ExecCommand(
    name="review",
    text="Review code changes: print the findings, and exit.",
    request=_request,
    argument="Review instructions in your own words. With -, it is read from stdin.",
    options=(
        CommandOption(name="uncommitted", text="Review the changes that are staged, unstaged or untracked."),
        CommandOption(
            name="base", text="Review the changes of the current branch against this branch.", metavar="BRANCH"
        ),
        CommandOption(name="commit", text="Review the changes that this commit introduces.", metavar="SHA"),
        CommandOption(name="title", text="The title of the commit, for the output.", metavar="TITLE"),
    ),
    alone=True,
)
