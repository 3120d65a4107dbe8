"""What a whole run of the command costs, seen from a loopback server: start, time per turn, memory.

    python benchmarks/client.py [--turns 100] [--rounds 5] [--codex PATH] [--start]

Times are medians over interleaved rounds; the bare costs beside them (Python's start, a spawn of /bin/true, one httpx request)
say how fast the machine is. If ``codex`` is on the path, or ``--codex`` names it, the same jobs are given to it in the same rounds,
so that the ratios mean something on a noisy machine. ``--start`` measures the start alone, in many rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from codex_framework.testing.replies import call, custom_call, say
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer


class Certificates:
    """An authority of our own and a certificate of 127.0.0.1, made by openssl. Codex accepts no certificate that signs itself."""

    def __init__(self, folder: Path) -> None:
        self.authority, self._chain, self._key = (str(folder / name) for name in ("ca.pem", "leaf.pem", "leaf.key"))
        request, extra, authority_key = (str(folder / name) for name in ("leaf.csr", "leaf.ext", "ca.key"))
        Path(extra).write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        usage = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"]
        signed = ["openssl", "x509", "-req", "-CA", self.authority, "-CAkey", authority_key, "-CAcreateserial"]
        commands = (
            [
                *new,
                "-x509",
                "-days",
                "2",
                "-subj",
                "/CN=bench",
                "-out",
                self.authority,
                "-keyout",
                authority_key,
                *usage,
            ],
            [*new, "-subj", "/CN=127.0.0.1", "-out", request, "-keyout", self._key],
            [*signed, "-in", request, "-days", "2", "-extfile", extra, "-out", self._chain],
        )
        for command in commands:
            subprocess.run(command, check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._front: int = listener.getsockname()[1]

    @contextmanager
    def front(self, port: int) -> Iterator[int]:
        """Listen with TLS on a port that is the same in all runs, as that of a server is, and pass on to the server on this one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._chain, self._key)
        with socket.create_server(("127.0.0.1", self._front)) as listener:
            threading.Thread(target=_accept, args=(listener, context, port), daemon=True).start()
            try:
                yield listener.getsockname()[1]
            finally:
                with suppress(OSError):  # some systems cannot shut down a listening socket
                    listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_passed_on, args=(listener.accept()[0], context, port), daemon=True).start()


def _passed_on(client: socket.socket, context: ssl.SSLContext, port: int) -> None:
    """Pass on the requests of a connection and their responses, each piece at once."""
    with (
        client,
        suppress(OSError),
        context.wrap_socket(client, server_side=True) as secure,
        socket.create_connection(("127.0.0.1", port)) as server,
    ):
        for each in (client, secure, server):
            with suppress(OSError):  # a socket that TLS has taken over is empty
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_copied, args=(server, secure), daemon=True)
        back.start()
        _copied(secure, server)
        back.join()


def _copied(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR if not isinstance(target, ssl.SSLSocket) else socket.SHUT_RDWR)


@attrs.define
class Run:
    """One run of the command."""

    wall_ms: float
    start_ms: float
    gaps_ms: list[float]
    rss_mb: float


def run_client(
    command: list[str],
    replies: list[Reply],
    home: Path,
    *extra: str,
    sandbox: str,
    model: str = "gpt-5.5",
    certificates: Certificates | None = None,
) -> Run:
    """Run ``exec`` once against a fresh server, over TLS with certificates; memory is the peak of the process itself."""
    with ResponsesServer(replies) as server, tempfile.TemporaryDirectory() as work:
        if certificates is not None:
            port = int(server.url.rpartition(":")[2].removesuffix("/v1"))
            with certificates.front(port) as secure:
                url = f"https://127.0.0.1:{secure}/v1"
                env = {"CODEX_CA_CERTIFICATE": certificates.authority}
                return _run(command, server, url, env, work, home, *extra, sandbox=sandbox, model=model)
        return _run(command, server, server.url, {}, work, home, *extra, sandbox=sandbox, model=model)


def _run(
    command: list[str],
    server: ResponsesServer,
    url: str,
    variables: dict[str, str],
    work: str,
    home: Path,
    *extra: str,
    sandbox: str,
    model: str,
) -> Run:
    argv = [
        *command, "exec", "--json", "--skip-git-repo-check", "-C", work, "-s", sandbox, "-m", model,
        "-c", "model_provider=bench", "-c", f'model_providers.bench={{name="bench",base_url="{url}"}}',
        *extra, "go on",
    ]  # fmt: skip
    env = {**os.environ, "CODEX_HOME": str(home), **variables}
    began = time.monotonic()
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert child.stdout is not None
    assert child.stderr is not None
    out = child.stdout.read()
    err = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    child.stderr.close()
    ended = time.monotonic()
    if child.returncode:
        sys.exit(f"{argv} failed with {child.returncode}:\n{out.decode()[-2000:]}\n{err.decode()[-2000:]}")
    requests = server.requests
    gaps = [(after.received_at - before.answered_at) * 1000 for before, after in itertools.pairwise(requests)]
    return Run((ended - began) * 1000, (requests[0].received_at - began) * 1000, gaps, usage.ru_maxrss / 1024)


def timed(action: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.monotonic()
    action()
    return (time.monotonic() - began) * 1000


def command_turns(count: int) -> list[Reply]:
    """``count`` turns that run ``true``, and a last word."""
    return [*(call("exec_command", cmd="true", login=False) for _ in range(count)), say("done")]


def script_turns(count: int) -> list[Reply]:
    """``count`` turns of a script that runs ``true``, and a last word."""
    script = 'await tools.exec_command({cmd: "true", login: false})'
    return [*(custom_call("exec", script) for _ in range(count)), say("done")]


def idle_turns(count: int) -> list[Reply]:
    """``count`` turns of a tool that starts no process (it fails at once)."""
    return [*(call("write_stdin", session_id=4242, chars="x") for _ in range(count)), say("done")]


def patch(files: int) -> list[Reply]:
    """One patch that adds so many files."""
    body = "".join(f"*** Add File: d{n % 10}/f{n}.txt\n+line one\n+line two\n" for n in range(files))
    return [custom_call("apply_patch", f"*** Begin Patch\n{body}*** End Patch\n"), say("done")]


def deltas(count: int) -> list[Reply]:
    """One message in so many pieces of about 10 characters."""
    return [say("0123456789" * count).evolve(deltas=count)]


class Subject:
    """One executable, with a warm home of its own."""

    def __init__(self, name: str, command: list[str], home: Path) -> None:
        self.name = name
        self.command = command
        self.home = home
        home.mkdir(parents=True)
        self.figures: dict[str, list[float]] = {}

    def note(self, what: str, value: float) -> None:
        self.figures.setdefault(what, []).append(value)

    def measure_start(self, folder: Path, certificates: Certificates | None) -> None:
        cold = Path(tempfile.mkdtemp(dir=folder))
        self.note("start to first request, cold home (ms)", self.run([say("hi")], "read-only", home=cold).start_ms)
        plain = self.run([say("hi")], "read-only")
        self.note("start to first request, warm home (ms)", plain.start_ms)
        self.note("plain message, wall (ms)", plain.wall_ms)
        if certificates is not None:
            secure = self.run([say("hi")], "read-only", certificates=certificates)
            self.note("start to first request, https (ms)", secure.start_ms)

    def measure(self, turns: int, folder: Path, certificates: Certificates | None) -> None:
        self.measure_start(folder, certificates)
        idle = self.run(idle_turns(turns), "danger-full-access")
        self.note("per turn, tool without a process (ms)", statistics.median(idle.gaps_ms))
        true = self.run(command_turns(turns), "danger-full-access")
        self.note("per turn, `true` unconfined (ms)", statistics.median(true.gaps_ms))
        script = self.run(script_turns(turns), "danger-full-access", model="gpt-6.1-sol")
        self.note("per turn, `true` from a script (ms)", statistics.median(script.gaps_ms))
        self.note("first script (ms)", script.gaps_ms[0])
        self.note(f"peak memory over {turns} turns (MB)", true.rss_mb)
        confined = self.run(command_turns(turns), "workspace-write")
        self.note("per turn, `true` in workspace-write (ms)", statistics.median(confined.gaps_ms))
        self.note("first command in workspace-write (ms)", confined.gaps_ms[0])
        self.note("patch of 200 files (ms)", self.run(patch(200), "danger-full-access").gaps_ms[0])
        self.note("patch of 200 files, workspace-write (ms)", self.run(patch(200), "workspace-write").gaps_ms[0])
        self.note("20,000 deltas over one (ms)", self.deltas_over_one())
        if certificates is not None:
            idle = self.run(idle_turns(turns), "danger-full-access", certificates=certificates)
            self.note("per turn, tool without a process, https (ms)", statistics.median(idle.gaps_ms))
            self.note("20,000 deltas over one, https (ms)", self.deltas_over_one(certificates))

    def deltas_over_one(self, certificates: Certificates | None = None) -> float:
        """Return what 20,000 deltas take longer than one, in milliseconds."""
        one = self.run(deltas(1), "read-only", certificates=certificates)
        many = self.run(deltas(20_000), "read-only", certificates=certificates)
        return (many.wall_ms - many.start_ms) - (one.wall_ms - one.start_ms)

    def long_run(self) -> None:
        gaps = self.run(idle_turns(500), "danger-full-access").gaps_ms
        early, late = statistics.median(gaps[5:25]), statistics.median(gaps[-20:])
        self.note("turn 500 over turn 10 (ratio)", late / early)

    def run(
        self,
        replies: list[Reply],
        sandbox: str,
        *,
        home: Path | None = None,
        model: str = "gpt-5.5",
        certificates: Certificates | None = None,
    ) -> Run:
        home = home or self.home
        return run_client(self.command, replies, home, sandbox=sandbox, model=model, certificates=certificates)


def bare() -> dict[str, Callable[[], object]]:
    """The costs that nobody gets under."""
    return {
        "python3 -c pass (ms)": lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
        "spawn of /bin/true (ms)": lambda: subprocess.run(["/bin/true"], check=True),
    }


def httpx_request() -> float:
    """One POST over a connection that is open already, in milliseconds."""
    import httpx

    with ResponsesServer([say("hi")] * 40) as server, httpx.Client(trust_env=False) as client:
        body = json.dumps({"input": []}).encode()
        times = [timed(lambda: client.post(f"{server.url}/responses", content=body).read()) for _ in range(40)]
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--codex", default=shutil.which("codex"), help="the executable to compare with (default: codex on the path)"
    )
    parser.add_argument("--start", action="store_true", help="measure the start alone")
    parser.add_argument("--command", default=shutil.which("cxf", path=str(Path(sys.executable).parent)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subjects = [Subject("codex-framework", [options.command], folder / "own")]
        if options.codex:
            subjects.append(Subject("compared", [options.codex], folder / "other"))
        else:
            print("compared with nothing: codex is not on the path, and --codex names no executable", file=sys.stderr)
        certificates = None
        if shutil.which("openssl"):
            certificates = Certificates(folder)
        else:
            print("https is left out: making certificates needs openssl", file=sys.stderr)
        costs: dict[str, list[float]] = {}
        for subject in subjects:
            subject.run([say("hi")], "read-only")  # warm the home
            if certificates is not None:
                subject.run([say("hi")], "read-only", certificates=certificates)
        for _ in range(options.rounds):
            for name, action in bare().items():
                costs.setdefault(name, []).append(timed(action))
            costs.setdefault("httpx request, connection open (ms)", []).append(httpx_request())
            for subject in subjects:
                if options.start:
                    subject.measure_start(folder, certificates)
                else:
                    subject.measure(options.turns, folder, certificates)
        for subject in () if options.start else subjects:
            subject.long_run()
    for name, values in costs.items():
        print(f"{name:48} {statistics.median(values):9.2f}")
    print(f"{'':48} " + " ".join(f"{subject.name:>16}" for subject in subjects))
    for what in subjects[0].figures:
        columns = [statistics.median(subject.figures[what]) for subject in subjects]
        ratio = f"  {columns[1] / columns[0]:6.1f}x" if len(columns) == 2 and columns[0] > 0 else ""
        print(f"{what:48} " + " ".join(f"{value:16.2f}" for value in columns) + ratio)


if __name__ == "__main__":
    main()
