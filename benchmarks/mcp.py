"""What MCP servers cost: the start with a server, and calls of a tool that does nothing.

    python benchmarks/mcp.py --servers FOLDER [--rounds 7] [--calls 50] [--codex PATH]

FOLDER contains the npm package ``@modelcontextprotocol/server-everything`` (the variable CODEX_MCP_SERVERS names it too). With
``--codex`` the same jobs are given to another executable of the same command line, in the same rounds. Ratios mean something on a
noisy machine, times do not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from codex_framework.contract.protocol.items import FunctionCall
from codex_framework.testing.replies import reply, say
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer

EVERYTHING = Path("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
HANGS = [sys.executable, "-c", "import time; time.sleep(600)"]


def run(command: list[str], home: Path, replies: list[Reply], settings: str) -> tuple[float, list[float]]:
    """Run ``exec`` once. Return the time to the first request and those between an answer and the next request, in ms."""
    with ResponsesServer(replies) as server, tempfile.TemporaryDirectory() as work:
        provider = f'[model_providers.bench]\nname = "bench"\nbase_url = "{server.url}"\n'
        (home / "config.toml").write_text(f'model = "gpt-5.5"\nmodel_provider = "bench"\n{provider}{settings}')
        argv = [*command, "exec", "--json", "--skip-git-repo-check", "-C", work, "-s", "danger-full-access", "go"]
        began = time.monotonic()
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "CODEX_HOME": str(home)},
            check=False,
        )
        if done.returncode:
            sys.exit(f"{argv} failed with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        requests = [request for request in server.requests if request.method == "POST"]
        gaps = [(after.received_at - before.answered_at) * 1000 for before, after in itertools.pairwise(requests)]
        return (requests[0].received_at - began) * 1000, gaps


def table(name: str, argv: list[str], **more: object) -> str:
    """Return the table of a server."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in more.items()]
    return "\n".join(
        [f"[mcp_servers.{name}]", f"command = {json.dumps(argv[0])}", f"args = {json.dumps(argv[1:])}", *lines, ""]
    )


def calls(count: int) -> list[Reply]:
    """``count`` calls of a tool that returns its argument, and a last word."""
    return [*(reply(FunctionCall("echo", '{"message":"x"}', f"c{n}", "mcp__every")) for n in range(count)), say("done")]


def idle(count: int) -> list[Reply]:
    """``count`` calls of a tool without a process and without a server, which fails at once."""
    return [*(reply(FunctionCall("write_stdin", '{"session_id":4242}', f"c{n}")) for n in range(count)), say("done")]


def measure(command: list[str], home: Path, every: list[str], count: int) -> dict[str, float]:
    """Run all jobs once."""
    one = table("every", every)
    many = "".join(table(f"every{n}", every) for n in range(4)) + table("hangs", HANGS, startup_timeout_sec=2)
    with_server, gaps = run(command, home, calls(count), one)
    bare, idle_gaps = run(command, home, idle(count), "")
    return {
        "start to first request, no server (ms)": bare,
        "start to first request, server-everything (ms)": with_server,
        "start to first request, four of them and one that hangs for 2 s (ms)": run(command, home, [say("hi")], many)[
            0
        ],
        "call of echo (ms)": statistics.median(gaps),
        "call of a tool without a server (ms)": statistics.median(idle_gaps),
    }


def server_alone(every: list[str]) -> float:
    """Return how long the server itself takes from its start to its answer with tools, and then for one call, in ms."""
    child = subprocess.Popen(every, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdin is not None
    assert child.stdout is not None
    began = time.monotonic()

    def ask(number: int, method: str, **params: object) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        child.stdin.write(line.encode())
        child.stdin.flush()
        while json.loads(child.stdout.readline()).get("id") != number:
            pass

    info = {"name": "bench", "version": "0"}
    ask(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
    child.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    ask(1, "tools/list")
    taken = (time.monotonic() - began) * 1000
    child.kill()
    child.communicate()
    return taken


def main() -> None:
    """Measure in rounds, and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default=os.environ.get("CODEX_MCP_SERVERS"), help="folder with node_modules")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--codex", help="another executable to measure in the same rounds")
    given = parser.parse_args()
    if given.servers is None or not (Path(given.servers) / EVERYTHING).exists():
        sys.exit("name a folder with @modelcontextprotocol/server-everything: --servers FOLDER")
    every = ["node", str(Path(given.servers).resolve() / EVERYTHING), "stdio"]
    subjects = {"codex-framework": [sys.executable, "-m", "codex_framework"]}
    if given.codex:
        subjects["codex"] = [given.codex]
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in subjects}
    alone: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            alone.append(server_alone(every))
            for name, command in subjects.items():
                home = Path(folder) / name
                home.mkdir(exist_ok=True)
                for what, value in measure(command, home, every, given.calls).items():
                    figures[name].setdefault(what, []).append(value)
            print(f"round {number + 1} of {given.rounds}", file=sys.stderr)
    print(f"the server alone, from its start to its list of tools: {statistics.median(alone):.0f} ms")
    first = figures["codex-framework"]
    for what, values in first.items():
        line = f"{what:72} {statistics.median(values):8.1f}"
        if given.codex:
            others = figures["codex"][what]
            ratio = statistics.median(ours / theirs for ours, theirs in zip(values, others, strict=True))
            line += f" {statistics.median(others):8.1f}   {ratio:.2f} times"
        print(line)


if __name__ == "__main__":
    main()
