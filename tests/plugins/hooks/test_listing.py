"""The op ``list_hooks``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.contract.protocol.wire import to_wire

HOOKS = {"Stop": [{"hooks": [{"type": "command", "command": "true"}, {"type": "agent"}]}]}


def ask(kernel_home: Path, environ: Mapping[str, str], tag: str, answer: str) -> dict[str, Any]:
    """Return the answer to an op, as JSON data."""

    async def main() -> dict[str, Any]:
        skip = ['framework.plugins.hooks.unrunnable="skip"']
        config = load_config(cwd=kernel_home, environ=environ, codex_home=kernel_home, overrides=skip)
        async with await Kernel.create(config, environ=environ) as kernel:
            thread = await kernel.start_thread(ephemeral=True)
            events = thread.events(answers=False)
            submission = await thread.submit(kernel.op(tag))
            events.end()
            (msg,) = [event.msg async for event in events if event.id == submission and event.msg.type == answer]
            return to_wire(msg)

    return asyncio.run(main())


def test_hooks_are_listed_with_their_trust_and_errors_that_are_not_about_it(tmp_path: Path) -> None:
    (tmp_path / "hooks.json").write_text(json.dumps({"hooks": HOOKS, "more": 1}))
    answer = ask(tmp_path, {"HOME": str(tmp_path)}, "list_hooks", "list_hooks_response")
    (hook,) = answer["hooks"]
    assert (hook["eventName"], hook["trustStatus"], hook["command"]) == ("stop", "untrusted", "true")
    (error,) = answer["errors"]
    assert error["path"] == f"{tmp_path}/hooks.json"
    assert "'agent'" in error["message"]
    (warning,) = answer["warnings"]
    assert "unknown `more`" in warning
