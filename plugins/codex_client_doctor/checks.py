"""The checks that need no network: environment, disk, configuration, plugins, model provider, sandbox, MCP servers, project."""

from __future__ import annotations

import errno
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from codex_client_doctor.findings import Finding
from codex_client_doctor.setup import Setup
from codex_client_doctor.update import installation
from codex_framework import __version__
from codex_framework.contract.errors import CodexError, described
from codex_framework.toolkit.installing import install_command
from codex_framework.toolkit.os_errors import os_error_text

__all__ = ["OFFLINE", "Check", "check_configuration", "check_provider", "run_check"]

Check = Callable[[Setup], Iterator[Finding]]

_PROGRAM = "codex-framework"
_LITTLE, _TOO_LITTLE = 1 << 30, 50 << 20
"""Free bytes on the disk below which a warning or a failure is reported."""
_SANDBOX_S = 60
_INSTALLERS = (
    ("apt-get", "sudo apt-get install"),
    ("dnf", "sudo dnf install"),
    ("apk", "sudo apk add"),
    ("pacman", "sudo pacman -S"),
    ("zypper", "sudo zypper install"),
    ("brew", "brew install"),
)


def run_check(check: Check, setup: Setup) -> Iterator[Finding]:
    """Yield the findings of a check. A check that fails itself is a finding too."""
    try:
        yield from check(setup)
    except Exception as error:
        yield Finding("check", "Checks", "failed", f"The check {check.__name__} could not be made: {described(error)}")


def check_environment(setup: Setup) -> Iterator[Finding]:
    """Check the versions, the locale and the programs that others need."""
    area = "Environment"
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    versions = f"{_PROGRAM} {__version__}, Python {platform.python_version()}, {system}"
    yield Finding("versions", area, "ok", f"{versions}, installed {installation().kind}")
    if sys.getfilesystemencoding() != "utf-8" or (sys.stdout.encoding or "utf-8").lower() not in ("utf-8", "utf8"):
        text = f"The encoding of the terminal is {sys.stdout.encoding}, so some characters cannot be shown."
        yield Finding("encoding", area, "warning", text, ("export LC_ALL=C.UTF-8",))
    yield from _check_programs(setup, area)
    yield from _check_certificates(setup, area)


def _check_programs(setup: Setup, area: str) -> Iterator[Finding]:
    path = setup.environ.get("PATH", os.defpath)
    if git := shutil.which("git", path=path):
        yield Finding("git", area, "ok", f"git is {git}")
    else:
        text = "git is not on the PATH: the model cannot see or record changes, and reviews and undo do not work."
        yield Finding("git", area, "warning", text, *_install(path, "git"))
    own = Path(sys.executable).with_name("rg")
    if rg := shutil.which("rg", path=path) or (str(own) if own.exists() else None):
        yield Finding("rg", area, "ok", f"rg is {rg}")
    else:
        text = "rg (ripgrep) is not on the PATH. Models search with it; without it they use slower programs."
        fix, hint = _install(path, "ripgrep")
        yield Finding("rg", area, "warning", text, (install_command(f"{_PROGRAM}[search]"), *fix), hint)


def _install(path: str, package: str) -> tuple[tuple[str, ...], str]:
    """Return the command that installs a package of the system, or else a sentence."""
    command = next((f"{command} {package}" for program, command in _INSTALLERS if shutil.which(program, path=path)), "")
    return ((command,), "") if command else ((), f"Install {package} with the package manager of your system.")


def _check_certificates(setup: Setup, area: str) -> Iterator[Finding]:
    from codex_lib_model_client.https import loading_failure, tls_context

    named = [name for name in ("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "SSL_CERT_DIR") if setup.environ.get(name)]
    try:
        tls_context(setup.environ)
    except (OSError, ValueError) as error:
        fix = tuple(f"unset {name}" for name in named)
        yield Finding("certificates", area, "failed", _sentence(loading_failure(error, setup.environ)), fix)
    else:
        text = f"Certificates come from {' and '.join(named) or 'certifi'}"
        yield Finding("certificates", area, "ok", text)


def check_home(setup: Setup) -> Iterator[Finding]:
    """Check whether CODEX_HOME can be written to, whether the disk has space, and who can read the login."""
    area = "Disk"
    home = setup.home
    if home is None:
        assert setup.home_error is not None
        yield Finding("home", area, "failed", _sentence(setup.home_error.fact), ("unset CODEX_HOME",))
        return
    place = home if home.is_dir() else next(parent for parent in home.parents if parent.is_dir())
    folders = [place, *(folder for folder in [home / "sessions"] if folder.is_dir())]
    faults = [finding for folder in folders for finding in _check_folder(folder, area)]
    yield from faults
    free = shutil.disk_usage(place).free
    if not faults:
        missing = "" if home.is_dir() else ", which does not exist yet"
        yield Finding("home", area, "ok", f"CODEX_HOME is {home}{missing}")
    if free < _LITTLE:
        text = f"Only {free >> 20} MB are free on the disk of {place}. Sessions are saved there."
        fix = (f"du -ah {shlex.quote(str(place))} | sort -h | tail", f"{_PROGRAM} sessions delete SESSION")
        yield Finding("disk", area, "failed" if free < _TOO_LITTLE else "warning", text, fix)
    else:
        yield Finding("disk", area, "ok", f"{free / (1 << 30):.1f} GB are free")
    login = home / "auth.json"
    if login.is_file() and login.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        closing = (f"chmod 600 {shlex.quote(str(login))}",)
        yield Finding("login-mode", area, "warning", f"Other users can read your login in {login}.", closing)


def _check_folder(folder: Path, area: str) -> Iterator[Finding]:
    """Yield why nothing can be written to a folder, if so."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        first = f"{'df -h' if is_full else 'chmod u+rwx'} {shlex.quote(str(folder))}"
        commands = (first, "export CODEX_HOME=FOLDER")
        text = f"Nothing can be written to {folder}: {os_error_text(error)}. Sessions and logins are saved there."
        yield Finding("home-unwritable", area, "failed", text, commands)


def check_configuration(setup: Setup) -> Iterator[Finding]:
    """Check the files of the configuration."""
    area = "Configuration"
    if setup.env_error is not None:
        file = str(setup.config.codex_home / ".env")
        fix = (shlex.join(["mv", file, f"{file}.unreadable"]),)
        yield Finding("env-file", area, "failed", _sentence(str(setup.env_error)), fix, setup.env_error.hint)
    error = setup.config_error
    if error is not None:
        yield _config_finding(setup, area, error)
        if not setup.config.layers:
            yield Finding("config-defaults", area, "note", "The other checks use the default settings.")
        return
    files = [layer.path for layer in setup.config.layers if layer.path.endswith(".toml")]
    yield Finding("config", area, "ok", ", ".join(files) if files else "No file: the defaults are used")
    for warning in setup.config.warnings:
        yield Finding("config-warning", area, "warning", warning, _unset(setup, warning))
    if setup.config.get("approval_policy") == "untrusted":
        text = 'approval_policy is "untrusted": `exec` refuses to run with it, because it cannot ask you.'
        fix = (f"{_PROGRAM} config set approval_policy on-request",)
        yield Finding("approval-policy", area, "warning", text, fix)


def _config_finding(setup: Setup, area: str, error: CodexError) -> Finding:
    key = getattr(error, "key", None)
    fix = [f"{_PROGRAM} config edit"]
    if setup.home and getattr(error, "path", None) == str(setup.home / "config.toml") and key:
        fix.insert(0, f"{_PROGRAM} config unset {shlex.quote(key)}")
    return Finding("config-invalid", area, "failed", _sentence(str(error)), tuple(fix), error.hint)


def _unset(setup: Setup, warning: str) -> tuple[str, ...]:
    """Return the command that removes the key that a warning about the user's file is about."""
    found = re.match(r"(?P<file>.+?)(:\d+)?: .*?`(?P<key>[^`]+)`", warning)
    if setup.home is None or found is None or found["file"] != str(setup.home / "config.toml"):
        return ()
    return (f"{_PROGRAM} config unset {shlex.quote(found['key'])}",)


def check_plugins(setup: Setup) -> Iterator[Finding]:
    """Check whether every plugin could be loaded."""
    area = "Plugins"
    try:
        reports = setup.registry.reports
    except CodexError as error:
        yield Finding("plugins", area, "failed", _sentence(str(error)), (f"{_PROGRAM} plugins",), error.hint)
        return
    counts: dict[str, int] = {}
    for report in reports:
        counts[report.status.value] = counts.get(report.status.value, 0) + 1
    yield Finding("plugins", area, "ok", ", ".join(f"{count} {state}" for state, count in counts.items()))
    for report in reports:
        for problem in report.problems:
            is_extra = report.bundled and problem.slug == "missing-extra"
            state = "failed" if report.status.value == "failed" else "note" if is_extra else "warning"
            fix = [problem.hint] if problem.hint.startswith(install_command()) else []
            if state == "failed":
                fix.append(_disable(setup, report.name))
            hint = "" if fix[:1] == [problem.hint] else problem.hint
            place = f"{report.name} ({report.origin})"
            yield Finding(f"plugin-{problem.slug}", area, state, f"{place}: {problem.text}", tuple(fix), hint)


def _disable(setup: Setup, name: str) -> str:
    names = [*setup.config.get("framework.plugins.disabled", ()), name]
    return f"{_PROGRAM} config set framework.plugins.disabled {shlex.quote(str(names))}"


def check_provider(setup: Setup) -> Iterator[Finding]:
    """Check whether the model provider is known, has a usable address, and has a key."""
    from codex_lib_model_client.addresses import post_address
    from codex_lib_model_client.credentials import access

    area = "Model"
    try:
        provider = setup.provider
        post_address(provider, "")
        model = setup.config.get("model") or "the default model"
        yield Finding("provider", area, "ok", f"{model} of {provider.id} ({provider.base_url}, {provider.wire_api})")
    except CodexError as error:
        key = f"model_providers.{setup.config.get('model_provider')}"
        fix = (f"{_PROGRAM} config set {key}.base_url URL", f"{_PROGRAM} config unset model_provider")
        yield Finding("provider", area, "failed", _sentence(str(error)), fix, error.hint)
        return
    try:
        found = access(provider, setup.environ, setup.config.tables)
    except CodexError as error:
        login = (f"{_PROGRAM} login",) if provider.requires_openai_auth or provider.id == "openai" else ()
        fix = (*login, f"export {provider.env_key or 'OPENAI_API_KEY'}=YOUR_KEY")
        yield Finding("key", area, "failed", _sentence(str(error)), fix, error.hint)
        return
    origin = f"the variable {provider.env_key}" if provider.env_key else "the configuration or the login"
    has_key = found.key or found.tokens
    yield Finding("key", area, "ok", f"The key comes from {origin}" if has_key else "The provider needs no key")
    yield from _check_proxy(setup, area, provider.base_url or "")


def _check_proxy(setup: Setup, area: str, url: str) -> Iterator[Finding]:
    from codex_lib_model_client.proxies import proxy_for

    names = [name for name in setup.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]
    try:
        proxy = proxy_for(url, setup.environ)
    except CodexError as error:
        fix = tuple(f"unset {name}" for name in names)
        yield Finding("proxy", area, "failed", _sentence(str(error)), fix, error.hint)
        return
    if proxy is not None:
        yield Finding("proxy", area, "note", f"Requests go through the proxy {proxy.host}:{proxy.port}")


def check_sandbox(setup: Setup) -> Iterator[Finding]:
    """Run a command in the sandbox, as ``codex-framework sandbox`` does."""
    area = "Sandbox"
    mode = setup.config.get("sandbox_mode")
    if mode == "danger-full-access":
        text = "sandbox_mode is danger-full-access: commands of the model can do what you can."
        fix = (f"{_PROGRAM} config set sandbox_mode workspace-write",)
        yield Finding("sandbox-off", area, "warning", text, fix)
        return
    with tempfile.TemporaryDirectory() as empty:
        environ = {**setup.environ, "CODEX_HOME": empty} if setup.is_broken else setup.environ
        given = [] if setup.is_broken else setup.options
        argv = [sys.executable, "-m", "codex_framework", *given, "sandbox", "--", "/bin/sh", "-c", ":"]
        done = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=_SANDBOX_S, stdin=subprocess.DEVNULL, check=False
        )
    if done.returncode == 0:
        yield Finding("sandbox", area, "ok", f"A command ran in the sandbox ({mode or 'the default mode'})")
        return
    fact, hint, *_ = [*done.stderr.strip().removeprefix("Error: ").splitlines(), "", ""]
    choice = (f"{_PROGRAM} config unset framework.sandbox",) if setup.config.get("framework.sandbox") else ()
    fix = (*choice, f"{_PROGRAM} sandbox doctor")
    text = f"A command could not be run in the sandbox: {fact or f'exit status {done.returncode}'}"
    yield Finding("sandbox", area, "failed", text, fix, hint)


def check_servers(setup: Setup) -> Iterator[Finding]:
    """Check whether the programs and variables of MCP servers exist. Nothing is started."""
    area = "MCP servers"
    servers = setup.config.get("mcp_servers", {})
    for name, table in servers.items():
        if not isinstance(table, Mapping) or table.get("enabled") is False:
            continue
        problem, fix = _server_problem(setup, table)
        if problem:
            commands = (*fix, f"{_PROGRAM} mcp remove {shlex.quote(name)}")
            yield Finding("mcp-server", area, "failed", f"{name}: {problem}", commands)
        else:
            place = urlsplit(str(table["url"])).hostname if table.get("url") else table.get("command")
            yield Finding("mcp-server", area, "ok", f"{name}: {place}")  # arguments and paths may be secrets


def _server_problem(setup: Setup, table: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    variable = table.get("bearer_token_env_var")
    if variable and not setup.environ.get(variable):
        return f"the variable {variable} with its token is not set", (f"export {variable}=YOUR_TOKEN",)
    command = table.get("command")
    if command is None:
        return "", ()
    folder = Path(setup.config.cwd, str(table.get("cwd") or "."))
    if not folder.is_dir():
        return f"its folder {folder} does not exist", (f"mkdir -p {shlex.quote(str(folder))}",)
    path = str(table.get("env", {}).get("PATH") or setup.environ.get("PATH", os.defpath))
    program = os.path.join(folder, command) if "/" in command else command  # noqa: PTH118  # a word of a command
    if shutil.which(program, path=path) is None:
        return f"the program {command} does not exist, or cannot be executed", ()
    return "", ()


def check_project(setup: Setup) -> Iterator[Finding]:
    """Check whether ``exec`` runs in the current folder, and whether its own settings apply."""
    from codex_framework.toolkit.projects import git_root

    area = "Project"
    folder = setup.config.cwd
    root = git_root(folder)
    trust = setup.config.trust or "not decided"
    if root is None and trust != "trusted":
        text = f"{folder} is not in a git repository, so `exec` refuses to run in it."
        fix = ("git init", f"{_PROGRAM} trust", f"{_PROGRAM} exec --skip-git-repo-check PROMPT")
        yield Finding("repository", area, "warning", text, fix)
    else:
        yield Finding("repository", area, "ok", f"{folder}; trust: {trust}")
    own = (root or folder) / ".codex" / "config.toml"
    home = setup.config.codex_home
    if trust != "trusted" and own.is_file() and own.parent != home:
        text = f"The settings in {own} do not apply, because the project is not trusted."
        yield Finding("trust", area, "note", text, (f"{_PROGRAM} trust",))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


OFFLINE: Sequence[Check] = (
    check_environment,
    check_home,
    check_configuration,
    check_plugins,
    check_provider,
    check_sandbox,
    check_servers,
    check_project,
)
"""The checks, in the order of the page."""
