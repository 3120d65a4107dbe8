"""An exec-server that does not keep to its protocol, for ``python -I hostile.py MODE...``: what it does wrong are its arguments."""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

MODES = sys.argv[1:]
OUT = sys.stdout.buffer
INFO = {"shell": {"name": "sh", "path": "/bin/sh"}, "userHomeDir": "file:///home/x", "tempDir": "file:///tmp"}
SECRET = "SECRET-canary-4711"  # bait


def write(*messages: Any) -> None:
    OUT.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    OUT.flush()


def raw(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def output(process: str, data: bytes) -> Any:
    chunk = base64.b64encode(data).decode()
    return {"method": "process/output", "params": {"processId": process, "stream": "stdout", "chunk": chunk}}


def end(process: str, code: Any = 0) -> list[Any]:
    closed = {"method": "process/closed", "params": {"processId": process}}
    return [{"method": "process/exited", "params": {"processId": process, "exitCode": code}}, closed]


def initialize(number: Any) -> None:
    result: Any = {"sessionId": "s", "environmentInfo": INFO}
    match MODES[0]:
        case "bytes":
            raw(b"\xff\xfe\x00 nothing\n")
        case "huge":
            raw(b"x" * (1 << 18) + b"\n")
        case "deep":
            raw(b"[" * 20_000 + b"\n")
        case "list":
            write([])
        case "number":
            write({"id": number, "result": 7})
        case "no-shell":
            write({"id": number, "result": {"sessionId": "s"}})
        case "wrong-shell":
            write({"id": number, "result": {**result, "environmentInfo": {"shell": {"path": "C:\\cmd.exe"}}}})
        case "silent":
            return
        case "dies":
            print(f"no licence for {os.environ['BOX_TOKEN']}", file=sys.stderr, flush=True)
            sys.exit(3)
        case "refuses":
            write({"id": number, "error": {"code": -1, "message": f"\ud800 not with {os.environ['BOX_TOKEN']}"}})
        case "odd-refusal":
            write({"id": number, "error": [1]})
        case "ids":  # answers that nobody waits for, and ids that are none
            write(
                {"id": 99, "result": {}}, {"id": True, "result": {}}, {"id": "1", "result": 1}, {"id": 1.0, "result": 2}
            )
            write({"id": None, "error": {}}, {"method": 5}, {"method": "process/output", "params": 5}, {"method": "x"})
            write({"id": number, "result": result}, {"id": number, "result": {}}, {"id": 7, "method": "ask"})
        case _:
            write({"id": number, "result": result})


def start(number: Any, params: Any) -> None:
    process, confined = params["processId"], "sandbox" in params
    answer = {"id": number, "result": {"processId": process, "sandboxType": "linux" if confined else "none"}}
    match MODES[0]:
        case "status":
            write(answer, *end(process, json.loads(MODES[1])))
        case "twice":
            write(answer, *end(process, 3), *end(process, 4), output(process, b"late"))
        case "burst":
            write(answer, *[output(process, b"x")] * 5000, *end(process))
        case "early":
            write(*[output(process, b"x")] * 300, answer)
        case "early-flood":
            for _ in range(200):
                write(output(process, bytes(3 << 20)))
        case "foreign":
            write(
                answer, output("other", b"x"), {"method": "process/exited", "params": {"processId": 4}}, *end(process)
            )
        case "bad-output":
            write(
                answer,
                {"method": "process/output", "params": {"processId": process, "stream": "stdout", "chunk": "=x"}},
            )
        case "no-sandbox":
            answer["result"].pop("sandboxType")
            write(answer, output(process, b"x"))
        case "gone":
            write(answer, output(process, b"before"))
            sys.exit(4)
        case "endless":
            write(answer, output(process, b"going"))
        case _:
            write(answer, *end(process))


def file(number: Any, method: str, params: Any) -> None:
    result: Any = {}
    if method == "fs/canonicalize":
        given = {"elsewhere": "file:///denied/x", "relative": "file:x", "none": 4, "nul": "file:///a%00b"}
        result = {"path": given.get(MODES[0], params["path"])}
    elif method == "fs/readBlock":
        if MODES[0] == "gone":
            sys.exit(4)
        if MODES[0] == "silent-read":
            return
        result = {"chunk": 5 if MODES[0] == "wrong-chunk" else base64.b64encode(b"x" * 1000).decode(), "eof": "yes"}
    elif method == "fs/readDirectory":
        names = {"names": ["../up"], "dots": [".."], "nul-name": ["a\0"], "surrogate": ["\ud800"], "no-name": [7]}
        entries = [{"fileName": name, "isFile": True} for name in names.get(MODES[0], [])]
        result = {"entries": 5 if MODES[0] == "no-list" else entries}
    write({"id": number, "result": result})


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    number, method, params = message["id"], message["method"], message.get("params")
    if len(MODES) > 1 and MODES[0] == "log":
        with open(MODES[1], "a") as log:  # noqa: PTH123
            print(method, file=log)
    if method == "initialize":
        initialize(number)
    elif method == "process/start":
        start(number, params)
    elif method == "process/terminate":
        if MODES[0] not in ("endless",):
            write({"id": number, "result": {}})
        if MODES[0] == "no-sandbox":
            with open(MODES[1], "w") as log:  # noqa: PTH123
                print(params["processId"], file=log)
    elif method == "later":  # the answer comes with that to the next call
        pass
    elif method == "now":
        write({"id": number - 1, "result": {"late": True}}, {"id": number, "result": {"late": False}})
    else:
        file(number, method, params)
