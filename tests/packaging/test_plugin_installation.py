"""``plugins install``, ``upgrade`` and ``uninstall`` in environments that pip, uv and pipx have made, run in a hostile folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from codex_framework import CodexError
from codex_framework.cli.plugin_installation import Command, Requirement, find_installer, read_requirement, run

TEMPLATE = Path(__file__).parents[2] / "contrib" / "codex_contrib_template"
HOSTILE = "#!/bin/sh\necho this was run > {marker}\nexit 1\n"


class Environment:
    """An environment with the program, and a user in a folder that tries to interfere."""

    def __init__(self, home: Path, program: Path, *, path: Sequence[Path], **variables: str) -> None:
        self.home, self.program = home, program
        self.folder = home / "project"
        self.marker = home / "attacked"
        self.folder.mkdir()
        for name in ("uv", "pipx", "pip", "python", "git"):
            (self.folder / name).write_text(HOSTILE.format(marker=self.marker))
            (self.folder / name).chmod(0o755)
        for name in ("pip.py", "subprocess.py", "codex_framework.py"):
            (self.folder / name).write_text(f"open({str(self.marker)!r}, 'w')\n")
        index = 'index-url = "http://127.0.0.1:1/"\n'
        (self.folder / "uv.toml").write_text(index + "no-index = true\n")
        (self.folder / "pip.conf").write_text(f"[global]\n{index}")
        codex_home = home / ".codex"
        codex_home.mkdir()
        (codex_home / "config.toml").write_text("model = [broken\n")
        kept = {
            key: value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_", "HTTP", "http"))
        }
        places = os.pathsep.join([".", "", *map(str, path), "/usr/bin", "/bin"])
        self.env = {
            **kept,
            "HOME": str(home),
            "PATH": places,
            "CODEX_HOME": str(codex_home),
            "LANG": "C.UTF-8",
            **variables,
        }

    def run(self, *arguments: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == status, done.stdout
        assert not self.marker.exists(), "a file of the project was run"
        return done.stdout

    def versions(self) -> dict[str, str]:
        """The plugins that are not bundled, with their versions."""
        done = subprocess.run(
            [self.program, "plugins", "--json"], cwd="/", env=self.env, capture_output=True, text=True, check=True
        )
        return {each["name"]: each["version"] for each in json.loads(done.stdout) if not each["bundled"]}


@pytest.fixture
def plugin(tmp_path, wheel_builder) -> Callable[..., Path]:
    """Make the wheel of a plugin: ``plugin(name, version="0.1.0", entry_point=True, code="")``."""

    def make(name: str, version: str = "0.1.0", *, entry_point: bool = True, code: str = "") -> Path:
        source = tmp_path / "sources" / f"{name}-{version}"
        shutil.copytree(TEMPLATE, source, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        package = source / "src" / f"codex_contrib_{name}"
        (source / "src" / "codex_contrib_template").rename(package)
        for file in (source / "pyproject.toml", *package.glob("*.py")):
            text = file.read_text().replace("template", name).replace("count_words", f"{name}_words")
            file.write_text(text.replace('version = "0.1.0"', f'version = "{version}"'))
        with (package / "__init__.py").open("a") as file:
            file.write(code)
        if not entry_point:
            project = source / "pyproject.toml"
            project.write_text(re.sub(r"\[project.entry-points.codex_framework\]\n.*\n", "", project.read_text()))
        return wheel_builder(source, tmp_path / "dist" / f"{name}-{version}")

    return make


def run_quietly(command: Sequence[str | Path], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"nothing can be installed here: {done.stderr.strip().splitlines()[-1:]}")


@pytest.fixture
def environment(request, tmp_path, kernel_wheel, fresh_venv, uv) -> Environment:
    """Make an environment by an installer: pip, uv-venv, uv-tool or pipx."""
    home = tmp_path / "home"
    home.mkdir()
    base = {**os.environ, "HOME": str(home)}
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    more = {"UV_CACHE_DIR": cache, "UV_PYTHON_DOWNLOADS": "never"}
    match request.param:
        case "pip":
            venv = fresh_venv(kernel_wheel, "pip")
            return Environment(home, venv.programs / "codex-framework", path=[])
        case "uv-venv":
            venv = fresh_venv(kernel_wheel)
            return Environment(home, venv.programs / "codex-framework", path=[Path(uv).parent], **more)
        case "uv-tool":
            folders = {"UV_TOOL_DIR": str(home / "tools"), "UV_TOOL_BIN_DIR": str(home / "bin")}
            main = f"codex-framework[zstd] @ {kernel_wheel.as_uri()}"
            command = [uv, "tool", "install", "-q", "--python", sys.executable, "--with", "attrs>=20", main]
            run_quietly(command, {**base, **more, **folders})
            return Environment(home, home / "bin" / "codex-framework", path=[Path(uv).parent], **more)
        case _:
            programs = fresh_venv("pipx").programs
            folders = {"PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "bin")}
            run_quietly([programs / "pipx", "install", "-q", kernel_wheel], {**base, **folders})
            return Environment(home, home / "bin" / "codex-framework", path=[programs])


def make_prefix(folder: Path, *files: str) -> Path:
    """Make a folder that looks like an environment of this interpreter, with files that installers leave."""
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    packages.mkdir(parents=True)
    for name in ("pyvenv.cfg", "CACHEDIR.TAG", *files):
        file = folder / name if "pip/" not in name else packages / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(RECEIPT if name == "uv-receipt.toml" else "")
    return folder


RECEIPT = """
[tool]
requirements = [
    { name = "codex-framework", extras = ["images", "zstd"], git = "https://x.example/y?rev=v0.1.0" },
    { name = "attrs", specifier = ">=20", marker = "python_full_version >= '3.1'" },
    { name = "my-editable", editable = "/home/me/my editable" },
    { name = "my-folder", directory = "/home/me/my folder" },
    { name = "my-git", git = "https://x.example/z?subdirectory=a/b&branch=main" },
    { name = "my-url", url = "https://x.example/my_url-1.0.tar.gz" },
]
python = "3.11"
entrypoints = [
    { name = "codex-framework", install-path = "/home/me/bin/codex-framework", from = "codex-framework" },
    { name = "attr", install-path = "/home/me/bin/attr", from = "attrs" },
]

[tool.options]
index-url = "https://pypi.example/simple"
find-links = ["/a", "/b"]
no-build = true
"""
FRUIT = [Requirement("codex-contrib-apples>=1", "codex-contrib-apples")]


@pytest.fixture
def programs(tmp_path) -> dict[str, str]:
    """Variables whose PATH has uv and pipx."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("uv", "pipx"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}"}


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (["pip/__init__.py"], "{prefix}/bin/python -I -m pip install codex-contrib-apples>=1"),
        ([], "{programs}/uv pip install --python {prefix}/bin/python codex-contrib-apples>=1"),
        (["pipx_metadata.json", "pip/__init__.py"], "{programs}/pipx inject environment codex-contrib-apples>=1"),
    ],
    ids=["pip", "uv", "pipx"],
)
def test_the_installer_is_recognised_by_what_it_leaves(tmp_path, programs, left, words):
    prefix = make_prefix(tmp_path / "environment", *left)
    (command,) = find_installer(programs, prefix).install(FRUIT)
    assert " ".join(command.argv) == words.format(prefix=prefix, programs=programs["PATH"])


@pytest.mark.parametrize(
    ("left", "start"),
    [
        ("pip/__init__.py", "{prefix}/bin/python -I -m pip"),
        ("pipx_metadata.json", "{programs}/pipx runpip environment"),
    ],
)
def test_what_came_from_an_address_is_installed_again_without_its_requirements(tmp_path, programs, left, start):
    prefix = make_prefix(tmp_path / "environment", left)
    apples, pears = Requirement("apples @ git+https://x", "apples"), Requirement("pears", "pears")
    commands = find_installer(programs, prefix).upgrade([apples, pears])
    start = start.format(prefix=prefix, programs=programs["PATH"])
    assert [" ".join(command.argv).removeprefix(start) for command in commands] == [
        " install --upgrade pears",
        " install --force-reinstall --no-deps apples @ git+https://x",
        " install apples",
    ]


def test_commands_run_outside_the_current_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    run(Command(["/bin/sh", "-c", "pwd; echo $UV_TOOL_DIR"], {"UV_TOOL_DIR": "/tools"}), os.environ)
    assert capfd.readouterr().out == "/\n/tools\n"
    with pytest.raises(CodexError, match="failed with exit status 3"):
        run(Command(["/bin/sh", "-c", "exit 3"]), os.environ)


def test_a_tool_of_uv_keeps_what_its_receipt_lists(tmp_path, programs):
    prefix = make_prefix(tmp_path / "tools" / "codex-framework", "uv-receipt.toml", "pip/__init__.py")
    tool = find_installer(programs, prefix)
    (command,) = tool.install(FRUIT)
    kept = [
        *("--python", "3.11", "--with-executables-from", "attrs", "--index-url", "https://pypi.example/simple"),
        *("--find-links", "/a", "--find-links", "/b", "--no-build"),
        *("--with", "attrs>=20 ; python_full_version >= '3.1'", "--with-editable", "/home/me/my editable"),
        *("--with", "my-folder @ file:///home/me/my%20folder"),
        *("--with", "my-git @ git+https://x.example/z@main#subdirectory=a/b"),
        *("--with", "my-url @ https://x.example/my_url-1.0.tar.gz"),
    ]
    main = "codex-framework[images,zstd] @ git+https://x.example/y@v0.1.0"
    start = [f"{programs['PATH']}/uv", "tool", "install"]
    assert [*command.argv] == [*start, *kept, "--with", "codex-contrib-apples>=1", main]
    assert command.variables == {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": "/home/me/bin"}

    (command,) = tool.install([Requirement("my-git==2", "my-git")])
    assert [*command.argv] == [*start, *kept[:-4], *kept[-2:], "--with", "my-git==2", main]
    (command,) = tool.uninstall(["my-url"])
    assert [*command.argv] == [*start, *kept[:-2], main]
    (command,) = tool.upgrade([Requirement("my-url @ https://x", "my-url"), Requirement("attrs", "attrs")])
    assert [*command.argv] == [*start, "--reinstall-package", "my-url", "--upgrade-package", "attrs", *kept, main]


@pytest.mark.parametrize(
    "line",
    ["constraints = [{ name = 'click', specifier = '<9' }]", "options = { index = [{ url = 'https://x' }] }", "x = ["],
)
def test_a_receipt_that_no_command_repeats_is_not_lost(tmp_path, programs, line):
    prefix = make_prefix(tmp_path / "codex-framework", "uv-receipt.toml")
    (prefix / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{{ name = 'codex-framework' }}]\n{line}\n")
    with pytest.raises(CodexError, match=r"uv-receipt\.toml contains options that cannot be repeated"):
        find_installer(programs, prefix).install(FRUIT)


def test_a_temporary_environment_is_refused(tmp_path, programs):
    (tmp_path / "CACHEDIR.TAG").write_text("")
    with pytest.raises(CodexError, match="is a temporary environment"):
        find_installer(programs, make_prefix(tmp_path / "archive-v0" / "x", "pipx_metadata.json"))


def test_the_environment_of_a_project_of_uv_is_refused(tmp_path, programs):
    prefix = make_prefix(tmp_path / ".venv", "pip/__init__.py")
    (tmp_path / "uv.lock").write_text("")
    with pytest.raises(CodexError, match="`uv sync` would remove") as caught:
        find_installer(programs, prefix)
    assert f"uv add --project {tmp_path} NAME" in caught.value.hint
    find_installer(programs, make_prefix(tmp_path / "other", "pip/__init__.py"))  # `uv sync` does not touch it


def test_the_python_of_the_system_is_refused(tmp_path, programs, monkeypatch):
    prefix = make_prefix(tmp_path / "usr", "pip/__init__.py")
    (prefix / "pyvenv.cfg").unlink()
    find_installer(programs, prefix)
    (tmp_path / "EXTERNALLY-MANAGED").write_text("")
    monkeypatch.setattr(sysconfig, "get_path", with_stdlib(tmp_path, sysconfig.get_path))
    with pytest.raises(CodexError, match="the operating system manages the packages"):
        find_installer(programs, prefix)
    (prefix / "pyvenv.cfg").write_text("")
    find_installer(programs, prefix)  # an environment of that Python


def with_stdlib(folder: Path, get_path: Callable[..., str]) -> Callable[..., str]:
    """``sysconfig.get_path`` of a Python whose standard library is elsewhere."""
    return lambda name, *rest, **more: str(folder) if name == "stdlib" else get_path(name, *rest, **more)


def test_an_environment_that_is_not_writable_is_refused(tmp_path, programs):
    prefix = make_prefix(tmp_path / "environment")
    Path(sysconfig.get_path("purelib", vars={"base": str(prefix)})).rmdir()  # root may write to all that exist
    with pytest.raises(CodexError, match="is not writable"):
        find_installer(programs, prefix)


def test_programs_of_the_current_folder_are_not_used(tmp_path, programs, monkeypatch):
    monkeypatch.chdir(programs["PATH"])
    with pytest.raises(CodexError, match=r"uv, which manages .*, is not found"):
        find_installer({"PATH": f".{os.pathsep}"}, make_prefix(tmp_path / "environment"))


@pytest.mark.parametrize(
    ("word", "text", "name"),
    [
        ("codex-contrib-docker", "codex-contrib-docker", "codex-contrib-docker"),
        ("Codex_Contrib.Docker[x]>=1,<2", "Codex_Contrib.Docker[x]>=1,<2", "codex-contrib-docker"),
        ("a @ git+https://x.example/y@main", "a @ git+https://x.example/y@main", "a"),
        ("git+https://x.example/y", "git+https://x.example/y", ""),
        ("https://x.example/a-1.0-py3-none-any.whl", "https://x.example/a-1.0-py3-none-any.whl", ""),
        ("./folder", "{cwd}/folder", "my-plugin"),
        (".", "{cwd}", ""),
        ("My_Plugin-1.0-py3-none-any.whl", "{cwd}/My_Plugin-1.0-py3-none-any.whl", "my-plugin"),
        ("my_plugin-1.0.tar.gz", "{cwd}/my_plugin-1.0.tar.gz", "my-plugin"),
    ],
)
def test_names_addresses_folders_and_archives_are_read(tmp_path, word, text, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "pyproject.toml").write_text("[project]\nname = 'My.Plugin'\n")
    for file in ("My_Plugin-1.0-py3-none-any.whl", "my_plugin-1.0.tar.gz"):
        (tmp_path / file).write_text("")
    assert read_requirement(word, tmp_path) == (text.format(cwd=tmp_path), name)


@pytest.mark.parametrize(
    "word",
    ["", "-r", "--index-url=https://x", "-e git+https://x", "a b", "./nowhere", "nowhere.whl", "codex_framework[x]"],
)
def test_nothing_else_reaches_an_installer(tmp_path, word):
    with pytest.raises(CodexError) as caught:
        read_requirement(word, tmp_path)
    assert caught.value.slug == "plugin-install"


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["install", "mcp"], "'mcp' is a bundled plugin"),
        (["uninstall", "mcp"], "'mcp' is bundled"),
        (["upgrade", "codex-framework"], "'codex-framework' is bundled"),
        (["uninstall", "attrs"], "no plugin is called 'attrs'"),
    ],
)
def test_only_plugins_that_are_not_bundled_are_changed(run_program, tmp_path, words, fact):
    done = run_program("plugins", *words, cwd=tmp_path, env={**os.environ, "CODEX_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert fact in done.stderr


every_installer = pytest.mark.parametrize("environment", ["pip", "uv-venv", "uv-tool", "pipx"], indirect=True)


@every_installer
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_plugins_are_installed_upgraded_and_removed(environment, plugin, tmp_path):
    """It takes ten seconds for each installer."""
    index = tmp_path / "index"
    index.mkdir()
    environment.env |= {"PIP_FIND_LINKS": str(index), "UV_FIND_LINKS": str(index)}

    # From an index:
    shutil.copy(plugin("apples"), index)
    planned = environment.run("plugins", "install", "--dry-run", "codex-contrib-apples")
    assert planned.startswith("Would run: ")
    assert environment.versions() == {}
    told = environment.run("plugins", "install", "codex-contrib-apples")
    assert planned.replace("Would run", "Running").strip() in told
    assert told.endswith("apples 0.1.0: loaded. tools: apples_words\n")
    shutil.copy(plugin("apples", "0.2.0"), index)
    told = environment.run("plugins", "upgrade", "apples")
    assert told.endswith("apples 0.2.0: loaded. tools: apples_words\n")

    # From a file: a plugin that cannot be loaded, and a package without a plugin.
    broken = plugin("pears", code="raise RuntimeError('not ripe')\n")
    told = environment.run("plugins", "install", os.path.relpath(broken, environment.folder), status=1)
    assert "pears 0.1.0: failed\n" in told
    assert "RuntimeError: not ripe" in told
    assert "codex-framework plugins uninstall pears" in told
    assert environment.run("plugins", "uninstall", "pears").endswith("Removed codex-contrib-pears.\n")
    told = environment.run("plugins", "install", plugin("stones", entry_point=False))
    assert "warning: codex-contrib-stones offers no plugin. To remove it, run: " in told

    # From a folder, which is built again:
    figs = tmp_path / "sources" / "figs-0.1.0"
    plugin("figs")
    assert environment.run("plugins", "install", figs).endswith("figs 0.1.0: loaded. tools: figs_words\n")
    project = figs / "pyproject.toml"
    project.write_text(project.read_text().replace("0.1.0", "0.3.0"))
    told = environment.run("plugins", "upgrade", "figs")
    assert told.endswith("figs 0.3.0: loaded. tools: figs_words\n")

    assert environment.versions() == {"apples": "0.2.0", "figs": "0.3.0"}
    environment.run("plugins", "uninstall", "codex_contrib_apples", "figs")
    assert environment.versions() == {}
    assert environment.run("--version").startswith("codex-framework ")
