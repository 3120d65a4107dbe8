"""The tutorial, done word for word: its files are written, its commands run in a fresh environment, its output compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial" / "first-tool.md"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)


@attrs.frozen
class Command:
    """A command and what the page shows of its output; None: nothing is shown."""

    line: str
    shown: str | None


@attrs.frozen
class File:
    """A file that the reader writes."""

    path: str
    text: str


def steps(page: str) -> list[Command | File]:
    found: list[Command | File] = []
    for kind, title, text in BLOCK.findall(page):
        if title:
            found.append(File(title, text))
        elif kind == "console":
            found += commands(text)
        else:
            raise AssertionError(f"a {kind} block is neither a file nor a session:\n{text}")
    return found


def commands(session: str) -> list[Command]:
    parts = re.split(r"^\$ (.*)\n", session, flags=re.M)[1:]
    return [Command(line, shown or None) for line, shown in zip(parts[::2], parts[1::2], strict=True)]


def script(todo: list[Command | File]) -> str:
    """One shell session; what each command prints stands between markers with its number."""
    lines = []
    for number, step in enumerate(todo):
        if isinstance(step, File):
            lines += [f"mkdir -p {shlex.quote(os.path.dirname(step.path) or '.')}"]  # noqa: PTH120
            lines += [f"cat > {shlex.quote(step.path)} <<'END OF FILE'\n{step.text}END OF FILE"]
        else:
            lines += [f"echo; echo '>>> {number}'", step.line, f"status=$?; echo; echo '<<< {number}' $status"]
    return "\n".join(lines)


def matches(shown: str, came: str) -> bool:
    """Whether the output is what the page shows; ``...`` there stands for any text, alone on a line for any lines."""
    pattern = re.sub(r"^(\\\.){3}\\?\n", r"(?:.*\\n)?", re.escape(shown.strip()), flags=re.M)
    pattern = pattern.replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, came.strip(), re.S) is not None


def test_shown_output_is_compared():
    assert matches("a\nb.c\n", "a\nb.c\n\n")
    assert matches("...\n3 passed in ...s\n", "...   [100%]\n3 passed in 0.03s\n")
    assert matches("...\nlast\n", "last")
    assert not matches("a\nb.c\n", "a\nbxc")
    assert not matches("3 passed in ...s", "2 passed in 0.1s")


@pytest.fixture
def env(tmp_path: Path, kernel_wheel: Path) -> dict[str, str]:
    """An environment in which `pip install codex-framework` means the wheel under test."""
    constraint = tmp_path / "constraint.txt"
    constraint.write_text(f"codex-framework @ {kernel_wheel.resolve().as_uri()}\n")
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "HTTP", "http"))}
    return {
        **kept,
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PIP_CONSTRAINT": str(constraint),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "LANG": "C.UTF-8",
    }


def test_every_step_of_the_tutorial_does_what_the_page_shows(tmp_path, env):
    todo = steps(TUTORIAL.read_text(encoding="utf-8"))
    place = tmp_path / "reader"
    place.mkdir()
    done = subprocess.run(
        ["/bin/bash", "-c", script(todo)],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    for number, step in enumerate(todo):
        if isinstance(step, File):
            continue
        found = re.search(rf"^>>> {number}\n(.*?)^<<< {number} (\d+)$", done.stdout, re.S | re.M)
        assert found, f"`{step.line}` was not reached:\n{done.stdout}\n{done.stderr}"
        came, status = found[1], int(found[2])
        if status and step.line.startswith("pip install"):
            pytest.skip(f"pip cannot install here: {done.stderr.strip().splitlines()[-1:]}")
        assert status == 0, f"`{step.line}` failed:\n{came}\n{done.stderr}"
        if step.shown is not None:
            assert matches(step.shown, came), f"`{step.line}` is shown as\n{step.shown}\nand gives\n{came}"


def test_the_page_has_files_and_commands_of_every_kind():
    todo = steps(TUTORIAL.read_text(encoding="utf-8"))
    files = [step.path for step in todo if isinstance(step, File)]
    assert {"find_todos.py", "pyproject.toml", "test_find_todos.py"} <= set(files)
    assert sum(isinstance(step, Command) for step in todo) >= 15
