"""Roles as base classes: what an object overrides, and how one that merely has the members gets what it lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    ChildProcess,
    CommandPolicy,
    Confinement,
    ContextSource,
    FileAccess,
    Interceptor,
    Launch,
    ModelCatalogue,
    ModelProvider,
    NetworkProxy,
    NetworkTarget,
    Notifier,
    Observer,
    Sandbox,
    SandboxReport,
    Telemetry,
    ThreadStore,
    Unconfined,
    hookimpl,
)
from codex_framework.loader.registry import load_registry
from codex_framework.loader.role_checks import role_problems
from codex_framework.testing import turn_facts
from codex_framework.threads.interceptor_table import InterceptorTable
from codex_framework.toolkit.roles import add_defaults, overrides

REQUIRED: Mapping[type[Any], tuple[str, ...]] = {
    ChildProcess: ("pid", "signal", "wait"),
    CommandPolicy: ("name", "judge"),
    Confinement: ("start",),
    ContextSource: ("name", "fragments"),
    ModelCatalogue: ("name", "model"),
    ModelProvider: ("name", "open"),
    NetworkProxy: ("name", "gate"),
    Notifier: ("name", "notify"),
    Observer: ("name", "observe"),
    Sandbox: ("name", "probe", "confine"),
    Telemetry: ("name", "record"),
    ThreadStore: ("name", "create", "reopen", "load", "latest"),
}


@pytest.mark.parametrize("role", REQUIRED, ids=lambda role: role.__name__)
def test_a_class_that_derives_from_a_role_has_to_write_what_is_required_and_no_more(role: type[Any]) -> None:
    bare = type("Bare", (role,), {})()
    problems = role_problems(bare, role)
    assert len(problems) == len(REQUIRED[role])
    for member, problem in zip(sorted(REQUIRED[role]), sorted(problems, key=_member), strict=True):
        assert _member(problem) == member
    members = {name: getattr(role, name, "a name") for name in REQUIRED[role]}
    written = {name: _written(value) for name, value in members.items()}
    assert role_problems(type("Written", (role,), written)(), role) == []


def _member(problem: str) -> str:
    """The member that a problem is about."""
    return problem.removeprefix("its ").removeprefix("it has no attribute ").split()[0]


def _written(value: Any) -> Any:
    if not callable(value):
        return "x"

    def written(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return value(self, *arguments, **keywords)

    return written


class Bare:
    """A sandbox that has what is required and derives from nothing."""

    name = "bare"

    def probe(self) -> SandboxReport:
        return SandboxReport(available=True)

    def confine(self, access: FileAccess, cwd: Path) -> Any:
        return BarePlan()


class BarePlan:
    async def start(self, launch: Launch) -> Any:
        return BareChild(await Unconfined().start(launch))


class BareChild:
    __slots__ = ("_child",)

    def __init__(self, child: ChildProcess) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    def signal(self, number: int) -> None:
        self._child.signal(number)

    async def wait(self) -> int:
        return await self._child.wait()


def test_an_object_that_has_all_members_or_derives_from_the_role_is_left_as_it_is() -> None:
    class Derived(Sandbox):
        pass

    class Whole(Bare):
        close_timeout_s = 1.0

        async def examine(self) -> tuple[Any, ...]:
            return ()

        async def aclose(self) -> None:
            return

    for item in (Derived(), Whole()):
        assert add_defaults(item, Sandbox) is item


def test_an_object_that_lacks_members_gets_the_defaults() -> None:
    bare = Bare()
    whole: Any = add_defaults(bare, Sandbox)
    assert whole is not bare
    assert asyncio.run(whole.examine()) == ()
    assert asyncio.run(whole.aclose()) is None
    assert (whole.name, whole.probe()) == ("bare", bare.probe())
    assert isinstance(whole, Bare)
    assert (whole == bare, hash(whole) == hash(bare), repr(whole) == repr(bare)) == (True, True, True)
    whole.name = "renamed"
    assert bare.name == "renamed"
    assert add_defaults(BarePlan(), Confinement).env == {}  # type: ignore[attr-defined]
    for missing in ("no_such", "_private", "__wrapped__"):
        with pytest.raises(AttributeError):
            getattr(whole, missing)


def test_a_default_sees_what_the_object_has() -> None:
    class Role:
        greeting = "hello"

        def greet(self) -> str:
            return f"{self.greeting} {self.name}"  # type: ignore[attr-defined]

    class Named:
        name = "you"

    assert add_defaults(Named(), Role).greet() == "hello you"  # type: ignore[attr-defined]


def test_what_a_property_raises_comes_through() -> None:
    class Broken(Bare):
        @property
        def name(self) -> str:  # type: ignore[override]
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        _ = add_defaults(Broken(), Sandbox).name


def test_what_is_overridden_is_found_in_classes_instances_and_completed_objects() -> None:
    class Policy:
        name = "policy"

        def judge(self, command: Any, facts: Any) -> None:
            return None

        def judge_network(self, target: Any, facts: Any) -> None:
            return None

    class Derived(CommandPolicy):
        def judge(self, command: Any, facts: Any) -> None:
            return None

    whole = add_defaults(Policy(), CommandPolicy)
    for item in (Policy(), whole):
        assert [overrides(item, CommandPolicy, m) for m in ("judge", "judge_network", "remember_prefix")] == [
            True,
            True,
            False,
        ]
    assert [overrides(Derived(), CommandPolicy, m) for m in ("judge", "judge_network")] == [True, False]
    assert type("Twice", (Derived,), {})().judge_network(NetworkTarget("x", 1, "http"), turn_facts()) is None


def test_what_a_plugin_offers_is_completed_once_when_it_is_registered() -> None:
    class Watch:
        name = "watch"

        async def before_tool(self, call: Any, turn: Any) -> Any:
            return call

    class Measures:
        name = "measures"

        def record(self, measurement: Any) -> None:
            return

    class Plugin:
        @hookimpl
        def codex_sandboxes(self) -> list[Any]:
            return [Bare()]

        @hookimpl
        def codex_interceptors(self) -> list[Any]:
            return [Watch()]

        @hookimpl
        def codex_telemetry(self) -> list[Any]:
            return [Measures()]

    registry = load_registry({}, entry_points=(), extra_plugins=[Plugin()])
    assert registry.warnings == ()
    assert asyncio.run(registry.sandboxes["bare"].examine()) == ()
    assert registry.telemetry[0].item.flush() is None  # type: ignore[func-returns-value]
    table = InterceptorTable(registry.interceptors)
    assert [guard.name for guard in table.before_tool] == ["watch"]
    assert (table.redact, table.after_tool, table.alone, table.stop) == ((), (), (), ())
    assert Interceptor.order == 100


def test_a_command_runs_in_a_sandbox_that_has_no_more_than_is_required(make_kernel: Any) -> None:
    from codex_framework.testing.replies import call, say

    class Plugin:
        @hookimpl
        def codex_sandboxes(self) -> list[Any]:
            return [Bare()]

    async def driven() -> Any:
        config = ('sandbox_mode="workspace-write"', 'framework.sandbox="bare"')
        replies = [call("exec_command", cmd="echo hello; exit 3", tty=True), say("done")]
        async with make_kernel(replies, plugins=[Plugin()], config=config) as kernel:
            return (await kernel.run_turn("go")).outputs[0]

    output = asyncio.run(driven())
    assert "hello" in output
    assert "exited with code 3" in output
