"""Agent roles: where they are found, what they set, and files that cannot be used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent, CodexError, ToolContext, tool
from codex_framework.testing import call, say

ROLE = 'name = "{0}"\ndescription = "About {0}."\ndeveloper_instructions = "Be {0}."\n'


@pytest.fixture
def roles(codex_home: Path) -> Callable[..., Path]:
    """Write a role of the user's."""

    def write(name: str, more: str = "", *, text: str | None = None, folder: Path | None = None) -> Path:
        file = (folder or codex_home / "agents") / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(ROLE.format(Path(name).name) + more if text is None else text)
        return file

    return write


@pytest.fixture
def found(make_kernel: Any) -> Callable[..., Any]:
    """Return agents by name, and the warnings of a thread."""

    def look(*names: str, config: Any = ()) -> tuple[list[Any], list[str]]:
        async def main() -> tuple[list[Any], list[str]]:
            agents: list[Any] = []
            async with make_kernel([say("x")], config=config) as kernel:
                for name in names:
                    try:
                        agents.append(kernel.agent(name))
                    except CodexError as error:
                        agents.append(error.fact)
                run = await kernel.run_turn("hello")
            texts = [event.message for event in run.result.events if event.type == "warning"]
            return agents, [text for text in texts if not text.startswith("Model metadata")]

        return asyncio.run(main())

    return look


@pytest.fixture
def turn_of(make_kernel: Any) -> Callable[..., Any]:
    """Run a turn of an agent."""

    def run(name: str, config: Any = ()) -> Any:
        async def main() -> Any:
            async with make_kernel([say("Done.")], config=config) as kernel:
                return await kernel.run_turn("hello", agent=kernel.agent(name))

        return asyncio.run(main())

    return run


def test_the_built_in_roles_are_there(found: Any) -> None:
    agents, warnings = found("default", "explorer", "worker")
    assert [agent.name for agent in agents] == ["default", "explorer", "worker"]
    assert all(agent.description for agent in agents)
    assert all(agent.evolve(description="") == Agent(name=agent.name) for agent in agents)
    assert warnings == []


def test_a_file_is_an_agent(roles: Any, found: Any) -> None:
    roles(
        "careful",
        'model = "gpt-5.4"\nmodel_reasoning_effort = "high"\nsandbox_mode = "read-only"\napproval_policy = "never"\n',
    )
    (agent,), warnings = found("careful")
    assert agent == Agent(
        name="careful",
        description="About careful.",
        model="gpt-5.4",
        reasoning_effort="high",
        permissions=":read-only",
        approval_policy="never",
    )
    assert warnings == []


def test_base_instructions_come_from_a_file_beside_it(roles: Any, found: Any) -> None:
    file = roles("base", 'model_instructions_file = "base.md"\ndefault_permissions = ":workspace"\n')
    (file.parent / "base.md").write_text("You are base.")
    (agent,), _ = found("base")
    assert (agent.instructions, agent.permissions) == ("You are base.", ":workspace")


def test_files_in_folders_are_found_and_others_are_not(roles: Any, found: Any) -> None:
    roles("sub/deep")
    folder = roles("top").parent
    (folder / "notes.txt").write_text("x")
    (folder / ".hidden.toml").write_text("x")
    agents, warnings = found("deep", "top")
    assert [agent.name for agent in agents] == ["deep", "top"]
    assert warnings == []


def test_the_user_replaces_a_built_in_role(roles: Any, found: Any) -> None:
    roles("explorer")
    (agent,), _ = found("explorer")
    assert agent.description == "About explorer."


def test_a_table_names_a_file_and_outweighs_it(codex_home: Path, roles: Any, found: Any) -> None:
    roles("cfg", text='model = "gpt-5.4"\nmodel_reasoning_effort = "low"\n', folder=codex_home)
    roles("named", folder=codex_home)
    config = """
        [agents.listed]
        description = "Listed."
        config_file = "cfg.toml"
        model_reasoning_effort = "high"
        [agents.key]
        config_file = "named.toml"
    """
    (listed, named), warnings = found("listed", "named", config=config)
    assert (listed.description, listed.model, listed.reasoning_effort) == ("Listed.", "gpt-5.4", "high")
    assert named.description == "About named."
    assert warnings == []


@pytest.mark.parametrize("trusted", [True, False])
def test_roles_of_a_project_need_trust_and_outweigh_those_of_the_user(
    workspace: Path, roles: Any, found: Any, trusted: bool
) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git" / "HEAD").touch()
    roles("both")
    roles("both", 'model = "gpt-5.4"\n', folder=workspace / ".codex" / "agents")
    roles("theirs", folder=workspace / ".codex" / "agents")
    level = "trusted" if trusted else "untrusted"
    (both, theirs), _ = found("both", "theirs", config=[f'projects."{workspace}".trust_level="{level}"'])
    assert both.model == ("gpt-5.4" if trusted else None)
    assert isinstance(theirs, Agent) == trusted


def test_a_thread_of_a_role_gets_its_instructions_once(turn_of: Any, roles: Any) -> None:
    roles("careful", 'model = "gpt-5.4"\n')
    roles("other")
    run = turn_of("careful")
    texts = [part.text for item in run.history if item.type == "message" for part in item.content]
    assert texts.count("Be careful.") == 1
    assert "Be other." not in texts
    assert run.requests[0].model.slug == "gpt-5.4"
    assert "Be careful." not in str(turn_of("other").history)


def test_a_child_of_a_role_gets_its_instructions(run_turn: Any, roles: Any) -> None:
    roles("careful")

    @tool
    async def delegate(context: ToolContext) -> str:
        """Let a child work."""
        child = await context.spawn(context.turn.thread.kernel.agent("careful"), "go")
        await child.settled()
        return "done"

    run = run_turn("hello", [call("delegate"), say("child"), say("parent")], tools=[delegate])
    prompt = [part.text for item in run.requests[1].prompt.items if item.type == "message" for part in item.content]
    assert prompt.count("Be careful.") == 1
    assert "Be careful." not in str(run.history)


def test_a_child_does_not_repeat_the_warnings(run_turn: Any, roles: Any) -> None:
    roles("bad", text="x")
    told: list[str] = []

    @tool
    async def delegate(context: ToolContext) -> str:
        """Let a child work."""
        child = await context.spawn(Agent(name="helper"))
        told.extend(event.message for event in (await child.run("go")).events if event.type == "warning")
        return "done"

    run = run_turn("hello", [call("delegate"), say("child"), say("parent")], tools=[delegate])
    assert run.outputs == ("done",)
    assert not any("agent role" in text for text in told)
    assert any("agent role" in event.message for event in run.result.events if event.type == "warning")


def test_a_role_cannot_widen_the_session(turn_of: Any, roles: Any) -> None:
    roles("wide", 'sandbox_mode = "danger-full-access"\n')
    with pytest.raises(CodexError) as caught:
        turn_of("wide", 'sandbox_mode = "read-only"\n')
    assert caught.value.slug == "wider-agent"


BAD = {
    "no name": ('description = "d"\ndeveloper_instructions = "x"', "it has no `name`"),
    "no description": ('name = "bad"\ndeveloper_instructions = "x"', "it has no `description`"),
    "no instructions": ('name = "bad"\ndescription = "d"', "it has no `developer_instructions`"),
    "not TOML": ("name =", "it is not TOML: Invalid value"),
    "type": ("name = 5", "its `name` is not text"),
    "mode": (ROLE.format("bad") + 'sandbox_mode = "open"', "its `sandbox_mode` is 'open', not one of: read-only, "),
    "policy": (ROLE.format("bad") + 'approval_policy = "yolo"', "its `approval_policy` is 'yolo', not one of: "),
    "missing file": (
        ROLE.format("bad") + 'model_instructions_file = "no.md"',
        "cannot be read: No such file or directory",
    ),
    "huge": ("#" * ((1 << 20) + 1), "has more than 1 MiB"),
}


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_one_line(roles: Any, found: Any, text: str, reason: str) -> None:
    file = roles("bad", text=text)
    roles("good")
    (bad, good), (warning,) = found("bad", "good")
    assert bad == "there is no agent 'bad'"
    assert good.name == "good"
    assert warning.startswith(f"the agent role in {file} is not used: ")
    assert reason in warning
    assert "\n" not in warning


def test_bytes_pipes_and_loops_are_told(codex_home: Path, roles: Any, found: Any) -> None:
    folder = roles("good").parent
    (folder / "bytes.toml").write_bytes(b"name = '\xff'")
    os.mkfifo(folder / "pipe.toml")
    (folder / "loop.toml").symlink_to(folder / "loop.toml")
    (folder / "again").symlink_to(folder)
    (agent,), warnings = found("good")
    assert agent.name == "good"
    assert [warning.split(" is not used: ")[0].rsplit("/", 1)[1] for warning in warnings] == [
        "bytes.toml",
        "loop.toml",
        "pipe.toml",
    ]


def test_a_name_twice_and_settings_without_effect_are_told(roles: Any, found: Any) -> None:
    first = roles("a", text=ROLE.format("twin"))
    second = roles("b", text=ROLE.format("twin") + 'model = "x"\n')
    idle = roles("idle", "[mcp_servers.x]\ncommand = 'y'\n")
    (agent,), warnings = found("twin")
    assert agent.model is None
    assert warnings == [
        f"the agent role in {second} is not used: {first} has the same name 'twin'",
        f"{idle}: these settings have no effect in an agent role: mcp_servers",
    ]


def test_a_missing_file_of_a_table_is_told(codex_home: Path, found: Any) -> None:
    _, (warning,) = found(config='[agents.lost]\ndescription = "d"\nconfig_file = "no.toml"\n')
    assert warning == (
        f"the agent role in {codex_home}/no.toml is not used: {codex_home}/no.toml cannot be read: No such file or directory"
    )
