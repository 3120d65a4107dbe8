"""The reading of roles from their files."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework import Agent, ApprovalPolicy, ConfigLayer, Value
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.toolkit.files import Files, NotPermittedError

__all__ = ["MAX_FILES", "MAX_SIZE", "Role", "Roles", "read_roles"]

MAX_SIZE = 1 << 20
MAX_FILES = 1000
"""The limits: bytes in a file, and files in a folder with those below it."""

_MAX_DEPTH = 6
_FOLDER = "agents"
_ENDING = ".toml"

_MODES = {"read-only": ":read-only", "workspace-write": ":workspace", "danger-full-access": ":danger-full-access"}
_USED = frozenset(
    (
        *("name", "description", "nickname_candidates", "developer_instructions", "model", "model_reasoning_effort"),
        *("model_instructions_file", "sandbox_mode", "default_permissions", "approval_policy"),
    )
)
_TEXTS = _USED - {"nickname_candidates"}


class _RoleFileError(Exception):
    """A file cannot be used. Its text says why."""


class Role(Value, kw_only=True):
    """A role.

    Attributes:
        instructions: Its developer instructions. May be empty.
    """

    agent: Agent[Any]
    instructions: str = ""


class Roles(Value, kw_only=True):
    """The roles of a configuration.

    Attributes:
        problems: The unused parts, as sentences for the user.
    """

    roles: Sequence[Role]
    problems: Sequence[str] = ()


def read_roles(layers: Sequence[ConfigLayer], codex_home: Path) -> Roles:
    """Read the roles of all layers. Roles of a layer replace roles with the same name of lower layers."""
    reader = _Reader(codex_home)
    for layer in reversed(layers):
        reader.read(layer)
    return Roles(roles=list(reader.roles.values()), problems=reader.problems)


class _Reader:
    def __init__(self, codex_home: Path) -> None:
        self._codex_home = codex_home
        self.roles: dict[str, Role] = {}
        self.problems: list[str] = []

    def read(self, layer: ConfigLayer) -> None:
        own: dict[str, str] = {}
        for path, key, table in self._files(layer):
            try:
                role = self._role(path, key, table)
            except _RoleFileError as error:
                self.problems.append(f"the agent role in {path} is not used: {error}")
                continue
            name = role.agent.name
            if name in own:
                self.problems.append(f"the agent role in {path} is not used: {own[name]} has the same name {name!r}")
            elif name not in self.roles:
                self.roles[name] = role
            own.setdefault(name, path)

    def _files(self, layer: ConfigLayer) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield the files of a layer, each with the name and the table that refer to it, if any."""
        agents = layer.table.get("agents")
        base = Path(layer.path).parent if layer.path.startswith("/") else self._codex_home
        for key, table in agents.items() if isinstance(agents, Mapping) else ():
            given = table.get("config_file") if isinstance(table, Mapping) else None
            if isinstance(given, str):
                yield str(base / home_expanded(given)), key, table
        if layer.folder is not None:
            found = self._found(str(layer.folder / _FOLDER), _MAX_DEPTH)
            for number, path in enumerate(found):
                if number == MAX_FILES:
                    self.problems.append(f"only {MAX_FILES} agent roles in {layer.folder / _FOLDER} are used")
                    break
                yield path, "", {}

    def _found(self, folder: str, depth: int) -> Iterator[str]:
        """Yield the files below a folder. Symlinks to folders are not followed."""
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.problems.append(f"the agent roles in {folder} are not used: {error.strerror or error}")
            return
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                if depth:
                    yield from self._found(entry.path, depth - 1)
            elif entry.name.endswith(_ENDING) and not entry.name.startswith("."):
                yield entry.path

    def _role(self, path: str, key: str, entry: Mapping[str, Any]) -> Role:
        table = _read(path)
        for name in _TEXTS & table.keys():
            if not isinstance(table[name], str):
                raise _RoleFileError(f"its `{name}` is not text")
        name = str(table.get("name") or key).strip()
        if not name:
            raise _RoleFileError("it has no `name`")
        description = str(entry.get("description") or table.get("description") or "").strip()
        if not description:
            raise _RoleFileError("it has no `description`")
        instructions = str(table.get("developer_instructions", "")).strip()
        if not instructions and not key:
            raise _RoleFileError("it has no `developer_instructions`")
        idle = sorted(table.keys() - _USED)
        if idle:
            self.problems.append(f"{path}: these settings have no effect in an agent role: {', '.join(idle)}")
        agent: Agent[Any] = Agent(name=name, description=description, **_settings(path, table))
        return Role(agent=agent, instructions=instructions)


def _settings(path: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the agent that a role sets."""
    mode, policy = table.get("sandbox_mode"), table.get("approval_policy")
    if mode is not None and mode not in _MODES:
        raise _RoleFileError(f"its `sandbox_mode` is {mode!r}, not one of: {', '.join(_MODES)}")
    if policy is not None and policy not in set(ApprovalPolicy):
        raise _RoleFileError(f"its `approval_policy` is {policy!r}, not one of: {', '.join(ApprovalPolicy)}")
    file = table.get("model_instructions_file")
    found = {
        "model": table.get("model"),
        "reasoning_effort": table.get("model_reasoning_effort"),
        "permissions": _MODES[mode] if mode is not None else table.get("default_permissions"),
        "approval_policy": policy,
        "instructions": None if file is None else _text(str(Path(path).parent / home_expanded(file))),
    }
    return {name: value for name, value in found.items() if value is not None}


def _read(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _RoleFileError(f"it is not TOML: {str(error).partition(chr(10))[0]}") from error


def _text(path: str) -> str:
    try:
        data = Files().read(path, MAX_SIZE + 1)
    except NotPermittedError:
        raise _RoleFileError(f"{path} may not be read") from None
    except (OSError, ValueError) as error:
        raise _RoleFileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_SIZE:
        raise _RoleFileError(f"{path} has more than {MAX_SIZE >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _RoleFileError(f"{path} is not UTF-8: the byte at position {error.start} does not fit") from error
