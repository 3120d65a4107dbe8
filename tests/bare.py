"""Checks an installation without extras, and a kernel without plugins. Run as a script: nothing but the wheel is needed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def command(*arguments: str, home: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command with an empty home."""
    program = Path(sys.executable).with_name("codex-framework")
    env = {"CODEX_HOME": home, "PATH": "/usr/bin:/bin", "HOME": home}
    return subprocess.run([program, *arguments], capture_output=True, text=True, env=env, check=False)


def check_plugins(home: str) -> None:
    """Every bundled plugin loads with the required dependencies alone, or says what it lacks."""
    done = command("plugins", "--json", home=home)
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    reports = reports["plugins"] if isinstance(reports, dict) else reports
    broken = [report for report in reports if report["status"] not in ("loaded", "disabled")]
    assert broken == [], broken
    print(f"{len(reports)} plugins load without extras")


async def check_kernel_without_plugins(home: str) -> None:
    """A kernel with no plugin starts, and says what it lacks."""
    from codex_framework import Kernel
    from codex_framework.config import load_config

    config = load_config(cwd=Path(home), environ={"CODEX_HOME": home})
    async with await Kernel.create(config, entry_points=()) as kernel:
        assert not kernel.registry.tools
        result = await (await kernel.start_thread()).run("Hello?")
        assert result.status == "failed", result.status
        error = result.failure
        assert error is not None
        assert error.hint, "an error says what to do"
        print(f"a kernel without plugins says: {error}. {error.hint}")


def main() -> None:
    """Run all checks."""
    with tempfile.TemporaryDirectory() as home:
        check_plugins(home)
        asyncio.run(check_kernel_without_plugins(home))
        demo = command("demo", home=home)
        assert demo.returncode == 0, demo.stdout + demo.stderr
        print("the demo runs without extras")


if __name__ == "__main__":
    main()
