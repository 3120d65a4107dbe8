"""The environment of commands, made from ``[shell_environment_policy]``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from codex_framework.errors import ConfigError

__all__ = ["command_environment"]

_TABLE = "shell_environment_policy"

_CORE = frozenset(
    "PATH SHELL TMPDIR TEMP TMP HOME LANG LC_ALL LC_CTYPE LOGNAME USER".split()  # noqa: SIM905  # reads better so
)
"""What ``inherit = "core"`` lets through (Codex's list)."""

_DEFAULT_EXCLUDES = ("*KEY*", "*SECRET*", "*TOKEN*")
"""Dropped when ``ignore_default_excludes`` is false (Codex's list)."""

_SECRETS = (
    *("*KEY", "*KEY_*", "*KEYS", "*SECRET*", "*TOKEN", "*TOKEN_*", "*TOKENS", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*"),
    *("*PASS", "*_PWD", "*_PW", "*CREDENTIAL*", "*_AUTH", "*AUTH_CONFIG", "*AUTH_IDENT", "AUTHORIZATION", "*BEARER*"),
    *(
        "*COOKIE",
        "*_DSN",
        "*CONNECTION_STRING*",
        "*_PAT",
        "*_JWT",
        "*WEBHOOK",
        "*WEBHOOK_URL",
        "*MNEMONIC*",
        "PGPASSFILE",
    ),
)
"""Dropped where ``ignore_default_excludes`` is not set. Codex drops nothing then; ``ignore_default_excludes = true`` says so."""

_NO_SECRETS = (
    *("*_KEY_TYPE", "*_KEYMAP", "*PUBLIC_KEY*", "*PUBLISHABLE_KEY", "*MONKEY*", "*HOTKEY*", "*KEYBOARD*", "OLD_PWD"),
    *("*ASKPASS", "*BYPASS", "*COMPASS", "PASSWORD_STORE_DIR", "*MAX_*TOKENS", "*TOKEN_LIMIT", "*TOKEN_COUNT"),
)
"""What looks like one of those and is none."""

_TELLING = r"\w://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY"
"""Addresses with a password in them (``DATABASE_URL`` and its like) and private keys, whatever the name."""

_LEFT_ALONE = ("*_PROXY",)
"""Without the password in these, a command has no way out."""


def command_environment(
    policy: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    keep: Iterable[str] = (),
    thread_id: str | None = None,
) -> dict[str, str]:
    """The variables a command gets.

    In this order: ``inherit`` (``all``, ``core``, ``none``), the default excludes, ``exclude``, ``set``, then
    ``include_only`` where it is not empty. Patterns know ``*`` and ``?`` and ignore case. The default excludes are variables
    that look like keys and passwords, and addresses with a password in them; with ``ignore_default_excludes = true`` there are
    none (Codex's default), with ``false`` they are Codex's own three.

    Args:
        policy: The table as config has it; keys that are not known here are left to config's own check.
        environ: What there is to inherit.
        keep: Patterns of variables that the default excludes leave alone.
        thread_id: Becomes ``CODEX_THREAD_ID``, whatever the policy says.

    Raises:
        ConfigError: A value has the wrong type or an unknown word.
    """
    variables = _inherited(policy, environ)
    ignored = _flag(policy, "ignore_default_excludes")
    if ignored is None:
        variables = _without_secrets(variables, tuple(keep))
    elif not ignored:
        left = _without(variables, _DEFAULT_EXCLUDES)
        kept = _matcher(tuple(keep))
        variables = {name: value for name, value in variables.items() if name in left or kept(name)}
    variables = _without(variables, _patterns(policy, "exclude"))
    variables.update(_assignments(policy))
    if only := _patterns(policy, "include_only"):
        wanted = _matcher(only)
        variables = {name: value for name, value in variables.items() if wanted(name)}
    if thread_id is not None:
        variables["CODEX_THREAD_ID"] = thread_id
    return variables


def _inherited(policy: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    word = policy.get("inherit", "all")
    match word:
        case "all":
            return dict(environ)
        case "core":
            return {name: value for name, value in environ.items() if name.upper() in _CORE}
        case "none":
            return {}
    raise _wrong("inherit", f"is {word!r}", 'Write "all", "core" or "none".')


def _without_secrets(variables: dict[str, str], keep: tuple[str, ...]) -> dict[str, str]:
    named, unless = _matcher(_SECRETS), _matcher((*keep, *_NO_SECRETS))
    plain = _matcher((*keep, *_LEFT_ALONE))
    return {
        name: value
        for name, value in variables.items()
        if (not named(name) or unless(name)) and (not re.search(_TELLING, value) or plain(name))
    }


def _without(variables: dict[str, str], patterns: Iterable[str]) -> dict[str, str]:
    patterns = tuple(patterns)
    if not patterns:
        return variables
    drop = _matcher(patterns)
    return {name: value for name, value in variables.items() if not drop(name)}


@functools.lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    parts = (re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns)
    return re.compile("|".join(parts), re.IGNORECASE | re.DOTALL).fullmatch


def _flag(policy: Mapping[str, Any], key: str) -> bool | None:
    value = policy.get(key)
    if value is not None and not isinstance(value, bool):
        raise _wrong(key, f"is {value!r}", "Write true or false.")
    return value


def _patterns(policy: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = policy.get(key)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise _wrong(key, f"is {value!r}", 'Write a list of patterns: ["AWS_*"].')
    return tuple(value)


def _assignments(policy: Mapping[str, Any]) -> dict[str, str]:
    value = policy.get("set")
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        raise _wrong("set", f"is {value!r}", 'Write a table of texts: { CI = "1" }.')
    return dict(value)


def _wrong(key: str, fact: str, hint: str) -> ConfigError:
    return ConfigError(f"{_TABLE}.{key} {fact}", key=f"{_TABLE}.{key}", hint=hint)
