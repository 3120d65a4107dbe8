"""Secrets of interceptors, headers, addresses and the environment: in no signal, no warning, and not where other programs look."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import Interceptor, hookimpl
from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, say

CANARY = "canary-5f1d"


class Hush(Interceptor):
    """Redacts the canary."""

    name = "hush"
    redacts = True

    def redact(self, text, turn):
        return text.replace(CANARY, "***")

    @hookimpl
    def codex_interceptors(self):
        return [self]


@pytest.fixture
def secret_environment(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", CANARY)


def test_what_interceptors_redact_is_exported_nowhere(scene, collector):
    async def story(kernel: Kernel) -> Any:
        return await (await kernel.start_thread()).run(f"the secret is {CANARY}")

    replies = [
        call("exec_command", cmd=f"echo {CANARY}; echo {CANARY} >&2; exit 3", login=False),
        say(f"done {CANARY}"),
    ]
    scene.play(story, replies, *collector.settings, "otel.log_user_prompt=true", plugins=[Hush()])
    assert {received.path for received in collector.received} == {"/v1/logs", "/v1/traces", "/v1/metrics"}
    assert not [received.path for received in collector.received if CANARY.encode() in received.body]
    records = {record["event.name"]: record for record in collector.logs}
    assert records["codex.user_prompt"]["prompt"] == "the secret is ***"
    assert "echo ***" in records["codex.tool_result"]["arguments"]
    assert records["codex.tool_result"]["output"].endswith("***\n***\n")


@pytest.mark.usefixtures("secret_environment")
def test_headers_and_the_environment_are_in_no_signal_and_not_in_the_worker(scene, collector, workers):
    seen: list[bytes] = []

    async def story(kernel: Kernel) -> Any:
        thread = await kernel.start_thread()
        await thread.run("go")
        (worker,) = await workers.running()
        seen.extend((worker / name).read_bytes() for name in ("cmdline", "environ"))
        return await thread.run("again")

    headers = f'{{ "x-key" = "{CANARY}" }}'
    settings = (
        *(collector.setting(signal, headers=headers) for signal in ("logs", "traces", "metrics")),
        f"model_providers.here.http_headers={headers}",
        f"shell_environment_policy.set={{ SECRET = '{CANARY}' }}",
    )
    scene.play(story, [call("exec_command", cmd="true", login=False), say("one"), say("two")], *settings)
    assert {received.headers["x-key"] for received in collector.received} == {CANARY}
    assert not [received.path for received in collector.received if CANARY.encode() in received.body]
    assert [CANARY.encode() in text for text in seen] == [False, False]


@pytest.mark.parametrize("kind", ["otlp-http", pytest.param("otlp-grpc", marks=pytest.mark.slow)])
def test_the_warning_has_no_secret(scene, kind):
    told: list[str] = []

    async def story(kernel: Kernel) -> Any:
        result = await (await kernel.start_thread()).run("go")
        told.extend(event.message for event in result.events if event.type == "warning")
        return kernel

    to = f'endpoint = "http://user:{CANARY}@127.0.0.1:9/{CANARY}?key={CANARY}", headers = {{ "x-key" = "{CANARY}" }}'
    settings = (f"otel.trace_exporter={{ {kind} = {{ {to} }} }}",)
    kernel = scene.play(story, [say("done")], *settings)
    (line,) = [text for text in (*told, *kernel.registry.warnings) if "telemetry" in text]
    assert "http://127.0.0.1:9 (traces)" in line
    assert CANARY not in line


def test_an_address_is_shown_without_login_path_and_query():
    from codex_plugin_otel.worker.exporters import shown

    assert shown(f"https://user:{CANARY}@example.com:4318/{CANARY}?key={CANARY}#{CANARY}") == "https://example.com:4318"
