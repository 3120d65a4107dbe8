"""``codex-framework apply``, against a server that has a task as Codex's cloud does."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

DIFF = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"
NEW = "diff --git a/a.txt b/a.txt\nnew file mode 100755\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+new\n"


def task(diff: str) -> dict[str, Any]:
    items = [{"type": "message"}, {"type": "pr", "output_diff": {"diff": diff}}]
    return {"current_diff_task_turn": {"output_items": items}}


def token() -> str:
    def part(data: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()

    account = {"chatgpt_account_id": "account-1", "chatgpt_plan_type": "pro"}
    claims = {"exp": int(time.time()) + 86400, "email": "a@b", "https://api.openai.com/auth": account}
    return f"{part({'alg': 'none'})}.{part(claims)}.c2ln"


@pytest.fixture
def checkout(cli: Any) -> Path:
    (cli.work / ".git" / "objects").rmdir()
    (cli.work / ".git").rmdir()
    (cli.work / "sub").mkdir()
    (cli.work / "a.txt").write_text("one\n")
    for argv in (("init", "-q"), ("add", "."), ("-c", "user.name=n", "-c", "user.email=a@b", "commit", "-qm", "x")):
        subprocess.run(["git", *argv], cwd=cli.work, check=True)
    return Path(cli.work)


@pytest.fixture
def log_in(cli: Any) -> None:
    jwt = token()
    tokens = {"id_token": jwt, "access_token": jwt, "refresh_token": "r", "account_id": "account-1"}
    content = {"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": "2026-11-28T10:00:00Z"}
    (cli.home / "auth.json").write_text(json.dumps(content))


@pytest.fixture
def serve(cli: Any) -> Iterator[Callable[..., list[Any]]]:
    servers: list[ThreadingHTTPServer] = []

    def start(reply: object, status: int = 200) -> list[Any]:
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        asked: list[Any] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers["authorization"], self.headers["chatgpt-account-id"]))
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/backend-api"
        (cli.home / "config.toml").write_text(f'chatgpt_base_url = "{url}"\n')
        return asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.usefixtures("log_in")
@pytest.mark.parametrize("folder", [".", "sub"])
def test_the_changes_of_a_task_are_applied(
    cli: Any, checkout: Path, serve: Callable[..., list[Any]], folder: str
) -> None:
    asked = serve(task(DIFF))
    ran = cli.run("apply", "task_1", cwd=checkout / folder)
    assert (ran.status, ran.out, ran.err) == (0, "Successfully applied diff\n", "")
    assert (checkout / "a.txt").read_text() == "two\n"
    ((path, authorization, account),) = asked
    assert (path, account) == ("/backend-api/wham/tasks/task_1", "account-1")
    assert authorization.startswith("Bearer ey")


@pytest.mark.usefixtures("log_in", "checkout")
def test_the_id_of_a_task_leads_nowhere_else(cli: Any, serve: Callable[..., list[Any]]) -> None:
    asked = serve(task(DIFF))
    assert cli.run("apply", "../me?x#y").status == 0
    assert asked[0][0] == "/backend-api/wham/tasks/..%2Fme%3Fx%23y"


@pytest.mark.usefixtures("log_in")
@pytest.mark.parametrize(
    ("reply", "status", "problem"),
    [
        ({"current_diff_task_turn": None}, 200, "No diff turn found\nThe task has not changed"),
        ({"current_diff_task_turn": {"output_items": [3, {"type": "pr"}]}}, 200, "No PR output item found\n"),
        (b"x", 200, "Failed to parse JSON response\n"),
        ([], 200, "Failed to parse JSON response\n"),
        ({}, 404, "Request failed with status 404\nCheck the id"),
        ({}, 401, "Request failed with status 401\nLog in again: codex-framework login"),
        (task(DIFF.replace("one", "other")), 200, "Git apply failed\n"),
        (task("no diff"), 200, "Git apply failed\nerror: No valid patches"),
        (task(NEW.replace("a.txt", ".git/hooks/post-checkout")), 200, "Git apply failed\nerror: invalid path"),
        (task(NEW.replace("a.txt", "../a.txt")), 200, "Git apply failed\nerror: invalid path"),
    ],
)
def test_what_cannot_be_applied_changes_nothing(
    cli: Any, checkout: Path, serve: Callable[..., list[Any]], reply: object, status: int, problem: str
) -> None:
    serve(reply, status)
    ran = cli.run("apply", "task_1")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"Error: {problem}")
    assert (checkout / "a.txt").read_text() == "one\n"


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("key", ["", "sk-x"])
def test_without_a_login_with_chatgpt_nothing_is_fetched(cli: Any, serve: Callable[..., list[Any]], key: str) -> None:
    asked = serve(task(DIFF))
    cli.env["OPENAI_API_KEY"] = key
    ran = cli.run("apply", "task_1")
    assert ran.status == 1
    assert ran.error == (
        "Error: ChatGPT auth not available\n"
        "Tasks belong to an account of ChatGPT, not to an API key. Run: codex-framework login\n"
    )
    assert asked == []


@pytest.mark.usefixtures("log_in")
def test_outside_of_a_repository_nothing_is_fetched(cli: Any, tmp_path: Path, serve: Callable[..., list[Any]]) -> None:
    asked = serve(task(DIFF))
    outside = tmp_path / "outside"
    outside.mkdir()
    ran = cli.run("apply", "task_1", cwd=outside)
    assert (ran.status, asked) == (1, [])
    assert ran.err.startswith("Error: not a git repository\n")


@pytest.mark.usefixtures("log_in")
def test_programs_that_the_repository_names_do_not_run(
    cli: Any, checkout: Path, serve: Callable[..., list[Any]]
) -> None:
    serve(task(DIFF))
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {cli.home}/ran"], cwd=checkout, check=True)
    assert cli.run("apply", "task_1").status == 0
    assert not (cli.home / "ran").exists()


@pytest.mark.usefixtures("checkout", "log_in")
@pytest.mark.codex
def test_codex_asks_for_the_same_task_and_says_the_same(
    cli: Any, checkout: Path, serve: Callable[..., list[Any]], codex_binary: str
) -> None:
    asked = serve(task(DIFF))
    theirs = subprocess.run(
        [codex_binary, "apply", "task_1"], cwd=cli.work, env=cli.env, capture_output=True, text=True, check=True
    )
    subprocess.run(["git", "checkout", "-q", "HEAD", "a.txt"], cwd=checkout, check=True)
    assert cli.run("apply", "task_1").out == theirs.stdout
    assert asked[0] == asked[1]
