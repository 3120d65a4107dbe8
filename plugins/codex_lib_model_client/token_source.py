"""The protocol of bearer tokens that change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["TokenSource"]


class TokenSource(Protocol):
    """Provides bearer tokens: of a program, or of a login.

    A source of tokens for another scheme than ``Bearer`` has its word as the attribute ``scheme``.
    """

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that requests need besides the token. Read them after the token."""
        ...

    @property
    def refused_hint(self) -> str:
        """How to recover if a server refuses even a new token. Empty if there is no useful advice."""
        ...

    async def token(self, *, refused: str = "") -> str:
        """Return the token.

        Args:
            refused: The token that a server has just refused. If it is the current one, it is replaced.

        Raises:
            ModelError: No token can be obtained.
        """
        ...
