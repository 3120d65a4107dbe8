"""What runs in the launcher and inside the sandbox: the standard library only, started as ``python -I -S``.

Nothing here imports ``codex_framework``; modules import each other relatively, because the launcher finds this package by its
folder and not by its place among the installed packages.
"""

from __future__ import annotations
