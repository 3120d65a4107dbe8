"""Commands that run in the background, for clients: which there are, page by page, and ending one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from codex_framework.testing import call, say


def test_clients_see_and_end_commands_in_the_background(home: Any, connected: Callable[..., Any]) -> None:
    options = {"yield_time_ms": 250, "login": False, "shell": "sh"}
    home.serve(
        call("exec_command", cmd="sleep 600", **options),
        call("exec_command", cmd="cat", tty=True, workdir="/", **options),
        call("exec_command", cmd="true", **options),
        say("done"),
        more='approval_policy = "never"\nsandbox_mode = "danger-full-access"',
    )

    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]

            async def ask(method: str, **params: Any) -> Any:
                return await client.call(f"thread/backgroundTerminals/{method}", threadId=thread_id, **params)

            assert await ask("list") == {"data": [], "nextCursor": None}
            await client.turn(thread_id, "go")
            begun = [each["params"]["item"] for each in client.seen if each.get("method") == "item/started"]
            numbers = {item["id"]: item["processId"] for item in begun if item["type"] == "commandExecution"}
            listed = await ask("list")
            facts = {"osPid": None, "cpuPercent": None, "rssKb": None}
            sleep = {"itemId": "call_1_1", "command": "sleep 600", "cwd": str(home.work), **facts}
            cat = {"itemId": "call_2_1", "command": "cat", "cwd": "/", **facts}
            expected = [{**one, "processId": numbers[one["itemId"]]} for one in (sleep, cat)]
            expected.sort(key=lambda one: int(one["processId"]))
            assert listed == {"data": expected, "nextCursor": None}
            first, second = expected
            assert await ask("list", limit=1) == {"data": [first], "nextCursor": first["processId"]}
            assert await ask("list", limit=1, cursor=first["processId"]) == {"data": [second], "nextCursor": None}
            assert await ask("terminate", processId=first["processId"]) == {"terminated": True}
            assert await ask("terminate", processId=first["processId"]) == {"terminated": False}
            ended = await client.until(
                lambda each: each.get("method") == "item/completed" and each["params"]["item"]["id"] == first["itemId"]
            )
            assert ended["params"]["item"]["exitCode"] not in (None, 0)
            assert await ask("list") == {"data": [second], "nextCursor": None}
            os.kill(int(second["processId"]), signal.SIGKILL)
            await client.until(
                lambda each: each.get("method") == "item/completed" and each["params"]["item"]["id"] == second["itemId"]
            )
            assert await ask("list") == {"data": [], "nextCursor": None}
            error = await client.fail("thread/backgroundTerminals/terminate", threadId=thread_id, processId="x")
            fact = "invalid background terminal process id: invalid digit found in string"
            assert error == {"code": -32600, "message": fact}
            error = await client.fail("thread/backgroundTerminals/list", threadId=thread_id, cursor="x")
            assert error == {"code": -32600, "message": "invalid cursor: invalid digit found in string"}

    asyncio.run(run())
