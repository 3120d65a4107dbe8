"""The code of the launcher and of the processes in the sandbox. It uses only the standard library and runs as ``python -I -S``.

Nothing here imports ``codex_framework``. Imports within this package are relative, because the launcher finds the package by
its folder and not among the installed packages.
"""

from __future__ import annotations
