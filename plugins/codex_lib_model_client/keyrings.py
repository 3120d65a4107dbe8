"""Secrets in the system's keyring, through the package ``keyring``, in entries that other programs write too."""

from __future__ import annotations

import sys
from typing import Protocol, cast

__all__ = ["Keyring", "delete_entries", "installed_keyring", "store_entry"]

_MOST_ENTRIES = 8


class Keyring(Protocol):
    """The functions of the package ``keyring`` that are used. They may raise anything."""

    def get_password(self, service_name: str, username: str) -> str | None:
        """Return a secret, or None if the keyring has no such entry."""
        ...

    def set_password(self, service_name: str, username: str, password: str) -> None:
        """Store a secret."""
        ...

    def delete_password(self, service_name: str, username: str) -> None:
        """Delete a secret."""
        ...


def installed_keyring() -> Keyring | None:
    """Return the package ``keyring`` if it is installed and has a backend that can store something."""
    try:
        import keyring  # type: ignore[import-not-found,unused-ignore]
        from keyring.backends import fail, null  # type: ignore[import-not-found,unused-ignore]

        backend = keyring.get_keyring()
    except Exception:  # it is not installed, or its configuration is broken
        return None
    return None if isinstance(backend, (fail.Keyring, null.Keyring)) else cast("Keyring", keyring)


def store_entry(keyring: Keyring, service: str, name: str, text: str) -> None:
    """Store a secret in place of all earlier ones of this name.

    The Secret Service of Linux keeps entries of one name apart if they have other attributes. Codex's entries have ``target``
    and another ``application`` (measured with Codex 0.169). So the package would add a second entry, and both programs would
    continue to read Codex's.
    """
    if sys.platform.startswith("linux"):
        delete_entries(keyring, service, name)
    keyring.set_password(service, name, text)


def delete_entries(keyring: Keyring, service: str, name: str) -> bool:
    """Delete all entries of a name. Returns whether there was one.

    Raises:
        RuntimeError: There is still one after many deletions, so the keyring does not delete them.
    """
    for number in range(_MOST_ENTRIES + 1):
        if keyring.get_password(service, name) is None:
            return number > 0
        if number < _MOST_ENTRIES:
            keyring.delete_password(service, name)
    raise RuntimeError("the keyring still has an entry")
