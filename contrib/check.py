"""Builds every contrib distribution, installs it beside the kernel in this environment, and runs its tests.

    python contrib/check.py [NAME ...]

Without names it leaves out the launchers on other engines, whose tests start clusters and databases and take five minutes. Name them
after the distributions that their tests use: ``codex_contrib_postgres codex_contrib_dbos codex_contrib_ray``.

Needs `uv` and `pytest`, and an installed codex-framework.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ENGINES = {"codex_contrib_dbos", "codex_contrib_ray"}


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command; end with its status if it fails."""
    print("+", *command, flush=True)
    done = subprocess.run([str(word) for word in command], cwd=cwd, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def check(distribution: Path) -> None:
    """Build a wheel, install it without touching what is installed, run the distribution's tests against it."""
    uv, python = (sys.executable, "-P", "-m", "uv"), ("--python", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        run(*uv, "build", "--quiet", "--wheel", *python, "--out-dir", folder, distribution)
        wheel = next(Path(folder).glob("*.whl"))
        run(*uv, "pip", "install", "--quiet", *python, "--reinstall", "--no-deps", wheel)
        # What its tests need and is not there yet:
        run(*uv, "pip", "install", "--quiet", *python, f"{wheel}[test]")
    run(sys.executable, "-P", "-m", "pytest", "-q", "tests", cwd=distribution)


def main() -> None:
    """Check the named distributions, or all."""
    known = sorted(path.parent.name for path in HERE.glob("*/pyproject.toml"))
    names = sys.argv[1:] or [name for name in known if name not in ENGINES]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"there is no contrib distribution {unknown[0]}")
    found = [HERE / name for name in names]
    for distribution in found:
        check(distribution)


if __name__ == "__main__":
    main()
