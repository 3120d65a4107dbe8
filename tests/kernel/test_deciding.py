"""What decides, in a kernel: the places that it holds back from its commands and tools."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import codex_framework
from codex_framework import FunctionSpec, ToolCall, ToolContext, ToolOutput, ToolRefused
from codex_framework.commands.programs import ProgramFolder
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.permissions import AbsolutePath, AccessMode, AdditionalPermissions, FileEntry
from codex_framework.testing import KernelFactory
from codex_framework.testing.replies import call, say

PLUGIN = """
from codex_framework import hookimpl

@hookimpl
def codex_tools():
    return []
"""


class Look:
    """Which paths the turn may write; with ``ask``, first asks for the permission to write them."""

    spec = FunctionSpec("look", "Looks.", {"type": "object", "properties": {}, "additionalProperties": True})

    def __init__(self, *paths: Path, ask: bool = False) -> None:
        self._paths = paths
        self._ask = ask

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        if self._ask:
            entries = tuple(FileEntry(AbsolutePath(str(path)), AccessMode.WRITE) for path in self._paths)
            try:
                await context.request_permissions(AdditionalPermissions(entries))
            except ToolRefused as error:
                return ToolOutput(str(error))
        return ToolOutput("".join("w" if context.access.may_write(path) else "-" for path in self._paths))


def looked(work: Path, look: Look, config: str, **settings: object) -> str:
    async def main() -> str:
        factory = KernelFactory(work / "home", work)
        replies = [call("look"), say("done")]
        async with factory(replies, tools=[look], config=config, plugins=[work / "one_file.py"]) as kernel:
            thread = await kernel.start_thread(**settings)
            await thread.run("go")
            (output,) = [item for item in thread.history.items if isinstance(item, FunctionCallOutput)]
            return str(output.output)

    return asyncio.run(asyncio.wait_for(main(), 60))


def placed(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    for folder in ("home", "project", "other"):
        (work / folder).mkdir(parents=True)
    (work / "one_file.py").write_text(PLUGIN)
    return work


def test_a_kernel_holds_back_its_home_its_code_its_plugins_and_trusted_projects(tmp_path: Path):
    work = placed(tmp_path)
    paths = [
        *(work / "home" / "rules" / "x.rules", work / "home" / "config.toml", work / "one_file.py"),
        *(work / "project" / ".codex" / "config.toml", Path(sys.prefix) / "bin" / "new", Path(os.__file__)),
        *(Path(codex_framework.__file__).parent / "new.py", Path(sys.executable)),
        *(work / "file", work / "project" / "file", work / "other" / ".codex" / "config.toml"),
    ]
    config = f"""
default_permissions = "all"
permissions.all.filesystem."/" = "write"
projects."{work}/project".trust_level = "trusted"
"""
    assert looked(work, Look(*paths), config) == "--------www"


def test_nobody_is_asked_for_the_permission_to_write_what_decides(tmp_path: Path):
    work = placed(tmp_path)
    rules = work / "home" / "rules"
    config = 'sandbox_mode = "workspace-write"\n'
    said = looked(work, Look(rules, ask=True), config, approval_policy="on-request")
    assert said == f"permissions refused: {rules} decides what may be done, or leads there, and stays read-only"


def test_the_programs_of_a_read_only_home_are_in_a_folder_that_is_held_back(tmp_path: Path):
    home = tmp_path / "home"
    assert ProgramFolder(home, {"look": ("x",)}).private == ()
    (tmp_path / "file").touch()
    folder = ProgramFolder(tmp_path / "file" / "home", {"look": ("x",)})
    try:
        (private,) = folder.private
        assert folder.path() == private
        assert Path(private, "look").exists()
    finally:
        folder.close()


def test_modules_of_the_working_folder_are_not_taken_for_those_of_the_kernel(tmp_path: Path):
    """``python -m`` puts that folder before all others."""
    for name in ("difflib", "shlex", "click", "attrs", "tomllib", "httpx", "importlib_metadata"):
        (tmp_path / f"{name}.py").write_text("open('mark', 'w')\nraise SystemExit('evil')\n")
    environ = {"CODEX_HOME": str(tmp_path), "PATH": os.defpath, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "codex_framework", "plugins"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, (tmp_path / "mark").exists()) == (0, False), done.stderr
    assert "execpolicy" in done.stdout
