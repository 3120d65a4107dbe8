"""OAuth for servers that are reached over HTTP: login, refresh, and where tokens are kept."""

from __future__ import annotations
