"""The modes: what each permits, and the settings that change them."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework import ConfigError, Value
from codex_framework.contract.value import field

__all__ = [
    "BUILD",
    "EVERYTHING",
    "STRICTEST",
    "Mode",
    "ModeRestrictions",
    "ModeSettings",
    "Settings",
    "check_names",
    "mode_named",
    "names",
]


class ModeRestrictions(Value, kw_only=True):
    """The restrictions of a mode on the permissions of the thread (wire: ``ModeRestrictions`` of agcodex).

    Attributes:
        allow_file_write: Whether files may be written.
        allow_command_exec: Whether the model may run commands.
        allow_network_access: Whether commands may use the network.
        allow_git_operations: Whether git may change a repository.
        max_file_size: The largest file that may be written, in bytes. None means no limit.
    """

    allow_file_write: bool = True
    allow_command_exec: bool = True
    allow_network_access: bool = True
    allow_git_operations: bool = True
    max_file_size: int | None = None

    def within(self, other: ModeRestrictions) -> ModeRestrictions:
        """Return what both permit."""
        if other is EVERYTHING or self is other:
            return self
        sizes = [size for size in (self.max_file_size, other.max_file_size) if size is not None]
        return ModeRestrictions(
            allow_file_write=self.allow_file_write and other.allow_file_write,
            allow_command_exec=self.allow_command_exec and other.allow_command_exec,
            allow_network_access=self.allow_network_access and other.allow_network_access,
            allow_git_operations=self.allow_git_operations and other.allow_git_operations,
            max_file_size=min(sizes) if sizes else None,
        )

    @property
    def are_any(self) -> bool:
        """Whether anything is restricted."""
        return self is not EVERYTHING and self != EVERYTHING


EVERYTHING = ModeRestrictions()
"""No restriction."""

STRICTEST = ModeRestrictions(
    allow_file_write=False,
    allow_command_exec=False,
    allow_network_access=False,
    allow_git_operations=False,
    max_file_size=0,
)
"""The restrictions of a thread whose mode cannot be found out."""


class Mode(Value):
    """A mode by its name. ``instructions`` are for the model, in addition to the restrictions."""

    name: str
    restrictions: ModeRestrictions
    instructions: str = ""


BUILD = Mode("build", EVERYTHING)
_PLAN = Mode(
    "plan",
    ModeRestrictions(allow_file_write=False, allow_network_access=False, allow_git_operations=False),
    "Explore, and say how you would do it. Others will do it, or you in another mode.",
)
_REVIEW = Mode(
    "review",
    ModeRestrictions(allow_network_access=False, allow_git_operations=False, max_file_size=10_000),
    "Look for defects and say where they are. Fix small ones, and leave larger changes to others.",
)
_BUILT_IN: Mapping[str, Mode] = {mode.name: mode for mode in (_PLAN, BUILD, _REVIEW)}


class ModeSettings(Value, kw_only=True):
    """The table ``[framework.plugins.work_modes.modes.NAME]``: a new mode, or changes to a built-in one.

    Attributes:
        allow_file_write, allow_command_exec, allow_network_access, allow_git_operations: See ``ModeRestrictions``. The default
            is the built-in mode's value, or true.
        max_file_size: The largest file that may be written, in bytes. 0 means no limit.
        instructions: Instructions for the model in addition to the restrictions.
    """

    allow_file_write: bool | None = None
    allow_command_exec: bool | None = None
    allow_network_access: bool | None = None
    allow_git_operations: bool | None = None
    max_file_size: int | None = None
    instructions: str | None = None

    def __attrs_post_init__(self) -> None:
        """Check the size. Raises ValueError."""
        if self.max_file_size is not None and self.max_file_size < 0:
            raise ValueError(f"max_file_size is {self.max_file_size}, which is no size")


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.work_modes]``.

    Attributes:
        mode: The mode in which threads start.
        in_plan_mode: The mode whose restrictions apply in the collaboration mode Plan, too. Empty means none.
        modes: Modes by name.
    """

    mode: str = BUILD.name
    in_plan_mode: str = ""
    modes: Mapping[str, ModeSettings] = field(factory=dict)


def names(settings: Settings) -> list[str]:
    """Return the names of all modes."""
    return sorted({*_BUILT_IN, *settings.modes})


def mode_named(name: str, settings: Settings) -> Mode | None:
    """Return a mode by its name, or None."""
    built_in, table = _BUILT_IN.get(name), settings.modes.get(name)
    if table is None:
        return built_in
    mode = Mode(name, EVERYTHING) if built_in is None else built_in
    given = {
        key: value
        for key in ("allow_file_write", "allow_command_exec", "allow_network_access", "allow_git_operations")
        if (value := getattr(table, key)) is not None
    }
    if table.max_file_size is not None:
        given["max_file_size"] = table.max_file_size or None
    instructions = mode.instructions if table.instructions is None else table.instructions
    return Mode(name, mode.restrictions.evolve(**given), instructions)


def check_names(settings: Settings) -> None:
    """Check that the modes exist that the settings name.

    Raises:
        ConfigError: One does not.
    """
    for key in ("mode", "in_plan_mode"):
        name = getattr(settings, key)
        if name and mode_named(name, settings) is None:
            from codex_framework.toolkit.suggestions import did_you_mean

            known = names(settings)
            raise ConfigError(
                f"there is no work mode {name[:80]!r}",
                key=f"framework.plugins.work_modes.{key}",
                hint=f"{did_you_mean(name, known)}The modes are: {', '.join(known)}.",
            )
