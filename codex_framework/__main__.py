"""``python -m codex_framework``: the command ``codex-framework``, run by a chosen interpreter."""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109  # nothing is imported for it
    del sys.path[0]  # `python -m` has put the working folder there, and commands may write modules into it

from codex_framework.cli.entry import run

if __name__ == "__main__":
    raise SystemExit(run())
