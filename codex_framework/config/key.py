"""A setting of the configuration: everything that is known of it, so that no list elsewhere can miss it."""

from __future__ import annotations

import enum

from codex_framework.contract.value import Value

__all__ = ["AtMost", "Effect", "Key", "Lifetime", "Projects"]


class Effect(enum.Enum):
    """Whether a key has an effect in this distribution."""

    USED = enum.auto()
    ACCEPTED = enum.auto()
    """It has no effect. Codex supports it, so it is not an error."""
    INTERFACE = enum.auto()
    """It has no effect, and does not change what an agent does, so no warning is needed."""
    REFUSED = enum.auto()
    """It is an error where it would be used, because ignoring it would do something else than was asked for."""


class Projects(enum.Enum):
    """The files of a trusted project that can set a key. Commands of an agent may write into some of them."""

    NEVER = enum.auto()
    """None: it names servers and programs that can see everything, selects the login, lets a server read the web, selects code
    to load, or weakens what protects the user from commands.
    """
    TRUSTED = enum.auto()
    """The file of a folder that is trusted itself."""
    ANY = enum.auto()
    """The file of any folder in it. With such a key, a command that writes the file gains nothing in a later session."""


class AtMost(Value):
    """A limit of the user's that the file of a folder that is trusted itself can lower.

    Attributes:
        default: The limit without a setting.
    """

    default: int


class Lifetime(enum.Enum):
    """How long a value of a key lasts."""

    KERNEL = enum.auto()
    """It is read once, when a kernel is made."""
    THREAD = enum.auto()
    """It is read when a thread is made."""
    TURN = enum.auto()
    """It can change in a running thread. None of these keys affects the permissions of commands."""


class Key(Value):
    """A setting.

    Attributes:
        type: The type, in the notation of the schema. It also states whether a value is a secret or a path.
        meaning: A description of one line.
        default: The default in TOML notation, or an empty string.
    """

    type: str
    effect: Effect
    projects: Projects | AtMost
    lasts: Lifetime
    meaning: str
    default: str = ""

    @property
    def has_effect(self) -> bool:
        """Whether the key has an effect here."""
        return self.effect is Effect.USED
