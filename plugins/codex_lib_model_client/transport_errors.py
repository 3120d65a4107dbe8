"""Errors raised by the transports, and the time limit that they share."""

from __future__ import annotations

__all__ = ["CONNECT_S", "CutError", "SendError", "SilenceError"]

CONNECT_S = 15.0
"""Time limit in seconds for opening a connection."""


class SendError(Exception):
    """The connection failed, or broke before a response arrived.

    Attributes:
        hint: How to fix it, if the cause is known.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class CutError(Exception):
    """The connection broke during the response."""


class SilenceError(Exception):
    """Nothing arrived within the time limit."""
