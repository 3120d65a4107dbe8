"""Puts the address of the repository into the metadata, from git's remote: clones and forks then name themselves."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class RepositoryAddress(MetadataHookInterface):
    """Sets ``[project.urls]``. A build without a public remote has none."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``urls``."""
        metadata["urls"] = {}
        if not (Path(self.root) / ".git").exists():
            return
        command = ["git", "-C", self.root, "remote", "get-url", "origin"]
        try:
            remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        except OSError:
            return
        found = re.fullmatch(r"(?:https://(?:[^@/]*@)?|git@|ssh://git@)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?", remote)
        if found:
            address = f"https://{found[1]}/{found[2]}"
            metadata["urls"] = {
                "Repository": address,
                "Issues": f"{address}/issues",
                "Documentation": f"{address}/blob/HEAD/docs/index.md",
            }
