"""The command line: ``codex-framework`` and ``cxf``."""

from __future__ import annotations
