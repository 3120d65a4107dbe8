"""Tokens that a program prints."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.replies import fault, say
from codex_framework.testing.requests import model_request
from codex_lib_model_client.credentials import api_key
from codex_lib_model_client.token_command import TokenCommand
from codex_plugin_openai.provider import ResponsesProvider

Ask = Callable[..., Any]


@pytest.fixture
def counting(tmp_path: Path) -> dict[str, Any]:
    """``auth`` with a program that prints token-1, then token-2, and so on."""
    count = tmp_path / "count"
    program = f"""
import pathlib
count = pathlib.Path({str(count)!r})
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(f"token-{{number}}")
"""
    return {"command": sys.executable, "args": ["-c", program], "timeout_ms": 20_000}


def sent(outcome: Any) -> list[str]:
    return [request.headers["authorization"] for request in outcome.server.requests]


def test_a_token_is_asked_for_once_and_kept(ask: Ask, counting: dict[str, Any]) -> None:
    outcome = ask([say("a"), say("b")], model_request(), model_request(), options={"auth": counting})
    assert sent(outcome) == ["Bearer token-1", "Bearer token-1"]


def test_a_refused_token_is_renewed_once(ask: Ask, counting: dict[str, Any]) -> None:
    outcome = ask([fault(401), say("b")], options={"auth": {**counting, "refresh_interval_ms": 0}})
    assert sent(outcome) == ["Bearer token-1", "Bearer token-2"]
    assert len(outcome.events) == 4


def test_a_server_that_refuses_the_new_token_too_is_believed(ask: Ask, counting: dict[str, Any]) -> None:
    outcome = ask([fault(401), fault(401)], options={"auth": counting})
    assert outcome.error.info == "unauthorized"
    assert sent(outcome) == ["Bearer token-1", "Bearer token-2"]


def test_neither_token_is_shown_that_a_server_repeats(ask: Ask, counting: dict[str, Any]) -> None:
    counting["args"] = ["-c", counting["args"][1].replace("token-", "long-token-")]
    said = "you sent long-token-1 before, and long-token-2 now"
    for body in (said, {"error": {"message": said}}):
        Path(counting["args"][1].split("'")[1]).unlink(missing_ok=True)
        outcome = ask([fault(401), fault(422, body=body)], options={"auth": counting})
        assert sent(outcome) == ["Bearer long-token-1", "Bearer long-token-2"]
        assert "you sent (hidden) before, and (hidden) now" in outcome.error.fact


def test_an_old_token_is_renewed(ask: Ask, counting: dict[str, Any]) -> None:
    options = {"auth": {**counting, "refresh_interval_ms": 0.001}}
    outcome = ask([say("a"), say("b")], model_request(), model_request(), options=options)
    assert sent(outcome) == ["Bearer token-1", "Bearer token-2"]


def test_a_token_without_an_interval_is_kept_until_it_is_refused(ask: Ask, counting: dict[str, Any]) -> None:
    options = {"auth": {**counting, "refresh_interval_ms": 0}}
    outcome = ask([say("a"), say("b")], model_request(), model_request(), options=options)
    assert sent(outcome) == ["Bearer token-1", "Bearer token-1"]


def test_threads_that_need_a_token_at_once_run_the_program_once(counting: dict[str, Any]) -> None:
    source = TokenCommand.of(ProviderInfo(id="mine", options={"auth": counting}), {"PATH": os.defpath})

    async def asked() -> list[str]:
        first = await asyncio.gather(*(source.token() for _ in range(4)))
        return [*first, *await asyncio.gather(*(source.token(refused="token-1") for _ in range(4)))]

    assert asyncio.run(asked()) == ["token-1"] * 4 + ["token-2"] * 4


def test_the_program_has_the_environment_and_the_folder_that_it_should(tmp_path: Path) -> None:
    auth = {
        "command": sys.executable,
        "args": ["-c", "import os; print(os.environ['PART'], os.getcwd(), sep='-in-')"],
        "cwd": str(tmp_path),
        "timeout_ms": 20_000,
    }
    env = {"PATH": os.defpath, "PART": "mine"}
    source = TokenCommand.of(ProviderInfo(id="mine", options={"auth": auth}), env)
    assert asyncio.run(source.token()) == f"mine-in-{tmp_path.resolve()}"
    assert (source.refresh_s, source.timeout_s) == (300.0, 20.0)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; sys.exit('x' * 1000)", f"ended with status 1: {'x' * 500}"),
        ("print('t\u00f6ken')", "printed something that is not a token"),
        ("import sys; sys.stdout.buffer.write(bytes([255, 254]))", "printed something that is not a token"),
    ],
)
def test_output_of_any_form_is_told_briefly(ask: Ask, program: str, told: str) -> None:
    auth = {"command": sys.executable, "args": ["-X", "utf8", "-c", program], "timeout_ms": 20_000}
    assert ask([say("a")], options={"auth": auth}).error.fact.endswith(f" {told}")


def test_an_argument_that_cannot_be_passed_is_told(ask: Ask) -> None:
    auth = {"command": sys.executable, "args": ["-c", "pass\0"]}
    assert "cannot be started: embedded null" in ask([say("a")], options={"auth": auth}).error.fact


def test_spaces_around_a_key_are_not_sent() -> None:
    info = ProviderInfo(id="mine", env_key="MINE")
    assert api_key(info, {"MINE": " key\n"}, {}) == "key"
    with pytest.raises(ModelError, match="Missing environment variable: `MINE`"):
        api_key(info, {"MINE": " \n"}, {})


def test_a_program_that_asks_gets_no_answer(ask: Ask) -> None:
    """It must not read what is meant for the program that runs the turn."""
    reading, writing = os.pipe()
    kept = os.dup(0)
    try:
        os.dup2(reading, 0)
        os.write(writing, b"token-of-the-user\n")
        os.close(writing)
        auth = {"command": sys.executable, "args": ["-c", "print(input())"], "timeout_ms": 20_000}
        assert "ended with status 1" in ask([say("a")], options={"auth": auth}).error.fact
    finally:
        os.dup2(kept, 0)
        for descriptor in (reading, kept):
            os.close(descriptor)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; sys.exit('no login')", "ended with status 1: no login"),
        ("pass", "printed no token"),
        ("print('two\\nlines')", "printed something that is not a token"),
        ("import time; time.sleep(30)", "did not end within 0.3 s"),
    ],
)
def test_a_program_that_gives_no_token_is_named(ask: Ask, program: str, told: str) -> None:
    auth = {"command": sys.executable, "args": ["-c", program], "timeout_ms": 300 if "sleep" in program else 20_000}
    error = ask([], options={"auth": auth}).error
    subject = f"the token program {sys.executable!r} of the model provider 'mock' "
    assert (error.fact, error.retryable, error.slug) == (subject + told, False, "token-command")
    assert error.hint


def test_a_program_that_does_not_exist_is_named(ask: Ask) -> None:
    error = ask([], options={"auth": {"command": "/no/such/program"}}).error
    assert "/no/such/program" in error.fact
    assert "is not found" in error.fact


@pytest.mark.parametrize(
    ("command", "path", "hint"),
    [
        ("print-token", "bin::.:/usr/bin:/bin", "Relative folders in PATH are not searched."),
        ("./print-token", "/usr/bin:/bin", "set `cwd`"),
        ("bin/print-token", "/usr/bin:/bin", "set `cwd`"),
    ],
)
def test_a_program_of_the_working_folder_is_not_run(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, path: str, hint: str
) -> None:
    for file in (tmp_path / "print-token", tmp_path / "bin" / "print-token"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho token\n")
        file.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    error = ask([], options={"auth": {"command": command}}, env={"PATH": path}).error
    assert "is not found" in error.fact
    assert hint in error.hint
    assert not (tmp_path / "ran").exists()
    absolute = {"command": command, "cwd": str(tmp_path)} if "/" in command else {"command": str(tmp_path / command)}
    ask([], options={"auth": absolute}, env={"PATH": path})
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("auth", "told"),
    [
        ("x", "names no command"),
        ({"args": []}, "names no command"),
        ({"command": "x", "arg": 1}, "has unknown keys: arg"),
        ({"command": "x", "args": "-v"}, "has args that are not a list, or times that are not numbers"),
        ({"command": "x", "timeout_ms": "5"}, "has args that are not a list, or times that are not numbers"),
    ],
)
def test_a_table_that_is_wrong_is_refused(auth: Any, told: str) -> None:
    info = ProviderInfo(id="mock", base_url="http://h/v1", options={"auth": auth})
    with pytest.raises(ModelError) as caught:
        ResponsesProvider().open(info, {})
    assert caught.value.fact == f"model_providers.mock.auth {told}"
