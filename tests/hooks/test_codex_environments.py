"""Hook ``codex_environments``: other places with files and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    AccessMode,
    ApprovalPolicy,
    CommandRequest,
    Constraint,
    Decision,
    Environment,
    EnvironmentEntry,
    EnvironmentFiles,
    EnvironmentInfo,
    EnvironmentSource,
    FileAccess,
    NetworkMode,
    ReviewDecision,
    SandboxError,
    ThreadContext,
    ToolContext,
    tool,
)
from codex_framework.commands.confinement import Confinements
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.environments import EnvironmentSelection
from codex_framework.contract.protocol.events.command import AddFile
from codex_framework.contract.protocol.permissions import AbsolutePath, AdditionalPermissions, FileEntry
from codex_framework.contract.protocol.policies import ReadOnly, SandboxPermissions, WorkspaceWrite
from codex_framework.contract.roles.sandboxes import ChildProcess, Confinement, Launch
from codex_framework.contract.roles.tools import PatchRequest
from codex_framework.loader.registry import load_registry
from codex_framework.testing import Offer, call, say
from codex_framework.toolkit.environments import in_environment
from codex_framework.toolkit.files import Files, NotPermittedError

INFO = EnvironmentInfo(shell="/bin/there", home="/home/there")


class Memory(EnvironmentFiles):
    """Files that are nowhere else."""

    def __init__(self, data: dict[str, bytes]) -> None:
        self.data = data

    async def read(self, path: str, limit: int) -> bytes:
        if path not in self.data:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.data[path]

    async def write(self, path: str, data: bytes) -> None:
        self.data[path] = data

    async def remove(self, path: str) -> None:
        del self.data[path]

    async def list(self, path: str) -> Sequence[EnvironmentEntry]:
        return [EnvironmentEntry(name.removeprefix(f"{path}/"), "file") for name in sorted(self.data)]

    def with_writable(self, paths: Sequence[str]) -> EnvironmentFiles:
        return self

    async def real_path(self, path: str) -> str:
        return path


class Ended(ChildProcess):
    pid = 0

    def signal(self, number: int) -> None:
        pass

    async def wait(self) -> int:
        return 0


class Noted(Confinement):
    def __init__(self, started: list[Launch]) -> None:
        self.started = started

    async def start(self, launch: Launch) -> ChildProcess:
        self.started.append(launch)
        return Ended()


class Box(Environment):
    """An environment that notes what it is asked for."""

    info = INFO
    fault = ""

    def __init__(self, name: str = "box", data: dict[str, bytes] | None = None) -> None:
        self.id = name
        self.data = {} if data is None else data
        self.asked: list[tuple[FileAccess, str]] = []
        self.started: list[Launch] = []

    async def connect(self) -> EnvironmentInfo:
        return INFO

    def confine(self, access: FileAccess, cwd: str, variables: Mapping[str, Any]) -> Confinement:
        self.asked.append((access, cwd))
        return Noted(self.started)

    def files(self, access: FileAccess, cwd: str) -> EnvironmentFiles:
        self.asked.append((access, cwd))
        return Memory(self.data)


class Places(EnvironmentSource):
    def __init__(self, *environments: Any, name: str = "places", default: Any = None, has_local: Any = True) -> None:
        self.environments = environments
        self.name = name
        self.default = default
        self.has_local = has_local


def selected(*places: tuple[str, str]) -> tuple[EnvironmentSelection, ...]:
    return tuple(EnvironmentSelection(name, cwd) for name, cwd in places)


def test_codex_environments_example_offers_a_place_where_nothing_can_be_done(example: Any, run_turn: Any) -> None:
    @tool
    async def look(context: ToolContext) -> str:
        """Run a command."""
        result = await context.run(["pwd"])
        return result.output

    module = example("codex_environments")
    turn = run_turn(
        module, Offer(tools=[look]), replies=[call("look"), say("Done.")], environments=selected(("away", "/x"))
    )
    assert turn.outputs == ["nobody is there."]


def test_codex_environments_gives_tools_the_place_that_they_name(run_turn: Any, tmp_path: Path) -> None:
    box = Box(data={"/there/poem.txt": b"of the box"})

    @tool
    async def visit(context: ToolContext, environment_id: str | None = None) -> str:
        """Look around."""
        context = in_environment(context, environment_id)
        text = await context.read_text("poem.txt")
        await context.write_text("sub/new", "made")
        result = await context.run(["pwd"])
        return f"{context.cwd} {context.shell} {context.files is not None} {text.splitlines()[0]} {result.exit_code}"

    here = tmp_path / "workspace"
    turn = run_turn(
        Offer(tools=[visit], environments=[Places(box)]),
        replies=[
            call("visit", environment_id="box"),
            call("visit", environment_id="local"),
            call("visit"),
            call("visit", environment_id="other"),
            say("Done."),
        ],
        environments=selected(("box", "/there"), ("local", str(here))),
    )
    assert turn.outputs == [
        "/there /bin/there True of the box 0",
        f"{here} None False roses are red 0",
        "/there /bin/there True of the box 0",
        "unknown turn environment id `other`",
    ]
    assert box.data["/there/sub/new"] == b"made"
    assert (here / "sub/new").read_text() == "made"
    assert {launch.cwd for launch in box.started} == {"/there"}
    assert len(box.started) == 2
    assert {cwd for _, cwd in box.asked} == {"/there"}
    assert all(access.elsewhere for access, _ in box.asked)


def test_codex_environments_that_a_turn_has_not_selected_are_out_of_reach(run_turn: Any) -> None:
    box = Box()

    @tool
    async def escape(context: ToolContext) -> str:
        """Go where the turn does not work."""
        await context.at("box").run(["pwd"])
        return "escaped"

    offer = Offer(tools=[escape], environments=[Places(box)])
    assert run_turn(offer, replies=[call("escape"), say("Done.")]).outputs == ["unknown turn environment id `box`"]
    assert box.asked == []


def test_codex_environments_keep_paths_of_other_places_from_being_opened_here(run_turn: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of this machine")

    @tool
    async def confuse(context: ToolContext) -> str:
        """Open a path of the environment on this machine."""
        try:
            return Files(context.access).read(str(secret)).decode()
        except NotPermittedError as error:
            return str(error)

    offer = Offer(tools=[confuse], environments=[Places(Box())])
    turn = run_turn(offer, replies=[call("confuse"), say("Done.")], environments=selected(("box", str(tmp_path))))
    assert turn.outputs == ["it is a path of another environment"]


def test_codex_environments_cost_a_thread_that_works_here_nothing(run_thread: Any) -> None:
    class Trap(Box):
        is_armed = False

        @property
        def info(self) -> Any:  # type: ignore[override]
            assert not self.is_armed

        @property
        def fault(self) -> Any:  # type: ignore[override]
            assert not self.is_armed
            return ""

        async def connect(self) -> EnvironmentInfo:
            raise AssertionError

        def confine(self, access: FileAccess, cwd: str, variables: Mapping[str, Any]) -> Confinement:
            raise AssertionError

        def files(self, access: FileAccess, cwd: str) -> EnvironmentFiles:
            raise AssertionError

    @tool
    async def work(context: ToolContext) -> str:
        """Work here."""
        return (await context.run(["echo", await context.read_text("poem.txt")])).output.splitlines()[0]

    trap = Trap()

    async def run(kernel: Any, thread: Any, model: Any) -> Any:
        trap.is_armed = True
        await thread.run("Go!")
        return thread.history.items, kernel.registry.warnings

    offer = Offer(tools=[work], environments=[Places(trap)])
    items, warnings = run_thread(run, offer, replies=[call("work"), say("Done.")])
    assert [item.output for item in items if item.type == "function_call_output"] == ["roses are red"]
    assert warnings == ()


def test_codex_environments_choose_where_threads_work_by_default(run_thread: Any) -> None:
    async def look(_: Any, thread: Any, model: Any) -> Any:
        chosen = thread.settings.environments
        return None if chosen is None else [each.environment_id for each in chosen]

    def found(*sources: EnvironmentSource) -> Any:
        return run_thread(look, Offer(environments=sources))

    assert found() is None
    assert found(Places(Box())) is None
    assert found(Places(Box(), default=["box", "local"])) == ["box", "local"]
    assert found(Places(Box(), default=["local", "box"], has_local=False)) == ["box"]
    assert found(Places(has_local=False)) == []
    assert found(Places(Box(), default=[])) == []


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (Places("box"), "an environment does not fulfil its role"),
        (Places(Box("local")), "the id of an environment is 'local'"),
        (Places(Box("a b")), "the id of an environment is 'a b'"),
        (Places(Box(), Box()), "two environments have the id 'box'"),
        (Places(Box(), default="box"), "its default is 'box', not a list of ids"),
        (Places(Box(), has_local=0), "its has_local is 0, not True or False"),
    ],
)
def test_codex_environments_that_cannot_be_used_are_left_out_and_told(source: Any, text: str) -> None:
    registry = load_registry({}, entry_points=(), extra_plugins=[Offer(environments=[source])])
    assert registry.environment_sources == ()
    (warning,) = registry.warnings
    assert "its environment" in warning
    assert text in warning


def test_codex_environments_with_one_id_are_told_and_the_first_is_used(run_turn: Any) -> None:
    class One(Offer):
        pass

    class Other(Offer):
        pass

    first, second = Box(data={"/x": b"first"}), Box(data={"/x": b"second"})

    @tool
    async def read(context: ToolContext) -> str:
        """Read a file."""
        return await context.read_text("/x")

    turn = run_turn(
        One(tools=[read], environments=[Places(first, name="one")]),
        Other(environments=[Places(second, name="other")]),
        replies=[call("read"), say("Done.")],
        environments=selected(("box", "/")),
    )
    assert turn.outputs == ["first"]
    (warning,) = turn.warnings
    assert "the environment 'box' is offered by" in warning


def test_codex_environments_that_raise_in_the_middle_of_a_turn_end_nothing_else(run_turn: Any) -> None:
    class Faulty(Box):
        def confine(self, access: FileAccess, cwd: str, variables: Mapping[str, Any]) -> Any:
            raise ZeroDivisionError

        def files(self, access: FileAccess, cwd: str) -> Any:
            raise SandboxError("not like this", hint="Do otherwise.")

    @tool
    async def run(context: ToolContext) -> str:
        """Run a command."""
        return (await context.run(["pwd"])).output

    @tool
    async def read(context: ToolContext) -> str:
        """Read a file."""
        return await context.read_text("/x")

    turn = run_turn(
        Offer(tools=[run, read], environments=[Places(Faulty())]),
        replies=[call("run"), call("read"), say("Done.")],
        environments=selected(("box", "/")),
    )
    assert turn.error is None
    assert "environment 'box': confine() failed: ZeroDivisionError" in turn.outputs[0]
    assert "not like this" in turn.outputs[1]


def test_codex_environments_get_no_variables_of_this_machine(run_turn: Any) -> None:
    box = Box()

    @tool
    async def run(context: ToolContext) -> str:
        """Run a command."""
        return str((await context.run(["pwd"])).exit_code)

    offer = Offer(tools=[run], environments=[Places(box)])
    run_turn(offer, replies=[call("run"), say("Done.")], environments=selected(("box", "/")))
    (launch,) = box.started
    assert not {"PATH", "HOME", "CODEX_HOME"} & launch.env.keys()
    assert "CODEX_THREAD_ID" in launch.env


def test_codex_environments_have_approvals_of_their_own(run_thread: Any, tmp_path: Path) -> None:
    folder = str(tmp_path)
    asked: list[Any] = []

    @tool
    async def act(context: ToolContext, environment_id: str) -> str:
        """Ask for a command and for a patch of the same name in each place."""
        there = context.at(environment_id)
        await there.run(CommandRequest(argv=("true",), escalate=SandboxPermissions.REQUIRE_ESCALATED))
        await there.approve_patch(PatchRequest(changes={"/elsewhere/x": AddFile("x")}))
        return "approved"

    async def answer(request: Any) -> ReviewDecision:
        asked.append((type(request).__name__, request.environment_id))
        return ReviewDecision(Decision.APPROVED_FOR_SESSION)

    async def drive(_: Any, thread: Any, model: Any) -> Any:
        await thread.run("Go!", on_request=answer)
        return [item.output for item in thread.history.items if item.type == "function_call_output"]

    outputs = run_thread(
        drive,
        Offer(tools=[act], environments=[Places(Box())]),
        replies=[*(call("act", environment_id=place) for place in ("box", "box", "local", "local")), say("Done.")],
        approval_policy=ApprovalPolicy.ON_REQUEST,
        sandbox_policy=ReadOnly(),
        environments=selected(("box", folder), ("local", folder)),
    )
    assert outputs == ["approved"] * 4
    kinds = ("ExecApprovalRequestEvent", "ApplyPatchApprovalRequestEvent")
    assert asked == [(kind, place) for place in ("box", None) for kind in kinds]


def test_codex_environments_have_grants_of_their_own(run_thread: Any, tmp_path: Path) -> None:
    folder = str(tmp_path)
    found: list[Any] = []

    @tool
    async def ask(context: ToolContext) -> str:
        """Ask for more in the box."""
        more = AdditionalPermissions((FileEntry(AbsolutePath("/granted"), AccessMode.WRITE),))
        await context.at("box").request_permissions(more, "because")
        return "asked"

    @tool
    async def look(context: ToolContext) -> str:
        """Look at what may be written."""
        found.append([context.at(place).access.may_write(Path("/granted/x")) for place in ("box", "local")])
        return "looked"

    async def answer(request: Any) -> ReviewDecision:
        assert request.environment_id == "box"
        more = AdditionalPermissions((FileEntry(AbsolutePath("/granted"), AccessMode.WRITE),))
        return ReviewDecision(Decision.APPROVED_FOR_SESSION, granted=more)

    async def drive(_: Any, thread: Any, model: Any) -> Any:
        for reply in (call("look"), call("ask"), call("look"), say("Done."), call("look"), say("Done.")):
            model.add(reply)
        await thread.run("Go!", on_request=answer)
        await thread.run("Go on!", on_request=answer)

    run_thread(
        drive,
        Offer(tools=[ask, look], environments=[Places(Box())]),
        replies=[],
        approval_policy=ApprovalPolicy.ON_REQUEST,
        sandbox_policy=ReadOnly(),
        environments=selected(("box", folder), ("local", folder)),
    )
    assert found == [[False, False], [True, False], [True, False]]


class ReadsOnly(Constraint):
    """Lets threads read only, once ``on`` is set."""

    name = "reads_only"
    on = False

    def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:
        return permissions.read_only() if self.on else permissions


def test_codex_environments_are_narrowed_by_constraints(run_turn: Any) -> None:
    box, constraint = Box(), ReadsOnly()
    found: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look at what may be written in the box, and run a command there."""
        there = context.at("box")
        await there.run(["true"])
        found.append((there.access.may_write(Path("/work/x")), box.asked[-1][0].may_write(Path("/work/x"))))
        constraint.on = True
        return "looked"

    turn = run_turn(
        Offer(tools=[look], environments=[Places(box)], constraints=[constraint]),
        replies=[call("look"), call("look"), say("Done.")],
        sandbox_policy=WorkspaceWrite(),
        environments=(EnvironmentSelection("box", "/work", workspace_roots=("/work",)),),
    )
    assert turn.outputs == ["looked", "looked"]
    assert found == [(True, True), (False, False)]


def test_codex_environments_permissions_are_not_for_commands_of_this_machine() -> None:
    with pytest.raises(SandboxError, match="permissions of another environment"):
        Confinements({}, None).plan(FileAccess(full=True, network=NetworkMode.ON, elsewhere=True), Path("/"))
