"""Log messages of servers: they go to Python's logging, at their own level, and nowhere else."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from codex_plugin_mcp.texts import plain

__all__ = ["LEVELS", "ServerLog", "level_of"]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of the protocol, lowest first."""

_PYTHON = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_MAX_LENGTH = 4_000
_MAX_PER_SECOND = 50
"""How many messages of a server are logged in a second. The rest is counted."""

logger = logging.getLogger("codex_plugin_mcp.servers")


def level_of() -> str:
    """Return the level to request from servers: the level of Python's logging."""
    effective = logger.getEffectiveLevel()
    if effective <= logging.DEBUG:
        return "debug"
    if effective <= logging.INFO:
        return "info"
    return "warning" if effective <= logging.WARNING else "error"


class ServerLog:
    """The log messages of one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._second = 0
        self._count = 0

    async def message(self, params: Mapping[str, Any]) -> None:
        """Take ``notifications/message``."""
        level = _PYTHON.get(
            str(params.get("level")), logging.CRITICAL if params.get("level") in LEVELS else logging.INFO
        )
        if not logger.isEnabledFor(level) or self._too_many():
            return
        name = params.get("logger")
        data = params.get("data")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        where = f"{self._server}/{plain(name, 80)}" if isinstance(name, str) and name else self._server
        logger.log(level, "%s: %s", where, " ".join(plain(text, _MAX_LENGTH).split()))

    def _too_many(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            skipped, self._second, self._count = self._count - _MAX_PER_SECOND, second, 0
            if skipped > 0:
                logger.warning("%s: %d more messages within a second were left out", self._server, skipped)
        self._count += 1
        return self._count > _MAX_PER_SECOND
