"""How a transport fails, and the time limits that all of them keep."""

from __future__ import annotations

__all__ = ["CONNECT_S", "HEAD_SILENCE_S", "BadAnswerError", "CutError", "SendError", "SilenceError"]

HEAD_SILENCE_S = 300.0
CONNECT_S = 15.0
"""Time limit in seconds for opening a connection."""


class SendError(Exception):
    """The connection failed, or broke before a response arrived."""


class CutError(Exception):
    """The connection broke during the response."""


class SilenceError(Exception):
    """Nothing arrived within the time limit."""


class BadAnswerError(Exception):
    """The data is not a valid HTTP response."""
