"""Installs distributions into the environment that this program runs in, with the installer that created it.

The installer is recognised by its files in the environment. Its commands run outside the current folder, by absolute paths and
without a shell, so that the files of a project do not influence them. Its settings in the user's environment and home apply.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from codex_framework.contract.errors import CodexError
from codex_framework.contract.value import Value
from codex_framework.loader.discovery import BUNDLED, normalise_name
from codex_framework.toolkit.programs import found_program
from codex_framework.toolkit.regular_files import read_regular

__all__ = [
    "Command",
    "Installer",
    "Requirement",
    "find_installer",
    "installed_distributions",
    "origin_of",
    "read_requirement",
    "run",
]

_PAGE = "See docs/run/install.md."
_NAMED = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(?:@\s*\S.*|[<>=!~][^;]*)?(?:;.*)?"
)
_LONGEST_PROJECT = 10_000_000
_ARCHIVES = (".whl", ".tar.gz", ".zip")


class Command(NamedTuple):
    """A command of an installer, and the variables that name its folders."""

    argv: Sequence[str]
    variables: Mapping[str, str] = {}

    def __str__(self) -> str:
        return shlex.join([*(f"{name}={value}" for name, value in self.variables.items()), *self.argv])


class Requirement(NamedTuple):
    """A distribution to install: the requirement as installers accept it, and the normalised name, which is empty if unknown."""

    text: str
    name: str = ""


class Installer(Protocol):
    """Makes the commands for one environment."""

    def install(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the commands that install distributions."""
        ...

    def uninstall(self, names: Sequence[str]) -> Sequence[Command]:
        """Return the commands that remove distributions."""
        ...

    def upgrade(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the commands that install the newest versions of distributions."""
        ...


class Pip(Value):
    """An environment with pip."""

    start: tuple[str, ...]

    def install(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the command that installs distributions."""
        return [Command((*self.start, "install", *_texts(requirements)))]

    def uninstall(self, names: Sequence[str]) -> Sequence[Command]:
        """Return the command that removes distributions."""
        return [Command((*self.start, "uninstall", "--yes", *names))]

    def upgrade(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the commands that upgrade distributions."""
        return [Command((*self.start, *arguments)) for arguments in _pip_upgrades(requirements)]


class UvPip(Value):
    """An environment without pip, of uv."""

    uv: str
    python: str

    def install(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the command that installs distributions."""
        return [self._command("install", *_texts(requirements))]

    def uninstall(self, names: Sequence[str]) -> Sequence[Command]:
        """Return the command that removes distributions."""
        return [self._command("uninstall", *names)]

    def upgrade(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the command that upgrades distributions."""
        return [self._command("install", *_upgrade_options(requirements), *_texts(requirements))]

    def _command(self, word: str, *arguments: str) -> Command:
        return Command((self.uv, "pip", word, "--python", self.python, *arguments))


class UvTool(Value):
    """A tool of uv. Its receipt lists the packages of the environment, so a change installs it again with another list."""

    uv: str
    prefix: Path

    def install(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the command that installs distributions."""
        return [self._command(without={each.name for each in requirements}, added=_texts(requirements))]

    def uninstall(self, names: Sequence[str]) -> Sequence[Command]:
        """Return the command that removes distributions."""
        return [self._command(without=set(names))]

    def upgrade(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the command that upgrades distributions."""
        return [self._command(options=_upgrade_options(requirements))]

    def _command(
        self, *, without: Set[str] = frozenset(), added: Sequence[str] = (), options: Sequence[str] = ()
    ) -> Command:
        file = self.prefix / "uv-receipt.toml"
        try:
            tool = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]
            main, *others = tool["requirements"]
            words = [*options, *_tool_options(tool, main["name"])]
            for other in others:
                if normalise_name(other["name"]) not in without:
                    words += [("--with-editable" if "editable" in other else "--with"), _requirement_of(other)]
            words += [word for text in added for word in ("--with", text)]
            words += [*(["--editable"] if "editable" in main else []), _requirement_of(main)]
            folders = {"UV_TOOL_DIR": str(self.prefix.parent)}
            if programs := [Path(entry["install-path"]).parent for entry in tool.get("entrypoints", [])]:
                folders["UV_TOOL_BIN_DIR"] = str(programs[0])
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise CodexError(
                f"{file} contains options that cannot be repeated: {error}",
                slug="plugin-install",
                hint="Run `uv tool install` yourself, with the options of the first time and `--with NAME` for each plugin.",
            ) from error
        return Command((self.uv, "tool", "install", *words), folders)


class Pipx(Value):
    """An environment of pipx."""

    pipx: str
    prefix: Path

    def install(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the command that installs distributions."""
        return [self._command("inject", *_texts(requirements))]

    def uninstall(self, names: Sequence[str]) -> Sequence[Command]:
        """Return the command that removes distributions."""
        return [self._command("uninject", *names)]

    def upgrade(self, requirements: Sequence[Requirement]) -> Sequence[Command]:
        """Return the commands that upgrade distributions.

        ``pipx inject --force`` would install all their requirements again, codex-framework too, and removes the plugin if that fails.
        """
        return [self._command("runpip", *arguments) for arguments in _pip_upgrades(requirements)]

    def _command(self, word: str, *arguments: str) -> Command:
        argv = (self.pipx, word, self.prefix.name, *arguments)
        return Command(argv, {"PIPX_HOME": str(self.prefix.parents[1])})


def _texts(requirements: Sequence[Requirement]) -> tuple[str, ...]:
    return tuple(each.text for each in requirements)


def _pip_upgrades(requirements: Sequence[Requirement]) -> Iterator[Sequence[str]]:
    """Yield the arguments of pip that upgrade distributions.

    A distribution from an address is installed again, because its version may be unchanged. Then its new requirements are added.
    """
    if by_name := [each.name for each in requirements if each.text == each.name]:
        yield "install", "--upgrade", *by_name
    if direct := [each for each in requirements if each.text != each.name]:
        yield "install", "--force-reinstall", "--no-deps", *_texts(direct)
        yield "install", *(each.name for each in direct)


def _upgrade_options(requirements: Sequence[Requirement]) -> list[str]:
    """Return the options of uv that upgrade distributions. A distribution from an address is installed again."""
    pairs = [
        ("--upgrade-package" if each.text == each.name else "--reinstall-package", each.name) for each in requirements
    ]
    return [word for pair in pairs for word in pair]


def _requirement_of(entry: Mapping[str, Any]) -> str:
    """Return an entry of uv's receipt as a requirement. Raises ValueError for an entry of an unknown form."""
    rest = {key: value for key, value in entry.items() if key not in ("name", "extras", "marker", "specifier")}
    if "editable" in rest:
        (path,) = rest.values()
        return str(path)
    text = str(entry["name"])
    if extras := entry.get("extras"):
        text += f"[{','.join(extras)}]"
    match list(rest.items()):
        case []:
            text += str(entry.get("specifier", ""))
        case [("path" | "directory", path)]:
            text += f" @ {Path(path).as_uri()}"
        case [("url", url)]:
            text += f" @ {url}"
        case [("git", url)]:
            text += f" @ git+{_git_address(url)}"
        case _:
            raise ValueError(f"{entry['name']} has {', '.join(rest)}")
    return f"{text} ; {entry['marker']}" if "marker" in entry else text


def _git_address(url: str) -> str:
    """Return the address of a repository as requirements have it: uv keeps folder and revision in the query."""
    address, _, query = url.partition("?")
    words = dict(word.split("=", 1) for word in query.split("&") if word)
    unknown = words.keys() - {"subdirectory", "rev", "tag", "branch"}
    if unknown:
        raise ValueError(f"{url} has {', '.join(sorted(unknown))}")
    folder = words.pop("subdirectory", "")
    revision = next(iter(words.values()), "")
    return address + (f"@{revision}" if revision else "") + (f"#subdirectory={folder}" if folder else "")


def _tool_options(tool: Mapping[str, Any], main: str) -> Iterator[str]:
    """Yield the options with which a tool was installed. Raises ValueError for those that no option repeats."""
    if unknown := tool.keys() - {"requirements", "python", "entrypoints", "options"}:
        raise ValueError(f"it has {', '.join(sorted(unknown))}")
    if python := tool.get("python"):
        yield from ("--python", str(python))
    for name in sorted({entry["from"] for entry in tool.get("entrypoints", [])} - {main}):
        yield from ("--with-executables-from", name)
    for name, value in tool.get("options", {}).items():
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, str) and each is not True:
                raise ValueError(f"the option {name} is {each!r}")
            yield from (f"--{name}",) if each is True else (f"--{name}", each)


def find_installer(environ: Mapping[str, str], prefix: Path | None = None) -> Installer:
    """Return the installer of the environment that this program runs in.

    Args:
        environ: The variables of the process.
        prefix: The folder of another environment, of the same interpreter.

    Raises:
        CodexError: The environment cannot be changed, or its installer is not found.
    """
    prefix = Path(sys.prefix) if prefix is None else prefix
    refusal = _temporary(prefix) or _managed_by_system(prefix) or _managed_by_project(prefix) or _read_only(prefix)
    if refusal is not None:
        raise refusal
    if (prefix / "uv-receipt.toml").is_file():
        return UvTool(_program("uv", environ), prefix)
    if (prefix / "pipx_metadata.json").is_file():
        return Pipx(_program("pipx", environ), prefix)
    python = sys.executable if prefix == Path(sys.prefix) else str(prefix / "bin" / "python")
    if any((folder / "pip").is_dir() for folder in _package_folders(prefix)):
        return Pip((python, "-I", "-m", "pip"))
    return UvPip(_program("uv", environ), python)


def _temporary(prefix: Path) -> CodexError | None:
    """Return the error for an environment in a cache, as `uvx` and `pipx run` make it."""
    if not any((folder / "CACHEDIR.TAG").is_file() for folder in prefix.parents):
        return None
    return CodexError(
        f"{prefix} is a temporary environment",
        slug="plugin-install",
        hint=f"Name plugins in the command that makes it: `uvx --with NAME ...`. Or install codex-framework first. {_PAGE}",
    )


def _managed_by_system(prefix: Path) -> CodexError | None:
    """Return the error for the Python of the operating system, whose packages are the concern of the system's own installer."""
    is_base = not (prefix / "pyvenv.cfg").is_file()
    if not is_base or not Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file():
        return None
    return CodexError(
        f"the operating system manages the packages of {prefix}",
        slug="plugin-install",
        hint=f"Install codex-framework and its plugins into an environment of their own. {_PAGE}",
    )


def _managed_by_project(prefix: Path) -> CodexError | None:
    """Return the error for the environment of a project of uv, from which `uv sync` removes what the project does not name."""
    project = prefix.parent
    if prefix.name != ".venv" or not (project / "uv.lock").is_file():
        return None
    return CodexError(
        f"{project / 'uv.lock'} lists the packages of {prefix}; `uv sync` would remove a plugin that it does not list",
        slug="plugin-install",
        hint=f"Add the plugin to the project: `uv add --project {shlex.quote(str(project))} NAME`.",
    )


def _read_only(prefix: Path) -> CodexError | None:
    folder = next((folder for folder in _package_folders(prefix) if not os.access(folder, os.W_OK)), None)
    if folder is None:
        return None
    return CodexError(
        f"{folder} is not writable",
        slug="plugin-install",
        hint=f"Run this command as the owner of that folder, or install codex-framework into an environment of your own. {_PAGE}",
    )


def _package_folders(prefix: Path) -> list[Path]:
    """Return the folders in which an environment has its packages."""
    variables = {"base": str(prefix), "platbase": str(prefix)}
    return [Path(path) for path in {sysconfig.get_path(kind, vars=variables): None for kind in ("purelib", "platlib")}]


def _program(name: str, environ: Mapping[str, str]) -> str:
    places = [
        environ.get("PATH", os.defpath),
        *(str(Path(home, ".local", "bin")) for home in [environ.get("HOME")] if home),
    ]
    program = found_program(name, os.pathsep.join(places))
    if program is None:
        hint = f"Put {name} on PATH."
        raise CodexError(f"{name}, which manages {sys.prefix}, is not found", slug="plugin-install", hint=hint)
    return program


def read_requirement(word: str, cwd: Path) -> Requirement:
    """Read what a user wants to install: a name with or without version and extras, an address, a local folder, or an archive.

    Raises:
        CodexError: The word has another form.
    """
    path = Path(cwd, word)
    if "://" not in word and (os.sep in word or word in (".", "..") or word.endswith(_ARCHIVES)):
        if not path.exists():
            raise _no_requirement(f"{path} does not exist")
        return Requirement(os.path.abspath(path), _name_of(path))  # noqa: PTH100  # installers resolve symlinks themselves
    match = _NAMED.fullmatch(word)
    if match is None and ("://" not in word or word.startswith("-") or any(map(str.isspace, word))):
        raise _no_requirement(f"{word!r} is neither the name of a package nor an address nor a path")
    name = normalise_name(match["name"]) if match else ""
    if name == BUNDLED:
        raise _no_requirement(f"{BUNDLED} is this program")
    return Requirement(word, name)


def _name_of(path: Path) -> str:
    """Return the name of the distribution in a folder or an archive; empty if it is not known before it is built."""
    if not path.is_dir():
        return normalise_name(path.name.rpartition("-")[0].partition("-")[0])
    try:
        project = tomllib.loads(read_regular(path / "pyproject.toml", _LONGEST_PROJECT).decode())["project"]
        return normalise_name(project["name"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""


def _no_requirement(fact: str) -> CodexError:
    hint = (
        "Name a package (`codex-contrib-docker`), an address (`git+https://...`), a folder (`./my-plugin`) or a wheel."
    )
    return CodexError(fact, slug="plugin-install", hint=hint)


def origin_of(name: str) -> Requirement:
    """Return the requirement that installs a distribution again, from the address from which it came, or from the index.

    Raises:
        CodexError: It is an editable installation, which is always up to date.
    """
    try:
        origin = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    if origin.get("dir_info", {}).get("editable"):
        raise CodexError(
            f"{name} is an editable installation of {origin['url']}",
            slug="plugin-install",
            hint="Changes to that folder apply at once. If its requirements or entry points change, install it again.",
        )
    if not origin:
        return Requirement(name, name)
    url = str(origin["url"])
    if vcs := origin.get("vcs_info"):
        revision = vcs.get("requested_revision")
        url = f"{vcs['vcs']}+{url}" + (f"@{revision}" if revision else "")
    folder = origin.get("subdirectory")
    return Requirement(f"{name} @ {url}" + (f"#subdirectory={folder}" if folder else ""), name)


def installed_distributions() -> dict[str, tuple[object, ...]]:
    """Return the state of the metadata of each installed distribution, by name, which changes with an installation."""
    found: dict[str, tuple[object, ...]] = {}
    for folder in _package_folders(Path(sys.prefix)):
        for file in folder.glob("*.dist-info"):
            status = file.stat()
            found[normalise_name(file.stem.partition("-")[0])] = (file.name, status.st_mtime_ns, status.st_ino)
    return found


def run(command: Command, environ: Mapping[str, str]) -> None:
    """Run a command outside the current folder, with the terminal.

    Raises:
        CodexError: It fails.
    """
    status = subprocess.run(command.argv, cwd="/", env={**environ, **command.variables}, check=False).returncode
    if status:
        raise CodexError(
            f"the installer failed with exit status {status}",
            slug="plugin-install",
            hint="Its message is above.",
        )
