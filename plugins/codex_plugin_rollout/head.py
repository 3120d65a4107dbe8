"""The head of a thread's file, and the later lines that replace fields of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.roles.stores import CHANGING, ThreadMeta
from codex_plugin_rollout.lines import meta_line

__all__ = ["Head", "changed"]


class Head:
    """The metadata of a thread, for the lines ``session_meta`` of its file.

    Args:
        meta: The metadata.
        begun: Whether the file already exists. The git commit of a new one is looked up.
    """

    def __init__(self, meta: ThreadMeta, *, begun: bool) -> None:
        self._meta = meta
        self._git = meta.git
        self._begun = begun

    def change(self, changes: Mapping[str, str]) -> None:
        """Replace fields of the metadata."""
        self._meta = self._meta.evolve(extra={**self._meta.extra, **changes})

    def line(self) -> bytes:
        """Return the line with the current metadata, with its newline."""
        if self._git is None and not self._begun:
            from codex_plugin_rollout.git import git_facts

            self._git = git_facts(Path(self._meta.cwd)) or {}
        return meta_line(self._meta, self._git, time.time())


def changed(head: Mapping[str, Any], later: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of a head with the fields of a later one, which can change. A head of another thread changes nothing.

    Codex copies the whole head to change a field (measured: ``memory_mode``). A fork contains the heads of its parent.
    """
    fields = {key: later[key] for key in CHANGING & later.keys()}
    return {**head, **fields} if fields and later.get("id") == head.get("id") else head
