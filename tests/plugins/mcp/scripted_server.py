"""A small MCP server on stdin and stdout whose behaviour a test chooses. ``python scripted_server.py '{"tools": [...]}'``.

The argument is a JSON object, or ``@FILE`` with one, which is read again for each list:

``tools``: tools as on the wire; those without an ``inputSchema`` get an open one.  ``answers``: from a tool's name to its result.
``log``: a file to which every received message is appended.  ``capabilities``: instead of those for tools.  ``revision``: the
protocol revision to state.  ``first``: lines to print before anything.  ``exit``: exit at once with this status, after the line
``last``.  ``silent``: never answer these methods.  ``pages``: cursors, from one to the next.  ``delay_s``: wait before answering
``initialize``.  ``waits``: wait with that until there is the file ``FILE`` with the ending ``.go``.  ``raw``: from a tool's name to
its result as text, which need not be JSON.  ``restless``: say that the list has changed with each list.  ``refuses``: answer
``initialize`` with this error, after the line ``noise`` on stderr.

Tools with a behaviour of their own: ``exit``, ``never``, ``slow`` (progress, then an answer), ``big``, ``garbage``, ``wrong_id``,
``grow`` (adds a tool and says so), ``environment``, ``ask`` (sends a request of its own and returns the answer), ``flood`` (sends
a notification ``count`` times), ``spawn`` (starts a program that ignores signals, and returns its id).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

LOCK = threading.Lock()


def settings():
    text = sys.argv[1] if len(sys.argv) > 1 else "{}"
    return json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)


SETTINGS = settings()
ADDED: list[dict[str, object]] = []
OUR_ANSWERS: dict[str, object] = {}
ANSWERED = threading.Condition()


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def raw(text):
    with LOCK:
        sys.stdout.write(text)
        sys.stdout.flush()


def log(message):
    if "log" in SETTINGS:
        with Path(SETTINGS["log"]).open("a") as file:
            file.write(json.dumps(message) + "\n")


def tools():
    return [{"inputSchema": {"type": "object"}, **tool} for tool in (*settings().get("tools", []), *ADDED)]


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def listed(params):
    pages = SETTINGS.get("pages")
    if pages is None:
        return {"tools": tools()}
    cursor = params.get("cursor", "")
    number = sum(1 for _ in pages) if cursor not in pages else list(pages).index(cursor)
    here = [tool for place, tool in enumerate(tools()) if place % (len(pages) + 1) == number]
    return {"tools": here, **({"nextCursor": pages[cursor]} if pages.get(cursor) else {})}


def called(number, params):
    name, arguments = params["name"], params.get("arguments") or {}
    token = (params.get("_meta") or {}).get("progressToken")
    if name in settings().get("answers", {}):
        answer = settings()["answers"][name]
        return send({"jsonrpc": "2.0", "id": number, ("error" if "code" in answer else "result"): answer})
    if name in settings().get("raw", {}):
        return raw(f'{{"jsonrpc":"2.0","id":{number},"result":{settings()["raw"][name]}}}\n')
    if name == "exit":
        print("x" * arguments.get("noise", 0) + "\nthe last words", file=sys.stderr, flush=True)
        os._exit(arguments.get("status", 3))
    if name == "never":
        return None
    if name == "garbage":
        raw("this is not JSON\n[1]\n\n")
    if name == "wrong_id":
        send({"jsonrpc": "2.0", "id": 987654, "result": {}})
        send({"jsonrpc": "2.0", "id": "x", "result": {}})
    if name == "big":
        return send({"jsonrpc": "2.0", "id": number, "result": text("x" * arguments["size"])})
    if name == "slow":
        for step in range(1, 4):
            send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step, "total": 4, "message": f"step {step}"},
                }
            )
            time.sleep(arguments.get("pause_s", 0.01))
    if name == "grow":
        ADDED.append({"name": arguments["name"], "description": "Added."})
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if name == "flood":
        line = json.dumps({"jsonrpc": "2.0", "method": arguments["method"], "params": arguments.get("params", {})})
        for _ in range(arguments["count"] // 1000):
            raw((line + "\n") * 1000)
    if name == "spawn":
        child = subprocess.Popen(["sh", "-c", "trap '' TERM HUP INT; sleep 600; sleep 600"], stdin=subprocess.DEVNULL)
        return send({"jsonrpc": "2.0", "id": number, "result": text(str(child.pid))})
    if name == "environment":
        return send({"jsonrpc": "2.0", "id": number, "result": text(json.dumps(dict(os.environ)))})
    if name == "ask":
        send({"jsonrpc": "2.0", "id": "ours", "method": arguments["method"], "params": arguments.get("params", {})})
        with ANSWERED:
            ANSWERED.wait_for(lambda: "ours" in OUR_ANSWERS)
        return send({"jsonrpc": "2.0", "id": number, "result": text(json.dumps(OUR_ANSWERS.pop("ours")))})
    return send({"jsonrpc": "2.0", "id": number, "result": text(f"{name} {json.dumps(arguments)}")})


def handle(message):
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        with ANSWERED:
            OUR_ANSWERS[str(number)] = {key: value for key, value in message.items() if key in ("result", "error")}
            ANSWERED.notify_all()
    elif method in settings().get("silent", ()) or number is None:
        return
    elif method == "initialize" and "refuses" in SETTINGS:
        print(SETTINGS["noise"], file=sys.stderr, flush=True)
        send({"jsonrpc": "2.0", "id": number, "error": SETTINGS["refuses"]})
    elif method == "initialize":
        time.sleep(SETTINGS.get("delay_s", 0))
        while SETTINGS.get("waits") and not Path(sys.argv[1][1:]).with_suffix(".go").exists():
            time.sleep(0.02)
        result = {
            "protocolVersion": SETTINGS.get("revision", params["protocolVersion"]),
            "capabilities": SETTINGS.get("capabilities", {"tools": {"listChanged": True}}),
            "serverInfo": {"name": "scripted", "version": "1"},
            "instructions": SETTINGS.get("instructions", ""),
        }
        send({"jsonrpc": "2.0", "id": number, "result": result})
    elif method == "tools/list":
        send({"jsonrpc": "2.0", "id": number, "result": listed(params)})
        if settings().get("restless"):
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    elif method == "tools/call":
        threading.Thread(target=called, args=(number, params), daemon=True).start()
    elif method == "ping":
        send({"jsonrpc": "2.0", "id": number, "result": {}})
    else:
        send({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": f"no method {method}"}})


def main():
    log({"pid": os.getpid(), "env": dict(os.environ)})
    for line in SETTINGS.get("first", ()):
        raw(line + "\n")
    if "exit" in SETTINGS:
        print(SETTINGS.get("last", "cannot start: no database"), file=sys.stderr, flush=True)
        sys.exit(SETTINGS["exit"])
    for line in sys.stdin:
        message = json.loads(line)
        log(message)
        handle(message)


if __name__ == "__main__":
    main()
