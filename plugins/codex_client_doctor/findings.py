"""The findings of ``doctor``, and the page that it prints, which contains no secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from codex_framework.config.secrecy import is_secret
from codex_framework.contract.urls import without_logins, without_queries
from codex_framework.contract.value import Value
from codex_framework.toolkit.hidden_texts import forms_of, without
from codex_framework.toolkit.regular_files import read_regular
from codex_framework.toolkit.tables import fit
from codex_framework.toolkit.terminal_text import printable

__all__ = ["Finding", "Secrets", "page", "worst"]

_LARGEST_LOGIN = 1 << 20
_LOGIN = re.compile(r"((?:^|[\s/(\"'`]))[\w.%+-]*:[^\s@/]+@(?=\S)")
"""A login in an address that is not a URL."""

_INDENT = " " * 11
_COLOURS = {"ok": "green", "note": "blue", "warning": "yellow", "failed": "red"}
"""The states of a finding, best first."""


class Finding(Value):
    """The result of a check.

    Attributes:
        id: Names the kind of finding, for programs. It does not change between versions.
        area: The part of the set-up, as a heading.
        state: ``ok``, ``note``, ``warning`` or ``failed``.
        text: The result as a sentence.
        fix: Commands that fix it, best first.
        hint: Advice if no command can fix it.
    """

    id: str
    area: str
    state: str
    text: str
    fix: tuple[str, ...] = ()
    hint: str = ""


def worst(findings: Sequence[Finding]) -> str:
    """Return the worst state of the findings."""
    order = list(_COLOURS)
    return max((finding.state for finding in findings), key=order.index, default="ok")


def page(findings: Sequence[Finding], notes: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the page for people.

    Args:
        notes: Lines after the findings.
    """
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            yield click.style(f"\n{area}", bold=True)
        first, *rest = printable(finding.text).splitlines() or [""]
        yield fit(f"  {click.style(finding.state.ljust(7), fg=_COLOURS[finding.state])}  {first}", _INDENT)
        yield from (fit(f"{_INDENT}{line}", _INDENT) for line in [*rest, *printable(finding.hint).splitlines()])
        yield from (f"{_INDENT}$ {printable(command)}" for command in finding.fix)
    counts = {state: sum(finding.state == state for finding in findings) for state in _COLOURS}
    yield "\n" + ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    yield from notes


class Secrets:
    """Takes secrets out of texts, and shortens the home folder to ``~``.

    Args:
        environ: The environment. Values of variables whose names look like a secret are hidden.
        tables: The settings.
        named: The variables that the settings name as secrets.
        login: The file with the login.
    """

    def __init__(
        self, environ: Mapping[str, str], tables: Mapping[str, Any], named: Sequence[str], login: Path | None
    ) -> None:
        found = [value for name, value in environ.items() if name in named or is_secret((name,))]
        found += [value for path, value in _texts(tables) if is_secret(path)]
        if login is not None:
            found += [value for _, value in _texts(_json(login))]
        self._forms = forms_of(found)
        self._home = environ.get("HOME", "").rstrip("/")

    def hide(self, finding: Finding) -> Finding:
        """Return a finding without secrets."""
        return finding.evolve(
            text=self._hide(finding.text),
            hint=self._hide(finding.hint),
            fix=tuple(self._hide(command) for command in finding.fix),
        )

    def _hide(self, text: str) -> str:
        text = without(_LOGIN.sub(r"\1", without_queries(without_logins(text))), self._forms)
        if len(self._home) > 1:  # a shell expands no ~ within quotes
            text = text.replace(f"'{self._home}/", "~/'").replace(f"{self._home}/", "~/")
        return text


def _texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text in JSON data with its path."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, path)
    elif isinstance(value, str):
        yield path, value


def _json(file: Path) -> Any:
    try:
        return json.loads(read_regular(file, _LARGEST_LOGIN))
    except (OSError, ValueError, RecursionError):
        return None


def variables_of(tables: Mapping[str, Any]) -> list[str]:
    """Return the environment variables that settings name as the place of a secret."""
    names = [value for path, value in _texts(tables) if path[-1:] and path[-1] in ("env_key", "bearer_token_env_var")]
    names += [value for path, value in _texts(tables) if "env_http_headers" in path[:-1]]
    return names
