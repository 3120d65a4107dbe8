"""``exec --oss`` against servers on loopback that speak Ollama's and LM Studio's APIs."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ProviderInfo
from codex_framework.contract.errors import ConfigError, ModelError
from codex_framework.contract.urls import shown_url
from codex_lib_model_client.local_servers import local_url
from codex_plugin_local_models import downloader, lmstudio, ollama
from codex_plugin_local_models.catalogue import OpenModels
from codex_plugin_local_models.ollama import prepare
from codex_plugin_local_models.progress import Progress
from tests.forked import RunProgram

EVENTS = (
    {"type": "response.created", "response": {"id": "r"}},
    {
        "type": "response.output_item.done",
        "item": {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hello."}],
            "id": "m",
        },
    },
    {
        "type": "response.completed",
        "response": {"id": "r", "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}},
    },
)
STREAM = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS).encode()
PULL = (
    {"status": "pulling manifest"},
    {"status": "pulling a", "digest": "sha256:a", "total": 4_000_000_000, "completed": 1_000_000_000},
    {"status": "pulling a", "digest": "sha256:a", "total": 4_000_000_000, "completed": 4_000_000_000},
    {"status": "verifying sha256 digest"},
    {"status": "success"},
)


class LocalServer:
    """A server with both APIs.

    Attributes:
        models: The models that it has. A pull that succeeds adds one, unless ``lies``.
        pull: The body of the reply to a pull, or what to cut it to.
        stalled: What a pull that never ends sends again and again. None means that it ends.
        replies: By path: a status and a body to answer with instead.
        asked: Paths and bodies of all requests.
    """

    def __init__(self) -> None:
        self.models: list[str] = []
        self.version = "0.15.0"
        self.pull = b"".join(json.dumps(line).encode() + b"\n" for line in PULL)
        self.lies = False
        self.cut = False
        self.stalled: bytes | Callable[[], bytes] | None = None
        self.replies: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.port = 0

    def answer(self, path: str, body: Any) -> tuple[int, bytes]:
        self.asked.append((path, body))
        if path in self.replies:
            return self.replies[path]
        match path:
            case "/api/version":
                return 200, json.dumps({"version": self.version}).encode()
            case "/api/tags":
                return 200, json.dumps({"models": [{"name": name} for name in self.models]}).encode()
            case "/v1/models":
                return 200, json.dumps({"data": [{"id": name} for name in self.models]}).encode()
            case "/api/pull":
                if not self.lies:
                    self.models.append(body["model"])
                return 200, self.pull
            case "/v1/responses":
                return 200, STREAM
            case _:
                return 404, b"{}"

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def server() -> Iterator[LocalServer]:
    made = LocalServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            status, body = made.answer(self.path, json.loads(self.rfile.read(length)) if length else None)
            self.send_response(status)
            kind = "text/event-stream" if self.path == "/v1/responses" else "application/json"
            self.send_header("content-type", kind)
            more = 10**9 if (made.cut or made.stalled is not None) and self.path == "/api/pull" else 0
            self.send_header("content-length", str(len(body) + more))
            self.end_headers()
            self.wfile.write(body)
            while made.stalled is not None and self.path == "/api/pull":
                self.wfile.write(
                    made.stalled() if callable(made.stalled) else made.stalled
                )  # fails when the client has gone
                time.sleep(0.02)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    made.port = http.server_port
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield made
    http.shutdown()
    http.server_close()


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(server: LocalServer, codex_home: Path, tmp_path: Path, run_program: RunProgram) -> Run:
    def ran(*options: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = {"CODEX_HOME": str(codex_home), "HOME": str(codex_home), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
        env |= {"CODEX_OSS_PORT": str(server.port), **more}
        return run_program("exec", "--skip-git-repo-check", *options, "hi", cwd=tmp_path, env=env)

    return ran


OLLAMA = ("--oss", "--local-provider", "ollama")
LMSTUDIO = ("--oss", "--local-provider", "lmstudio")


def test_a_table_can_be_the_provider_and_is_used_as_it_is(run: Run, server: LocalServer, codex_home: Path) -> None:
    table = f'[model_providers.box]\nbase_url = "http://127.0.0.1:{server.port}/v1"\n'
    (codex_home / "config.toml").write_text(f'oss_provider = "box"\nmodel = "house"\n{table}')
    assert run("--oss").returncode == 0
    assert server.paths() == ["/v1/responses"]
    assert server.asked[-1][1]["model"] == "house"


def test_a_provider_that_does_not_exist_is_an_error(run: Run, codex_home: Path) -> None:
    (codex_home / "config.toml").write_text('oss_provider = "nowhere"\n')
    done = run("--oss")
    assert (done.returncode, "'nowhere' is not a provider for --oss" in done.stderr) == (1, True)


def test_two_providers_on_the_command_line_are_an_error(run: Run, server: LocalServer) -> None:
    done = run(*OLLAMA, "-c", "model_provider=openai")
    assert (done.returncode, server.paths()) == (1, [])
    assert "--oss uses a local provider, and the command line sets model_provider to 'openai'" in done.stderr


def test_a_missing_model_is_pulled_and_used(run: Run, server: LocalServer) -> None:
    done = run(*OLLAMA)
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert server.paths() == ["/api/version", "/api/tags", "/api/pull", "/api/tags", "/v1/responses"]
    assert server.asked[2][1] == {"model": "gpt-oss:20b", "stream": True}
    assert server.asked[-1][1]["model"] == "gpt-oss:20b"
    lines = done.stderr.splitlines()
    assert lines[0] == "Pulling model gpt-oss:20b..."
    assert "4.00/4.00 GB (100.0%)" in lines
    assert "Model metadata" not in done.stderr


def test_a_model_that_is_there_is_not_pulled(run: Run, server: LocalServer, codex_home: Path) -> None:
    server.models = ["llama3:latest"]
    (codex_home / "config.toml").write_text('oss_provider = "ollama"\nmodel = "gpt-5.5"\n')
    assert run("--oss", "-m", "llama3").returncode == 0
    assert server.paths() == ["/api/version", "/api/tags", "/v1/responses"]
    server.asked.clear()
    assert run("--oss", "-c", 'model="llama3"').returncode == 0
    assert server.asked[-1][1]["model"] == "llama3"


@pytest.mark.thorough
def test_the_configured_model_is_not_one_of_the_local_provider(run: Run, server: LocalServer, codex_home: Path) -> None:
    (codex_home / "config.toml").write_text('oss_provider = "ollama"\nmodel = "gpt-5.5"\n')
    server.models = ["gpt-oss:20b"]
    assert run("--oss").returncode == 0
    assert server.asked[-1][1]["model"] == "gpt-oss:20b"


@pytest.mark.parametrize("again", [b" ", b"\n", b"{}", json.dumps(PULL[1]).encode() + b"\n"])
def test_a_download_without_progress_ends_and_can_be_continued(
    again: bytes, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ollama, "_STALLED_S", 0.2)
    url, whole = f"http://127.0.0.1:{server.port}/v1", server.pull
    server.pull, server.stalled, server.lies = b"\n".join(whole.split(b"\n")[:2]) + b"\n", again, True
    with pytest.raises(ModelError, match=r"'gpt-oss:20b' made no progress for 0\.2 seconds") as caught:
        prepare(url, "gpt-oss:20b", {})
    assert "Run the same command again" in caught.value.hint
    server.pull, server.stalled, server.lies = whole, None, False
    prepare(url, "gpt-oss:20b", {})


def test_numbers_that_go_up_and_down_and_ever_new_steps_are_no_progress(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ollama, "_STALLED_S", 0.3)
    monkeypatch.setattr(ollama, "_MOST_STEPS", 20)
    server.lies = True
    server.pull = b""
    counter = itertools.count()

    def more() -> bytes:
        number = next(counter)
        steps = ({"digest": "a", "completed": number % 9}, {"digest": f"{number}", "completed": number})
        return b"".join(json.dumps({"status": "step", "total": 9, **step}).encode() + b"\n" for step in steps)

    server.stalled = more
    with pytest.raises(ModelError, match="made no progress"):
        prepare(f"http://127.0.0.1:{server.port}/v1", "gpt-oss:20b", {})
    assert len(capsys.readouterr().err.splitlines()) < 50


def test_a_step_that_reports_nothing_has_more_time(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ollama, "_STALLED_S", 0.1)
    monkeypatch.setattr(ollama, "_SILENT_S", 0.3)
    server.pull, server.stalled = b'{"status": "verifying sha256 digest"}\n', b" "
    with pytest.raises(ModelError, match=r"no progress for 0\.3 seconds"):
        prepare(f"http://127.0.0.1:{server.port}/v1", "gpt-oss:20b", {})


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("0.13.3", True),
        ("v0.13.3", True),
        ("0.13.4", False),
        ("v0.13.4", False),
        ("0.13.4-rc1", False),
        ("dev", False),
        ("0.9.99", True),
        ("1.0.0", False),
        ("", False),
    ],
)
def test_the_oldest_version_is_the_first_with_the_api(server: LocalServer, version: str, *, old: bool) -> None:
    server.version, server.models = version, ["gpt-oss:20b"]
    url = f"http://127.0.0.1:{server.port}/v1"
    if old:
        with pytest.raises(ModelError, match="is too old"):
            prepare(url, "gpt-oss:20b", {})
    else:
        prepare(url, "gpt-oss:20b", {})
    assert "/api/pull" not in server.paths()


@pytest.mark.parametrize("ends", ["success", "error"])
def test_the_bar_of_a_download_ends_before_anything_else_is_said(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("COLUMNS", "40")
    step = b'{"status": "pulling a", "digest": "a", "total": 4000000000, "completed": 1000000000}\n'
    server.pull = step + {"success": b'{"status": "success"}\n', "error": b'{"error": "no"}\n'}[ends]
    with contextlib.suppress(ModelError):
        prepare(f"http://127.0.0.1:{server.port}/v1", "gpt-oss:20b", {})
    bars = [line for line in re.split(r"\r\x1b\[K|\n", out.getvalue()) if line.startswith("[########")]
    assert bars
    assert max(map(len, bars)) == 39, "a longer line would be wrapped, and stay"
    assert out.getvalue().endswith("\n")


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "an error": (
        {"pull": b'{"status": "pulling manifest"}\n{"error": "pull model manifest: file does not exist"}\n'},
        "Pull failed: pull model manifest: file does not exist",
    ),
    "an error object": ({"pull": b'{"error": {"message": "Not found", "type": "x"}}'}, "Pull failed: Not found"),
    "cut": ({"pull": b'{"status": "pulling a"}\n', "cut": True}, "ended before it was complete"),
    "success before the end": (
        {"pull": b'{"status": "success"}\n{"status": "pulling b"}\n', "lies": True},
        "ended before it was complete",
    ),
    "no success": ({"pull": b'{"status": "pulling a"}\n'}, "ended before it was complete"),
    "nothing": ({"pull": b""}, "ended before it was complete"),
    "garbage": ({"pull": b"<html>\n\xff\xfe\n[1]\n5\n"}, "ended before it was complete"),
    "a lie": ({"lies": True}, "does not list it"),
    "an endless line": ({"pull": b"x" * 3_000_000}, "a line of its reply is too long"),
    "a refusal": ({"replies": {"/api/pull": (500, b"oops")}}, "it answered with status 500"),
    "too old": ({"version": "0.9.0"}, "Ollama 0.9.0 is too old. Version 0.13.4 or newer is required."),
    "no name": (
        {"replies": {"/api/tags": (200, b'{"models": [{"name": ["gpt-oss:20b"]}, {"name": 1e999}]}')}},
        "does not list it",
    ),
    "no list": ({"replies": {"/api/tags": (200, b'{"models": 5}')}}, "it does not list its models"),
    "not JSON": ({"replies": {"/api/tags": (200, b"<html>")}}, "is not a JSON object"),
    "an endless version": ({"version": f"0.{'9' * 5000}.1", "lies": True}, "does not list it"),
    "another server": ({"replies": {"/api/version": (404, b""), "/api/tags": (404, b"")}}, "/api/tags with status 404"),
}


@pytest.mark.parametrize(
    "changes", [{"version": "0.9.0\x1b[2J\nError:"}, {"pull": b'{"error": "no\\u001b[2J\\nError:"}'}]
)
def test_a_server_cannot_control_the_terminal(changes: dict[str, Any], server: LocalServer) -> None:
    for attribute, value in changes.items():
        setattr(server, attribute, value)
    with pytest.raises(ModelError) as caught:
        prepare(f"http://127.0.0.1:{server.port}/v1", "gpt-oss:20b", {})
    assert caught.value.fact.isprintable()


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_of_ollama_says_its_reason(name: str, server: LocalServer) -> None:
    changes, words = FAILURES[name]
    for attribute, value in changes.items():
        setattr(server, attribute, value)
    with pytest.raises(ModelError) as caught:
        prepare(f"http://127.0.0.1:{server.port}/v1", "gpt-oss:20b", {})
    assert words in caught.value.fact
    assert caught.value.hint


def test_a_failure_ends_the_run(run: Run, server: LocalServer) -> None:
    changes, words = FAILURES["an error"]
    server.pull = changes["pull"]
    done = run(*OLLAMA)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    assert words in done.stderr
    assert "/v1/responses" not in server.paths()


@pytest.mark.parametrize(
    ("options", "words"),
    [(OLLAMA, "ollama serve"), pytest.param(LMSTUDIO, "lms server start", marks=pytest.mark.thorough)],
)
def test_a_server_that_does_not_run_says_how_to_start_it(run: Run, options: Any, words: str) -> None:
    done = run(*options, CODEX_OSS_PORT="9")
    assert (done.returncode, words in done.stderr, "localhost:9" in done.stderr) == (1, True, True)


@pytest.mark.thorough
def test_variables_say_where_the_server_is(run: Run, server: LocalServer) -> None:
    server.models = ["gpt-oss:20b"]
    done = run(*OLLAMA, CODEX_OSS_PORT="9", CODEX_OSS_BASE_URL=f"http://127.0.0.1:{server.port}/v1/")
    assert done.returncode == 0
    plain = run("-c", 'model_provider="ollama"', "-m", "gpt-oss:20b")
    assert (plain.returncode, server.paths()[-1]) == (0, "/v1/responses")
    wrong = run(*OLLAMA, CODEX_OSS_PORT="http")
    assert (wrong.returncode, "CODEX_OSS_PORT is 'http', which is not a port" in wrong.stderr) == (1, True)


@pytest.mark.parametrize(
    "url", ["gpu-box", "http://", "ftp://gpu-box/v1", "http://gpu-box:99999/v1", "http://gpu box/v1", "http://gpü/v1"]
)
def test_a_url_that_is_none_is_an_error(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        local_url("", {"CODEX_OSS_BASE_URL": url})
    assert str(caught.value) == f"CODEX_OSS_BASE_URL is {shown_url(url)!r}, which is not an http or https URL"


def test_a_url_that_is_none_shows_no_password() -> None:
    with pytest.raises(ConfigError) as caught:
        local_url("", {"CODEX_OSS_BASE_URL": "ftp://user:secret@gpu-box/v1"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("port", ["0", "65536", "-1", "1.5", "²"])
def test_a_port_that_is_none_is_an_error(port: str) -> None:
    with pytest.raises(ConfigError, match="is not a port"):
        local_url("http://localhost:1/v1", {"CODEX_OSS_PORT": port})


@pytest.mark.thorough
def test_a_project_cannot_choose_the_provider(codex_home: Path, tmp_path: Path) -> None:
    from codex_framework.config import load_config
    from codex_framework.contract.roles.exec_options import OptionUse
    from codex_framework.loader.context import LoadContext
    from codex_plugin_local_models.options import options

    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text('[framework.plugins.local_models]\nprovider = "lmstudio"\n')
    user = codex_home / "config.toml"
    environ = {"CODEX_HOME": str(codex_home), "HOME": str(codex_home), "CODEX_OSS_PORT": "9"}

    def missing(given: Any) -> str:
        config = load_config(cwd=tmp_path, environ=environ)
        assert any(layer.name == "project" for layer in config.layers)
        implies = options(LoadContext("local_models", config, environ))[0].implies
        assert implies is not None
        with pytest.raises((ConfigError, ModelError)) as caught:
            implies(OptionUse(value=True, config=config.tables, given=given))
        return str(caught.value)

    trust = f'[projects."{tmp_path}"]\ntrust_level = "trusted"\n'
    user.write_text(trust)
    assert "--oss requires a provider" in missing({})
    user.write_text(trust + '[framework.plugins.local_models]\nprovider = "ollama"\n')
    assert "Ollama" in missing({})
    assert "LM Studio" in missing({"framework": {"plugins": {"local_models": {"provider": "lmstudio"}}}})


def test_the_user_comes_before_the_system(codex_home: Path, tmp_path: Path) -> None:
    from codex_framework.config import load_config
    from codex_framework.contract.roles.exec_options import OptionUse
    from codex_framework.loader.context import LoadContext
    from codex_plugin_local_models.options import options

    system, environ = tmp_path / "system.toml", {"CODEX_HOME": str(codex_home), "HOME": str(codex_home)}
    system.write_text('[framework.plugins.local_models]\nprovider = "lmstudio"\n')

    def missing() -> str:
        config = load_config(cwd=tmp_path, environ=environ, system_config=system)
        implies = options(LoadContext("local_models", config, {**environ, "CODEX_OSS_PORT": "9"}))[0].implies
        assert implies is not None
        with pytest.raises(ModelError) as caught:
            implies(OptionUse(value=True, config=config.tables, given={}))
        return str(caught.value)

    assert "LM Studio" in missing()
    (codex_home / "config.toml").write_text('[framework.plugins.local_models]\nprovider = "ollama"\n')
    assert "Ollama" in missing()


def test_without_a_provider_it_says_what_to_do(run: Run) -> None:
    done = run("--oss")
    assert (done.returncode, "--local-provider ollama" in done.stderr) == (1, True)
    assert run("--oss", "--local-provider", "other").returncode == 2


def program(tmp_path: Path, script: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "lms").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "lms").chmod(0o755)


def test_lm_studio_downloads_with_its_own_program(run: Run, server: LocalServer, tmp_path: Path) -> None:
    program(tmp_path, f'echo "lms $@" >> {tmp_path}/log; echo half way')
    done = run(*LMSTUDIO)
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert (tmp_path / "log").read_text() == "lms get --yes openai/gpt-oss-20b\n"
    assert "half way" in done.stderr
    server.models = ["mine"]
    assert run(*LMSTUDIO, "-m", "mine").returncode == 0
    assert (tmp_path / "log").read_text().count("\n") == 1


def test_entries_that_make_no_sense_hide_no_model(server: LocalServer) -> None:
    listed = b'{"data": [5, null, "openai/gpt-oss-20b", {"id": 7}, {"id": "openai/gpt-oss-20b"}]}'
    server.replies["/v1/models"] = (200, listed)
    lmstudio.prepare(f"http://127.0.0.1:{server.port}/v1", "openai/gpt-oss-20b", {"PATH": "/nonexistent"})


def test_lms_may_clean_up_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, f"trap 'touch {tmp_path}/clean; exit 1' TERM; echo ready; while :; do sleep 0.02; done")
    monkeypatch.setattr(downloader, "SILENT_S", 3.0)
    with pytest.raises(downloader.StalledError):
        downloader.download([f"{tmp_path}/bin/lms"], {"PATH": "/usr/bin:/bin"}, io.StringIO())
    assert (tmp_path / "clean").exists()


def test_lms_of_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "exit 0")
    monkeypatch.chdir(tmp_path)
    env = {"HOME": str(tmp_path)}
    with pytest.raises(ModelError, match="`lms`, which downloads models, is not found"):
        lmstudio._program({**env, "PATH": "bin:/usr/bin:/bin"})
    assert lmstudio._program({**env, "PATH": f"bin:{tmp_path}/bin"}) == f"{tmp_path}/bin/lms"


@pytest.mark.parametrize("folder", [".lmstudio/bin", ".cache/lm-studio/bin"])
def test_lms_is_found_where_lm_studio_puts_it(tmp_path: Path, folder: str) -> None:
    lms = tmp_path / folder / "lms"
    lms.parent.mkdir(parents=True)
    lms.write_text("#!/bin/sh\n")
    lms.chmod(0o755)
    assert lmstudio._program({"HOME": str(tmp_path), "PATH": "/nonexistent"}) == str(lms)


def test_a_proxy_is_not_asked_for_a_local_server(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    prepare(f"http://127.0.0.1:{server.port}/v1/", "gpt-oss:20b", {})
    assert server.paths() == ["/api/version", "/api/tags", "/api/pull", "/api/tags"]


def test_only_the_open_models_of_a_provider_are_known() -> None:
    catalogue = OpenModels()
    ollama_, studio = ProviderInfo(id="ollama"), ProviderInfo(id="lmstudio")
    assert [model.slug for model in catalogue.models(ollama_)] == ["gpt-oss:20b", "gpt-oss:120b"]
    assert [model.slug for model in catalogue.models(studio)] == ["openai/gpt-oss-20b", "openai/gpt-oss-120b"]
    assert list(catalogue.models(ProviderInfo(id="other"))) == []
    assert catalogue.model("gpt-oss:20b", ollama_) is not None
    assert catalogue.model("gpt-oss:20b", studio) is None
    assert catalogue.model("qwen3", ollama_) is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "words"), [("exit 3", "lms ended with status 3"), (None, "`lms`, which downloads models")]
)
def test_a_download_of_lm_studio_that_fails_ends_the_run(
    script: str | None, words: str, run: Run, tmp_path: Path, server: LocalServer
) -> None:
    if script is not None:
        program(tmp_path, script)
    done = run(*LMSTUDIO)
    assert (done.returncode, words in done.stderr, "/v1/responses" in server.paths()) == (1, True, False)


BAR = "printf '\\r\\033[32m~ [##  ] 45.20%% | 3.1 GB / 6.9 GB | '$n'.3 MB/s\\033[0m'"


@pytest.mark.parametrize(
    ("loop", "limit", "seconds"),
    [
        (BAR, "STALLED_S", 0.5),
        ("echo $n$n | tr '0-9' 'a-j'; echo 12%", "STALLED_S", 0.5),
        (":", "SILENT_S", 0.6),
        (f"{BAR}; echo; echo Verifying; sleep 9", "SILENT_S", 0.6),
    ],
)
def test_a_download_of_lm_studio_that_stands_still_ends(
    loop: str, limit: str, seconds: float, tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STALLED_S", "SILENT_S"):
        monkeypatch.setattr(downloader, name, seconds if name == limit else 30)
    monkeypatch.setattr(downloader, "_TEXTS", 5)
    monkeypatch.setattr(downloader, "_TERM_S", 0.1)
    program(
        tmp_path, f"trap '' TERM; echo $$ > {tmp_path}/pid; n=0; while :; do n=$((n + 1)); {loop}; sleep 0.02; done"
    )
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    with pytest.raises(ModelError, match=rf"made no progress for {seconds} seconds, and lms was ended"):
        lmstudio.prepare(f"http://127.0.0.1:{server.port}/v1", "mine", env)
    assert ended(int((tmp_path / "pid").read_text()))


def test_a_download_that_advances_slowly_goes_on(
    tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(downloader, "STALLED_S", 0.6)
    first, second = (f'for n in 1 2 3 4 5; do printf "\\r{name} $n%%"; sleep 0.2; done' for name in ("one", "two"))
    program(tmp_path, f"{first}; {second}; echo; printf '\\033]0;title\\007Done\\033[2J\\n'")
    lmstudio.prepare(f"http://127.0.0.1:{server.port}/v1", "mine", {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert capfd.readouterr().err.splitlines() == ["Downloading model: mine", "one 1%", "two 1%", "Done"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_lms_ends_with_the_run(number: int, status: int, server: LocalServer, codex_home: Path, tmp_path: Path) -> None:
    program(tmp_path, f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 100")
    env = {"CODEX_HOME": str(codex_home), "HOME": str(codex_home), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    argv = [sys.executable, "-m", "codex_framework", "exec", "--skip-git-repo-check", *LMSTUDIO, "hi"]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    argv = ["nohup", *argv]  # has the end of a terminal ignored
    with subprocess.Popen(argv, cwd=tmp_path, env={**env, "CODEX_OSS_PORT": str(server.port)}, **pipes) as running:
        pid = tmp_path / "pid"
        assert soon(lambda: pid.exists() or running.poll() is not None)
        lms = int(pid.read_text())
        running.send_signal(number)
        assert running.wait(30) == status
    assert soon(lambda: ended(lms))


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def soon(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_moves_and_survives_senseless_numbers() -> None:
    out = Terminal()
    progress = Progress(out, "Pulling")
    for part, completed, total in (
        *(("a", 0, 100), ("a", 200, 100), ("b", -5, 300), ("b", "x", 300), ("c", 5, 0), ("c", 5, -1), ("d", 1, "x")),
        *((None, None, None), ("a", True, True), ("e", 5, 10**400), ("e", 10**400, 1e999)),
    ):
        progress.report("pulling", part, completed, total)
    progress.close()
    assert out.getvalue().endswith("GB (25.0%)\n")
    assert "[########" in out.getvalue()


def test_it_asks_as_codex_asks(
    run: Run, server: LocalServer, codex_home: Path, tmp_path: Path, codex_binary: str
) -> None:
    """The requests of Codex, without the probe of /v1/models that it makes first."""
    told: list[Any] = []
    for theirs in (False, True):
        server.models, server.asked = [], []
        if theirs:
            env = {"CODEX_HOME": str(codex_home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
            subprocess.run(
                [codex_binary, "exec", "--skip-git-repo-check", *OLLAMA, "hi"],
                cwd=tmp_path,
                env={**env, "CODEX_OSS_PORT": str(server.port)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=60,
            )
        else:
            assert run(*OLLAMA).returncode == 0
        keys = ("model", "stream", "reasoning", "include", "store", "parallel_tool_calls", "text")
        told.append(
            [
                (path, {key: body.get(key) for key in keys} if body else None)
                for path, body in dict.fromkeys((path, json.dumps(body)) for path, body in server.asked)
                if path != "/v1/models"
                for body in [json.loads(body)]
            ]
        )
    assert told[0] == told[1]
