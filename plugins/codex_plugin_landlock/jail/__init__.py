"""The code of the launcher and of the processes in the sandbox. It runs as ``python -I -S``, so it needs only the standard library.

It also imports :mod:`codex_lib_confinement`, which also needs only the standard library. Imports within this package are
relative, so that it works from its folder alone, without the plugin's package.
"""

from __future__ import annotations
