"""Runs mypy and pyright at the same time, since each uses one core; ends with a failure if one of them does.

python tests/typing/check.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRIB = sorted(map(str, ROOT.glob("contrib/*/src")))
CHECKERS = {
    "mypy": ("codex_framework", "plugins", *CONTRIB, "tests/typing"),
    "pyright": ("--pythonpath", sys.executable),
}


def main() -> int:
    """Run both; print what each says, as it ends."""
    running = {
        name: subprocess.Popen(
            [sys.executable, "-P", "-m", name, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, arguments in CHECKERS.items()
    }
    failed = False
    for name, process in running.items():
        output, _ = process.communicate()
        print(f"{name}: {output.strip()}", flush=True)
        failed |= process.returncode != 0
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
