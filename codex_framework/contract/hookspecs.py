"""The plugin contract: every hook, in one file.

A plugin is a module, a subclass of ``codex_framework.Plugin`` or any other object, named by an entry point of the group
``codex_framework``. Its hook implementations carry ``@codex_framework.hookimpl``, and take no parameter or one called ``plugin``.
Hooks are called once, when a kernel is created, and only *offer objects*; the kernel then works with the objects (see
``codex_framework.contract.roles``). A hook may be a generator. If a hook raises, the exception is reported with the plugin's name
and the plugin is left out; the others load.

``docs/reference/hooks.md`` is rendered from this file; the examples in it are run by a test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.context import ContextSource
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.models import ModelProvider
from codex_framework.contract.roles.networks import NetworkProxy
from codex_framework.contract.roles.observers import Notifier, Observer, Telemetry
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.policies import CommandPolicy
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.contract.roles.sandboxes import Sandbox
from codex_framework.contract.roles.stores import ThreadStore
from codex_framework.contract.roles.tools import Tool

if TYPE_CHECKING:
    import click

__all__ = ["GROUP", "hookimpl", "hookspec"]

GROUP = "codex_framework"
"""The entry-point group, and pluggy's project name."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def codex_tools(plugin: PluginContext) -> Iterable[Tool]:  # type: ignore[empty-body]
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
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:  # type: ignore[empty-body]
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
def codex_sandboxes(plugin: PluginContext) -> Iterable[Sandbox]:  # type: ignore[empty-body]
    """Offer ways to confine commands.

    The kernel takes the one named in ``[framework] sandbox``, else the first that is available here, bundled ones first.

    Example:
        ```python
        from codex_framework import SandboxError, SandboxReport, hookimpl


        class Nowhere:
            name = "nowhere"

            def probe(self):
                return SandboxReport(available=False, reason="this is an example", hint="write a real one")

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
def codex_network_proxies(plugin: PluginContext) -> Iterable[NetworkProxy]:  # type: ignore[empty-body]
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
def codex_notifiers(plugin: PluginContext) -> Iterable[Notifier]:  # type: ignore[empty-body]
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
def codex_telemetry(plugin: PluginContext) -> Iterable[Telemetry]:  # type: ignore[empty-body]
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
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:  # type: ignore[empty-body]
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
def codex_command_policies(plugin: PluginContext) -> Iterable[CommandPolicy]:  # type: ignore[empty-body]
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
def codex_approval_reviewers(plugin: PluginContext) -> Iterable[ApprovalReviewer]:  # type: ignore[empty-body]
    """Offer approval reviewers: they answer in place of a person; the first answer wins; an exception denies.

    Example:
        ```python
        from codex_framework import ApprovalReviewer, Decision, ReviewDecision, hookimpl


        class Timid(ApprovalReviewer):
            name = "timid"

            async def review(self, request, turn):
                if request.type == "exec_approval_request" and "push" in request.command:
                    return ReviewDecision(Decision.DENIED)
                return None


        @hookimpl
        def codex_approval_reviewers():
            return [Timid()]
        ```
    """


@hookspec
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:  # type: ignore[empty-body]
    """Offer interceptors: they see and may change a request, a tool call, a tool result. An exception stops the thing at hand.

    Example:
        ```python
        from codex_framework import Interceptor, hookimpl


        class Shout(Interceptor):
            name = "shout"

            async def request(self, request, turn):
                return request.evolve(instructions=request.instructions.upper())


        @hookimpl
        def codex_interceptors():
            return [Shout()]
        ```
    """


@hookspec
def codex_components(plugin: PluginContext) -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer components: what lives as long as the kernel or a thread, provides services, or has tools that come and go.

    Example:
        ```python
        from codex_framework import Component, ThreadComponent, hookimpl, tool


        class Notes(ThreadComponent):
            def __init__(self):
                self.lines = []

            def tools(self, turn):
                @tool
                async def note(text: str) -> str:
                    \"\"\"Keep a note for this conversation.\"\"\"
                    self.lines.append(text)
                    return f"{len(self.lines)} notes"

                return [note]


        class NoteBook(Component):
            name = "notebook"

            def for_thread(self, thread):
                return Notes()


        @hookimpl
        def codex_components():
            return [NoteBook()]
        ```
    """


@hookspec
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:  # type: ignore[empty-body]
    """Offer handlers of ops: what a thread can be asked beside the built-in ops. A handler may start a task, which fills a turn.

    Example:
        ```python
        from codex_framework import Op, Task, ThreadContext, handles, hookimpl


        class Count(Op):
            type = "count_items"


        class Counting(Task):
            kind = "count"

            async def run(self, turn, input):
                return f"{len(turn.history)} items"


        @handles
        async def count(op: Count, thread: ThreadContext, id: str) -> None:
            thread.start_task(Counting(), id=id)


        @hookimpl
        def codex_ops():
            return [count]
        ```
    """


@hookspec
def codex_compactors(plugin: PluginContext) -> Iterable[Compactor]:  # type: ignore[empty-body]
    """Offer compactors: how a conversation is shortened. ``[framework] compactor`` names the one to use, else it is the first.

    Example:
        ```python
        from codex_framework import Compaction, Compactor, hookimpl


        class LastTen(Compactor):
            name = "last-ten"

            def due(self, status, turn):
                return "too-long" if status.window and status.tokens > status.window // 2 else None

            async def compact(self, turn, reason):
                return Compaction(items=turn.history[-10:], message="the last ten items")


        @hookimpl
        def codex_compactors():
            return [LastTen()]
        ```
    """


@hookspec
def codex_agents(plugin: PluginContext) -> Iterable[Agent[Any]]:  # type: ignore[empty-body]
    """Offer agents by name: what a thread is made of.

    Example:
        ```python
        from codex_framework import Agent, hookimpl


        @hookimpl
        def codex_agents():
            return [Agent(name="librarian", instructions="Find files. Change nothing.", permissions=":read-only")]
        ```
    """


@hookspec
def codex_observers(plugin: PluginContext) -> Iterable[Observer]:  # type: ignore[empty-body]
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
def codex_thread_stores(plugin: PluginContext) -> Iterable[ThreadStore]:  # type: ignore[empty-body]
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
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:  # type: ignore[empty-body]
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
