"""Problems that prevent sending telemetry, in one line for the user."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from typing import BinaryIO

__all__ = ["Problems"]

_LONGEST = 200


class Problems(logging.Handler):
    """Receives the warnings of the SDK, and reports the first failure to the kernel.

    Args:
        out: The stream that the kernel reads.
        secrets: Texts that are never reported.
    """

    def __init__(self, out: BinaryIO, secrets: Iterable[str] = ()) -> None:
        super().__init__(logging.WARNING)
        self._out = out
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)
        self._lock = threading.Lock()
        self._told = False
        self._reason = ""
        self.endpoints: dict[str, str] = {}
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the reason of a failure."""
        reason = _reason(record)
        if reason:
            self._reason = reason

    def failed(self, signal: str) -> None:
        """Report that a batch was not accepted, if it is the first."""
        self._tell(signal, self._reason or "the collector did not accept it")

    @property
    def hopeless(self) -> bool:
        """Whether no connection could be made, so that waiting would not help."""
        return self._reason in _HOPELESS

    def late(self) -> None:
        """Report that the rest could not be sent in time."""
        self._tell(next(iter(self.endpoints), ""), self._reason or "no answer in time")

    def odd(self, name: str, error: Exception) -> None:
        """Report a measurement that could not be exported. The text of the error may contain its content."""
        self._say(f"the measurement {name!r} could not be exported ({type(error).__name__})")

    def unusable(self, error: Exception) -> None:
        """Report that the exporters could not be made."""
        self._say(f"telemetry is not sent, because its exporters cannot be made: {type(error).__name__}: {error}")

    def _tell(self, signal: str, reason: str) -> None:
        self._say(f"telemetry could not be sent to {self.endpoints.get(signal, 'the collector')} ({signal}): {reason}")

    def _say(self, text: str) -> None:
        with self._lock:
            if self._told:
                return
            self._told = True
        for secret in self._secrets:
            text = text.replace(secret, "***")
        self._out.write(_line(text).encode("utf-8", "replace") + b"\n")
        self._out.flush()


def _reason(record: logging.LogRecord) -> str:
    """Return the essence of a message of the SDK: a status, or why no connection was made."""
    text = record.getMessage()
    if match := re.search(r"code: (\d+), reason: (.*)", text, re.DOTALL):
        return f"HTTP status {match[1]} {match[2]}"
    if match := re.search(r"StatusCode\.([A-Z_]+)", text):
        return f"gRPC status {match[1]}"
    for sign, meaning in _SIGNS:
        if re.search(sign, text, re.IGNORECASE):
            return meaning
    return ""


_REFUSED, _UNTRUSTED, _UNKNOWN = "connection refused", "the TLS connection failed", "the host name is unknown"
_HOPELESS = (_REFUSED, _UNTRUSTED, _UNKNOWN, "gRPC status UNAVAILABLE")

_SIGNS = (
    ("refused", _REFUSED),
    ("certificate|ssl", _UNTRUSTED),
    ("timed? ?out", "the collector did not answer in time"),
    ("name or service|resolve|getaddrinfo", _UNKNOWN),
    ("connection|protocol", "the connection failed"),
)


def _line(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."
