"""``exec --remote``: ours against this server, beside a run without it; and Codex's own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from websockets.sync.server import ServerConnection, serve

from codex_framework.testing import ResponsesServer, call, custom_call, fault, reasoning, say
from tests.forked import RunProgram
from tests.plugins.app_server.test_sockets import TOKEN, started
from tests.tls import Authority

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+one\n*** Update File: old.txt\n@@\n-a\n+b\n*** End Patch\n"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6364f8cf500f00030601805a34"
    "7d6b0000000049454e44ae426082"
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
FREE = ("-s", "danger-full-access")


class Remote:
    """A server with a scripted model, and a client with a home of its own."""

    def __init__(self, home: Any, url: str, script: list[Any], client: Path) -> None:
        self.work: Path = home.work
        self.url = url
        self.script = script
        self.client_env = {**home.env, "CODEX_HOME": str(client), "TOKEN": TOKEN, "EMPTY": ""}
        self.model: ResponsesServer = home.models[0]
        self._home = home
        self.run_program: RunProgram

    def run(self, *words: str, remote: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run ``exec`` with these words, on the server or without it."""
        place = ("--remote", self.url) if remote else ("--skip-git-repo-check",)
        env = self.client_env if remote else self._home.env
        return self.run_program("exec", *place, *words, **{"cwd": self.work, "env": env, **options})

    def newest_request(self) -> dict[str, Any]:
        found: dict[str, Any] = self.model.requests[-1].json
        return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, make_home: Callable[[Path], Any]) -> Iterator[Remote]:
    folder = tmp_path_factory.mktemp("remote")
    client = folder / "client"
    client.mkdir()
    home = make_home(folder)
    script: list[Any] = []
    home.serve(lambda _: script.pop(0), repeat_last=True)
    with started(home, "--listen", "ws://127.0.0.1:0") as url:
        yield Remote(home, url, script, client)
    home.models[0].stop()


@pytest.fixture
def remote(shared: Remote, run_program: RunProgram) -> Remote:
    """The same server for all tests, with nothing left of the others."""
    shared.run_program = run_program
    shared.script.clear()
    for file in shared.work.iterdir():
        file.unlink()
    (shared.work / "old.txt").write_text("a\n")
    return shared


def normalised(text: str) -> str:
    """Return an output without what differs between any two runs."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    return re.sub(r"\b[\d.]+m?s\b", "TIME", text)


RUNS: dict[str, tuple[list[Any], Sequence[str]]] = {
    "an answer": ([say("Hello.", deltas=3)], ()),
    "reasoning": ([reasoning("**Thinking**\n\nHard.", encrypted_content="x") + say("Hello.")], ()),
    "commands": (
        [
            call("exec_command", cmd="echo hi"),
            call("exec_command", cmd="echo 'no \"way\"' >&2; exit 3"),
            say("Done."),
        ],
        FREE,
    ),
    "a plan and unknown tools": (
        [call("update_plan", plan=[{"step": "a", "status": "in_progress"}]), call("no_such_tool", x=1), say("Done.")],
        ("-c", "tools.update_plan={enabled=true}"),
    ),
    "an image that is seen": ([call("view_image", path="pixel.png"), say("Seen.")], ()),
    "a refused request": ([fault(400, body={"error": {"message": "It is refused."}})], ()),
    "no answer": ([say("")], ()),
    "an answer by a schema": ([say('{"a": "b"}')], ("--output-schema", "schema.json", "-o", "last.txt")),
    "another model": ([say("Hello.")], ("-m", "gpt-5.4", "-c", "model_reasoning_effort=high")),
}


QUICK = ("commands", "a refused request", "an answer by a schema")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_a_run_prints_and_asks_the_same_as_without_a_server(remote: Remote, name: str) -> None:
    replies, words = RUNS[name]
    (remote.work / "pixel.png").write_bytes(PIXEL)
    (remote.work / "schema.json").write_text(json.dumps(SCHEMA))
    seen = []
    for on_server in (True, False):
        remote.script[:] = replies
        ran = remote.run("--json", *words, "Go.", remote=on_server)
        seen.append((ran.returncode, normalised(ran.stdout), normalised(ran.stderr)))
        body = remote.newest_request()
        asked = {key: body.get(key) for key in ("model", "reasoning", "text", "instructions", "tools")}
        seen[-1] += (asked, len(body["input"]))  # type: ignore[assignment]
        last = remote.work / "last.txt"
        assert not last.exists() or last.read_text() == '{"a": "b"}'
    assert seen[0] == seen[1]


def test_a_patch_is_shown_and_made(remote: Remote) -> None:
    outputs = []
    for on_server in (True, False):
        (remote.work / "old.txt").write_text("a\n")
        (remote.work / "made.txt").unlink(missing_ok=True)
        remote.script[:] = [custom_call("apply_patch", PATCH), custom_call("apply_patch", "none"), say("Done.")]
        outputs.append(normalised(remote.run("--json", *FREE, "Go.", remote=on_server).stdout))
        assert (remote.work / "made.txt").read_text() == "one\n"
    assert outputs[0] == outputs[1]


def test_a_command_that_nobody_may_approve_is_declined(remote: Remote) -> None:
    remote.script[:] = [call("exec_command", cmd="touch made"), say("No.")] * 2
    ran = remote.run("--json", *FREE, "-c", "approval_policy=untrusted", "Go.")
    statuses = [event["item"].get("status") for event in map(json.loads, ran.stdout.splitlines()) if "item" in event]
    assert (ran.returncode, statuses) == (0, ["in_progress", "declined", None])
    assert not (remote.work / "made").exists()
    assert " declined: rejected by user\n" in remote.run(*FREE, "-c", "approval_policy=untrusted", "Go.").stderr


def test_the_text_output_is_the_same(remote: Remote) -> None:
    outputs = []
    for on_server in (True, False):
        remote.script[:] = [call("exec_command", cmd="echo hi"), say("Done.")]
        ran = remote.run(*FREE, "Go.", remote=on_server)
        outputs.append((ran.returncode, ran.stdout, normalised(ran.stderr)))
    assert outputs[0] == outputs[1]


def test_a_thread_goes_on_and_is_forked(remote: Remote) -> None:
    remote.script[:] = [say("One."), say("Two."), say("Three.")]
    first = remote.run("--json", "First.")
    thread = json.loads(first.stdout.splitlines()[0])["thread_id"]
    again = remote.run("--json", "resume", thread, "-s", "danger-full-access", "-m", "gpt-5.4", "Second.")
    assert json.loads(again.stdout.splitlines()[-1])["usage"]["input_tokens"] == 200
    request = remote.newest_request()
    assert request["model"] == "gpt-5.4"
    assert "First." in json.dumps(request["input"])
    assert "`danger-full-access`" in json.dumps(request["input"])
    forked = remote.run("fork", thread)
    assert (forked.returncode, forked.stdout.strip() != thread) == (0, True)
    assert remote.run("resume", forked.stdout.strip(), "Third.").stdout == "Three.\n"
    assert "Second." in json.dumps(remote.newest_request()["input"])


def test_the_input_reaches_the_server(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "pixel.png").write_bytes(PIXEL)
    remote.script[:] = [call("exec_command", cmd="pwd"), say("Seen.")]
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    ran = remote.run("--json", "-C", str(folder), "-i", str(tmp_path / "pixel.png"), "--", "Look.")
    assert f"{folder}\\n" in ran.stdout
    assert "data:image/png;base64," in json.dumps(remote.newest_request()["input"])


def test_a_review_runs_on_the_server(remote: Remote) -> None:
    remote.script[:] = [say(json.dumps({"findings": [], "overall_explanation": "Fine."}))]
    ran = remote.run("--json", "review", "look at it")
    assert [json.loads(line)["type"] for line in ran.stdout.splitlines()] == [
        "thread.started",
        "turn.started",
        "item.completed",
        "turn.completed",
    ], ran.stderr
    assert "look at it" in json.dumps(remote.newest_request()["input"])


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_interrupts_the_turn_on_the_server(remote: Remote, number: int, status: int) -> None:
    remote.script[:] = [call("exec_command", cmd="echo $$ > pid; sleep 600"), say("Never.")]
    words = [sys.executable, "-m", "codex_framework", "exec", "--json", "--remote", remote.url, *FREE, "Go."]
    program = subprocess.Popen(
        words, cwd=remote.work, env=remote.client_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    with program.stdout:
        lines = []
        for line in program.stdout:
            lines.append(json.loads(line))
            if lines[-1]["type"] == "item.started":
                program.send_signal(number)
    assert program.wait(60) == status
    assert lines[-1] == {"type": "turn.failed", "error": {"message": "turn interrupted"}}
    assert lines[-2]["item"]["status"] == "failed"  # the command has ended, and the server says so


def test_a_token_lets_in_and_the_end_of_the_server_ends_the_run(
    home: Any, shared: Remote, run_program: RunProgram, tmp_path: Path
) -> None:
    model = home.serve(call("exec_command", cmd="sleep 600"), say("Never."))
    (tmp_path / "token").write_text(TOKEN)
    access = ("--ws-auth", "capability-token", "--ws-token-file", str(tmp_path / "token"))
    env = {**shared.client_env, "OTHER": "wrong"}
    with started(home, "--listen", "ws://127.0.0.1:0", *access) as url:
        for words in ((), ("--remote-auth-token-env", "OTHER")):
            refused = run_program("exec", "--json", "--remote", url, *words, "Go.", cwd=home.work, env=env)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert f"failed to connect to remote app server at `{url}`: HTTP 401: " in refused.stderr
        program = [sys.executable, "-m", "codex_framework", "exec", "--json", "--remote", url]
        running = subprocess.Popen(
            [*program, "--remote-auth-token-env", "TOKEN", "Go."],
            cwd=home.work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        model.wait_for(1)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert f"Error: remote app server at `{url}` was lost: " in err, out


@pytest.mark.slow
def test_a_unix_socket_is_an_address(home: Any, shared: Remote, run_program: RunProgram) -> None:
    home.serve(say("Hello."))
    with started(home, "--listen", "unix://s"):
        ran = run_program("exec", "--remote", "unix://s", "Go.", cwd=home.work, env=shared.client_env)
    assert ran.stdout == "Hello.\n", ran.stderr


REFUSED = {
    ("--remote", "http://127.0.0.1:1"): "invalid remote address `http://127.0.0.1:1`; expected `ws://host:port`",
    ("--remote", "ws://127.0.0.1"): "invalid remote address",
    ("--remote", "ws://127.0.0.1:1/path"): "invalid remote address",
    ("--remote", "ws://user:word@127.0.0.1:1"): "invalid remote address",
    ("--remote", "ws://[1:2"): "invalid remote address",
    ("--remote", "stdio://"): "invalid remote address",
    ("--remote", ""): "invalid remote address",
    ("--remote", "ws://127.0.0.1:1"): "failed to connect to remote app server at `ws://127.0.0.1:1`: ",
    ("--remote", "unix:///no/such"): "failed to connect to remote app server at `unix:///no/such`: ",
    ("--remote-auth-token-env", "TOKEN"): "`--remote-auth-token-env` requires `--remote`.",
    ("--remote", "ws://[::1]:1", "--remote-auth-token-env", "NONE"): "environment variable `NONE` is not set",
    ("--remote", "ws://[::1]:1", "--remote-auth-token-env", "EMPTY"): "environment variable `EMPTY` is empty",
    (
        "--remote",
        "ws://10.0.0.1:1",
        "--remote-auth-token-env",
        "TOKEN",
    ): "requires a `wss://` or loopback `ws://` remote",
    ("--remote", "unix://s", "--remote-auth-token-env", "TOKEN"): "requires a `wss://` or loopback `ws://` remote",
    ("--remote", "unix://s", "--agent", "x", "--trust"): "--remote does not support --agent, --trust",
    ("--remote", "unix://s", "--add-dir", "/tmp"): "--remote does not support --add-dir",
    ("--remote", "unix://s", "--ignore-rules"): "--remote does not support --ignore-rules",
    ("--remote", "unix://s", "-c", "framework.unknown_keys=error"): "--remote does not support -c framework",
    ("--remote", "unix://s", "resume", "--last"): "--remote resume does not support --last",
    ("--remote", "unix://s", "resume", "a name"): "remote resume requires a thread UUID",
    ("--remote", "unix://s", "resume", "--search", "0" * 32): "--remote resume does not support --search",
    ("--remote", "unix://s", "resume", "-c", "web_search=live", "0" * 32): "does not support -c web_search",
    ("--remote", "unix://s", "fork", "--at", "1", "0" * 32): "--remote needs the id of a turn with --at",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_the_server_cannot_do_is_refused(remote: Remote, words: tuple[str, ...]) -> None:
    ran = remote.run(*words, "Go.", remote=False, env=remote.client_env)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert REFUSED[words] in ran.stderr
    assert "bug" not in ran.stderr


def answer_with(**answers: Any) -> Callable[[ServerConnection], None]:
    """Return a server that answers requests with what is given for their method, and else with an empty result."""

    def handle(connection: ServerConnection) -> None:
        for text in connection:
            message = json.loads(text)
            if "id" in message:
                for answer in answers.get(message["method"].replace("/", "_"), [{"result": {}}]):
                    connection.send(answer if isinstance(answer, str) else json.dumps({"id": message["id"], **answer}))

    return handle


THREAD = "01a1fa1a-56dd-7632-b4ae-412af7e8b615"
OPENED = {
    "thread": {"id": THREAD},
    "model": "m",
    "modelProvider": "p",
    "cwd": "/",
    "approvalPolicy": "never",
    "sandbox": {"type": "readOnly"},
}
STARTED = [{"result": OPENED}]
TURN = {"result": {"turn": {"id": "u", "status": "inProgress"}}}


def told(method: str, **params: Any) -> str:
    return json.dumps({"method": method, "params": {"threadId": THREAD, "turnId": "u", **params}})


NONSENSE: dict[str, tuple[Callable[[ServerConnection], None], str]] = {
    "no JSON": (answer_with(initialize=["rubbish"]), "a message that is not JSON-RPC"),
    "deep JSON": (answer_with(initialize=["[" * 100_000]), "a message that is not JSON-RPC"),
    "a list": (answer_with(initialize=["[]"]), "a message that is not JSON-RPC"),
    "an empty object": (answer_with(initialize=["{}"]), "a message that is not JSON-RPC"),
    "an early end": (lambda connection: connection.close(), "was lost: "),
    "a refusal": (
        answer_with(initialize=[{"error": {"code": -1, "message": "no"}}]),
        "initialize failed: no (code -1)",
    ),
    "a wrong error": (answer_with(initialize=[{"error": 5}]), "initialize failed: the server gave no reason"),
    "no thread": (answer_with(), "the response to thread/start cannot be read"),
    "an id that is none": (
        answer_with(thread_start=[{"result": {**OPENED, "thread": {"id": "\x1b[31m"}}}]),
        "the response to thread/start cannot be read",
    ),
    "no turn": (answer_with(thread_start=STARTED), "does not speak the protocol"),
    "a wrong item": (
        answer_with(thread_start=STARTED, turn_start=[TURN, told("item/started", item={"type": "commandExecution"})]),
        "does not speak the protocol of app servers: item/started",
    ),
    "a wrong end": (
        answer_with(thread_start=STARTED, turn_start=[TURN, told("turn/completed", turn=[])]),
        "does not speak the protocol of app servers: turn/completed",
    ),
}


@contextmanager
def served(handle: Callable[[ServerConnection], None], **options: Any) -> Iterator[str]:
    """Run a server of this process, and yield where it is."""
    with serve(handle, "127.0.0.1", 0, **options) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", NONSENSE)
def test_a_server_that_speaks_nonsense_is_named(remote: Remote, name: str) -> None:
    handle, words = NONSENSE[name]
    with served(handle) as place:
        ran = remote.run("--json", "--remote", f"ws://{place}", "Go.", remote=False, env=remote.client_env)
    assert ran.returncode == 1
    assert words in ran.stderr
    assert "bug" not in ran.stderr


def test_a_server_over_tls_needs_a_certificate_that_is_trusted(remote: Remote, tmp_path: Path) -> None:
    said = {"type": "agentMessage", "id": "m", "text": "Hello."}
    end = [
        told("item/completed", item=said, completedAtMs=1),
        told("turn/completed", turn={"id": "u", "status": "completed"}),
    ]
    authority = Authority(tmp_path, "ours")
    (tmp_path / "ours.pem").write_text(authority.pem)
    trusting = {**remote.client_env, "CODEX_CA_CERTIFICATE": str(tmp_path / "ours.pem")}
    handle = answer_with(thread_start=STARTED, turn_start=[TURN, *end])
    with served(handle, ssl=authority.server()) as place:
        words = ("--remote", f"wss://{place}", "--remote-auth-token-env", "TOKEN", "Go.")
        ran = remote.run(*words, remote=False, env=trusting)
        refused = remote.run(*words, remote=False, env=remote.client_env)
    assert ran.stdout == "Hello.\n", ran.stderr
    assert (refused.returncode, "CERTIFICATE_VERIFY_FAILED" in refused.stderr) == (1, True)


def test_a_redirect_is_not_followed(remote: Remote) -> None:
    def redirect(connection: ServerConnection, request: Any) -> Any:
        response = connection.respond(302, "")
        response.headers["Location"] = f"ws://{elsewhere}/"
        return response

    reached: list[str] = []
    with (
        served(lambda connection: reached.append(str(connection.request))) as elsewhere,
        served(answer_with(), process_request=redirect) as place,
    ):
        words = ("--remote", f"ws://{place}", "--remote-auth-token-env", "TOKEN", "Go.")
        ran = remote.run(*words, remote=False, env=remote.client_env)
    assert (ran.returncode, reached) == (1, [])
    assert ": HTTP 302" in ran.stderr


def test_a_run_without_the_option_imports_nothing_of_it(remote: Remote) -> None:
    remote.script[:] = [say("Hello.")]
    source = (
        "import sys; from codex_framework.cli.main import main; main(sys.argv[1:]); "
        "print([name for name in sys.modules if 'app_server.' in name or 'websockets' in name])"
    )
    words = [sys.executable, "-c", source, "exec", "--skip-git-repo-check", "Go."]
    env = {**remote.client_env, "CODEX_HOME": str(remote._home.path)}
    ran = subprocess.run(
        words, cwd=remote.work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "Hello.\n[]\n"


# Codex's own


SCENARIOS: dict[str, tuple[list[Any], int]] = {
    "an answer": ([say("Hello.")], 0),
    "a command": ([call("exec_command", cmd="echo hi"), say("Done.")], 0),
    "a command that fails": ([call("exec_command", cmd="echo no >&2; exit 3"), say("It failed.")], 0),
    "a command with quotes": ([call("exec_command", cmd='echo \'a \\"b\' "$HOME"'), say("Done.")], 0),
    "no answer": ([fault(400, body={"error": {"message": "It is refused."}})], 1),
}


def run_codex(home: Any, binary: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    words = [binary, "exec", *options, "--json", "--skip-git-repo-check", "Go."]
    env = {**home.env, "CODEX_HOME": str(folder)}
    return subprocess.run(words, cwd=home.work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def shown(lines: str) -> list[Any]:
    """Return JSON lines without what differs between any two runs."""
    return [json.loads(re.sub(r'"thread_id":"[^"]+"', '"thread_id":"T"', line)) for line in lines.splitlines()]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_codex_prints_the_same_lines_as_without_a_server(
    home: Any, tmp_path: Path, codex_binary: str, scenario: str
) -> None:
    replies, status = SCENARIOS[scenario]
    home.serve(*replies)
    with started(home, "--listen", "ws://127.0.0.1:0") as url:
        remote = run_codex(home, codex_binary, tmp_path / "client", "--remote", url)
    home.serve(*replies)
    (home.path / "config.toml").rename(home.path / "kept.toml")
    own = tmp_path / "own"
    own.mkdir()
    (home.path / "kept.toml").rename(own / "config.toml")
    local = run_codex(home, codex_binary, own)
    assert shown(remote.stdout) == shown(local.stdout), remote.stderr
    assert remote.returncode == local.returncode == status


def test_codex_resumes_a_thread_of_this_server(home: Any, tmp_path: Path, codex_binary: str) -> None:
    model = home.serve(say("One."), say("Two."))
    with started(home, "--listen", "ws://127.0.0.1:0") as url:
        first = run_codex(home, codex_binary, tmp_path / "client", "--remote", url)
        thread = json.loads(first.stdout.splitlines()[0])["thread_id"]
        again = run_codex(home, codex_binary, tmp_path / "client", "--remote", url, "resume", thread)
    assert shown(again.stdout)[-2]["item"]["text"] == "Two.", again.stderr
    assert len(model.requests[1].json["input"]) > len(model.requests[0].json["input"])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_on_codexs_server_prints_the_lines_of_codexs_client(
    home: Any, tmp_path: Path, codex_binary: str, run_program: RunProgram, scenario: str
) -> None:
    replies, status = SCENARIOS[scenario]
    home.serve(*replies, *replies)
    client = tmp_path / "client"
    with started(home, "--listen", "ws://127.0.0.1:0", program=[codex_binary]) as url:
        theirs = run_codex(home, codex_binary, client, "--remote", url)
        env = {**home.env, "CODEX_HOME": str(client)}
        ours = run_program("exec", "--json", "--remote", url, "Go.", cwd=home.work, env=env)
    assert shown(ours.stdout) == shown(theirs.stdout), ours.stderr
    assert ours.returncode == theirs.returncode == status
