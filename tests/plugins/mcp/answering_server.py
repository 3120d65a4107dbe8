"""A small MCP server on stdin and stdout that answers each method as a test says. ``python answering_server.py '{...}'``.

The argument is a JSON object. ``capabilities``: those of the server. ``answers``: from a method to its result; from a method and a
key, such as ``resources/list CURSOR`` or ``prompts/get NAME``, to the result for that cursor, URI or name. A result with ``code`` is
an error; with ``sleep_s`` the server waits first. ``log``: a file to which every received message is appended. ``send``: messages to
send after ``notifications/initialized``.

It has one tool, ``call``: it sends the request ``{"method", "params"}`` of its arguments to the client, and returns the answer.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

SETTINGS = json.loads(sys.argv[1])
LOCK = threading.Lock()
WAITING = {}


def send(**message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def result_of(method, params):
    key = params.get("cursor") or params.get("uri") or params.get("name") or ""
    if method == "initialize":
        capabilities = SETTINGS.get("capabilities", {"tools": {}, "resources": {}, "prompts": {}})
        info = {"name": "answering", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "call", "inputSchema": {"type": "object"}}]}
    answers = SETTINGS.get("answers", {})
    return answers.get(f"{method} {key}", answers.get(method, {"code": -32601, "message": f"no method {method}"}))


def answer(number, method, params):
    if method == "tools/call":
        WAITING["ours"] = number
        arguments = params["arguments"]
        send(id="ours", method=arguments["method"], params=arguments.get("params", {}))
        return
    result = dict(result_of(method, params))
    time.sleep(result.pop("sleep_s", 0))
    send(id=number, **({"error": result} if "code" in result else {"result": result}))


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "log" in SETTINGS:
            with Path(SETTINGS["log"]).open("a") as file:
                file.write(line)
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            given = json.dumps({key: message[key] for key in ("result", "error") if key in message})
            send(id=WAITING.pop("ours"), result={"content": [{"type": "text", "text": given}]})
        elif method == "notifications/initialized":
            for later in SETTINGS.get("send", ()):
                send(**later)
        elif number is not None:
            threading.Thread(target=answer, args=(number, method, params), daemon=True).start()


if __name__ == "__main__":
    main()
