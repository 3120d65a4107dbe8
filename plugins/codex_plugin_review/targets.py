"""The targets of reviews: their wire form, their names for users, and the request that the reviewing model reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from codex_framework import ThreadContext, ThreadError, Value
from codex_framework.toolkit.projects import git_root

__all__ = ["Target", "prompt_of", "target_of"]

Kind: TypeAlias = Literal["uncommittedChanges", "baseBranch", "commit", "custom"]

_FIELDS: Mapping[str, str] = {"baseBranch": "branch", "commit": "sha", "custom": "instructions"}
"""The required field of each kind that has one."""

_LONGEST_NAME = 1_000
"""Maximum length of a branch, a commit or a title, in characters."""


class Target(Value, kw_only=True):
    """A checked target.

    Attributes:
        value: The branch, commit or instructions. Empty for uncommitted changes.
        title: The title of a commit, if it was given.
    """

    kind: Kind
    value: str = ""
    title: str | None = None

    @property
    def wire(self) -> Mapping[str, Any]:
        """The wire form."""
        if self.kind == "uncommittedChanges":
            return {"type": self.kind}
        found = {"type": self.kind, _FIELDS[self.kind]: self.value}
        return {**found, "title": self.title} if self.kind == "commit" else found

    @property
    def hint(self) -> str:
        """The target in a few words (Codex's words)."""
        match self.kind:
            case "uncommittedChanges":
                return "current changes"
            case "baseBranch":
                return f"changes against '{self.value}'"
            case "commit":
                short = self.value[:7]
                return f"commit {short}: {self.title}" if self.title else f"commit {short}"
            case "custom":
                return self.value


def target_of(given: object) -> Target:
    """Return a target from its wire form.

    Raises:
        ThreadError: It is invalid. The fact names the field.
    """
    if not isinstance(given, Mapping):
        raise _bad("the target of a review must be an object", "Set its `type`.")
    kind: Any = given.get("type")
    if kind == "uncommittedChanges":
        return Target(kind="uncommittedChanges")
    if kind not in _FIELDS:
        known = ", ".join(("uncommittedChanges", *_FIELDS))
        raise _bad(f"{kind!r} is not a target of a review", f"Use one of: {known}.")
    name = _FIELDS[kind]
    value = given.get(name)
    if not isinstance(value, str):
        raise _bad(f"the target {kind!r} requires the text `{name}`", f"Set `{name}`.")
    value = value.strip()
    if kind == "custom":
        if not value:
            raise _bad("Review prompt cannot be empty", "Say what to review.")
        return Target(kind=kind, value=value)
    _check_name(name, value)
    title = given.get("title") if kind == "commit" else None
    if title is not None and not isinstance(title, str):
        raise _bad("the `title` of a commit must be text", "Correct it, or leave it out.")
    return Target(kind=kind, value=value, title=" ".join(title.split())[:_LONGEST_NAME] if title else None)


def _check_name(name: str, value: str) -> None:
    """Check the name of a branch or commit. It becomes an argument of git and a part of a prompt."""
    if not value or value.startswith("-") or len(value) > _LONGEST_NAME or not value.isprintable() or " " in value:
        raise _bad(f"{value[:80]!r} is not a valid `{name}`", "Use a name that git knows.")


def _bad(fact: str, hint: str) -> ThreadError:
    return ThreadError(fact, slug="bad-request", hint=hint)


async def prompt_of(target: Target, thread: ThreadContext) -> str:
    """Return the request for the reviewing model.

    Raises:
        ThreadError: The thread's folder is not in a git repository, or git does not know the branch or commit.
    """
    if target.kind == "custom":
        return target.value
    folder = thread.settings.cwd
    if git_root(folder) is None:
        raise ThreadError(
            f"there is nothing to review: {folder} is not in a git repository",
            slug="no-repository",
            hint="Start the session in a repository, or describe what to review with a custom target.",
        )
    if target.kind == "uncommittedChanges":
        return (
            "Review the changes in the working tree that are not committed: staged, unstaged and untracked files."
            " Report your findings in order of priority."
        )
    from codex_plugin_review.git import merge_base, resolved

    if target.kind == "commit":
        await resolved(target.value, thread, "commit")
        named = f" ({target.title!r})" if target.title else ""
        return (
            f"Review the changes that the commit {target.value}{named} introduces."
            " Report findings that the author can act on, in order of priority."
        )
    base = await merge_base(target.value, thread)
    if base is None:
        return (
            f"Review the changes of the current branch against the branch {target.value!r}. First find their merge base, with"
            f" `git merge-base HEAD {target.value}` or with the upstream of that branch, and then inspect `git diff` against it."
            " Report findings that the author can act on, in order of priority."
        )
    return (
        f"Review the changes of the current branch against the branch {target.value!r}. Their merge base is the commit {base}:"
        f" `git diff {base}` shows what would be merged. Report findings that the author can act on, in order of priority."
    )
