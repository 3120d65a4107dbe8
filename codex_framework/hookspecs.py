"""The plugin contract: every hook, in one file.

A plugin is a module (or any object) named by an entry point of the group ``codex_framework``. Its hook implementations carry
``@codex_framework.hookimpl``. Hooks are called once, when a kernel is created, and only *offer objects*; the kernel then works
with the objects (see ``codex_framework.roles``). A hook may be a generator. What a hook raises is reported with the plugin's
name, and the plugin is left out; the others load.

``docs/reference/hooks.md`` is rendered from this file; the examples in it are run by a test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from codex_framework.roles.context import ContextSource
from codex_framework.roles.deciders import ApprovalReviewer, CommandPolicy, Interceptor
from codex_framework.roles.networks import NetworkProxy
from codex_framework.roles.observers import Notifier, Observer, Telemetry
from codex_framework.roles.providers import ModelProvider
from codex_framework.roles.sandboxes import Sandbox
from codex_framework.roles.stores import ThreadStore
from codex_framework.roles.tools import Tool

if TYPE_CHECKING:
    import click

__all__ = ["GROUP", "hookimpl", "hookspec"]

GROUP = "codex_framework"
"""The entry-point group, and pluggy's project name."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def codex_tools() -> Iterable[Tool]:  # type: ignore[empty-body]
    """Offer tools: what the model may call.

    Two plugins that offer one name are both reported, and the name goes to the one that stands first in
    ``[framework] plugins.prefer``, else to one the program itself passed to ``Kernel.create``, else to the bundled one, else
    to the first by entry-point name.

    Example:
        ```python
        from codex_framework import ToolContext, hookimpl, tool


        @tool
        async def count_words(path: str, context: ToolContext) -> str:
            \"\"\"Count the words of a file in the workspace.\"\"\"
            return str(len((await context.read_text(path)).split()))


        @hookimpl
        def codex_tools():
            return [count_words]
        ```
    """


@hookspec
def codex_model_providers() -> Iterable[ModelProvider]:  # type: ignore[empty-body]
    """Offer kinds of model provider: where replies stream from. ``wire_api`` in config picks one by name.

    Example:
        ```python
        from codex_framework import Completed, ItemDone, Message, OutputText, hookimpl


        class EchoClient:
            async def stream(self, request):
                said = request.prompt.items[-1]
                yield ItemDone(Message("assistant", (OutputText(f"You said: {said.content[0].text}"),)))
                yield Completed("response-1")

            async def aclose(self):
                pass


        class Echo:
            name = "echo"
            builtin = {}

            def open(self, info, env):
                return EchoClient()

            def model(self, slug):
                return None


        @hookimpl
        def codex_model_providers():
            return [Echo()]
        ```
    """


@hookspec
def codex_sandboxes() -> Iterable[Sandbox]:  # type: ignore[empty-body]
    """Offer ways to confine commands.

    The kernel takes the one named in ``[framework] sandbox``, else the first that is available here, bundled ones first.

    Example:
        ```python
        from codex_framework import SandboxError, SandboxReport, hookimpl


        class Nowhere:
            name = "nowhere"

            def probe(self):
                return SandboxReport(available=False, reason="this is an example", cure="write a real one")

            def confine(self, access, cwd):
                raise SandboxError("nothing can be confined here")

            async def aclose(self):
                pass


        @hookimpl
        def codex_sandboxes():
            return [Nowhere()]
        ```
    """


@hookspec
def codex_network_proxies() -> Iterable[NetworkProxy]:  # type: ignore[empty-body]
    """Offer network proxies: the only way out for commands whose profile names the hosts they may reach. The first one is used.

    Example:
        ```python
        from codex_framework import ProxyPorts, hookimpl


        class NoGate:
            blocked = ()

            def environment(self, ports):
                return {}

            async def serve(self, http, socks):
                pass

            async def listen(self):
                return ProxyPorts(9, 9)

            async def aclose(self):
                pass


        class NothingPasses:
            name = "nothing-passes"

            def gate(self, rules, ask=None):
                return NoGate()

            async def aclose(self):
                pass


        @hookimpl
        def codex_network_proxies():
            return [NothingPasses()]
        ```
    """


@hookspec
def codex_notifiers() -> Iterable[Notifier]:  # type: ignore[empty-body]
    r"""Offer notifiers: who is told when a turn ends or needs a person.

    Example:
        ```python
        from codex_framework import hookimpl


        class Bell:
            name = "bell"

            def notify(self, notification):
                print("\a", end="", flush=True)


        @hookimpl
        def codex_notifiers():
            return [Bell()]
        ```
    """


@hookspec
def codex_telemetry() -> Iterable[Telemetry]:  # type: ignore[empty-body]
    """Offer telemetry: who measures spans, events and counters.

    Example:
        ```python
        from codex_framework import hookimpl


        class Counter:
            name = "counter"

            def __init__(self):
                self.calls = 0

            def record(self, measurement):
                self.calls += measurement.name == "codex.tool.call"

            def flush(self):
                pass


        @hookimpl
        def codex_telemetry():
            return [Counter()]
        ```
    """


@hookspec
def codex_context_sources() -> Iterable[ContextSource]:  # type: ignore[empty-body]
    r"""Offer context sources: fragments of instructions and context that go into the prompt.

    Example:
        ```python
        from codex_framework import Fragment, hookimpl


        class House:
            name = "house"

            def fragments(self, facts):
                text = "<house_rules>\nWrite British English.\n</house_rules>"
                yield Fragment(role="developer", text=text, start="<house_rules>", end="</house_rules>")


        @hookimpl
        def codex_context_sources():
            return [House()]
        ```
    """


@hookspec
def codex_command_policies() -> Iterable[CommandPolicy]:  # type: ignore[empty-body]
    """Offer command policies: may this command run, ask, or never? The most severe verdict counts; an exception forbids.

    Example:
        ```python
        from codex_framework import CommandVerdict, Verdict, hookimpl


        class NoCurl:
            name = "no-curl"

            def judge(self, command, facts):
                if command.argv[0] == "curl":
                    return CommandVerdict(verdict=Verdict.FORBID, reason="use the fetch tool instead of curl")
                return None


        @hookimpl
        def codex_command_policies():
            return [NoCurl()]
        ```
    """


@hookspec
def codex_approval_reviewers() -> Iterable[ApprovalReviewer]:  # type: ignore[empty-body]
    """Offer approval reviewers: they answer in place of a person; the first answer wins; an exception denies.

    Example:
        ```python
        from codex_framework import Decision, ReviewDecision, hookimpl


        class Timid:
            name = "timid"

            async def review(self, request, facts):
                if request.type == "exec_approval_request" and "push" in request.command:
                    return ReviewDecision(Decision.DENIED)
                return None


        @hookimpl
        def codex_approval_reviewers():
            return [Timid()]
        ```
    """


@hookspec
def codex_interceptors() -> Iterable[Interceptor]:  # type: ignore[empty-body]
    """Offer interceptors: they see and may change a request, a tool call, a tool result. An exception stops the thing at hand.

    Example:
        ```python
        import attrs

        from codex_framework import hookimpl


        class Shout:
            name = "shout"
            order = 100

            async def request(self, request):
                return request.evolve(instructions=request.instructions.upper())

            async def before_tool(self, call):
                return call

            async def after_tool(self, call, output):
                return output


        @hookimpl
        def codex_interceptors():
            return [Shout()]
        ```
    """


@hookspec
def codex_observers() -> Iterable[Observer]:  # type: ignore[empty-body]
    """Offer observers: they hear every event but deltas, on a thread of their own.

    Example:
        ```python
        from codex_framework import hookimpl


        class Log:
            name = "log"

            def observe(self, thread_id, event):
                print(thread_id, event.msg.type)


        @hookimpl
        def codex_observers():
            return [Log()]
        ```
    """


@hookspec
def codex_thread_stores() -> Iterable[ThreadStore]:  # type: ignore[empty-body]
    """Offer thread stores: where conversations live. The one named in ``[framework] thread_store`` is used, else ``rollout``.

    Example:
        ```python
        from codex_framework import ThreadError, hookimpl


        class Forgetful:
            name = "forgetful"

            def create(self, meta, codex_home):
                return self

            def reopen(self, stored, codex_home):
                return self

            def load(self, thread_id, codex_home):
                raise ThreadError(f"there is no thread {thread_id}: this store forgets")

            def latest(self, codex_home, *, cwd=None):
                return None

            path = None

            def append(self, entries):
                pass

            def flush(self):
                pass

            def close(self):
                pass


        @hookimpl
        def codex_thread_stores():
            return [Forgetful()]
        ```
    """


@hookspec
def codex_commands() -> Iterable[click.Command]:  # type: ignore[empty-body]
    """Offer subcommands of the ``codex-framework`` command.

    Called only for ``--help`` and for a command that is not built in.

    Example:
        ```python
        import click

        from codex_framework import hookimpl


        @click.command("hello")
        @click.argument("name", default="world")
        def hello(name):
            \"\"\"Greet somebody.\"\"\"
            click.echo(f"Hello {name}")


        @hookimpl
        def codex_commands():
            return [hello]
        ```
    """
