"""The role of an environment: a place other than this machine that has files and runs commands."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_framework.contract.roles.sandboxes import Confinement
from codex_framework.contract.value import Value

__all__ = [
    "Environment",
    "EnvironmentEntry",
    "EnvironmentFiles",
    "EnvironmentInfo",
    "EnvironmentSource",
    "is_environment_id",
]


_NAME = r"[A-Za-z0-9_-]+"
_RESERVED = (LOCAL_ENVIRONMENT, "none")


def is_environment_id(name: object) -> bool:
    """Return whether a plugin's environment may have this id."""
    return isinstance(name, str) and re.fullmatch(_NAME, name) is not None and name not in _RESERVED


class EnvironmentInfo(Value, kw_only=True):
    """Facts about an environment.

    Attributes:
        shell: Path of the user's shell there.
        home: The user's home folder there, if known.
        temporary: The folder of ``TMPDIR`` there, if any.
    """

    shell: str
    home: str | None = None
    temporary: str | None = None


class EnvironmentEntry(Value):
    """An entry of a folder. ``kind`` is ``file``, ``folder`` or ``other``."""

    name: str
    kind: str


class EnvironmentFiles:
    """The files of an environment, within permissions. All paths are absolute, and symlinks are followed.

    The methods raise ``PermissionError`` if the permissions do not allow a path, and other kinds of ``OSError`` as the system
    does, ``ConnectionError`` if the environment cannot be reached. The checked file and the opened file must be the same, even
    if other programs run there.
    """

    @abstractmethod
    async def read(self, path: str, limit: int) -> bytes:
        """Return a regular file. Raises OSError too if it has more than ``limit`` bytes."""
        raise NotImplementedError

    @abstractmethod
    async def write(self, path: str, data: bytes) -> None:
        """Write a file. It and its folders are created if they are missing."""
        raise NotImplementedError

    @abstractmethod
    async def remove(self, path: str) -> None:
        """Delete a file, or a symlink, whose target stays."""
        raise NotImplementedError

    @abstractmethod
    async def list(self, path: str) -> Sequence[EnvironmentEntry]:
        """Return the entries of a folder, sorted by name."""
        raise NotImplementedError

    @abstractmethod
    def with_writable(self, paths: Sequence[str]) -> EnvironmentFiles:
        """Return the files where these real paths can be written, too, because the user has approved it."""
        raise NotImplementedError

    @abstractmethod
    async def real_path(self, path: str) -> str:
        """Return the real path of a file, with symlinks resolved. Parts that do not exist are unchanged."""
        raise NotImplementedError


class Environment:
    """A place with files and commands, on another machine or in another system.

    Attributes:
        id: Its id: ASCII letters, digits, ``-`` and ``_``. Not ``local`` and not ``none``.
    """

    id: str

    @property
    @abstractmethod
    def info(self) -> EnvironmentInfo | None:
        """Facts about the environment. None before the first connection."""
        raise NotImplementedError

    @property
    @abstractmethod
    def fault(self) -> str:
        """Why it cannot be used at the moment. Empty if it can, as far as is known."""
        raise NotImplementedError

    @abstractmethod
    async def connect(self) -> EnvironmentInfo:
        """Connect if that is necessary. Calls may be concurrent.

        Raises:
            ConnectionError: It cannot be reached. The text is for users and the model.
        """
        raise NotImplementedError

    @abstractmethod
    def confine(self, access: FileAccess, cwd: str, variables: Mapping[str, Any]) -> Confinement:
        """Create a plan for commands, without a connection. Its ``start`` connects.

        The processes are not on this machine: their ``pid`` is 0. Only ``Launch.env`` is set for them, in addition to the
        variables that the environment derives from ``variables``.

        Args:
            access: The permissions. Their paths are paths of the environment, and its symlinks are not resolved in them.
            cwd: The working folder of the turn there.
            variables: The table ``[shell_environment_policy]``.

        Raises:
            SandboxError: The access cannot be enforced there.
        """
        raise NotImplementedError

    @abstractmethod
    def files(self, access: FileAccess, cwd: str) -> EnvironmentFiles:
        """Return its files, within permissions. Raises SandboxError if these cannot be enforced there."""
        raise NotImplementedError


class EnvironmentSource:
    """Offers environments, and chooses the default environments of a thread.

    Attributes:
        name: Short and unique.
        environments: The environments.
        default: The ids of the environments that a thread uses by default, the primary one first. None states no preference;
            without any preference, the default is this machine.
        has_local: Whether this machine (``local``) can be selected, too.
    """

    name: str
    environments: Sequence[Environment] = ()
    default: Sequence[str] | None = None
    has_local: bool = True
