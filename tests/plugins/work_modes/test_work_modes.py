"""Work modes: what each permits, how they are chosen, and that nothing gets around them."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent, ApprovalPolicy, ConfigError, Decision, PluginError, ReviewDecision, ToolContext, tool
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.items import CustomToolCallOutput, FunctionCallOutput, message_text
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import CollaborationMode, DangerFullAccess, WorkspaceWrite
from codex_framework.contract.value import fields_of
from codex_framework.testing import Offer, call, custom_call, say
from codex_plugin_work_modes import WorkModeChangedEvent
from codex_plugin_work_modes.modes import EVERYTHING, STRICTEST, ModeRestrictions, ModeSettings, Settings, mode_named
from codex_plugin_work_modes.narrowing import narrowed
from codex_plugin_work_modes.roles import ModeInterceptor

WORKER: Agent[str] = Agent(name="worker", instructions="Work.")
FULL: Any = {"sandbox_policy": DangerFullAccess(), "approval_policy": ApprovalPolicy.NEVER}


def command(script: str, **arguments: Any) -> Any:
    return call("exec_command", cmd=script, login=False, **arguments)


def patch(path: Path, text: str = "x") -> Any:
    return custom_call("apply_patch", f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch")


def play(make_kernel: Any, story: Any, config: str = "", plugins: Any = (), **settings: Any) -> Any:
    async def main() -> Any:
        async with make_kernel([], config=config, plugins=plugins) as kernel, asyncio.timeout(60):
            thread = await kernel.start_thread(**{**FULL, **settings})
            return await story(kernel, thread)

    return asyncio.run(main())


async def told(kernel: Any, thread: Any, mode: str) -> list[Any]:
    """Choose a mode. Return the events of the change."""
    heard = thread.events(answers=False)
    await thread.submit(kernel.op("set_work_mode", mode=mode))
    heard.end()
    return [event.msg async for event in heard if isinstance(event.msg, (ErrorEvent, WorkModeChangedEvent))]


async def answers(kernel: Any, thread: Any, *calls: Any, **options: Any) -> list[Any]:
    """Return what the calls of a turn answer."""
    kinds = (FunctionCallOutput, CustomToolCallOutput)
    before = sum(isinstance(item, kinds) for item in thread.history.items)
    kernel.model.add(*calls, say("done"))
    await thread.run("Go!", **options)
    return [item.output for item in thread.history.items if isinstance(item, kinds)][before:]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for key, value in (("user.email", "a@example.com"), ("user.name", "a")):
        subprocess.run(["git", "-C", str(folder), "config", key, value], check=True)
    (folder / "file").write_text("text\n")
    return folder


def test_plan_reads_and_changes_nothing(make_kernel: Any, repository: Path) -> None:
    """Whatever the permissions: with full access and for a program that hides what it does, too."""
    hidden = "import subprocess as s; s.run(['git','add','file']); s.run(['git','commit','-qm','x']); open('made','w')"

    async def story(kernel: Any, thread: Any) -> Any:
        (event,) = await told(kernel, thread, "plan")
        found = await answers(
            kernel,
            thread,
            command("cat file; git status --short; git log 2>&1 | head -1"),
            command("touch made"),
            patch(repository / "made"),
            command(f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {repository}/made\n+x\n*** End Patch\nEOF\n"),
            command("git commit -am x"),
            command("cd . && env A=1 git -C . add file"),
            command(f'python3 -c "{hidden}"'),
            command("python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9), 1)\" 2>&1"),
        )
        return event, found, kernel.model.requests

    event, found, requests = play(make_kernel, story, cwd=repository)
    assert (event.mode, event.restrictions.allow_file_write) == ("plan", False)
    assert "text" in found[0]
    assert "?? file" in found[0]
    assert "Process exited with code 1" in found[1]
    for number in (2, 3):
        assert found[number].startswith("the work mode `plan` permits no changes of files"), found[number]
    assert "permits no git operation that changes something: git commit" in found[4]
    assert "git add" in found[5]
    assert "Read-only file system" in found[6]
    assert sorted(path.name for path in repository.iterdir()) == [".git", "file"]
    assert not list((repository / ".git" / "refs" / "heads").iterdir()), "there is no commit"
    assert "Operation not permitted" in found[7] or "unreachable" in found[7] or "refused" in found[7]
    developer = "\n".join(
        message_text(item) for item in requests[-1].prompt.items if getattr(item, "role", "") == "developer"
    )
    assert "You work in the mode `plan`, which is enforced." in developer
    assert "These limits are fixed" in developer


def test_review_writes_small_files_and_leaves_the_repository_alone(make_kernel: Any, repository: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        await told(kernel, thread, "review")
        return await answers(
            kernel,
            thread,
            command("echo small > one; head -c 20000 /dev/zero > big; ls -l big | cut -d' ' -f5; git add file 2>&1"),
            command("git add file"),
            command("python3 -c \"open('.git/made', 'w')\" 2>&1"),
            patch(repository / "two", "y" * 9_000),
            patch(repository / "three", "y" * 20_000),
            patch(Path("/opt/outside")),
        )

    found = play(make_kernel, story, cwd=repository)
    assert found[0].startswith("exec_command failed"), "the whole command is refused"
    assert "git add" in found[1]
    assert "Read-only file system" in found[2] or "Permission denied" in found[2]
    assert "Success" in found[3]
    assert "would have 20,001 bytes, and files may have at most 10,000" in found[4]
    assert "patch rejected" in found[5]
    assert sorted(path.name for path in repository.iterdir()) == [".git", "file", "two"]


def test_review_limits_the_files_of_commands(make_kernel: Any, repository: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        await told(kernel, thread, "review")
        return await answers(kernel, thread, command("echo small > one; head -c 20000 /dev/zero > big; wc -c < big"))

    (found,) = play(make_kernel, story, cwd=repository)
    assert (repository / "one").read_text() == "small\n"
    assert (repository / "big").stat().st_size <= 10_000, found


def test_build_permits_what_the_permissions_do_and_costs_no_words(make_kernel: Any, repository: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        found = await answers(kernel, thread, command("git add file && git commit -qm x && touch made && echo done"))
        return found, kernel.model.requests[-1]

    (found,), request = play(make_kernel, story, cwd=repository)
    assert "done" in found
    assert "work_mode" not in str(request.prompt.items)


def test_a_mode_narrows_and_never_widens(make_kernel: Any, repository: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        await told(kernel, thread, "build")
        return await answers(kernel, thread, command("touch made; touch ../made"))

    settings: Any = {"sandbox_policy": WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)}
    play(make_kernel, story, cwd=repository, **settings)
    assert (repository / "made").exists()
    assert not (repository.parent / "made").exists()


def test_the_model_is_told_of_a_change_and_of_its_end(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        for mode in ("plan", "review", "build", "build"):
            await told(kernel, thread, mode)
            await answers(kernel, thread)
        return [
            message_text(item)
            for item in thread.history.items
            if "<work_mode>" in message_text(item)  # one message each
        ]

    first, second, third = play(make_kernel, story)
    assert "`plan`" in first
    assert "`review`" in second
    assert "at most 10,000 bytes" in second
    assert "No work mode restricts you any more" in third


MINE = """[framework.plugins.work_modes]
mode = "talk"
in_plan_mode = "plan"
[framework.plugins.work_modes.modes.talk]
allow_command_exec = false
instructions = "Only talk."
[framework.plugins.work_modes.modes.plan]
allow_command_exec = false
[framework.plugins.work_modes.modes.review]
max_file_size = 0
allow_network_access = true
"""


def test_modes_of_the_configuration(make_kernel: Any, tmp_path: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        (found,) = await answers(kernel, thread, command(f"touch {tmp_path}/made"))
        return found, kernel.model.requests[-1]

    found, request = play(make_kernel, story, MINE)
    assert "the work mode `talk` permits no commands" in found
    assert "Only talk." in str(request.prompt.items)
    assert not (tmp_path / "made").exists()
    settings = Settings(
        modes={"review": ModeSettings(max_file_size=0, allow_network_access=True), "new": ModeSettings()}
    )
    review, new = mode_named("review", settings), mode_named("new", settings)
    assert review is not None
    assert new is not None
    assert review.restrictions == ModeRestrictions(allow_git_operations=False)
    assert new.restrictions == EVERYTHING


def test_plan_mode_can_bring_the_restrictions_of_a_work_mode(make_kernel: Any, tmp_path: Path) -> None:
    config = '[framework.plugins.work_modes]\nin_plan_mode = "plan"\n'

    async def story(kernel: Any, thread: Any) -> Any:
        made = []
        for name, mode in (("one", "plan"), ("two", "default")):
            change = ThreadSettingsOverrides(collaboration_mode=CollaborationMode(mode))
            await thread.submit(ThreadSettings(change))
            await answers(kernel, thread, command(f"touch {tmp_path}/{name}"))
            made.append((tmp_path / name).exists())
        return made

    assert play(make_kernel, story, config) == [False, True]


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        ('mode = "plam"', "there is no work mode 'plam'"),
        ('in_plan_mode = "x"', "there is no work mode 'x'"),
        ("mode = 1", "framework.plugins.work_modes.mode"),
        ("[framework.plugins.work_modes.modes.x]\nmax_file_size = -1", "which is no size"),
        ("[framework.plugins.work_modes.modes.x]\nallow = true", "allow"),
    ],
)
def test_a_wrong_configuration_starts_nothing(make_kernel: Any, config: str, fact: str) -> None:
    text = config if config.startswith("[") else f"[framework.plugins.work_modes]\n{config}"
    with pytest.raises((ConfigError, PluginError)) as caught:
        play(make_kernel, lambda *_: None, text)
    assert fact in f"{caught.value}"


def test_a_wrong_configuration_of_one_thread_leaves_it_nothing(make_kernel: Any, tmp_path: Path) -> None:
    async def story(kernel: Any, _: Any) -> Any:
        config = {"framework.plugins.work_modes": {"mode": "nope"}}
        thread = await kernel.start_thread(config=config, **FULL)
        return await answers(kernel, thread, command(f"touch {tmp_path}/made"), patch(tmp_path / "made"))

    found = play(make_kernel, story)
    assert all("the work mode `nope`" in answer for answer in found)
    assert not (tmp_path / "made").exists()


def test_an_unknown_mode_is_refused_and_the_session_goes_on(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        return await told(kernel, thread, "plam"), await told(kernel, thread, "review")

    (error,), (event,) = play(make_kernel, story)
    assert error.message == ("there is no work mode 'plam'. Did you mean plan? The modes are: build, plan, review.")
    assert event.mode == "review"


@pytest.mark.parametrize("configured", ["build", "review"])
def test_a_resumed_thread_keeps_its_mode_unless_another_one_is_configured(make_kernel: Any, configured: str) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        await told(kernel, thread, "plan")
        await answers(kernel, thread)
        await thread.shutdown()
        config = {} if configured == "build" else {"framework.plugins.work_modes": {"mode": configured}}
        resumed = await kernel.resume_thread(thread.id, config=config)
        return await answers(kernel, resumed, command("git commit"))

    (found,) = play(make_kernel, story)
    assert f"the work mode `{'plan' if configured == 'build' else 'review'}`" in found


def test_children_have_the_mode_of_their_parent_too(make_kernel: Any, tmp_path: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        spawn = thread.conversation.context("test").spawn
        before = await spawn(WORKER)
        await told(kernel, thread, "plan")
        made = []
        for number, child in enumerate(
            (before, await spawn(WORKER), await before.conversation.context("x").spawn(WORKER))
        ):
            await told(kernel, child, "build")
            await answers(kernel, child, command(f"touch {tmp_path}/{number}"))
            made.append((tmp_path / str(number)).exists())
        texts = str(kernel.model.requests[-1].prompt.items)
        return made, texts

    made, texts = play(make_kernel, story)
    assert made == [False] * 3
    assert "You work in the mode `plan`" in texts


def test_a_stricter_mode_applies_in_the_running_turn_and_a_looser_one_after_it(
    make_kernel: Any, tmp_path: Path
) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        @tool
        async def choose(mode: str) -> str:
            """Let the user choose a mode."""
            await thread.submit(kernel.op("set_work_mode", mode=mode))
            return "ok"

        thread.conversation.agent = Agent(name="a", tools=[choose])
        for number, modes in enumerate((("plan", "build"), ("plan",), ("build",))):
            calls = [
                part
                for mode in modes
                for part in (call("choose", mode=mode), command(f"touch {tmp_path}/{number}-{mode}"))
            ]
            await answers(kernel, thread, *calls, command(f"touch {tmp_path}/{number}-last"))
        await answers(kernel, thread, command(f"touch {tmp_path}/after"))
        return sorted(path.name for path in tmp_path.iterdir() if path.is_file())

    # the first turn began in build; the second in build, too; the third in plan
    assert play(make_kernel, story) == ["0-build", "0-last", "after"]


def test_sessions_of_a_looser_mode_end(make_kernel: Any, tmp_path: Path) -> None:
    waits = "while read line; do echo $line >> {}; done"

    async def story(kernel: Any, thread: Any) -> Any:
        child = await thread.conversation.context("test").spawn(WORKER)
        for one, name in ((thread, "own"), (child, "child")):
            await answers(kernel, one, command(waits.format(tmp_path / name), tty=True, yield_time_ms=250))
        await told(kernel, thread, "plan")
        found = []
        for one in (thread, child):
            session = int(str(one.history.items).split("session ID ")[1].split("\\n")[0])
            found += await answers(kernel, one, call("write_stdin", session_id=session, chars="x\n", yield_time_ms=300))
        return found

    found = play(make_kernel, story)
    assert all("Unknown process id" in answer for answer in found), found
    assert not (tmp_path / "own").exists()
    assert not (tmp_path / "child").exists()


def test_a_command_that_becomes_a_session_after_the_change_takes_no_input_and_ends_with_the_turn(
    make_kernel: Any, tmp_path: Path
) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        started = tmp_path / "started"
        script = f"touch {started}; while read line; do echo $line >> {tmp_path}/made; done"
        kernel.model.add(
            command(script, tty=True, yield_time_ms=3000),
            lambda request: call("write_stdin", session_id=_session(thread), chars="x\n", yield_time_ms=300),
            say("done"),
        )
        turn = asyncio.ensure_future(thread.run("Go!"))
        while not started.exists():
            await asyncio.sleep(0.01)
        await told(kernel, thread, "plan")
        await turn
        (after,) = await answers(kernel, thread, call("write_stdin", session_id=_session(thread), yield_time_ms=5000))
        kinds = FunctionCallOutput
        return [item.output for item in thread.history.items if isinstance(item, kinds)][1], after

    refused, after = play(make_kernel, story)
    assert "was chosen after this command was started" in refused
    assert "Unknown process id" in after
    assert not (tmp_path / "made").exists()


def _session(thread: Any) -> int:
    return int(str(thread.history.items).split("session ID ")[1].split("\\n")[0])


def test_earlier_approvals_and_rules_do_not_lift_a_mode(make_kernel: Any, tmp_path: Path) -> None:
    made = tmp_path / "outside" / "made"
    made.parent.mkdir()
    escalated: Any = {"sandbox_permissions": "require_escalated", "justification": "?"}
    calls = [command(f"touch {made}", **escalated), patch(made), command(f"touch {made}")]

    async def story(kernel: Any, thread: Any) -> Any:
        asked = []

        async def allow(request: Any) -> ReviewDecision:
            asked.append(request)
            return ReviewDecision(Decision.APPROVED_FOR_SESSION)

        for one in calls:
            await answers(kernel, thread, one, on_request=allow)
            made.unlink(missing_ok=True)
        await told(kernel, thread, "plan")
        before = len(asked)
        found = [(await answers(kernel, thread, one, on_request=allow))[0] for one in calls]
        return found, asked[before:]

    settings: Any = {
        "sandbox_policy": WorkspaceWrite(exclude_slash_tmp=True),
        "approval_policy": ApprovalPolicy.ON_REQUEST,
    }
    found, asked = play(make_kernel, story, **settings)
    assert not made.exists(), found
    assert asked == []


def test_the_user_is_not_restricted(make_kernel: Any, tmp_path: Path) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        await told(kernel, thread, "plan")
        await thread.submit(kernel.op("run_user_shell_command", command=f"touch {tmp_path}/made"))
        await thread.settled()

    play(make_kernel, story)
    assert (tmp_path / "made").exists()


def test_tools_of_plugins_and_programs_are_confined(make_kernel: Any, tmp_path: Path) -> None:
    @tool
    async def write(path: str, context: ToolContext) -> str:
        """Write a file."""
        await context.write_text(path, "x")
        return "written"

    @tool
    async def through(path: str, context: ToolContext) -> str:
        """Call the patch tool, as a program of code mode does."""
        text = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
        return str((await context.call_tool("apply_patch", text)).content)

    async def story(kernel: Any, thread: Any) -> Any:
        await told(kernel, thread, "plan")
        made = str(tmp_path / "made")
        return await answers(kernel, thread, call("write", path=made), call("through", path=made))

    written, through_ = play(make_kernel, story, plugins=[Offer(tools=[write, through])])
    assert "not permitted" in written
    assert "the work mode `plan` permits no changes" in through_
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("script", "operation"),
    [
        ("git push", "git push"),
        ("ls; git  checkout -b x", "git checkout"),
        ("(cd x && /usr/bin/git -c a=b --no-pager reset --hard)", "git reset"),
        ("true\ngit branch new", "git branch"),
        ("x=$(git stash)", "git stash"),
        ("git config user.name x", "git config"),
        ("git tag v1", "git tag"),
        ("git remote add a b", "git remote"),
        ("# that's it\ngit push", "git push"),
        ("echo a#b \\\n'#' \\#; git push", "git push"),
        ("""g'i't "-C" 'a b' "pu"sh""", "git push"),
        ("cat < in > $(git push)", "git push"),
        ("git branch -D old -v", "git branch"),
        ("git branch --no-color new", "git branch"),
        ("git branch 5 > list", "git branch"),
        ("git tag --no-color v1", "git tag"),
        ("git remote -v add a b", "git remote"),
        ("git \\\nstatus > a 2>&1 # and git push", None),
        ("git branch -a --contains HEAD; git tag --sort=-x -l 'v*'; git branch -vv 2>/dev/null", None),
        ("git status && git log -3 | cat; git diff > /dev/null", None),
        ("git branch --list 'a*'; git branch; git tag -l; git stash list; git remote -v", None),
        ("git config --get user.name; git -C x rev-parse HEAD; git", None),
        ("echo 'git push'", None),
        ("cat gitk git.txt", None),
        ("git commit 'open", None),
    ],
)
def test_git_operations_that_change_something_are_recognised(script: str, operation: str | None) -> None:
    from codex_framework import CommandRequest
    from codex_plugin_work_modes.git import changing_operation

    request = CommandRequest(argv=("bash", "-c", script), script=script)
    assert changing_operation(request) == operation
    assert changing_operation(CommandRequest(argv=("git", "push"))) == "git push"


def test_only_tools_of_servers_that_change_nothing_may_be_called_in_plan() -> None:
    from codex_framework import CallView, ToolCall
    from codex_plugin_work_modes.state import WorkModes

    class Turn:
        def __init__(self, view: CallView | None) -> None:
            self._view = view

        def view(self, call: ToolCall) -> CallView | None:
            return self._view

    interceptor = ModeInterceptor(WorkModes())
    plan = ModeRestrictions(allow_file_write=False)
    server = CallView(name="mcp__a__b", arguments={}, server="a")
    refusals = [
        interceptor._refusal(ToolCall("1", "b", "{}"), Turn(view), plan)  # type: ignore[arg-type]
        for view in (server, server.evolve(read_only=False), server.evolve(read_only=True), None)
    ]
    assert [bool(why) for why in refusals] == [True, True, False, False]


def test_a_mode_that_cannot_be_found_out_allows_nothing() -> None:
    assert not any(getattr(STRICTEST, field.name) for field in fields_of(ModeRestrictions))


def test_files_that_cannot_be_written_have_no_size() -> None:
    full = permissions_of(DangerFullAccess())
    small = ModeRestrictions(max_file_size=10)
    assert narrowed(full, small).options.limits.file_bytes == 10
    read_only = narrowed(full, small.evolve(allow_file_write=False))
    assert read_only.options.limits == full.options.limits, "a command may write into its pipes what it wants"
