"""Installs the real Codex with npm into a folder: ``codex.py FOLDER``. The program is then ``FOLDER/codex``.

Where npm cannot install it, this says why, and the tests beside Codex are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "0.171.0"


def install(folder: Path) -> str:
    """Install Codex. Return why this is impossible, or ``""``."""
    program = folder / "codex"
    if program.exists() and subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False
    ).stdout.split()[-1:] == [VERSION]:
        return ""
    program.unlink(missing_ok=True)
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm"
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", folder, f"@openai/codex@{VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    except subprocess.TimeoutExpired:
        return "npm did not end within 180 s"
    # The binary itself and not the script before it, because many tests start it without PATH.
    found = next(folder.glob("node_modules/@openai/codex-*/vendor/*/bin/codex"), None)
    if found is None:
        return f"npm did not install it: {done.stderr.strip()[-500:]}"
    program.symlink_to(found)
    return ""


if reason := install(Path(sys.argv[1]).absolute()):
    print(f"The tests beside Codex {VERSION} are skipped: {reason}")
