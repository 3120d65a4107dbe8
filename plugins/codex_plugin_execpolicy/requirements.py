"""The rules in the administrator's ``requirements.toml``: ``[rules] prefix_rules = [...]``. They can only ask or forbid."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework import Verdict
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.regular_files import read_regular
from codex_plugin_execpolicy.rules import DECISIONS, PrefixRule, RuleSet

__all__ = ["read_requirements", "readable_requirements"]

_MOST_BYTES = 1_000_000
"""Maximum size of the file."""

_HINT = 'Write { pattern = [{ token = "git" }, { any_of = ["push", "fetch"] }], decision = "prompt" or "forbidden" }.'


def read_requirements(path: Path) -> RuleSet:
    """Return the rules of the file. The rest of the file is ignored.

    Raises:
        ConfigError: The file cannot be read, is not TOML, or has an invalid rule.
    """
    rules = RuleSet()
    for number, entry in enumerate(_entries(path), 1):
        for rule in _rules(path, number, entry):
            rules.add(rule)
    return rules


def readable_requirements(path: Path) -> RuleSet:
    """Return the valid rules of a file with an error."""
    rules = RuleSet()
    with contextlib.suppress(ConfigError):
        for number, entry in enumerate(_entries(path), 1):
            with contextlib.suppress(ConfigError):
                for rule in _rules(path, number, entry):
                    rules.add(rule)
    return rules


def _entries(path: Path) -> list[Any]:
    import tomllib

    try:
        table = tomllib.loads(read_regular(path, _MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        fact = f"the rules file {path} cannot be read: {error.strerror or error}"
        raise ConfigError(fact, path=str(path), slug="exec-rules", hint="Make it readable.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _error(path, f"not TOML: {error}") from error
    found = table.get("rules")
    if found is None:
        return []
    entries = found.get("prefix_rules", []) if isinstance(found, Mapping) else None
    if not isinstance(entries, list):
        raise _error(path, "`rules.prefix_rules` must be an array of tables")
    return entries


def _rules(path: Path, number: int, entry: Any) -> Iterator[PrefixRule]:
    where = f"`rules.prefix_rules`, number {number}"
    if not isinstance(entry, Mapping):
        raise _error(path, f"{where}: must be a table")
    verdict = DECISIONS.get(entry.get("decision", ""))
    if verdict is None or verdict is Verdict.ALLOW:
        raise _error(path, f"{where}: the decision must be `prompt` or `forbidden`")
    reason = entry.get("justification")
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise _error(path, f"{where}: the justification must be a string")
    pattern = entry.get("pattern")
    if not isinstance(pattern, list) or not pattern:
        raise _error(path, f"{where}: the pattern must be an array with at least one word")
    first, *rest = (_words(path, where, word) for word in pattern)
    for program in first:
        yield PrefixRule(program, tuple(rest), verdict, reason)


def _words(path: Path, where: str, entry: Any) -> tuple[str, ...]:
    match entry:
        case {"token": str(word)} if len(entry) == 1:
            return (word,)
        case {"any_of": [*words]} if len(entry) == 1 and words and all(isinstance(word, str) for word in words):
            return tuple(words)
    raise _error(path, f'{where}: a word is {{ token = "..." }} or {{ any_of = ["...", "..."] }}')


def _error(path: Path, fact: str) -> ConfigError:
    return ConfigError(f"{path}: {fact}", path=str(path), slug="exec-rules", hint=_HINT)
