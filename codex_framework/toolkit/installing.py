"""Installing into the environment of this program."""

from __future__ import annotations

import sys

__all__ = ["install_command"]


def install_command(*requirements: str) -> str:
    """Return the command that installs requirements into the environment of this program, whichever installer made it.

    An extra of an installed distribution, such as ``codex-framework[images]``, only installs what is missing. The distribution
    itself is kept, so that it need not be on an index of packages.
    """
    import shlex  # only errors need it
    from importlib.util import find_spec

    python = shlex.quote(sys.executable)
    install = f"{python} -P -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return " ".join([install, *map(shlex.quote, requirements)])
