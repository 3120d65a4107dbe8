"""``codex-framework demo``: an offline agent fixes a small repository, with the real kernel, tools and sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from codex_framework.toolkit.lazy_command import help_group

__all__ = ["main"]

_PREFIX = "codex-framework-demo-run-"
"""The start of the names of folders that are removed at the end, or by the next run. Kept folders are named differently."""

_CODE = '''"""Turn a title into a part of a URL."""


def slug(title: str) -> str:
    """Lower case, words joined by single dashes: "Hello, World!" becomes "hello-world"."""
    return title.lower().replace(" ", "-")
'''

_TESTS = """import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_punctuation_is_dropped(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")


if __name__ == "__main__":
    unittest.main()
"""

_PATCH = '''*** Begin Patch
*** Update File: slug.py
@@
-"""Turn a title into a part of a URL."""
+"""Turn a title into a part of a URL."""
+
+import re


 def slug(title: str) -> str:
     """Lower case, words joined by single dashes: "Hello, World!" becomes "hello-world"."""
-    return title.lower().replace(" ", "-")
+    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
*** End Patch
'''

_PROMPT = "A test in this repository fails. Find out why and fix it."

_STEPS = ("Run the tests", "Read the code", "Fix it", "Run the tests again")

_SUMMARY = (
    "`slug` only replaced spaces, so punctuation stayed in the result. It now keeps runs of letters and digits and joins them"
    " with dashes. Both tests pass."
)


@help_group("Run")
@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the repository and print its path.")
@click.option("--no-sandbox", is_flag=True, help="Run the commands without a sandbox if none works here.")
def main(*, keep: bool, no_sandbox: bool) -> None:
    """Watch an offline agent fix a small repository. No key and no network are needed.

    The model's replies are scripted. Everything else is real: the turn, the tools and the sandbox.
    """
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix="codex-framework-demo-" if keep else _PREFIX))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_SH)
    try:
        fixed = asyncio.run(_run(folder, confined=not no_sandbox))
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(held)
    if keep:
        click.echo(f"The repository is in {folder / 'repository'}.")
    if not fixed:
        raise SystemExit(1)


def _sweep() -> None:
    """Remove the folders of demos that were killed. A running demo has a lock on its folder."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


async def _run(folder: Path, *, confined: bool) -> bool:
    """Play the demo. Return whether the tests pass at the end."""
    from codex_framework import Kernel
    from codex_framework.config import load_config

    repository, home = folder / "repository", folder / "home"
    repository.mkdir()
    home.mkdir()
    (repository / "slug.py").write_text(_CODE)
    (repository / "test_slug.py").write_text(_TESTS)
    script = home / "script.json"
    script.write_text(json.dumps(_script()))
    environ = {**os.environ, "CODEX_HOME": str(home)}
    config = load_config(
        cwd=repository,
        environ=environ,
        flags={
            "model": "demo",
            "model_provider": "demo",
            "model_providers": {"demo": {"name": "demo", "wire_api": "replay", "script": str(script)}},
            "approval_policy": "never",
            "tools": {"update_plan": {"enabled": True}},
            "sandbox_mode": "workspace-write" if confined else "danger-full-access",
        },
    )
    began = time.monotonic()
    async with await Kernel.create(config, environ=environ) as kernel:
        stage = _Stage(sys.stdout, repository)
        if confined:
            stage.line("dim", f"sandbox  {_sandbox(kernel, repository, environ)}")
        thread = await kernel.start_thread(source="cli", ephemeral=True)
        stage.request(_PROMPT)
        async for event in thread.stream(_PROMPT):
            stage.show(event)
    return stage.close(time.monotonic() - began)


def _sandbox(kernel: Any, repository: Path, environ: Mapping[str, str]) -> str:
    """Return the name of the sandbox that will be used, and its level here.

    Raises:
        SandboxError: No sandbox works here; the hint says how to change that.
    """
    from codex_framework.commands.access import file_access
    from codex_framework.commands.confinement import choose
    from codex_framework.contract.errors import SandboxError

    settings = kernel.settings()
    access = file_access(settings.permissions, repository, environ, kernel.deciding)
    try:
        sandbox = choose(kernel.registry.sandboxes, None, access)
    except SandboxError as error:
        hint = f"{error.hint.rstrip('.')}. To watch the demo without a sandbox: codex-framework demo --no-sandbox"
        raise SandboxError(str(error), slug=error.slug, hint=hint) from error
    return f"{sandbox.name} ({sandbox.probe().level}), writing only below the repository, no network"


def _script() -> list[Any]:
    """Return the model's replies (see ``codex_framework.testing.script_files``)."""
    tests = {"cmd": f"{shlex.quote(sys.executable)} -B -m unittest -q 2>&1", "login": False}
    return [
        {
            "output": ["I will start with the tests.", _plan(0), {"call": "exec_command", "arguments": tests}],
            "deltas": 5,
        },
        {
            "output": [
                "One test fails because punctuation is kept. Let me look at `slug`.",
                _plan(1),
                {"call": "exec_command", "arguments": {"cmd": "cat slug.py", "login": False}},
            ],
            "deltas": 8,
        },
        {"output": [_plan(2), {"custom_call": "apply_patch", "input": _PATCH}]},
        {"output": [_plan(3), {"call": "exec_command", "arguments": tests}]},
        {"output": [_plan(4)]},
        {"say": _SUMMARY, "deltas": 24},
    ]


def _plan(current: int) -> dict[str, Any]:
    statuses = ["completed"] * current + ["in_progress"] + ["pending"] * len(_STEPS)
    steps = [{"step": step, "status": status} for step, status in zip(_STEPS, statuses, strict=False)]
    return {"call": "update_plan", "arguments": {"plan": steps}}


_STYLES: Mapping[str, Mapping[str, Any]] = {
    "dim": {"dim": True},
    "bold": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "blue": {"fg": "blue"},
    "plain": {},
}
_MARKS = {"completed": "✓", "in_progress": "→", "pending": "·"}


class _Stage:
    """The demo's output: shows events as they arrive."""

    def __init__(self, out: TextIO, repository: Path) -> None:
        self._out = out
        self._repository = repository
        self._is_live = out.isatty()
        self._diff = ""
        self._last_exit: int | None = None
        self._speaking = False
        self._failure = ""

    def line(self, style: str, text: str) -> None:
        """Print a line."""
        self._end_speech()
        click.secho(text, self._out, **_STYLES[style])

    def request(self, prompt: str) -> None:
        """Print the user's request."""
        self.line("bold", f"you      {prompt}")

    def show(self, event: Any) -> None:
        """Print the content of an event."""
        match event.type:
            case "agent_message_content_delta":
                self._speak(event.delta)
            case "agent_message":
                self._end_speech()
            case "plan_update":
                steps = "  ".join(f"{_MARKS[step.status]} {step.step}" for step in event.plan)
                self.line("blue", f"plan     {steps}")
            case "exec_command_end":
                self._command(event)
            case "patch_apply_end":
                for path in event.changes:
                    self.line(
                        "good" if event.success else "bad", f"patch    M {Path(path).relative_to(self._repository)}"
                    )
            case "turn_diff":
                self._diff = event.unified_diff
            case "warning" if not event.message.startswith("Model metadata"):
                self.line("dim", f"warning  {event.message}")
            case "error":
                self._failure = event.message
                self.line("bad", f"error    {event.message}")

    def close(self, seconds: float) -> bool:
        """Print the diff and the outcome. Return whether the tests pass."""
        self.line("plain", "")
        for text in self._diff.splitlines():
            style = {"+": "good", "-": "bad"}.get(text[:1], "dim")
            self.line("dim" if text.startswith(("+++", "---")) else style, text)
        self.line("plain", "")
        fixed = self._last_exit == 0 and not self._failure
        outcome = "the tests pass" if fixed else "the tests do not pass"
        self.line("good" if fixed else "bad", f"{outcome}, after {seconds:.1f} s")
        return fixed

    def _command(self, event: Any) -> None:
        self._last_exit = event.exit_code
        shown = event.parsed_cmd[0]["cmd"].replace(shlex.quote(sys.executable), "python")
        self.line("bold", f"exec     {shown}")
        for text in event.aggregated_output.splitlines():
            self.line("dim", f"         {text}")
        style = "good" if event.exit_code == 0 else "bad"
        self.line(style, f"         exit code {event.exit_code}, {event.duration_s * 1000:.0f} ms")

    def _speak(self, delta: str) -> None:
        if not self._speaking:
            self._out.write("agent    ")
        self._speaking = True
        self._out.write(delta)
        self._out.flush()
        if self._is_live:  # on a terminal, text appears at the pace of a model
            time.sleep(0.02)

    def _end_speech(self) -> None:
        if self._speaking:
            self._speaking = False
            self._out.write("\n")
