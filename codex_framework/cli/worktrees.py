"""``exec --worktree``: a new worktree of the repository for one session, and ``--trust``: the user's decision about the project."""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

from codex_framework.config import Config
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.git import without_drivers
from codex_framework.toolkit.projects import git_root, main_checkout

__all__ = ["create_worktree", "store_trust", "trust_project"]


def create_worktree(config: Config) -> Path:
    """Create a worktree at the current commit, and return the folder in it that corresponds to the working folder.

    It is in ``$CODEX_HOME/worktrees``, as in Codex, and stays when the session has ended.

    Raises:
        ConfigError: The folder is in no repository, or git cannot create the worktree.
    """
    root = git_root(config.cwd)
    if root is None:
        raise _error(f"{config.cwd} is not in a git repository", "Run `git init` and commit, or leave --worktree out.")
    folder = _new_folder(config.codex_home / "worktrees")
    target = folder / main_checkout(root).name
    argv = ["git", "worktree", "add", "--quiet", "--detach", str(target), "HEAD"]
    try:
        env = without_drivers(root, os.environ)
        done = subprocess.run(
            argv, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        folder.rmdir()
        raise _error(f"git cannot be run: {error.strerror}", "Install git, or leave --worktree out.") from None
    if done.returncode:
        folder.rmdir()
        reason = done.stderr.strip().splitlines()
        hint = "The repository has no commit to start from. Commit first, or leave --worktree out."
        raise _error(f"git cannot create it: {reason[-1] if reason else f'exit status {done.returncode}'}", hint)
    found = target / config.cwd.relative_to(root)
    return found if found.is_dir() else target


def _new_folder(parent: Path) -> Path:
    """Create a folder with a name that no other one has.

    Raises:
        ConfigError: Nothing can be written to ``$CODEX_HOME``.
    """
    while True:
        folder = parent / secrets.token_hex(2)
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            fact = f"{folder} cannot be created: {error.strerror}"
            raise _error(fact, "Make $CODEX_HOME writable, or leave --worktree out.") from None
        return folder


def _error(fact: str, hint: str) -> ConfigError:
    return ConfigError(f"no worktree for this session: {fact}", path="--worktree", slug="worktree", hint=hint)


def trust_project(config: Config) -> None:
    """Store that the project of the working folder is trusted.

    Raises:
        ConfigError: The user has decided otherwise, or the decision cannot be stored.
    """
    from codex_framework.config.trust import trusted_folder

    folder = trusted_folder(config.cwd)
    if config.trust == "untrusted":
        raise ConfigError(
            f"{folder} is marked as untrusted, which --trust does not change",
            path="--trust",
            slug="trust",
            hint="To trust it after all, run: codex-framework trust",
        )
    store_trust(config, "trusted")


def store_trust(config: Config, level: str) -> None:
    """Store a decision about the project of the working folder: ``trusted`` or ``untrusted``.

    Raises:
        ConfigError: It cannot be stored.
    """
    from codex_framework.cli.config_check import check_content
    from codex_framework.config.target import user_target
    from codex_framework.config.trust import decide_trust

    target = user_target(os.environ)
    decide_trust(target.path, config.cwd, level, lambda content: check_content(target, content, plugins=False))
