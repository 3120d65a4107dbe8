"""The environment of commands, computed from ``[shell_environment_policy]``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.permissions.file_access import FileAccess

if TYPE_CHECKING:
    from codex_framework.config.credentials import Credentials

__all__ = ["command_environment", "guarded_environment"]

_TABLE = "shell_environment_policy"

_CORE = frozenset(
    "PATH SHELL TMPDIR TEMP TMP HOME LANG LC_ALL LC_CTYPE LOGNAME USER".split()  # noqa: SIM905  # easier to read
)
"""The variables of ``inherit = "core"`` (Codex's list)."""

_DEFAULT_EXCLUDES = ("*KEY*", "*SECRET*", "*TOKEN*")
"""Variables dropped if ``ignore_default_excludes`` is false (Codex's list)."""

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
"""Variables dropped if ``ignore_default_excludes`` is not set. Codex then drops nothing, like ``ignore_default_excludes = true``."""

_NOT_SECRET = (
    *("*_KEY_TYPE", "*_KEYMAP", "*PUBLIC_KEY*", "*PUBLISHABLE_KEY", "*MONKEY*", "*HOTKEY*", "*KEYBOARD*", "OLD_PWD"),
    *("*ASKPASS", "*BYPASS", "*COMPASS", "PASSWORD_STORE_DIR", "*MAX_*TOKENS", "*TOKEN_LIMIT", "*TOKEN_COUNT"),
)
"""Variables that match these patterns too but are not secret."""

_REVEALING_VALUE = r"\w://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY"
"""URLs with a password (as in ``DATABASE_URL``) and private keys, in a variable of any name."""

_MAY_CONTAIN_PASSWORDS = ("*_PROXY",)
"""Variables that may contain a password, because commands cannot reach the network without it."""


def command_environment(
    policy: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    keep: Iterable[str] = (),
    credentials: Credentials | None = None,
    thread_id: str | None = None,
) -> dict[str, str]:
    """Return the environment of a command.

    The policy is applied in this order: ``inherit`` (``all``, ``core`` or ``none``), the default excludes, ``exclude``,
    ``set``, and ``include_only`` if it is not empty. Patterns support ``*`` and ``?`` and ignore case. The default excludes
    drop variables that look like keys or passwords, and URLs with a password. With ``ignore_default_excludes = true`` nothing
    is dropped (Codex's default); with ``false``, only names that match Codex's three patterns are dropped.

    Args:
        policy: The table from the configuration. Unknown keys are reported by the check of the configuration.
        environ: The environment to inherit from.
        keep: Patterns of variables that the default excludes do not drop.
        credentials: Variables that are always dropped, unless ``set`` sets them. Other variables that contain their values are
            dropped too. The variables of ``inherit = "core"`` are never dropped for this reason.
        thread_id: The value of ``CODEX_THREAD_ID``, regardless of the policy. None leaves the variable unset.

    Raises:
        ConfigError: A value has the wrong type or is unknown.
    """
    variables = _inherited_variables(policy, environ)
    if credentials is not None:
        variables = _drop_credentials(variables, credentials.names, credentials.values(environ))
    ignored = _flag(policy, "ignore_default_excludes")
    if ignored is None:
        variables = _drop_secrets(variables, tuple(keep))
    elif not ignored:
        rest = _drop_matching(variables, _DEFAULT_EXCLUDES)
        keeps = _matcher(tuple(keep))
        variables = {name: value for name, value in variables.items() if name in rest or keeps(name)}
    variables = _drop_matching(variables, _patterns(policy, "exclude"))
    variables.update(_assignments(policy))
    if only := _patterns(policy, "include_only"):
        includes = _matcher(only)
        variables = {name: value for name, value in variables.items() if includes(name)}
    if thread_id is not None:
        variables["CODEX_THREAD_ID"] = thread_id
    return variables


_OF_GIT = (("safe.bareRepository", "explicit"), ("core.fsmonitor", ""))
"""Settings with which git takes no folder of the workspace for a repository, and runs no monitor that a repository names."""


def guarded_environment(env: Mapping[str, str], access: FileAccess | None) -> dict[str, str]:
    """Return the environment of a command that a policy lets run without asking.

    Args:
        env: The whole environment.
        access: The write permissions of the turn's commands, for a command that runs outside of the sandbox: it does not load
            programs, libraries or settings from writable places. None if it runs in the sandbox.
    """
    guarded = dict(env)
    if access is not None and not access.full:
        from codex_framework.toolkit.programs import safe_variables

        guarded |= (safe := safe_variables(guarded, access))
        for name in safe.keys() - {"PATH"}:
            if not safe[name]:
                del guarded[name]
    count = guarded.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isascii() and count.isdigit() else 0
    for place, (key, value) in enumerate(_OF_GIT, first):
        guarded |= {f"GIT_CONFIG_KEY_{place}": key, f"GIT_CONFIG_VALUE_{place}": value}
    return guarded | {"GIT_CONFIG_COUNT": str(first + len(_OF_GIT))}


def _inherited_variables(policy: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    word = policy.get("inherit", "all")
    match word:
        case "all":
            return dict(environ)
        case "core":
            return {name: value for name, value in environ.items() if name.upper() in _CORE}
        case "none":
            return {}
    raise _wrong("inherit", f"is {word!r}", 'Write "all", "core" or "none".')


def _drop_credentials(variables: dict[str, str], names: Collection[str], secrets: Collection[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.upper() in _CORE or (name not in names and not any(secret in value for secret in secrets))
    }


def _drop_secrets(variables: dict[str, str], keep: tuple[str, ...]) -> dict[str, str]:
    is_secret, is_exempt = _matcher(_SECRETS), _matcher((*keep, *_NOT_SECRET))
    may_contain = _matcher((*keep, *_MAY_CONTAIN_PASSWORDS))
    return {
        name: value
        for name, value in variables.items()
        if (not is_secret(name) or is_exempt(name)) and (not _is_revealing(value) or may_contain(name))
    }


def _is_revealing(value: str) -> bool:
    """Return whether a value contains a password. The expression is compiled only if a value may match."""
    return ("://" in value or "-----BEGIN " in value) and re.search(_REVEALING_VALUE, value) is not None


def _drop_matching(variables: dict[str, str], patterns: Iterable[str]) -> dict[str, str]:
    patterns = tuple(patterns)
    if not patterns:
        return variables
    drop = _matcher(patterns)
    return {name: value for name, value in variables.items() if not drop(name)}


@functools.lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """Return a function that checks whether a name matches one of the patterns.

    Nearly all patterns and names are plain, and compiling 30 alternatives takes longer than comparing all names.
    """
    exact: set[str] = set()
    inside: list[str] = []
    ends: list[str] = []
    pieces: list[list[str]] = []
    if not all(pattern.isascii() and "?" not in pattern for pattern in patterns):
        return _expression(patterns)
    for pattern in patterns:
        first, *rest = pattern.upper().split("*")
        if not rest:
            exact.add(first)
            continue
        *middle, last = rest
        if not first and not middle:
            ends.append(last)
        elif not first and not last and len(middle) == 1:
            inside.append(middle[0])
        else:
            pieces.append([first, *middle, last])
    suffixes = tuple(ends)

    def matches(name: str) -> object:
        if not name.isascii():
            return _expression(patterns)(name)
        upper = name.upper()
        return (
            upper in exact
            or upper.endswith(suffixes)
            or any(part in upper for part in inside)
            or any(_in_order(upper, parts) for parts in pieces)
        )

    return matches


def _in_order(text: str, pieces: list[str]) -> bool:
    """Return whether a text starts with the first piece, ends with the last, and has the others between them in this order."""
    first, *middle, last = pieces
    if not text.startswith(first):
        return False
    at = len(first)
    for piece in middle:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return text.endswith(last) and len(text) - len(last) >= at


def _expression(patterns: tuple[str, ...]) -> Callable[[str], object]:
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
        raise _wrong("set", f"is {value!r}", 'Write a table of strings: { CI = "1" }.')
    return dict(value)


def _wrong(key: str, fact: str, hint: str) -> ConfigError:
    return ConfigError(f"{_TABLE}.{key} {fact}", key=f"{_TABLE}.{key}", hint=hint)
