"""The language of profiles as a module of its own, and a stand-in for ``sandbox-exec``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)  # the stand-in, a program of its own, imports the same module

LINKS = {"/etc": "/private/etc", "/tmp": "/private/tmp", "/var": "/private/var"}


def mac_path(path: str) -> str:
    """The links that every Mac has at its root."""
    for link, target in LINKS.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path[len(link) :]
    return path


@pytest.fixture
def as_on_a_mac() -> Callable[[str], str]:
    return mac_path
