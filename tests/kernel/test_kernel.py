"""The kernel as a whole: without plugins, with the bundled ones, and over restarts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from codex_framework import ConfigError, Kernel, ProviderInfo, ThreadError
from codex_framework.config import Config, load_config
from codex_framework.config.settings import settings_from
from codex_framework.contract.protocol.events import TokenCountEvent, WarningEvent
from codex_framework.contract.protocol.items import Message, is_output, message_text
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing.replies import call, custom_call, say
from codex_framework.testing.server import ResponsesServer


def config_for(home: Path, workspace: Path, *overrides: str) -> Config:
    environ = {**os.environ, "CODEX_HOME": str(home)}
    return load_config(
        cwd=workspace,
        environ=environ,
        overrides=('approval_policy="never"', 'sandbox_mode="danger-full-access"', 'model="gpt-5.5"', *overrides),
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_a_kernel_without_plugins_starts_and_says_what_it_lacks(codex_home: Path, workspace: Path) -> None:
    async def main() -> None:
        config = config_for(codex_home, workspace)
        async with await Kernel.create(config, entry_points=()) as kernel:
            assert dict(kernel.registry.tools) == {}
            assert kernel.registry.reports == ()
            result = await (await kernel.start_thread()).run("hello")
            assert result.status is Status.FAILED
            assert "no plugin serves wire_api 'responses' of model provider 'openai'" in str(result.error)
            provider = ProviderInfo(id="mine", wire_api="responses", base_url="http://127.0.0.1:9")
            thread = await kernel.start_thread(settings_with(kernel, provider))
            result = await thread.run("hello")
            assert result.status is Status.FAILED
            assert "no plugin serves wire_api 'responses'" in str(result.error)
            with pytest.raises(ThreadError, match="no plugin stores threads"):
                await kernel.resume_thread(thread.id)

    asyncio.run(main())


def settings_with(kernel: Kernel, provider: ProviderInfo):  # type: ignore[no-untyped-def]
    return settings_from(kernel.config, {"openai": provider})


def test_the_bundled_plugins_carry_a_job_to_its_end_and_a_thread_over_a_restart(
    codex_home: Path, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("Be brief.")
    patch = "*** Begin Patch\n*** Add File: made.txt\n+by the patch\n*** End Patch\n"
    replies = [
        call("exec_command", cmd="echo from the command", login=False),
        custom_call("apply_patch", patch),
        say("all done"),
    ]

    async def first() -> str:
        with ResponsesServer(replies) as server:
            config = config_for(codex_home, workspace)
            async with await Kernel.create(config) as kernel:
                assert [report.name for report in kernel.registry.reports if report.problems] == []
                thread = await kernel.start_thread(provider=ProviderInfo(id="local", base_url=server.url))
                result = await thread.run("do it")
                assert [event.message for event in result.events if isinstance(event, WarningEvent)] == []
                assert (result.status, result.final_message) == (Status.COMPLETED, "all done")
                assert (workspace / "made.txt").read_text() == "by the patch\n"
                said = [message_text(item) for item in thread.history.items if isinstance(item, Message)]
                assert any("Be brief." in text for text in said)
                outputs = [item.output for item in thread.history.items if is_output(item)]  # type: ignore[union-attr]
                assert "from the command" in outputs[0]
                assert server.requests[0].json["prompt_cache_key"] == thread.id
            return thread.id

    async def second(thread_id: str) -> None:
        with ResponsesServer([say("still here")]) as server:
            config = config_for(codex_home, workspace)
            async with await Kernel.create(config) as kernel:
                assert kernel.latest_thread() == thread_id
                thread = await kernel.resume_thread(thread_id, provider=ProviderInfo(id="local", base_url=server.url))
                with pytest.raises(ThreadError, match="already running"):
                    await kernel.resume_thread(thread_id)
                result = await thread.run("and now?")
                assert result.final_message == "still here"
                sent = server.requests[0].json["input"]
                kinds = [item["type"] for item in sent]
                assert kinds[-1] == "message"
                assert kinds.count("function_call") == kinds.count("function_call_output") == 1
                assert kinds.count("custom_tool_call") == kinds.count("custom_tool_call_output") == 1
                developers = [item for item in sent if item.get("role") == "developer"]
                assert len(developers) == 1, "context that has not changed is not sent again"
                counts = [event for event in result.events if isinstance(event, TokenCountEvent)]
                assert counts[-1].info is not None
                assert counts[-1].info.total_token_usage.total_tokens == 4 * 120, "usage goes on counting"

    asyncio.run(second(asyncio.run(first())))


def test_an_ephemeral_thread_leaves_nothing(codex_home: Path, workspace: Path) -> None:
    async def main() -> None:
        with ResponsesServer([say("hi")]) as server:
            async with await Kernel.create(config_for(codex_home, workspace)) as kernel:
                provider = ProviderInfo(id="local", base_url=server.url)
                thread = await kernel.start_thread(provider=provider, ephemeral=True)
                await thread.run("hello")
                assert thread.rollout_path is None
        assert not (codex_home / "sessions").exists()

    asyncio.run(main())


@pytest.mark.slow
def test_hundreds_of_threads_run_at_once_in_one_kernel(codex_home: Path, workspace: Path) -> None:
    count = 200

    async def main() -> None:
        def answer(request) -> object:  # type: ignore[no-untyped-def]
            asked = [item for item in request.json["input"] if item["type"] == "message"][-1]["content"][0]["text"]
            return say(f"answer to {asked}")

        with ResponsesServer([answer] * count) as server:
            async with await Kernel.create(config_for(codex_home, workspace)) as kernel:
                provider = ProviderInfo(id="local", base_url=server.url)
                threads = [await kernel.start_thread(provider=provider) for _ in range(count)]
                results = await asyncio.gather(*(thread.run(str(n)) for n, thread in enumerate(threads)))
                assert [result.final_message for result in results] == [f"answer to {n}" for n in range(count)]

    asyncio.run(main())


def test_run_is_one_line(codex_home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import codex_framework

    with ResponsesServer([say("42")]) as server:
        provider = ProviderInfo(id="local", base_url=server.url)
        assert codex_framework.run("6 * 7?", config=config_for(codex_home, workspace), provider=provider) == "42"


def test_a_kernel_of_something_else_than_a_configuration_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="cannot be created from a dict") as caught:
        asyncio.run(Kernel.create({"model": "m"}))  # type: ignore[arg-type]
    assert "load_config()" in caught.value.hint
