"""``codex-framework doctor``: every broken set-up is named, with a command that fixes it. ``update`` names its command too."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from codex_client_doctor.findings import Finding, Secrets
from codex_client_doctor.update import installation
from codex_framework.contract.version import PLUGIN_API
from codex_framework.toolkit.installing import install_command
from tests.clients.conftest import COMMAND

SECRET = "sk-very-secret-0123456789"
NO_SANDBOX = 'sandbox_mode = "danger-full-access"'
"""Leaves out the check of the sandbox, which starts a process of its own."""


class Server:
    """A model server on loopback that only answers with a status.

    Args:
        statuses: The status by path. Other paths are unknown.
        date: The header ``date``.
        key: The header ``authorization`` that is accepted. Others are refused.
    """

    def __init__(self, statuses: Mapping[str, int], date: str | None = None, key: str | None = None) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                server.keys.append(self.headers.get("authorization"))
                refused = key not in (None, self.headers.get("authorization"))
                self.send_response_only(401 if refused else statuses.get(self.path, 404))
                self.send_header("date", date or self.date_time_string())
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.keys: list[str | None] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(*arguments: Any) -> Server:
        servers.append(Server(*arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def diagnose(cli: Any, *argv: str) -> dict[str, dict[str, Any]]:
    """Return the findings that are no success, by id."""
    ran = cli.run("doctor", "--json", *argv)
    report = json.loads(ran.out)
    assert ran.err == ""
    assert ran.status == (report["state"] == "failed")
    return {each["id"]: each for each in report["findings"] if each["state"] != "ok"}


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def healthy(cli: Any, **table: Any) -> None:
    cli.configure(**{"base_url": "http://127.0.0.1:1/v1", "more": NO_SANDBOX, **table})


def fix(cli: Any, finding: Mapping[str, Any]) -> None:
    """Run the first command that the finding names."""
    program, *words = shlex.split(finding["fix"][0])
    if program == "codex-framework":
        ran = cli.run(*words)
        assert ran.status == 0, ran.err
    else:
        subprocess.run([program, *words], check=True, cwd=cli.work)


def test_a_healthy_set_up_has_no_problem(cli: Any) -> None:
    cli.configure(base_url="http://127.0.0.1:1/v1", more='sandbox_mode = "workspace-write"')
    ran = cli.run("doctor")
    assert ran.status == 0
    areas = [line for line in ran.out.splitlines() if line and not line.startswith(" ")]
    assert areas[:7] == ["Environment", "Disk", "Configuration", "Plugins", "Model", "Sandbox", "Project"]
    assert "gpt-5.5 of loopback (http://127.0.0.1:1/v1, responses)" in ran.out
    assert ran.out.endswith("To ask them too: codex-framework doctor --online\n")


def test_a_broken_file_is_named_with_its_line(cli: Any) -> None:
    (cli.home / "config.toml").write_text("model = 'o3'\nmodel_provider = \n")
    found = diagnose(cli)
    assert f"{cli.home}/config.toml:2".replace(cli.env["HOME"], "~") in found["config-invalid"]["text"]
    assert found["config-invalid"]["fix"] == ["codex-framework config edit"]
    assert found["config-defaults"]["text"] == "The other checks use the default settings."


@pytest.mark.parametrize(("key", "problem"), [("modle", "config-invalid"), ("zzz_not_known", "config-warning")])
def test_an_unknown_key_is_removed(cli: Any, key: str, problem: str) -> None:
    healthy(cli, more=f"{NO_SANDBOX}\n{key} = 1")
    every = diagnose(cli)
    found = every[problem]
    assert "config-defaults" not in every
    assert found["fix"][0] == f"codex-framework config unset {key}"
    fix(cli, found)
    assert problem not in diagnose(cli)


def test_a_missing_key_is_named_with_its_variable(cli: Any) -> None:
    healthy(cli)
    del cli.env["TEST_KEY"]
    found = diagnose(cli)["key"]
    assert "Missing environment variable: `TEST_KEY`" in found["text"]
    assert found["fix"] == ["export TEST_KEY=YOUR_KEY"]


def test_the_file_of_variables_counts_and_its_mistakes_are_named(cli: Any) -> None:
    healthy(cli, env_key="OTHER_KEY")
    assert "key" in diagnose(cli)
    (cli.home / ".env").write_text("OTHER_KEY=x\n")
    assert "key" not in diagnose(cli)
    (cli.home / ".env").unlink()
    (cli.home / ".env").mkdir()
    found = diagnose(cli)["env-file"]
    assert "~/home/.env" in found["text"]
    assert found["fix"] == ["mv ~/home/.env ~/home/.env.unreadable"]
    assert "~/home/.env cannot be read" in cli.run("-c", "model=o3", "doctor").out


def test_an_unknown_provider_is_named(cli: Any) -> None:
    (cli.home / "config.toml").write_text(f'model_provider = "nowhere"\n{NO_SANDBOX}\n')
    found = diagnose(cli)["provider"]
    assert "nowhere" in found["text"]
    assert "codex-framework config unset model_provider" in found["fix"]


@pytest.mark.parametrize("url", ["ftp://host/v1", "127.0.0.1:8000", ""])
def test_an_address_that_is_none_is_named(cli: Any, url: str) -> None:
    healthy(cli, base_url=url)
    found = {**diagnose(cli)}
    assert {"provider", "config-invalid"} & found.keys()


def test_a_refused_key_is_named(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 401})
    healthy(cli, base_url=f"{server.url}/v1")
    found = diagnose(cli, "--online")["key-refused"]
    assert "refuses the key (status 401)" in found["text"]
    assert found["fix"] == ["export TEST_KEY=YOUR_KEY"]
    assert server.keys == ["Bearer sk-test"]


def test_a_server_that_does_not_run_is_named(cli: Any) -> None:
    port = closed_port()
    healthy(cli, base_url=f"http://127.0.0.1:{port}/v1")
    found = diagnose(cli, "--online")["server"]
    assert "127.0.0.1 cannot be reached" in found["text"]
    assert found["fix"] == ["codex-framework config set model_providers.loopback.base_url URL"]


def test_a_wrong_path_is_corrected(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 400})
    healthy(cli, base_url=server.url)
    found = diagnose(cli, "--online")["server-path"]
    assert found["fix"] == [f"codex-framework config set model_providers.loopback.base_url {server.url}/v1"]
    fix(cli, found)
    assert "server-path" not in diagnose(cli, "--online")


def test_a_path_that_nobody_knows_is_named_too(cli: Any, serve: Callable[..., Server]) -> None:
    healthy(cli, base_url=f"{serve({}).url}/v1")
    found = diagnose(cli, "--online")["server-path"]
    assert found["fix"] == ["codex-framework config set model_providers.loopback.base_url URL"]


def test_a_proxy_that_does_not_run_is_named(cli: Any) -> None:
    healthy(cli, base_url="http://model.example/v1")
    cli.env["HTTP_PROXY"] = f"http://me:{SECRET}@127.0.0.1:{closed_port()}"
    found = diagnose(cli, "--online")["proxy-dead"]
    assert "The proxy 127.0.0.1:" in found["text"]
    assert found["fix"] == ["unset HTTP_PROXY"]


def test_a_proxy_that_is_none_is_named(cli: Any) -> None:
    healthy(cli, base_url="http://model.example/v1")
    cli.env["HTTP_PROXY"] = "gopher://127.0.0.1"
    assert diagnose(cli)["proxy"]["fix"] == ["unset HTTP_PROXY"]


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bad_file_of_certificates_is_named(cli: Any, content: str | None) -> None:
    healthy(cli)
    file = cli.work / "ca.pem"
    if content is not None:
        file.write_text(content)
    cli.env["SSL_CERT_FILE"] = str(file)
    cli.env.pop("SSL_CERT_DIR", None)
    cli.env.pop("CODEX_CA_CERTIFICATE", None)
    found = diagnose(cli)["certificates"]
    assert "SSL_CERT_FILE is ~/work/ca.pem" in found["text"]
    assert found["fix"] == ["unset SSL_CERT_FILE"]


def test_a_sandbox_that_cannot_be_used_is_named(cli: Any) -> None:
    healthy(cli, more='sandbox_mode = "read-only"\n[framework]\nsandbox = "landlock"\nplugins.disabled = ["landlock"]')
    found = diagnose(cli)["sandbox"]
    assert found["state"] == "failed"
    assert found["fix"] == ["codex-framework config unset framework.sandbox", "codex-framework sandbox doctor"]


def mounted(cli: Any, options: str, then: str) -> dict[str, Any]:
    """Return the findings where CODEX_HOME is a mount of its own."""
    unshare = shutil.which("unshare")
    script = f"mount -t tmpfs -o {options} tmpfs {cli.home} && {then} exec {COMMAND} doctor --json"
    argv = [unshare or "unshare", "-rm", "sh", "-c", script]
    if unshare is None or subprocess.run([unshare, "-rm", "mount", "-t", "tmpfs", "x", "/mnt"], check=False).returncode:
        pytest.skip("mounting is not permitted")
    done = subprocess.run(argv, env=cli.env, cwd=cli.work, capture_output=True, text=True, check=False)
    return {each["id"]: each for each in json.loads(done.stdout)["findings"] if each["state"] != "ok"}


def test_a_home_that_is_read_only_is_named(cli: Any) -> None:
    found = mounted(cli, "ro", "")["home-unwritable"]
    assert "Nothing can be written to ~/home: Read-only file system" in found["text"]
    assert found["fix"] == [f"chmod u+rwx {cli.home}".replace(cli.env["HOME"], "~"), "export CODEX_HOME=FOLDER"]


def test_a_home_that_is_full_is_named(cli: Any) -> None:
    found = mounted(cli, "size=64k", f"head -c 100000 /dev/zero > {cli.home}/fill 2>/dev/null;")
    assert "No space left on device" in found["home-unwritable"]["text"]
    assert found["home-unwritable"]["fix"][0] == "df -h ~/home"
    assert found["disk"]["state"] == "failed"


def test_a_home_that_is_no_folder_is_named(cli: Any) -> None:
    file = cli.work / "file"
    file.touch()
    cli.env["CODEX_HOME"] = str(file)
    found = diagnose(cli)["home"]
    assert "which is not a folder" in found["text"]
    assert found["fix"] == ["unset CODEX_HOME"]


@pytest.mark.parametrize(
    ("source", "problem", "install"),
    [
        ("import no_such_module_at_all\n", "no_such_module_at_all", []),
        ("import needed_words\n", "needed_words", ["needed-words"]),
        (f"PLUGIN_API = {PLUGIN_API + 1}\n", f"it is written for version {PLUGIN_API + 1} of the plugin API", []),
        ("1 / 0\n", "ZeroDivisionError", []),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named(
    cli: Any, tmp_path: Path, source: str, problem: str, install: list[str]
) -> None:
    healthy(cli)
    site = tmp_path / "site"
    info = site / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\nRequires-Dist: needed-words\n")
    (info / "entry_points.txt").write_text("[codex_framework]\nbroken = broken_plugin\n")
    (site / "broken_plugin.py").write_text(source)
    cli.env["PYTHONPATH"] = str(site)
    found = next(each for name, each in diagnose(cli).items() if name.startswith("plugin"))
    assert "broken (broken 1.0)" in found["text"]
    assert problem in found["text"]
    assert found["fix"][:-1] == [install_command(name) for name in install]
    fix(cli, {"fix": found["fix"][-1:]})
    assert not any(name.startswith("plugin") for name in diagnose(cli))


def test_a_server_of_mcp_without_its_program_is_named(cli: Any) -> None:
    healthy(cli, more=f'{NO_SANDBOX}\nmcp_servers.gone = {{ command = "/no/such/program" }}')
    found = diagnose(cli)["mcp-server"]
    assert found["text"] == "gone: the program /no/such/program does not exist, or cannot be executed"
    fix(cli, found)
    assert "mcp-server" not in diagnose(cli)


def test_a_server_of_mcp_without_its_token_is_named(cli: Any) -> None:
    healthy(
        cli, more=f'{NO_SANDBOX}\nmcp_servers.far = {{ url = "http://mcp.example", bearer_token_env_var = "ITS_KEY" }}'
    )
    assert diagnose(cli)["mcp-server"]["fix"][0] == "export ITS_KEY=YOUR_TOKEN"


@pytest.mark.slow
def test_a_server_of_mcp_that_does_not_start_is_named(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 400})
    healthy(cli, base_url=f"{server.url}/v1", more=f'{NO_SANDBOX}\nmcp_servers.dead = {{ command = "false" }}')
    assert "mcp-server" not in diagnose(cli)
    assert "dead does not start" in diagnose(cli, "--online")["mcp-start"]["text"]


@pytest.mark.slow
def test_the_servers_of_the_command_line_are_started(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 400})
    healthy(cli, base_url=f"{server.url}/v1", more=NO_SANDBOX)
    found = diagnose(cli, "--online", "-c", 'mcp_servers.given.command="false"')
    assert "`given` failed to start" in found["mcp-start"]["text"]


def test_a_wrong_clock_is_named(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 400}, "Mon, 06 Jan 2020 10:00:00 GMT")
    healthy(cli, base_url=f"{server.url}/v1")
    found = diagnose(cli, "--online")["clock"]
    assert "minutes ahead of the server's" in found["text"]
    assert found["fix"] == ["sudo timedatectl set-ntp true"]


def test_a_login_that_others_can_read_is_closed(cli: Any) -> None:
    healthy(cli)
    login = cli.home / "auth.json"
    login.write_text("{}")
    login.chmod(0o644)
    found = diagnose(cli)["login-mode"]
    assert found["fix"] == ["chmod 600 ~/home/auth.json"]
    login.chmod(0o600)
    assert "login-mode" not in diagnose(cli)


def test_programs_that_are_missing_are_named(cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    healthy(cli)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "apt-get").write_text("#!/bin/sh\n")
    (tools / "apt-get").chmod(0o755)
    cli.env["PATH"] = str(tools)
    assert diagnose(cli)["git"]["fix"] == ["sudo apt-get install git"]


def test_a_folder_without_repository_is_named(cli: Any, tmp_path: Path) -> None:
    healthy(cli)
    outside = tmp_path / "outside"
    outside.mkdir()
    cli.work = outside
    found = diagnose(cli)["repository"]
    assert found["fix"][:2] == ["git init", "codex-framework trust"]
    fix(cli, {"fix": ["codex-framework trust"]})
    assert "repository" not in diagnose(cli)


def test_settings_of_a_project_that_do_not_apply_are_named(cli: Any) -> None:
    healthy(cli)
    (cli.work / ".codex").mkdir()
    (cli.work / ".codex" / "config.toml").write_text("model = 'o3'\n")
    found = diagnose(cli)["trust"]
    fix(cli, found)
    assert "trust" not in diagnose(cli)


def test_a_policy_that_exec_refuses_is_replaced(cli: Any) -> None:
    healthy(cli, more=f'{NO_SANDBOX}\napproval_policy = "untrusted"')
    fix(cli, diagnose(cli)["approval-policy"])
    assert "approval-policy" not in diagnose(cli)


PLACEHOLDERS = {"YOUR_KEY": "sk-good", "YOUR_TOKEN": "token", "URL": "http://127.0.0.1:1/v1", "FOLDER": "."}
"""What a person writes in the place of words that only the person knows."""


def follow(cli: Any, command: str) -> None:
    """Run a command that doctor printed as a person would: in a shell, whose variables the next run of doctor has."""
    for word, value in PLACEHOLDERS.items():
        command = re.sub(rf"\b{word}\b", value, command)
    env = cli.env | {"PATH": f"{COMMAND.parent}{os.pathsep}{cli.env['PATH']}"}
    script = f"cd {shlex.quote(str(cli.work))}\n{command} >&2 || exit\nenv -0"
    ran = subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, (command, ran.stderr)
    after = dict(line.partition("=")[::2] for line in ran.stdout.split("\0") if line)
    cli.env = {**after, "PATH": after["PATH"].removeprefix(f"{COMMAND.parent}{os.pathsep}")}


def write(file: Path, text: str, mode: int = 0o600) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def break_the_file(cli: Any) -> None:
    file = cli.home / "config.toml"
    whole = file.read_text()
    file.write_text(f"model = \n{whole}")
    write(cli.work / "editor", '#!/bin/sh\nsed -i 1d "$1"\n', 0o755)
    cli.env["EDITOR"] = str(cli.work / "editor")


def hide_git(cli: Any) -> None:
    """Leave only what an installation needs on the PATH. The package manager is a script that links git."""
    tools = cli.home.parent / "my tools"
    git = shutil.which("git")
    install = f"#!/bin/sh\ntest \"$*\" = 'install git' && /bin/ln -s {git} '{tools}/git'\n"
    write(tools / "apt-get", install, 0o755)
    write(tools / "sudo", '#!/bin/sh\nexec "$@"\n', 0o755)
    (tools / "env").symlink_to("/usr/bin/env")
    (tools / "rg").symlink_to("/bin/true")
    cli.env["PATH"] = str(tools)


def install_plugin(cli: Any, source: str) -> None:
    site = cli.home.parent / "site"
    write(site / "broken-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    write(site / "broken-1.0.dist-info" / "entry_points.txt", "[codex_framework]\nbroken = broken_plugin\n")
    write(site / "broken_plugin.py", source)
    cli.env["PYTHONPATH"] = str(site)


def leave_the_repository(cli: Any) -> None:
    cli.work = cli.home.parent / "outside"
    cli.work.mkdir()


def set_variable(name: str, value: str) -> Callable[[Any], None]:
    return lambda cli: cli.env.update({name: value})


def add_settings(more: str, **table: Any) -> Callable[[Any], None]:
    return lambda cli: healthy(cli, **{"base_url": f"{cli.stand_in.url}/v1", "more": f"{NO_SANDBOX}\n{more}", **table})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "kind", "fixed_by"),
    [
        (break_the_file, "config-invalid", "config edit"),
        (add_settings("project_doc_max_bytes = 'x'"), "config-invalid", "config unset"),
        (add_settings("modle = 1"), "config-invalid", "config unset"),
        (add_settings("zzz_not_known = 1"), "config-warning", "config unset"),
        (lambda cli: (cli.home / ".env").mkdir(), "env-file", "mv "),
        (lambda cli: cli.env.pop("TEST_KEY"), "key", "export"),
        (add_settings("", base_url="ftp://host/v1"), "provider", "config set"),
        (
            lambda cli: write(cli.home / "config.toml", f"model_provider = 'x'\n{NO_SANDBOX}"),
            "provider",
            "config unset",
        ),
        (
            lambda cli: healthy(cli, more="sandbox_mode = 'read-only'\nframework.sandbox = 'gone'"),
            "sandbox",
            "config unset",
        ),
        (lambda cli: healthy(cli, base_url=cli.stand_in.url), "server-path", "config set"),
        (lambda cli: healthy(cli, base_url=f"http://127.0.0.1:{closed_port()}/v1"), "server", "config set"),
        (lambda cli: cli.env.update(TEST_KEY="sk-wrong"), "key-refused", "export"),
        (lambda cli: cli.env.update(HTTP_PROXY=f"http://127.0.0.1:{closed_port()}"), "proxy-dead", "unset"),
        (set_variable("ALL_PROXY", "gopher://127.0.0.1"), "proxy", "unset"),
        (set_variable("SSL_CERT_FILE", "/no/such/file.pem"), "certificates", "unset"),
        (set_variable("CODEX_HOME", "/dev/null"), "home", "unset"),
        (lambda cli: write(cli.home / "auth.json", "{}", 0o644), "login-mode", "chmod"),
        (lambda cli: install_plugin(cli, "import no_such_module_at_all\n"), "plugin-missing-package", "config set"),
        (lambda cli: install_plugin(cli, f"PLUGIN_API = {PLUGIN_API + 1}\n"), "plugin-plugin-version", "config set"),
        (add_settings('mcp_servers.gone = { command = "/no/such/program" }'), "mcp-server", "mcp remove"),
        (add_settings('mcp_servers.far = { url = "http://h", bearer_token_env_var = "ITS" }'), "mcp-server", "export"),
        (add_settings('mcp_servers.here = { command = "true", cwd = "no folder" }'), "mcp-server", "mkdir"),
        (hide_git, "git", "sudo apt-get install"),
        (leave_the_repository, "repository", "git init"),
        (lambda cli: write(cli.work / ".codex" / "config.toml", "model = 'o3'\n"), "trust", "trust"),
        (add_settings("approval_policy = 'untrusted'"), "approval-policy", "config set"),
    ],
)
def test_the_printed_command_fixes_the_set_up(
    cli: Any, serve: Callable[..., Server], broken: Callable[[Any], Any], kind: str, fixed_by: str
) -> None:
    server = serve({"/v1/responses": 400}, None, "Bearer sk-good")
    PLACEHOLDERS["URL"] = f"{server.url}/v1"
    cli.stand_in = server
    cli.env |= {"TEST_KEY": "sk-good", "OPENAI_API_KEY": "sk-good"}
    for name in (
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HTTP_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ):
        cli.env.pop(name, None)
    healthy(cli, base_url=f"{server.url}/v1")
    asked = ["--online"] if kind in ("server", "server-path", "key-refused", "proxy-dead") else []
    before = diagnose(cli, *asked).keys()
    assert kind not in before
    broken(cli)
    found = diagnose(cli, *asked)
    command = next(each for each in found[kind]["fix"] if each.removeprefix("codex-framework ").startswith(fixed_by))
    follow(cli, command)
    left = {each: finding for each, finding in diagnose(cli, *asked).items() if each not in before}
    assert left == {}, command


def test_of_a_server_only_its_program_or_host_is_shown(cli: Any) -> None:
    table = 'mcp_servers = { a = { command = "true", args = ["--key", "word"] }, b = { url = "http://host.example/word/sse" } }'
    healthy(cli, more=f"{NO_SANDBOX}\n{table}")
    found = json.loads(cli.run("doctor", "--json").out)["findings"]
    assert [each["text"] for each in found if each["id"] == "mcp-server"] == ["a: true", "b: host.example"]


def test_the_page_has_no_secret(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 401})
    cli.env |= {
        "TEST_KEY": f"{SECRET}-a",
        "OPENAI_API_KEY": f"{SECRET}-b",
        "HTTPS_PROXY": f"http://me:{SECRET}-c@127.0.0.1:1",
        "ODD": f"{SECRET}-d",
    }
    (cli.home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": f"{SECRET}-e"}))
    healthy(
        cli,
        base_url=f"{server.url.replace('//', f'//me:{SECRET}-f@')}/v1?key={SECRET}-g",
        http_headers={"x-tenant": f"{SECRET}-h"},
        env_http_headers={"x-odd": "ODD"},
        more=f'{NO_SANDBOX}\nmcp_servers.b = {{ command = "true", args = ["--token", "{SECRET}-k"] }}\n'
        f'mcp_servers.c = {{ url = "http://127.0.0.1:1/{SECRET}-l/sse" }}\n'
        f'mcp_servers.a = {{ command = "/no/{SECRET}-i", env = {{ WORD = "{SECRET}-i" }} }}\n'
        f'zzz_not_known = "{SECRET}-j"',
    )
    for argv in (("doctor",), ("doctor", "--json"), ("doctor", "--online"), ("doctor", "--online", "--json")):
        ran = cli.run(*argv)
        assert ran.out
        assert "very-secret" not in ran.out + ran.err
        assert cli.env["HOME"] not in ran.out.replace(str(COMMAND.parents[2]), "")


@pytest.mark.parametrize(
    "text",
    [
        f"{SECRET}-variable",
        f"{SECRET}-named",
        f"{SECRET}-setting",
        f"{SECRET}-login",
        "http://me:sk-pass@host/v1",
        "http://host/v1?key=sk-query",
        "http:/me:sk-pass@host/v1",
        "me:sk-pass@host/v1",
    ],
)
def test_every_kind_of_secret_is_hidden_wherever_it_stands(tmp_path: Path, text: str) -> None:
    login = tmp_path / "auth.json"
    login.write_text(json.dumps({"tokens": {"refresh": f"{SECRET}-login"}}))
    environ = {"SOME_TOKEN": f"{SECRET}-variable", "ODD": f"{SECRET}-named", "HOME": str(tmp_path)}
    tables = {"mcp_servers": {"a": {"env": {"WORD": f"{SECRET}-setting"}}}}
    said = f"before {text} after {tmp_path}/x"
    hidden = Secrets(environ, tables, ["ODD"], login).hide(Finding("i", "a", "ok", said, (said,), said))
    for shown in (hidden.text, hidden.hint, hidden.fix[0]):
        assert "sk-" not in shown
        assert shown.startswith("before ")
        assert shown.endswith(" after ~/x")


def test_without_being_asked_it_sends_nothing(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 400})
    healthy(cli, base_url=f"{server.url}/v1")
    diagnose(cli)
    assert server.keys == []
    diagnose(cli, "--online")
    assert server.keys == ["Bearer sk-test"]


def test_settings_and_profile_of_the_command_line_are_examined(cli: Any) -> None:
    healthy(cli)
    (cli.home / "far.config.toml").write_text('model = "of-the-profile"\n')
    assert "of-the-profile of loopback" in cli.run("doctor", "-p", "far").out
    assert "of-the-profile of loopback" in cli.run("-p", "far", "doctor").out
    assert "o3 of loopback" in cli.run("-m", "o3", "doctor").out
    assert diagnose(cli, "-c", "model_provider=nowhere")["provider"]["state"] == "failed"


def test_a_summary_and_the_network_alone_can_be_asked_for(cli: Any, serve: Callable[..., Server]) -> None:
    server = serve({"/v1/responses": 401})
    healthy(cli, base_url=f"{server.url}/v1")
    ran = cli.run("doctor", "--summary", "--no-color", "--ascii", "--all", "--online")
    assert "refuses the key (status 401)" in ran.out
    assert "$ " not in ran.out
    assert "\033" not in ran.out
    areas = {each["area"] for each in json.loads(cli.run("doctor", "--json", "--network-only").out)["findings"]}
    assert areas == {"Configuration", "Model", "Network"}
    assert len(server.keys) == 2


GIT = {"url": "https://git.example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "1"}}
FROM_GIT = "'codex-framework @ git+https://git.example.org/x.git'"
WHEEL: dict[str, Any] = {"url": "file:///x%20y/c.whl", "archive_info": {}}
FOLDER: dict[str, Any] = {"url": "file:///src/x%20y", "dir_info": {}}


@pytest.mark.parametrize(
    ("origin", "name", "command"),
    [
        ({}, "uv-receipt.toml", "uv tool upgrade codex-framework"),
        ({}, "pipx_metadata.json", "pipx upgrade codex-framework"),
        ({}, "archive-v0/x/pyvenv.cfg", "uvx codex-framework@latest"),
        ({}, "pyvenv.cfg", "-m pip install --upgrade codex-framework"),
        (GIT, "uv-receipt.toml", "uv tool upgrade codex-framework"),
        (GIT, "pipx_metadata.json", f"pipx install --force {FROM_GIT}"),
        (GIT, "archive-v0/x/pyvenv.cfg", f"uvx --refresh --from {FROM_GIT} codex-framework"),
        (GIT, "pyvenv.cfg", f"-m pip install --force-reinstall {FROM_GIT}"),
        (
            {**GIT, "vcs_info": {"vcs": "git", "requested_revision": "v0.1.0"}},
            "pyvenv.cfg",
            f"--force-reinstall {FROM_GIT[:-1]}@v0.1.0'",
        ),
        (FOLDER, "pyvenv.cfg", "-m pip install --force-reinstall '/src/x y'"),
        (FOLDER, "uv-receipt.toml", "git -C '/src/x y' pull && uv tool upgrade codex-framework"),
        (WHEEL, "pyvenv.cfg", "-m pip install --force-reinstall '/x y/c.whl'"),
        (WHEEL, "pipx_metadata.json", "pipx install --force '/x y/c.whl'"),
        ({**WHEEL, "url": "https://e.org/c.whl"}, "pyvenv.cfg", "-m pip install --force-reinstall https://e.org/c.whl"),
        ({**FOLDER, "dir_info": {"editable": True}}, "pyvenv.cfg", "-m pip install -e '/src/x y'"),
    ],
)
def test_an_update_is_made_by_what_installed_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any], name: str, command: str
) -> None:
    monkeypatch.setattr("codex_client_doctor.update._origin", lambda: (origin, "pip"))
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert installation(file.parent).update.endswith(command)


def test_update_changes_nothing_and_names_the_command(cli: Any) -> None:
    ran = cli.run("update")
    assert ran.status == 1
    assert ran.out.strip() in (installation().update, os.fspath(installation().update))
    assert "does not update itself" in ran.err
