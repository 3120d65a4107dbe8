"""git on repositories that others made: their configuration may name programs, which must not run outside of a sandbox."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["git_environment", "without_drivers"]

_TIMEOUT_S = 10.0
_UNKNOWN_OPTION = 129
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "log.showSignature": "false",
    "protocol.allow": "never",  # a partial clone would fetch what it lacks, by a program that the repository names
    "safe.bareRepository": "explicit",
}
_DRIVERS = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "merge": {"driver": "git merge-file %A %O %B"},  # what git does without a driver
}
"""The settings that switch off a driver. A driver has a name of the repository's choice, so no setting switches off all of them."""


def git_environment(environ: Mapping[str, str], settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a git that runs no monitor, hook or transport, and asks nobody.

    Variables of git are left out: they could name other repositories and programs. Drivers of files remain
    (see :func:`without_drivers`), and ``git diff`` needs ``--no-ext-diff`` and ``--no-textconv`` as well.

    Args:
        environ: The variables of the process.
        settings: Further settings of git, which override its files.
    """
    config = {**_SETTINGS, **(settings or {})}
    return {
        **{name: value for name, value in environ.items() if not name.startswith("GIT_")},
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(config)),
        **{f"GIT_CONFIG_KEY_{place}": key for place, key in enumerate(config)},
        **{f"GIT_CONFIG_VALUE_{place}": value for place, value in enumerate(config.values())},
    }


def without_drivers(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a git that also runs no filter and no merge driver that the repository of a folder defines.

    Drivers of the user's own configuration, such as those of Git LFS, run as always.

    Raises:
        OSError: git cannot be started, is too old, or takes too long.
    """
    argv = ["git", "config", "--show-scope", "-z", "--name-only", "--get-regexp", r"^(filter|merge)\..*\."]
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env=git_environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(errno.ETIMEDOUT, "`git config` does not end") from None
    if done.returncode == _UNKNOWN_OPTION:
        raise OSError(errno.ENOTSUP, "it is older than 2.26")
    words = done.stdout.decode(errors="surrogateescape").split("\0")
    drivers = {
        key.rpartition(".")[0]
        for scope, key in zip(words[::2], words[1::2], strict=False)
        if scope not in ("system", "global")
    }
    settings = {
        f"{driver}.{key}": value for driver in drivers for key, value in _DRIVERS[driver.partition(".")[0]].items()
    }
    return git_environment(environ, settings)
