"""Problems of plugins that explain why a run cannot start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from codex_framework.contract.errors import CodexError
from codex_framework.loader.registry import Registry
from codex_framework.toolkit.terminal_text import printable

__all__ = ["problems_told"]


@contextmanager
def problems_told(registry: Registry) -> Iterator[None]:
    """Tell of plugins that have failed, if the block fails: what is missing may have been theirs."""
    try:
        yield
    except CodexError:
        for warning in registry.warnings:
            print(f"warning: {printable(warning)}", file=sys.stderr)
        raise
