"""Tools that the configuration selects reach the model, and answer it."""

from __future__ import annotations

import json
from typing import Any

from codex_framework.testing.replies import call, say


def offered(server: Any) -> list[str]:
    body = next(request.json for request in server.requests if request.method == "POST")
    return [tool.get("name", tool["type"]) for tool in body["tools"]]


def last_output(server: Any) -> str:
    body = [request.json for request in server.requests if request.method == "POST"][-1]
    return str(next(item["output"] for item in reversed(body["input"]) if item["type"] == "function_call_output"))


def test_the_shell_tool_and_read_file_are_selected_by_settings(cli: Any) -> None:
    (cli.work / "a.txt").write_text("one\n")
    server = cli.serve(
        call("shell", command=["echo", "hello"]), call("read_file", file_path=str(cli.work / "a.txt")), say("done")
    )
    cli.configure(
        base_url=server.url,
        more='[framework.plugins]\nshell.offer = "shell"\nread_file.offer = true\n[features]\nunified_exec = false',
    )
    ran = cli.exec("go")
    assert (ran.status, ran.out) == (0, "done\n"), ran.err
    assert {"shell", "read_file", "list_dir", "grep_files"} <= set(offered(server))
    assert {"exec_command", "shell_command", "local_shell"}.isdisjoint(offered(server))
    assert last_output(server) == "L1: one"
    assert "hello" in ran.err


def test_an_entry_of_the_catalogue_selects_them_for_its_model(cli: Any) -> None:
    entry = {"slug": "house", "shell_type": "shell", "experimental_supported_tools": ["read_file"]}
    (cli.home / "models.json").write_text(json.dumps({"models": [entry]}))
    server = cli.serve(call("shell", command=["echo", "hello"]), say("done"))
    cli.configure(
        "house", base_url=server.url, more=f"model_catalog_json = {json.dumps(str(cli.home / 'models.json'))}"
    )
    ran = cli.exec("go")
    assert (ran.status, ran.out) == (0, "done\n"), ran.err
    assert {"shell", "read_file"} <= set(offered(server))
    assert "exec_command" not in offered(server)
    assert json.loads(last_output(server))["output"] == "hello\n"
