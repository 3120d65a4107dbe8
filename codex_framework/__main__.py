"""``python -m codex_framework``: the command ``codex-framework``, run by a chosen interpreter."""

from __future__ import annotations

from codex_framework.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
