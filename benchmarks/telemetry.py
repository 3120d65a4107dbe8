"""What telemetry costs: the same turns without the plugin `otel`, with it and no exporter, and with OTLP to a collector.

    python benchmarks/telemetry.py [--turns 500] [--rounds 5] [--processes] [--whole] [--latency MS]

Each run is a process of its own; the model and the collector are other processes, so their time does not count. A turn is one sample
with its call; with `--whole` it is an input, a sample with its call, and a sample with the answer. Models take time: with `--latency`
each answer begins after so many milliseconds. Without it, a turn is nothing but the client's own work.

Printed are medians over interleaved rounds, per turn: the CPU time of the event loop's thread, the CPU time of the process, the time
on the clock, and their ratios to the run without the plugin. The process that exports is counted apart: it runs beside the turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

VARIANTS = ("without", "off", "otlp")
FIGURES = ("loop", "process", "clock", "exporter")


async def run(model: str, collector: str, variant: str, home: Path, whole: int = 0) -> dict[str, float]:
    """Run the turns in this process; seconds for all of them. ``whole`` is the number of inputs; 0 means one for all turns."""
    from codex_framework import Kernel, ProviderInfo
    from codex_framework.config import load_config

    environ = {"CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
    settings = ['approval_policy="never"', 'model="gpt-5.5"', 'sandbox_mode="danger-full-access"']
    if variant == "without":
        settings.append('framework.plugins.disabled=["otel"]')
    for key, signal in (("exporter", "logs"), ("trace_exporter", "traces"), ("metrics_exporter", "metrics")):
        if variant == "otlp":
            to = f'{{ otlp-http = {{ endpoint = "{collector}/v1/{signal}", protocol = "binary" }} }}'
            settings.append(f"otel.{key}={to}")
    config = load_config(cwd=home, environ=environ, overrides=settings)
    async with await Kernel.create(config, environ=environ) as kernel:
        thread = await kernel.start_thread(provider=ProviderInfo(id="bench", base_url=model))
        loop, process, clock = time.thread_time(), time.process_time(), time.perf_counter()
        for _ in range(whole or 1):
            result = await thread.run("go")
            if result.error:
                sys.exit(result.error)
        spent = {
            "loop": time.thread_time() - loop,
            "process": time.process_time() - process,
            "clock": time.perf_counter() - clock,
        }
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent["exporter"] = children.ru_utime + children.ru_stime
    return spent


@contextmanager
def model(turns: int, folder: Path, *, processes: bool, whole: bool = False, latency_ms: float = 0) -> Iterator[str]:
    """A model in a process of its own that makes so many calls."""
    call = (
        ("exec_command", {"cmd": "true", "login": False})
        if processes
        else ("write_stdin", {"session_id": 1, "chars": "x"})
    )
    script = folder / "script.json"
    made = {"call": call[0], "arguments": call[1]}
    replies = [made, {"say": "done"}] * turns if whole else [{**made, "repeat": turns}, {"say": "done"}]
    script.write_text(json.dumps([{**reply, "delay_ms": latency_ms} for reply in replies] if latency_ms else replies))
    command = [sys.executable, "-m", "codex_framework.testing.server_process", "--until-eof", "--script", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]


def collect() -> None:
    """Be a collector until stdin ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", action="store_true", help="each turn runs a command")
    parser.add_argument("--whole", action="store_true", help="each turn is an input of its own")
    parser.add_argument("--latency", type=float, default=0, metavar="MS", help="time until each answer begins")
    parser.add_argument("--collect", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.collect:
        collect()
        return
    if options.run:
        address, collector, variant = options.run
        with tempfile.TemporaryDirectory() as home:
            spent = asyncio.run(run(address, collector, variant, Path(home), options.turns if options.whole else 0))
        print(json.dumps(spent))
        return
    figures: dict[tuple[str, str], list[float]] = {}
    own = [sys.executable, __file__, "--turns", str(options.turns), *(["--whole"] if options.whole else [])]
    with subprocess.Popen([*own, "--collect"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        url = collector.stdout.readline().strip()
        for number in range(options.rounds):
            for variant in VARIANTS if number % 2 else VARIANTS[::-1]:
                with (
                    tempfile.TemporaryDirectory() as folder,
                    model(
                        options.turns,
                        Path(folder),
                        processes=options.processes,
                        whole=options.whole,
                        latency_ms=options.latency,
                    ) as address,
                ):
                    command = [*own, "--run", address, url, variant]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                for name, seconds in json.loads(done.stdout).items():
                    figures.setdefault((variant, name), []).append(seconds / options.turns * 1000)
        assert collector.stdin is not None
        collector.stdin.close()
    print(f"{'ms per turn':16}" + "".join(f"{name:>12}{'ratio':>8}" for name in FIGURES))
    for variant in VARIANTS:
        cells = []
        for name in FIGURES:
            value, base = (statistics.median(figures[each, name]) for each in (variant, "without"))
            ratios = [a / b for a, b in zip(figures[variant, name], figures["without", name], strict=True) if b]
            cells.append(f"{value:12.3f}{statistics.median(ratios) if base and ratios else 0:8.2f}")
        print(f"{variant:16}" + "".join(cells))


if __name__ == "__main__":
    main()
