"""``python -m codex_plugin_apply_patch``: the ``apply_patch`` command."""

from __future__ import annotations

import sys

from codex_plugin_apply_patch.standalone import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
