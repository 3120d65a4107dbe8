"""Installed plugins that break while a turn is running: the model or the person is told, and the turn ends well."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_TURN = """
import asyncio, json, sys
import codex_framework.threads.broadcast
from codex_framework import Kernel, hookimpl
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import is_output
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, say

codex_framework.threads.broadcast.PATIENCE_S = 0.3

class Scripted:
    @hookimpl
    def codex_model_providers(self):
        return [ScriptedModel([call("acme_boom"), say("Done.")])]

async def main():
    home = sys.argv[1]
    environ = {"CODEX_HOME": home, "PATH": "/usr/bin:/bin"}
    overrides = ('model_provider="scripted"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"')
    config = load_config(cwd=home, environ=environ, overrides=overrides)
    warnings = []
    async with await Kernel.create(config, environ=environ, plugins=[Scripted()]) as kernel:
        thread = await kernel.start_thread()
        async for event in thread.stream("Go."):
            if isinstance(event, WarningEvent):
                warnings.append(event.message)
            await asyncio.sleep(0.02)
        outputs = [item.output for item in thread.history.items if is_output(item)]
        final = thread.history.items[-1].content[0].text
    print(json.dumps({"outputs": outputs, "warnings": warnings, "final": final}))

asyncio.run(main())
"""

PLUGIN = """
    import time
    from codex_framework import hookimpl, tool

    @tool
    def acme_boom() -> str:
        "Explode."
        raise LookupError("no fuse")

    class Raises:
        name = "raises"
        def observe(self, thread_id, event):
            raise RuntimeError("no eyes")

    class Hangs:
        name = "hangs"
        def observe(self, thread_id, event):
            time.sleep(30)

    @hookimpl
    def codex_tools():
        return [acme_boom]

    @hookimpl
    def codex_observers():
        return [Raises(), Hangs()]
"""


def test_a_tool_that_raises_and_observers_that_raise_or_hang_cannot_hurt_a_turn(site, codex_home: Path):
    site.install("fragile", PLUGIN)
    done = subprocess.run(
        [sys.executable, "-c", _TURN, str(codex_home)],
        env=site.environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["outputs"] == ["acme_boom failed: LookupError: no fuse"]
    assert told["final"] == "Done."
    assert any(
        "observer 'raises' of plugin 'fragile': observe() failed: RuntimeError: no eyes (" in text
        for text in told["warnings"]
    )
