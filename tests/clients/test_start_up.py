"""What ``exec`` has loaded when it connects for its first request. Each module costs time that a person waits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.cli.exec import uses_tls
from codex_framework.config import load_config
from codex_framework.testing.replies import say
from tests.tls import Authority, TlsServer

_PROGRAM = """
import sys

loaded = []

def note(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        loaded.append(set(sys.modules))

sys.addaudithook(note)
from codex_framework.cli.main import main

status = main(["exec", "--skip-git-repo-check", "say hi"])
print(status, *sorted(loaded[0]))
"""

_LATER = """
anyio attr attrs cattrs certifi click h11 httpcore httptools httpx socksio tomlkit websockets wsproto
importlib_metadata importlib.metadata dataclasses email packaging
copy difflib platform shlex shutil sysconfig tempfile
codex_framework.cli.plugin_options
codex_framework.cli.completion_values codex_framework.cli.last_message codex_framework.cli.progress
codex_framework.commands.approval_prompts codex_framework.commands.execution
codex_framework.commands.process.output
codex_framework.commands.process.running
codex_framework.config.overriding
codex_plugin_compaction.request codex_plugin_dynamic_tools.calls codex_plugin_mcp.ops codex_plugin_prompts.events
codex_plugin_prompts.request codex_plugin_skills.events codex_plugin_skills.request codex_plugin_undo.events codex_plugin_undo.ops
codex_plugin_user_shell.request codex_plugin_mcp.settings codex_plugin_notify.settings codex_plugin_otel.settings
codex_plugin_usage.settings codex_plugin_fallbacks.settings
codex_framework.threads.task_run
codex_framework.threads.turn.approvals codex_framework.threads.turn.call_context
codex_framework.threads.turn.call_runner
codex_framework.threads.turn.redaction codex_framework.toolkit.programs
codex_framework.toolkit.bounds codex_framework.toolkit.json_schemas codex_framework.toolkit.replacement
codex_lib_model_client.login.access codex_lib_model_client.secret_masking codex_lib_model_client.local_servers
codex_plugin_local_models.options codex_plugin_login.cli codex_plugin_models.entries codex_plugin_models.refreshing
codex_lib_model_client.preconnect codex_lib_model_client.known_roots
codex_lib_model_client.https encodings.idna stringprep
codex_framework.toolkit.signature codex_framework.toolkit.suggestions codex_framework.toolkit.text_types
""".split()  # noqa: SIM905
"""Modules that no run needs before its first request, or that only some runs need at all."""


def test_the_first_request_waits_for_no_module_that_is_needed_later(cli: Any) -> None:
    cli.serve(say("ok"))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=cli.env,
        cwd=cli.work,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, *modules = done.stdout.splitlines()[-1].split()
    assert status == "0"
    assert sorted(set(_LATER) & set(modules)) == []
    assert "codex_framework.threads.turn.driver" in modules


_JSON = """
import sys
from codex_framework.cli.main import main

status = main(["exec", "--json", "--skip-git-repo-check", "say hi"])
print(status, *sorted(sys.modules), file=sys.stderr)
"""


def test_events_of_the_kernel_ask_no_plugin_for_its_own_ones(cli: Any) -> None:
    cli.serve(say("ok"))
    done = subprocess.run(
        [sys.executable, "-c", _JSON],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=cli.env,
        cwd=cli.work,
        check=False,
    )
    status, *modules = done.stderr.splitlines()[-1].split()
    assert status == "0"
    assert "turn.completed" in done.stdout
    later = {"codex_plugin_review.events", "codex_plugin_hooks.events", "codex_plugin_usage.settings"}
    assert later & set(modules) == set()


_SECURE = """
import sys
import threading

by = []

def note(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        by.append(threading.current_thread().name)

sys.addaudithook(note)
from codex_framework.cli.main import main

main(["exec", "--skip-git-repo-check", "-c", "model_provider='p'", "-c", sys.argv[1], "say hi"])
print("connected by", *by, file=sys.stderr)
print("closed", sys.modules["codex_lib_model_client.preconnect"]._opened == [], file=sys.stderr)
"""


def test_a_request_over_tls_goes_over_a_connection_that_is_opened_while_the_thread_is_prepared(
    cli: Any, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "one")
    (tmp_path / "store.pem").write_text(authority.pem)
    with TlsServer(authority.server()) as server:
        table = f"model_providers.p={{base_url='{server.url}', request_max_retries=0, stream_max_retries=0}}"
        done = subprocess.run(
            [sys.executable, "-c", _SECURE, table],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**cli.env, "CODEX_CA_CERTIFICATE": str(tmp_path / "store.pem")},
            cwd=cli.work,
            timeout=60,
            check=False,
        )
    lines = done.stderr.splitlines()
    assert "connected by connection" in lines, done.stderr
    assert "closed True" in lines
    assert [request.partition(b" HTTP")[0] for request in server.requests] == [b"POST /v1/responses"]
    assert list(json.loads((cli.home / "servers_cache.json").read_text())["servers"]) == [f"127.0.0.1:{server.port}"]


@pytest.mark.parametrize(
    ("settings", "is_secure"),
    [
        ((), True),
        (("model_provider='ollama'",), True),
        (("openai_base_url='http://127.0.0.1/v1'",), False),
        (("openai_base_url='https://host/v1'",), True),
        (("model_provider='p'", "model_providers.p.base_url='https://host/v1'"), True),
        (("model_provider='p'", "model_providers.p.base_url='http://host/v1'"), False),
        (("model_provider='p'", "model_providers.p.wire_api='replay'"), False),
    ],
)
def test_a_connection_is_opened_early_to_providers_that_probably_use_tls(
    tmp_path: Path, settings: tuple[str, ...], is_secure: bool
) -> None:
    config = load_config(cwd=tmp_path, environ={"CODEX_HOME": str(tmp_path)}, overrides=settings)
    assert uses_tls(config) is is_secure
