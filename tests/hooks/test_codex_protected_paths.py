"""Hook ``codex_protected_paths``: files that commands and tools can never write."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import Kernel, hookimpl
from codex_framework.config import load_config
from codex_framework.loader.registry import load_registry

MODEL = ('model_provider="x"', 'model_providers.x={ name = "x", base_url = "http://127.0.0.1:9" }')


class Protects:
    def __init__(self, paths):
        self.paths = paths

    @hookimpl
    def codex_protected_paths(self):
        return self.paths


def access(tmp_path, cwd, *plugins):
    """Return the access of a turn in a folder of a project that is writable."""

    async def main():
        (tmp_path / "home").mkdir(exist_ok=True)
        environ = {"CODEX_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        roots = f'sandbox_workspace_write.writable_roots=["{tmp_path / "project"}"]'
        config = load_config(cwd=cwd, environ=environ, overrides=['sandbox_mode="workspace-write"', roots, *MODEL])
        async with await Kernel.create(config, environ=environ, entry_points=(), plugins=plugins) as kernel:
            from codex_framework.commands.access import file_access

            return file_access(kernel.settings().permissions, cwd, environ, kernel.deciding)

    return asyncio.run(main())


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    for path in (".git", "tools", "sub/tools"):
        (folder / path).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: x\n")
    return folder


def writable(files, *paths):
    return [files.may_write(path) for path in paths]


def test_codex_protected_paths_example_protects_its_script(example, tmp_path, project):
    files = access(tmp_path, project, example("codex_protected_paths"))
    assert writable(files, project / "tools/release.sh", project / "tools/other.sh") == [False, True]


def test_codex_protected_paths_that_are_relative_are_those_of_the_turn_and_of_its_project(tmp_path, project):
    files = access(tmp_path, project / "sub", Protects(["tools/a.sh"]))
    paths = [project / "tools/a.sh", project / "sub/tools/a.sh", project / "tools/b.sh", project / "a.sh"]
    assert writable(files, *paths) == [False, False, True, True]


def test_codex_protected_paths_include_what_links_lead_to_and_the_links(tmp_path, project):
    (project / "real.sh").write_text("exit 0\n")
    (project / "tools/a.sh").symlink_to("../real.sh")
    for path in ("tools/a.sh", str(project / "tools/a.sh")):
        files = access(tmp_path, project, Protects([path]))
        assert writable(files, project / "real.sh", project / "tools/a.sh", project / "b.sh") == [False, False, True]


def test_codex_protected_paths_include_what_is_in_a_folder(tmp_path, project):
    files = access(tmp_path, project, Protects(["tools"]))
    assert writable(files, project / "tools/new.sh", project / "new.sh") == [False, True]


def test_codex_protected_paths_of_a_failed_plugin_are_protected_still(tmp_path, project):
    class Fails(Protects):
        @hookimpl
        def codex_tools(self):
            raise RuntimeError("no tools")

    files = access(tmp_path, project, Fails(["tools/a.sh"]))
    assert writable(files, project / "tools/a.sh", project / "b.sh") == [False, True]


@pytest.mark.parametrize("wrong", ["tools/a.sh", 5, [5], [""], ["a\0b"], [None]])
def test_codex_protected_paths_that_are_none_disable_the_plugin(wrong):
    registry = load_registry({}, entry_points=(), extra_plugins=[Protects(wrong)])
    assert registry.protected_paths == ()
    assert "its codex_protected_paths" in registry.warnings[0]
