"""What an interceptor redacts is redacted before a text is cut: half of a secret would not be recognised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from codex_framework import Interceptor, Kernel, Op, OpHandler, Task, TaskContext, ToolContext, tool
from codex_framework.config import load_config
from codex_framework.contract.protocol.items import InputText, user_message
from codex_framework.contract.roles.calls import ToolOutput
from codex_framework.contract.roles.commands import CommandRequest
from codex_framework.testing import Offer
from codex_framework.testing.replies import call, say
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer
from codex_plugin_user_shell import RunUserShellCommand

OVERRIDES = ('approval_policy="never"', "framework.plugins.read_file.offer=true")
SECRET = "S3CRET-VALUE-123456"
FRAGMENTS = [SECRET[start : start + 6] for start in range(len(SECRET) - 5)]


class Guard(Interceptor):
    name = "guard"
    redacts = True

    def redact(self, text: str, turn: Any) -> str:
        return text.replace(SECRET, "[redacted]")


@tool
def spill(path: str, parts: bool = False, before: int = 0) -> ToolOutput:
    """Return a file's text, after so many characters."""
    text = "-" * before + Path(path).read_text()
    return ToolOutput((InputText(text), InputText(text)) if parts else text)


@tool
def cut(path: str, context: ToolContext) -> str:
    """Return the start of a file's text."""
    return context.redact(Path(path).read_text())[:50] + context.limit_text(Path(path).read_text(), max_tokens=20)


class RunAndRecord(Task):
    kind = "run_and_record"
    concurrent: ClassVar[bool] = True

    async def run(self, turn: TaskContext, input: str) -> None:  # noqa: A002
        result = await turn.run_command(CommandRequest(argv=("cat", input)))
        output = await turn.call_tool("spill", {"path": input})
        texts = (result.output[:1000], result.stdout[-1000:], str(output.content)[:1000])
        turn.record([user_message(text) for text in (*texts, f"the task's own {SECRET}")])


class RunIt(Op):
    type: ClassVar[Any] = "run_it"
    path: str


class Handler(OpHandler[RunIt]):
    op = RunIt

    async def handle(self, op: RunIt, thread: Any, id: str) -> None:  # noqa: A002
        thread.start_task(RunAndRecord(), op.path, id=id)


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., str]:
    """Return all that models, clients and records are told in a conversation in which a file full of secrets is shown."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "secrets").write_text("".join(f"{'.' * (number % 11)}{SECRET} " for number in range(4000)))
    (work / "lines").write_text(("x" * 493 + SECRET + "\n") * 3)

    def run(replies: Sequence[Reply], op: Op | None = None) -> str:
        with ResponsesServer([*replies, say("done"), say("again")]) as server:
            provider = f'model_providers.p={{name="p",base_url="{server.url}"}}'
            environ = {"CODEX_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}
            overrides = (provider, 'model_provider="p"', 'model="m"', 'sandbox_mode="danger-full-access"')
            config = load_config(cwd=work, environ=environ, overrides=(*overrides, *OVERRIDES))
            offer = Offer(interceptors=[Guard()], tools=[spill, cut], ops=[Handler()])
            events = asyncio.run(asyncio.wait_for(conversation(config, environ, offer, op), 60))
            requests = [request.body.decode() for request in server.requests]
        return "\n".join([*map(repr, events), *requests, *(path.read_text() for path in home.rglob("*.jsonl"))])

    return run


async def conversation(config: Any, environ: dict[str, str], offer: Any, op: Op | None) -> list[Any]:
    events: list[Any] = []
    async with await Kernel.create(config, environ=environ, plugins=[offer]) as kernel:
        thread = await kernel.start_thread()
        heard = thread.events()
        await thread.run("go")
        if op is not None:
            await thread.submit(op)
            async for event in heard:
                events.append(event)
                if (
                    event.msg.type == "task_complete"
                    and len([one for one in events if one.msg.type == "task_complete"]) == 2
                ):
                    break
            await thread.run("again")
        await thread.shutdown()
        events += [event async for event in heard]
    return events


CALLS = {
    "command": call("exec_command", cmd="cat secrets", login=False, max_output_tokens=500),
    "much": call("exec_command", cmd="for n in $(seq 13); do cat secrets; done", login=False),
    "tool": sum((call("spill", path="secrets", before=3 * n) for n in range(8)), Reply()),
    "parts": sum((call("spill", path="secrets", parts=True, before=3 * n) for n in range(8)), Reply()),
    "own": call("cut", path="secrets"),
}


@pytest.mark.parametrize("name", [*CALLS, "lines", "block"])
def test_no_part_of_a_secret_is_left_by_a_call(told: Callable[..., str], tmp_path: Path, name: str) -> None:
    lines = {"file_path": str(tmp_path / "work" / "lines")}
    block = {**lines, "mode": "indentation", "indentation": {"anchor_line": 1}}
    reply = CALLS.get(name) or call("read_file", **(lines if name == "lines" else block))
    everything = told([rebased(reply, tmp_path)])
    assert "[redac" in everything
    assert [fragment for fragment in FRAGMENTS if fragment in everything] == []


@pytest.mark.parametrize("kind", ["user", "task"])
def test_no_part_of_a_secret_is_left_by_a_task(told: Callable[..., str], tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "work" / "secrets")
    everything = told([], RunUserShellCommand(f"cat {path} # {SECRET}") if kind == "user" else RunIt(path))
    assert everything.count("[redacted]") > 4
    assert [fragment for fragment in FRAGMENTS if fragment in everything] == []


def rebased(reply: Reply, folder: Path) -> Reply:
    """The reply with paths in the test's folder."""
    text = json.dumps(str(folder / "work" / "secrets"))[1:-1]
    calls = [item.evolve(arguments=item.arguments.replace('"secrets"', f'"{text}"')) for item in reply.items]
    return reply.evolve(items=tuple(calls))
