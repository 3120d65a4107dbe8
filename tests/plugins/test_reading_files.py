"""How plugins and the command line open files that they read: a pipe must not block them, and a device must not fill the memory."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_framework import ThreadError
from codex_framework.threads.user_input import check_image, data_url
from codex_framework.toolkit.regular_files import read_regular

ROOT = Path(__file__).parents[2]

BY_PATH = {
    "codex_framework/cli/config_edit.py": "a copy that it has made itself",
    "codex_framework/cli/exec.py": "a schema that the user names, which may be a pipe",
    "codex_framework/cli/own_modules.py": "code of the installation",
    "codex_framework/cli/plugin_installation.py": "metadata of the environment and its distributions",
    "codex_framework/cli/plugins.py": "metadata of an installed distribution",
    "plugins/codex_client_doctor/update.py": "metadata of the installed distribution",
    "plugins/codex_plugin_app_server/methods/fs.py": "a folder that a client names; a function of its own copies regular files",
    "plugins/codex_plugin_app_server/schema.py": "a file of the plugin",
    "plugins/codex_plugin_guardian/prompt.py": "a file of the plugin",
    "plugins/codex_plugin_landlock/jail/ending.py": "/proc",
    "plugins/codex_plugin_landlock/jail/launcher.py": "/proc",
    "plugins/codex_plugin_landlock/jail/limits.py": "/proc",
    "plugins/codex_plugin_landlock/jail/namespaces.py": "/proc",
    "plugins/codex_plugin_landlock/jail/system.py": "/proc",
    "plugins/codex_plugin_landlock/jail/trial.py": "/dev/null, from within a sandbox",
    "plugins/codex_plugin_landlock/probe.py": "/proc",
    "plugins/codex_plugin_mcp/pace.py": "/proc",
    "plugins/codex_plugin_otel/worker/exporters.py": "certificates that the user names",
    "plugins/codex_plugin_rollout/writer_lock.py": "/proc",
    "plugins/codex_plugin_seatbelt/families.py": "/proc",
    "plugins/codex_plugin_trace/page/document.py": "files of the plugin",
    "plugins/codex_plugin_undo/placing.py": "what git has written into a folder of the plugin's own",
    "plugins/codex_plugin_undo/snapshots.py": "an index in a folder of the plugin's own",
    "plugins/codex_lib_model_client/headers.py": "/etc/os-release",
}
"""The modules that read files by their paths alone, and what they read. Nothing of it belongs to a workspace.

What belongs to a workspace is opened by ``Files``, or with ``opener=open_regular``.
"""

WORDS = ("open", "shutil", "read_text", "read_bytes")
"""Without one of them, a module opens no file by its path."""

READS = {"copyfile", "copy", "copy2", "copytree"}


def test_files_are_opened_only_if_they_are_regular_ones() -> None:
    found = Counter(module for module, _ in _plain_reads())
    assert set(found) == set(BY_PATH), sorted(
        f"{module}:{line}" for module, line in _plain_reads() if module not in BY_PATH
    )


def _plain_reads() -> Iterator[tuple[str, int]]:
    for folder in ("plugins", "codex_framework/cli"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text("utf-8")
            if any(word in text for word in WORDS):  # parsing all modules takes seconds
                yield from (
                    (str(path.relative_to(ROOT)), node.lineno)  # type: ignore[attr-defined]  # an expression
                    for node in ast.walk(ast.parse(text))
                    if _reads_by_path(node)
                )


def _reads_by_path(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name("open")):
            return not any(word.arg == "opener" for word in node.keywords) and not _is_open_already(node)
        case ast.Attribute(value=ast.Name("shutil"), attr=name):  # also if it is handed on and not called
            return name in READS
        case ast.Attribute(attr="read_text" | "read_bytes"):
            return True
    return False


def _is_open_already(call: ast.Call) -> bool:
    """Return whether the call gets a descriptor: of ``Files`` or ``os``, or one that it does not own."""
    return ast.unparse(call.args[0]) in ("descriptor", "kept", "1", "2") or ".open(" in ast.unparse(call.args[0])


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 10)
    assert read_regular(file, 10) == b"x" * 10
    with pytest.raises(OSError, match="it has more than 9 bytes"):
        read_regular(file, 9)


def test_devices_and_pipes_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_regular(path, 10)


def test_an_image_is_a_regular_file_of_limited_size(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    check_image(tmp_path / "image.png")
    assert data_url(tmp_path / "image.png").startswith("data:image/png;base64,")
    with (tmp_path / "large.png").open("wb") as large:
        large.write(b"\x89PNG\r\n\x1a\n")
        large.truncate(64 * 1024 * 1024 + 1)
    for name, fact in (("pipe", "it is not a regular file"), ("large.png", "it has more than 67,108,864 bytes")):
        for read in (check_image, data_url):
            with pytest.raises(ThreadError, match=fact):
                read(tmp_path / name)
