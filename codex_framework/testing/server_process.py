"""The loopback server as a separate process: ``python -m codex_framework.testing.server_process --script FILE``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from codex_framework.contract.errors import CodexError
from codex_framework.testing.chat_wire import CHAT
from codex_framework.testing.messages_wire import MESSAGES
from codex_framework.testing.script_files import read_script
from codex_framework.testing.server import ModelServer
from codex_framework.testing.wire import RESPONSES, Wire

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM, SIGINT, or with ``--until-eof`` the end of stdin. Return the exit status.

    Prints one line at the start: ``{"url": "http://127.0.0.1:PORT/v1", "pid": n}``. With ``--log``, writes a line for each request at
    the end: its number, connection, size, and the monotonic times of its first byte and of its answer's last one.
    """
    options = _parser().parse_args(arguments)
    try:
        script = read_script(options.script)
    except CodexError as error:
        print(f"{error.fact}\n{error.hint}", file=sys.stderr)  # a program's own output
        return 1
    wires: Mapping[str, Wire] = {"responses": RESPONSES, "chat": CHAT, "messages": MESSAGES}
    server = ModelServer(
        script.replies,
        repeat_last=options.repeat_last or script.repeats_last,
        chunk_events=not options.whole,
        port=options.port,
        wires=(wires[options.wire],),
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with server:
        print(json.dumps({"url": server.url, "pid": os.getpid()}), flush=True)  # the caller waits for this line
        if options.until_eof:
            sys.stdin.buffer.read()
        else:
            ended.wait()
    if options.log is not None:
        options.log.write_text("".join(f"{line}\n" for line in _lines(server)), "utf-8")
    return 0


def _lines(server: ModelServer) -> list[str]:
    return [
        json.dumps(
            {
                "request": number,
                "connection": request.connection,
                "bytes": len(request.body),
                "received_at": request.received_at,
                "answered_at": request.answered_at,
            }
        )
        for number, request in enumerate(server.requests, 1)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m codex_framework.testing.server_process", description=__doc__)
    parser.add_argument(
        "--script", type=Path, required=True, help="TOML or JSON, see codex_framework.testing.script_files"
    )
    parser.add_argument("--port", type=int, default=0, help="0 selects a free port")
    parser.add_argument("--repeat-last", action="store_true", help="repeat the last response forever")
    parser.add_argument("--wire", choices=("responses", "chat", "messages"), default="responses", help="the API")
    parser.add_argument("--whole", action="store_true", help="send a response in one HTTP chunk")
    parser.add_argument("--until-eof", action="store_true", help="end when stdin ends")
    parser.add_argument("--log", type=Path, help="at the end, write one line for each request to this file")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
