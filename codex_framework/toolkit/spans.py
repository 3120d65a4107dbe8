"""The span that measures nothing: the default where telemetry may be absent."""

from __future__ import annotations

from codex_framework.contract.roles.scopes import Trace

__all__ = ["NO_SPAN", "NoSpan", "Place"]

Place = tuple[str, str]
"""The ids of a span: trace id (32 hex digits) and span id (16)."""


class NoSpan:
    """The span without telemetry."""

    trace: Trace | None = None
    place: Place | None = None

    def set(self, **attributes: str | float | bool) -> None:
        """Do nothing."""

    def mark(self, name: str) -> None:
        """Do nothing."""

    def tell(self, **content: str) -> None:
        """Do nothing."""

    def begin(self) -> None:
        """Do nothing."""

    def finish(self, *, failed: bool = False) -> None:
        """Do nothing."""

    def __enter__(self) -> NoSpan:
        return self

    def __exit__(self, *_: object) -> None:
        return None


NO_SPAN = NoSpan()
