"""What authors of plugins do wrong, and the message that each gets: it names the plugin, the line, and what to do.

Each mistake is a plugin that was written with nothing but the docs: a file, a distribution, or a class. The line that is at fault ends
with ``# <-``. ``{at}`` in a message stands for its place, ``{fix}`` for "fix or disable the plugin", and ``...`` for anything.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, NamedTuple

import pytest

from codex_framework import ApprovalPolicy, CodexError, Decision, Kernel, ReviewDecision
from codex_framework.config import load_config
from codex_framework.testing import Offer, ScriptedModel, call, say

FIX = 'Fix the plugin, or disable it with `[framework] plugins.disabled = ["acme"]`.'
RAISE = "Fix the tool, or raise ToolError with a text that helps the model."


class Mistake(NamedTuple):
    """A plugin, and what is said about it.

    Attributes:
        told: The message, as this module's docstring says.
        form: ``file``, ``distribution`` or ``class``.
        config: The configuration.
        op: Submit this op instead of a prompt.
        provider: Let the plugin's provider answer.
        policy: The approval policy.
        kept: Whether the thread is stored.
    """

    what: str
    told: str
    source: str
    form: str = "file"
    config: str = ""
    op: str = ""
    provider: bool = False
    policy: str = "never"
    mode: str = "danger-full-access"
    kept: bool = False


MISTAKES: list[Mistake] = []


def mistake(what: str, told: str, source: str, **more: Any) -> None:
    """Add a row to the table."""
    MISTAKES.append(Mistake(what, told, dedent(source), **more))


def of_tool(what: str, told: str, body: str, **more: Any) -> None:
    """Add a row about the body of a tool function."""
    source = f"""
        import asyncio, sys, time
        from codex_framework import Agent, EventMsg, ServiceKey, Task, ToolContext, hookimpl, tool

        @tool
        async def work(context: ToolContext) -> object:
            "Work."
{indent(dedent(body), " " * 12)}

        @hookimpl
        def codex_tools():
            return [work]
    """
    mistake(what, told, source, **more)


def of_class(what: str, told: str, hook: str, role: str, body: str, **more: Any) -> None:
    """Add a row about the members of a class that plays a role. The plugin has a tool that runs a command, too."""
    source = f"""
        import asyncio, time
        from codex_framework import *

        class X({role}):
            name = "x"
{indent(dedent(body), " " * 12)}

        @hookimpl
        def {hook}():
            return [X()]

        @tool
        async def work(context: ToolContext) -> str:
            "Work."
            return (await context.run(["echo", "hi"])).output
    """
    offered = """
        @hookimpl
        def codex_tools():
            return [work]
    """
    mistake(what, told, source if hook == "codex_tools" else source + offered, **more)


def of_client(what: str, told: str, body: str, provider: str = "def open(self, info, env): return Client()") -> None:
    """Add a row about a model provider's client."""
    source = f"""
        from codex_framework import *

        class Client:
{indent(dedent(body), " " * 12)}
            async def aclose(self): pass

        class Echo(ModelProvider):
            name = "echo"
{indent(dedent(provider), " " * 12)}

        @hookimpl
        def codex_model_providers():
            return [Echo()]
    """
    mistake(what, told, source, provider=True)


FILE = "plugin 'acme' ({file}): "

# The file, and its hooks

mistake("a syntax error", FILE + "it cannot be imported: SyntaxError: invalid syntax {at}. {fix}", "def f(:  # <-\n")
mistake(
    "a module that is not installed",
    FILE + "it needs the package 'nosuchmodule', which is not installed. pip install nosuchmodule",
    "import nosuchmodule\n",
)
mistake("an error at import", FILE + "it cannot be imported: KeyError: 'a' {at}. {fix}", "x = {}['a']  # <-\n")
mistake(
    "sys.exit at import",
    FILE
    + "it cannot be imported: it called sys.exit(2) {at}. Remove that call from the plugin, or disable it with ...",
    "import sys\nsys.exit(2)  # <-\n",
)
mistake(
    "no hook at all", FILE + "it implements no hook ({file}). Put `@codex_framework.hookimpl` above one of ...", "x = 1"
)
mistake(
    "a misspelt hook",
    FILE + "there is no hook codex_tool {at}. Did you mean codex_tools?",
    """
    from codex_framework import hookimpl
    @hookimpl  # <-
    def codex_tool(): return []
    """,
)
mistake(
    "a hook without @hookimpl",
    FILE
    + "its function codex_tools is not marked as a hook implementation {at}. Put `@codex_framework.hookimpl` above ...",
    "def codex_tools(): return []  # <-",
)
mistake(
    "a hook with a parameter of its own",
    FILE
    + "its codex_tools takes context, but hooks are called with nothing but plugin {at}. Write `def codex_tools():` or ...",
    """
    from codex_framework import hookimpl
    @hookimpl  # <-
    def codex_tools(context): return []
    """,
)
mistake(
    "an async hook",
    FILE + "its codex_tools is async, but hooks are called ... {at}. Write `def codex_tools():`...",
    """
    from codex_framework import hookimpl
    @hookimpl  # <-
    async def codex_tools(): return []
    """,
)
for returned, name in (("None", "None"), ("{}", "dict")):
    mistake(
        f"a hook that returns {returned}",
        FILE
        + f"its codex_tools returned {name}, not a list {{at}}. Return a list of the objects it offers, or an empty list.",
        f"""
        from codex_framework import hookimpl
        @hookimpl  # <-
        def codex_tools(): return {returned}
        """,
    )
mistake(
    "a tool that is a plain function",
    FILE
    + "its tool of type function is ignored: it has no attribute spec... {at}. See codex_tools in docs/reference/hooks.md...",
    """
    from codex_framework import hookimpl
    def count(): pass  # <-
    @hookimpl
    def codex_tools(): return [count]
    """,
)
mistake(
    "a tool's class in the place of a tool",
    FILE + "its tool 'work' is ignored: it is the class Work itself: offer an instance, Work() {at}. ...",
    """
    from codex_framework import FunctionSpec, Tool, hookimpl
    class Work(Tool):  # <-
        spec = FunctionSpec("work", "Work.", {"type": "object", "properties": {}})
        async def run(self, call, context): return ""
    @hookimpl
    def codex_tools(): return [Work]
    """,
)
mistake(
    "a tool without run",
    FILE + "its tool 'work' is ignored: its run is ... write `async def run(self, call, context)` {at}. ...",
    """
    from codex_framework import FunctionSpec, Tool, hookimpl
    class Work(Tool):  # <-
        spec = FunctionSpec("work", "Work.", {"type": "object", "properties": {}})
    @hookimpl
    def codex_tools(): return [Work()]
    """,
)
mistake(
    "a schema of the wrong type",
    FILE + "its tool 'work' is ignored: its parameters are a schema of type 'objekt', not 'object' {at}. ...",
    """
    from codex_framework import FunctionSpec, Tool, hookimpl
    class Work(Tool):  # <-
        spec = FunctionSpec("work", "Work.", {"type": "objekt"})
        async def run(self, call, context): return ""
    @hookimpl
    def codex_tools(): return [Work()]
    """,
)
mistake(
    "a method that must not be async",
    FILE + "its tool 'work' is ignored: its offered is async, ... write `def offered(self, turn)` {at}. ...",
    """
    from codex_framework import FunctionSpec, Tool, hookimpl
    class Work(Tool):  # <-
        spec = FunctionSpec("work", "Work.", {"type": "object", "properties": {}})
        async def offered(self, turn): return True
        async def run(self, call, context): return ""
    @hookimpl
    def codex_tools(): return [Work()]
    """,
)
mistake(
    "a tool's name with a space",
    FILE + "it cannot be imported: ValueError: the tool name 'my work' is not allowed: use 1 to 64 of ... {at}. {fix}",
    """
    from codex_framework import hookimpl, tool
    @tool(name="my work")  # <-
    def work() -> str: "Work."
    """,
)
mistake(
    "a parameter without an annotation",
    FILE
    + "it cannot be imported: TypeError: parameter 'path' of work has no annotation; supported are str, ... {at}. {fix}",
    """
    from codex_framework import hookimpl, tool
    @tool  # <-
    def work(path) -> str: "Work."
    """,
)
mistake(
    "a parameter of an unsupported type",
    FILE + "it cannot be imported: ...: parameter 'lock' of work is annotated Thread, which cannot be ... {at}. {fix}",
    """
    import threading
    from codex_framework import hookimpl, tool
    @tool  # <-
    def work(lock: threading.Thread) -> str: "Work."
    """,
)
mistake(
    "two tools of one name",
    FILE + "it offers the tool 'work' twice {at}. Give each a unique name.",
    """
    from codex_framework import hookimpl, tool
    @tool  # <-
    def work() -> str: "Work."
    @hookimpl
    def codex_tools(): return [work, work]
    """,
)
mistake(
    "a requirement that is not installed",
    FILE + "it requires plugin 'gardian', which is not installed {at}. Install a package that provides 'gardian'.",
    """
    from codex_framework import hookimpl
    @hookimpl  # <-
    def codex_requires(): return ["gardian"]
    """,
)
mistake(
    "requirements that are no list",
    FILE
    + "its codex_requires returned 'guardian', not a list of requirements {at}. Return a list of strings, such as ...",
    """
    from codex_framework import hookimpl
    @hookimpl  # <-
    def codex_requires(): return "guardian"
    """,
)
mistake(
    "settings that are no class",
    FILE
    + "its codex_settings returned {'a': 1}, which is not a settings class {at}. Return a subclass of codex_framework.Value, ...",
    """
    from codex_framework import hookimpl
    @hookimpl  # <-
    def codex_settings(): return {"a": 1}
    """,
)
SETTINGS = """
    from codex_framework import Value, hookimpl
    class Settings(Value, kw_only=True):
        greeting: str = "Hello"
    @hookimpl
    def codex_settings(): return Settings
"""
mistake(
    "a setting of the wrong type",
    FILE
    + "invalid settings of the plugin 'acme': `framework.plugins.acme.greeting`: ... expected str ({config}, line 2). ...",
    SETTINGS,
    config="[framework.plugins.acme]\ngreeting = 5",
)
mistake(
    "a misspelt setting",
    FILE
    + "the plugin 'acme' has no setting 'greting'; its settings: greeting ({config}, line 2). Did you mean 'greeting'? ...",
    SETTINGS,
    config="[framework.plugins.acme]\ngreting = 'Hi'",
)
EMPTY = "from codex_framework import hookimpl\n@hookimpl\ndef codex_tools(): return []\n"
mistake(
    "settings of a plugin that has none",
    FILE
    + "the settings of the plugin 'acme' have no effect: the plugin declares none ({config}, line 1). Remove the table. ...",
    EMPTY,
    config="[framework.plugins.acme]\ngreeting = 'Hi'",
)
mistake(
    "a plugin's name that is misspelt in the configuration",
    FILE + "the configuration names the plugin 'acm', which is not installed ({config}, line 2). Did you mean 'acme'?",
    EMPTY,
    config="[framework.plugins]\ndisabled = ['acm']",
)
mistake(
    "a store that nobody offers",
    "the configuration chooses the thread store 'rolout', which no plugin offers ({config}, line 2). ...",
    EMPTY,
    config="[framework]\nthread_store = 'rolout'",
)
mistake(
    "an event class without a tag",
    FILE + "its event E has no tag {at}. Set its class attribute `type` to a unique word.",
    """
    from codex_framework import EventMsg, hookimpl
    class E(EventMsg):  # <-
        text: str
    @hookimpl
    def codex_events(): return [E]
    """,
)
mistake(
    "an op that is built in",
    FILE + "its op 'interrupt' is ignored: the op 'interrupt' is built in and cannot be ... {at}. ...",
    """
    from codex_framework import Op, handles, hookimpl
    class Stop(Op):
        type = "interrupt"
    @handles  # <-
    async def stop(op: Stop, thread, id): pass
    @hookimpl
    def codex_ops(): return [stop]
    """,
)
mistake(
    "a command that is built in",
    FILE
    + "its command 'exec' is ignored: the command 'exec' is built in and cannot be replaced; give yours another name {at}. ...",
    """
    import click
    from codex_framework import hookimpl
    @click.command("exec")
    def command(): pass
    @hookimpl  # <-
    def codex_commands(): return [command]
    """,
)
mistake(
    "an agent whose field has the wrong type",
    FILE + "its agent 'a' is ignored: its allowed_tools is 'shell', not a list of strings {at}. ...",
    """
    from codex_framework import Agent, hookimpl
    @hookimpl  # <-
    def codex_agents(): return [Agent(name="a", allowed_tools="shell")]
    """,
)
mistake(
    "a component that does not start",
    FILE + "component 'x' did not start: FileNotFoundError: ... {at}. {fix}",
    """
    from codex_framework import Component, hookimpl
    class X(Component):
        name = "x"
        async def start(self, kernel): open("/no/such")  # <-
    @hookimpl
    def codex_components(): return [X()]
    """,
)

# Distributions and classes

DIST = "plugin 'acme' (acme-words 1.0): "
mistake(
    "an entry point that names nothing",
    DIST
    + "it cannot be imported: AttributeError: ... has no attribute 'Words'. Fix the plugin, install another version of ...",
    "x = 1",
    form="distribution:Words",
)
mistake(
    "an entry point whose module is missing",
    DIST + "its module 'acme_words' does not exist. Reinstall it: pip install --force-reinstall acme-words",
    "",
    form="distribution",
)
mistake(
    "an entry point that names a class that is no plugin",
    DIST
    + "its entry point names a class that does not derive from Plugin, ... {at}. Derive the class from codex_framework.Plugin, ...",
    """
    from codex_framework import hookimpl
    class Words:
        @hookimpl  # <-
        def codex_tools(self): return []
    """,
    form="distribution:Words",
)
mistake(
    "a hook of a distribution that raises",
    DIST
    + "it cannot be used: codex_tools failed: KeyError: 'a' {at}. Fix the plugin, install another version of acme-words, or ...",
    """
    from codex_framework import hookimpl
    @hookimpl
    def codex_tools(): return {}["a"]  # <-
    """,
    form="distribution",
)
CLASS = "plugin 'Words' ...: "
mistake(
    "a class that fails when it is made",
    CLASS + "it cannot be created: Words() failed: KeyError: 'a' {at}. Fix the plugin, ...disable it with ...",
    """
    from codex_framework import Plugin, hookimpl
    class Words(Plugin):
        def __init__(self, context):
            super().__init__(context)
            self.x = {}["a"]  # <-
        @hookimpl
        def codex_tools(self): return []
    """,
    form="class",
)
mistake(
    "a class that does not call super().__init__",
    CLASS
    + "Words.__init__ does not call super().__init__, so the plugin has no context {at}. Begin it with `super().__init__(context)`.",
    """
    from codex_framework import Plugin, hookimpl
    class Words(Plugin):
        def __init__(self, context): pass  # <-
        @hookimpl
        def codex_tools(self): return []
    """,
    form="class",
)
mistake(
    "a class that takes no context",
    CLASS + "Words takes (), but it is called with one PluginContext {at}. Write `def __init__(self, context):`, ...",
    """
    from codex_framework import Plugin, hookimpl
    class Words(Plugin):
        def __init__(self): pass  # <-
        @hookimpl
        def codex_tools(self): return []
    """,
    form="class",
)
mistake(
    "a method without self",
    CLASS + "its method codex_tools has no parameter self {at}. Write `def codex_tools(self):`.",
    """
    from codex_framework import Plugin, hookimpl
    class Words(Plugin):
        @hookimpl  # <-
        def codex_tools(): return []
    """,
    form="class",
)
mistake(
    "a class with hooks that is no plugin",
    FILE
    + "its class Words has hooks, but it is not derived from Plugin {at}. Write `class Words(Plugin):`, with Plugin from ...",
    """
    from codex_framework import hookimpl
    class Words:  # <-
        @hookimpl
        def codex_tools(self): return []
    """,
)

# Tools at work

WORK = "tool 'work' of plugin 'acme': "
of_tool("a tool that raises", WORK + "KeyError: 'a' {at}. {raise}", "return {}['a']  # <-")
of_tool("a tool that exits", WORK + "SystemExit: 3 {at}. {raise}", "sys.exit(3)  # <-")
of_tool(
    "a tool that cancels itself",
    WORK + "it was cancelled, but nobody had interrupted it {at}. {raise}",
    "raise asyncio.CancelledError  # <-",
)
of_tool(
    "an exception whose text cannot be read",
    WORK + "Odd {at}. {raise}",
    """
    class Odd(Exception):
        def __str__(self): raise ValueError
    raise Odd  # <-
    """,
)
mistake(
    "a result that is no JSON",
    WORK + "the tool work returned object, which cannot be written as JSON: ... {at}. Return text, a ToolOutput, ...",
    """
    from codex_framework import hookimpl, tool
    @tool  # <-
    async def work() -> object:
        "Work."
        return object()
    @hookimpl
    def codex_tools(): return [work]
    """,
)
mistake(
    "a forgotten await",
    WORK + "the tool work returned a coroutine {at}. Write `await` before the call.",
    """
    from codex_framework import ToolContext, hookimpl, tool
    @tool  # <-
    async def work(context: ToolContext) -> object:
        "Work."
        return context.read_text("a")
    @hookimpl
    def codex_tools(): return [work]
    """,
)
mistake(
    "a class whose run returns a dict",
    WORK + "it returned dict, not text or a ToolOutput {at}. Return a string or a ToolOutput.",
    """
    from codex_framework import FunctionSpec, Tool, hookimpl
    class Work(Tool):
        spec = FunctionSpec("work", "Work.", {"type": "object", "properties": {}})
        async def run(self, call, context): return {"a": 1}  # <-
    @hookimpl
    def codex_tools(): return [Work()]
    """,
)
mistake(
    "a class whose run is not async",
    WORK + "run is not async {at}. Write `async def run`.",
    """
    from codex_framework import FunctionSpec, Tool, hookimpl
    class Work(Tool):
        spec = FunctionSpec("work", "Work.", {"type": "object", "properties": {}})
        def run(self, call, context): return "ok"  # <-
    @hookimpl
    def codex_tools(): return [Work()]
    """,
)
for name, told, line in (
    ("emit", "emit() takes an EventMsg, not str {at}. Pass an EventMsg.", "context.emit('progress')"),
    ("progress", "progress() takes a string, not int {at}. Pass a string.", "context.progress(5)"),
    (
        "run",
        'run() takes a list of words, such as ["git", "status"], ... not str {at}. Pass ...',
        "await context.run('git status')",
    ),
    (
        "run a number",
        "run() takes a list of words, each a string, not int {at}. Pass ...",
        "await context.run(['echo', 5])",
    ),
    ("request", "request() takes a Request, not str {at}. Pass a Request.", "await context.request('go?')"),
    (
        "write_text",
        "write_text() takes a string as its text, not bytes {at}. Pass ...",
        "await context.write_text('a', b'x')",
    ),
    ("read_text", "resolve() takes a path as a string, not int {at}. Pass ...", "await context.read_text(5)"),
    ("service", "service() takes a ServiceKey, not str {at}. Pass a ServiceKey.", "context.service('db')"),
    (
        "no service",
        "ServiceError: no component provides the service 'db' {at}. Install or ...",
        "context.service(ServiceKey('db'))",
    ),
    (
        "background",
        "background() takes a coroutine: ..., not builtin_function_or_method {at}. Pass ...",
        "context.background(print, name='x')",
    ),
    (
        "spawn",
        "the agent of spawn(): it is str, not an Agent {at}. Pass an Agent ...",
        "await context.spawn('helper', 'Go.')",
    ),
    ("state", "state() takes a function that makes the object, not dict {at}. Pass ...", "context.state('x', {})"),
    (
        "deliver",
        "what is delivered has str in it, ... {at}. Use user_message(...) for text.",
        "context.turn.thread.deliver(['x'])",
    ),
    (
        "append_entry",
        "append_entry() takes plain JSON data: ... {at}. Pass ...",
        "context.turn.thread.append_entry('x', {'a': object()})",
    ),
    (
        "start_task",
        "start_task() takes an instance of a subclass of Task, not type {at}. Pass ...",
        "context.turn.thread.start_task(Task)",
    ),
):
    of_tool(f"a context's method with a wrong argument: {name}", WORK + told, f"{line}  # <-")
of_tool(
    "background work that raises",
    "background work 'look' of plugin 'acme' failed: KeyError: 'a' {at}. {fix}",
    """
    async def look():
        {}['a']  # <-
    context.background(look(), name="look")
    await asyncio.sleep(0.01)
    """,
)
of_tool(
    "state that cannot be closed",
    "state 'db' of plugin 'acme': aclose() failed: KeyError: 'a' {at}. {fix}",
    """
    class Db:
        async def aclose(self):
            {}['a']  # <-
    context.state("db", Db)
    """,
)
of_tool(
    "a tool that blocks the event loop",
    "plugin 'acme' blocks the event loop (for ... s so far) in work() {at}, so no thread ... Await the work, or ...",
    "time.sleep(1.4)  # <-",
)
TOOL = """
    spec = FunctionSpec("work", "Work.", {"type": "object", "properties": {}})
    async def run(self, call, context): return "ok"
"""
of_class(
    "offered that raises",
    WORK + "offered() failed: KeyError: 'a' {at}. The tool is not offered. {fix}",
    "codex_tools",
    "Tool",
    TOOL + "    def offered(self, turn): return {}['a']  # <-",
)
of_class(
    "needs_approval that returns a text",
    WORK + "needs_approval() failed: it returned str instead of Approval {at}. The user is asked. Return an Approval.",
    "codex_tools",
    "Tool",
    TOOL + "    def needs_approval(self, call, turn): return 'sure?'  # <-",
)

# What decides

X = "interceptor 'x' of plugin 'acme': "
for what, told, body in (
    (
        "request: None",
        "request() failed: it returned None instead of ModelRequest {at}. Return a ModelRequest.",
        "async def request(self, request, turn): pass",
    ),
    (
        "request: a wrong field",
        "request() failed: it returned a ModelRequest that is wrong: its `tools` has 'x' at index 0 {at}. Set ...",
        "async def request(self, request, turn): return request.evolve(tools=['x'])",
    ),
    (
        "request: not async",
        "request() failed: request is not async {at}. Write `async def request`.",
        "def request(self, request, turn): return request",
    ),
    (
        "request: raises",
        "request() failed: KeyError: 'a' {at}. {fix}",
        "async def request(self, request, turn): return {}['a']",
    ),
    (
        "before_tool: None",
        "before_tool() failed: it returned None instead of ToolCall {at}. Return a ToolCall.",
        "async def before_tool(self, call, turn): pass",
    ),
    (
        "before_tool: a wrong field",
        "before_tool() failed: ... its `arguments` is dict, not str {at}. Set ...",
        "async def before_tool(self, call, turn): return call.evolve(arguments={})",
    ),
    (
        "after_tool: text",
        "after_tool() failed: it returned str instead of ToolOutput {at}. Return a ToolOutput.",
        "async def after_tool(self, call, output, turn): return 'x'",
    ),
    (
        "after_tool: a wrong field",
        "after_tool() failed: ... its `content` is 5, not str | tuple[ContentItem, ...] {at}. Set ...",
        "async def after_tool(self, call, output, turn): return output.evolve(content=5)",
    ),
    (
        "input: None",
        "input() failed: it returned None instead of UserInput {at}. Return a UserInput.",
        "async def input(self, input, turn): pass",
    ),
    (
        "after_item: None",
        "after_item() failed: it returned None instead of Message {at}. Return a Message.",
        "async def after_item(self, item, turn): pass",
    ),
    (
        "view_message: a number",
        "view_message() failed: it returned int, which has no feed() and end() {at}. Return an object with both, or None.",
        "def view_message(self, turn): return 5",
    ),
    (
        "view_message: no text",
        "view_message() failed: its view returned None, not text {at}. Return a str.",
        "def view_message(self, turn): return type('V', (), {'feed': lambda self, text: None, 'end': lambda self: ''})()",
    ),
    (
        "stop: a number",
        "stop() failed: it returned int instead of str {at}. Return a str.",
        "async def stop(self, outcome, turn): return 5",
    ),
    ("applies: raises", "applies() failed: KeyError: 'a' {at}. {fix}", "def applies(self, turn): return {}['a']"),
    (
        "client: None",
        "client() failed: it returned None, which has no stream() {at}. Return an object with ...",
        "def client(self, client, provider): pass",
    ),
    (
        "redact: None",
        "redact() failed: it returned None instead of str {at}. The text is withheld. Return a str.",
        "redacts = True\ndef redact(self, text, turn): pass",
    ),
):
    of_class(f"an interceptor's {what}", X + told, "codex_interceptors", "Interceptor", f"{body}  # <-")
of_class(
    "a slow applies",
    X + "applies() took ... ms {at} ... Do slow work once, in an async method, ...",
    "codex_interceptors",
    "Interceptor",
    "def applies(self, turn):  # <-\n    time.sleep(0.1)\n    return True",
)
for returned, name in (("True", "bool"), ("Verdict.FORBID", "Verdict")):
    of_class(
        f"a policy that returns {returned}",
        f"command policy 'x' of plugin 'acme': judge() failed: it returned {name} instead of CommandVerdict {{at}}."
        " The command is forbidden. Return a CommandVerdict.",
        "codex_command_policies",
        "CommandPolicy",
        f"def judge(self, command, facts): return {returned}  # <-",
    )
of_class(
    "a policy that raises",
    "command policy 'x' of plugin 'acme': judge() failed: KeyError: 'a' {at}. The command is forbidden. {fix}",
    "codex_command_policies",
    "CommandPolicy",
    "def judge(self, command, facts): return {}['a']  # <-",
)
of_class(
    "a reviewer that returns True",
    "approval reviewer 'x' of plugin 'acme': review() failed: it returned bool instead of ReviewDecision {at}."
    " The request is denied. Return a ReviewDecision.",
    "codex_approval_reviewers",
    "ApprovalReviewer",
    "async def review(self, request, turn): return True  # <-",
    policy="untrusted",
)
of_class(
    "a sandbox that makes no plan",
    "sandbox 'x' of plugin 'acme': confine() failed: it returned None, not a Confinement {at}. Return a Confinement, or ...",
    "codex_sandboxes",
    "Sandbox",
    "def probe(self): return SandboxReport(available=True)\ndef confine(self, access, cwd): pass  # <-",
    mode="workspace-write",
)

# What provides, keeps and watches

ECHO = "model provider 'echo' of plugin 'acme': "
of_client(
    "a provider that yields a dict",
    ECHO + "stream() failed: it yielded dict, ... {at}. Yield ItemDone, then Completed, ...",
    "async def stream(self, request): yield {}  # <-",
)
of_client(
    "a provider whose item is text",
    ECHO + "stream() failed: it yielded an item that is str {at}. Put an item ...",
    "async def stream(self, request): yield ItemDone('hi')  # <-",
)
of_client(
    "a provider without Completed",
    "...(" + ECHO + "stream() ended without Completed {at}. Yield Completed last, and ...)",
    "async def stream(self, request):  # <-\n    yield ItemDone(Message('assistant', (OutputText('hi'),)))",
)
of_client(
    "a provider that yields nothing",
    ECHO
    + "stream() failed: it returned coroutine, not an async iterator {at}. Write `async def stream(self, request)` with `yield` ...",
    "async def stream(self, request): pass  # <-",
)
of_client(
    "a provider that raises",
    ECHO + "stream() failed: KeyError: 'a' {at}. {fix}",
    "async def stream(self, request):\n    {}['a']  # <-\n    yield",
)
of_client(
    "a provider without a client",
    ECHO + "open() failed: it returned None, which has no stream() {at}. Return an object with ...",
    "",
    "def open(self, info, env): pass  # <-",
)
of_client(
    "a provider that wants a variable",
    ECHO + "open() failed: KeyError: 'KEY' {at}. {fix}",
    "",
    "def open(self, info, env): return env['KEY']  # <-",
)
of_client(
    "a model that is a word",
    ECHO + "model() failed: it returned str instead of ModelInfo {at}. Return a ModelInfo.",
    "",
    "def open(self, info, env): pass\ndef model(self, slug): return slug  # <-",
)
for returned, told in (
    (
        "None",
        "it returned None, not a list of Fragment {at}. The rest of its context is left out. Return a list of ...",
    ),
    (
        "'Be nice.'",
        "it returned str, not a list of Fragment {at}. The rest of its context is left out. Return a list of ...",
    ),
    (
        "[Fragment(role='system', text='<a>', start='<a>')]",
        "its fragment '<a>' is wrong: its `role` is 'system', not 'developer' or 'user' {at}. The fragment is not sent. ...",
    ),
):
    of_class(
        f"a context source that returns {returned}",
        "context source 'x' of plugin 'acme': fragments() failed: " + told,
        "codex_context_sources",
        "ContextSource",
        f"def fragments(self, facts): return {returned}  # <-",
    )
for hook, noun, role, method, parameters in (
    ("codex_observers", "observer", "Observer", "observe", "thread_id, event"),
    ("codex_notifiers", "notifier", "Notifier", "notify", "notification"),
    ("codex_telemetry", "telemetry", "Telemetry", "record", "measurement"),
):
    of_class(
        f"{noun} that raises",
        f"{noun} 'x' of plugin 'acme': {method}() failed: KeyError: 'a' {{at}}. {{fix}}",
        hook,
        role,
        f"def {method}(self, {parameters}): {{}}['a']  # <-",
    )
of_class(
    "a compactor that returns a list",
    "...compactor 'x' of plugin 'acme': compact() failed: it returned list instead of Compaction {at}. Return a Compaction. ...",
    "codex_compactors",
    "Compactor",
    "def due(self, status, turn): return 'full'\nasync def compact(self, turn, reason): return []  # <-",
)
of_class(
    "a catalogue that returns a table",
    "...model catalogue 'x' of plugin 'acme': model() failed: it returned dict instead of ModelInfo {at}. Return a ModelInfo.",
    "codex_model_catalogues",
    "ModelCatalogue",
    "def model(self, slug, provider): return {'slug': slug}  # <-",
)
STORE = {
    "create": "def create(self, meta, home): return self",
    "append": "def append(self, entries): pass",
    "flush": "def flush(self): pass",
}
for method, body, told in (
    (
        "create",
        "def create(self, meta, home): pass",
        "create() failed: it returned None, which has no append {at}. Return an object with ...",
    ),
    (
        "append",
        "def append(self, entries): {}['a']",
        "append() failed: KeyError: 'a' {at}. The conversation is no longer saved. {fix}",
    ),
    ("flush", "def flush(self): {}['a']", "flush() failed: KeyError: 'a' {at}. {fix}"),
):
    members = "\n".join({**STORE, method: f"{body}  # <-"}.values())
    rest = "\npath = None\ndef close(self): pass\ndef reopen(self, stored, home): pass\ndef load(self, id, home): pass"
    of_class(
        f"a store whose {method} is wrong",
        "...thread store 'x' of plugin 'acme': " + told,
        "codex_thread_stores",
        "ThreadStore",
        members + rest + "\ndef latest(self, home, *, cwd=None): pass",
        kept=True,
        config="[framework]\nthread_store = 'x'",
    )
TASK = """
    from codex_framework import *
    class Count(Op):
        type = "count_it"
    class Counting(Task):
        kind = "count"
        async def run(self, turn, input):
            {task}
    @handles
    async def count(op: Count, thread: ThreadContext, id: str) -> None:
        {handler}
    @hookimpl
    def codex_ops(): return [count]
"""
START = "thread.start_task(Counting(), id=id)"
for what, task, handler, told in (
    (
        "a handler that raises",
        "pass",
        "{}['a']  # <-",
        "plugin 'acme' failed to handle the op 'count_it': KeyError: 'a' {at}. {fix}",
    ),
    (
        "a handler that starts a class",
        "pass",
        "thread.start_task(Counting)  # <-",
        "plugin 'acme' failed to handle ...: start_task() takes ... {at}. Pass ...",
    ),
    (
        "a task that raises",
        "{}['a']  # <-",
        START,
        "the task 'count' of plugin 'acme' failed: KeyError: 'a' {at}. {fix}",
    ),
    (
        "a task that emits text",
        "turn.emit('x')  # <-",
        START,
        "the task 'count' of plugin 'acme' failed: emit() takes an EventMsg, not str {at}. Pass an EventMsg.",
    ),
):
    mistake(what, told, TASK.format(task=task, handler=handler), op="count_it")
PART = """
    from codex_framework import *
    class Part(ThreadComponent):
        {member}  # <-
    class X(Component):
        name = "x"
        def for_thread(self, thread): return Part()
    @hookimpl
    def codex_components(): return [X()]
"""
for what, member, told in (
    (
        "tools that are None",
        "def tools(self, turn): pass",
        "tools() failed: it returned None, not a list of tools {at}. Return a list of tools, ...",
    ),
    (
        "a start that raises",
        "async def start(self): {}['a']",
        "start() failed: KeyError: 'a' {at}. The thread continues without it. {fix}",
    ),
    (
        "a turn_ended that raises",
        "async def turn_ended(self, turn, outcome): {}['a']",
        "turn_ended() failed: KeyError: 'a' {at}. {fix}",
    ),
    (
        "an aclose that is not async",
        "def aclose(self): pass",
        "aclose() failed: aclose is not async {at}. Write `async def aclose`.",
    ),
):
    mistake(f"a component's part: {what}", "component 'x' of plugin 'acme': " + told, PART.replace("{member}", member))


# Misspelt and forgotten members, which nobody would call

NO_EFFECT = "has no effect: {role} has no member of this name {{at}}. Did you mean {near}? If not, begin its name with an underscore."
for hook, noun, role, body, name, near in (
    (
        "codex_interceptors",
        "interceptor",
        "Interceptor",
        "async def before_tools(self, call, turn): return call",
        "before_tools",
        "before_tool",
    ),
    (
        "codex_interceptors",
        "interceptor",
        "Interceptor",
        "async def afterItem(self, item, turn): return item",
        "afterItem",
        "after_item",
    ),
    ("codex_components", "component", "Component", "async def close(self): pass", "close", "aclose"),
    ("codex_components", "component", "Component", "def for_threads(self, thread): pass", "for_threads", "for_thread"),
    (
        "codex_telemetry",
        "telemetry",
        "Telemetry",
        "def record(self, measurement): pass\ndef flushed(self): pass",
        "flushed",
        "flush",
    ),
    (
        "codex_sandboxes",
        "sandbox",
        "Sandbox",
        "def probe(self): return SandboxReport(available=False)\ndef confine(self, access, cwd): pass\ndef close(self): pass",
        "close",
        "aclose",
    ),
    (
        "codex_network_proxies",
        "network proxy",
        "NetworkProxy",
        "def gate(self, rules, ask=None): pass\nasync def a_close(self): pass",
        "a_close",
        "aclose",
    ),
    (
        "codex_tools",
        "tool",
        "Tool",
        """spec = FunctionSpec("w", "Work.", {"type": "object"})
async def run(self, call, context): return ''
def need_approval(self, call, turn): pass""",
        "need_approval",
        "needs_approval",
    ),
    (
        "codex_model_providers",
        "model provider",
        "ModelProvider",
        "def open(self, info, env): pass\ndef models(self, slug): pass",
        "models",
        "model",
    ),
):
    told = f"its {noun} 'x': its {name} " + NO_EFFECT.format(role=role, near=near)
    of_class(f"{noun} with {name}", FILE + told, hook, role, f"{body}  # <-")
of_class(
    "an interceptor that forgets `redacts`",
    FILE
    + "its interceptor 'x': its redact is not called, because its `redacts` is False {at}. Set the class attribute ...",
    "codex_interceptors",
    "Interceptor",
    "def redact(self, text, turn): return text  # <-",
)
of_class(
    "an interceptor that forgets redact",
    FILE
    + "its interceptor 'x': its `redacts` is True, but it has no redact of its own, ... Write `def redact(self, text, turn)`.",
    "codex_interceptors",
    "Interceptor",
    "redacts = True",
)
for hook, noun, role, rest in (
    ("codex_components", "component", "Component", ""),
    (
        "codex_sandboxes",
        "sandbox",
        "Sandbox",
        "\ndef probe(self): return SandboxReport(available=False)\ndef confine(self, access, cwd): pass",
    ),
    ("codex_network_proxies", "network proxy", "NetworkProxy", "\ndef gate(self, rules, ask=None): pass"),
):
    of_class(
        f"a {noun} whose aclose is not async",
        FILE
        + f"its {noun} 'x' is ignored: its aclose is not async: write `async def aclose(self)` (... See {hook} in ...",
        hook,
        role,
        f"def aclose(self): pass{rest}",
    )
for member, told in (
    ("async def close(self): pass", "its close has no effect: ... Did you mean aclose? ..."),
    ("async def turn_end(self, turn, outcome): pass", "its turn_end has no effect: ... Did you mean turn_ended? ..."),
):
    mistake(
        f"a component's part with {member[10:15]}",
        "component 'x' of plugin 'acme': " + told.replace("no effect: ...", "no effect: ... {at}."),
        PART.replace("{member}", member),
    )


# Running them


def test_the_table_is_long_and_has_every_form() -> None:
    assert len(MISTAKES) >= 60
    assert {row.form.partition(":")[0] for row in MISTAKES} == {"file", "distribution", "class"}
    assert len({row.what for row in MISTAKES}) == len(MISTAKES)
    for row in MISTAKES:
        assert "acme" in row.told or "Words" in row.told or "config" in row.told, row.what
        assert re.search(r"\. \S|\{raise\}|\{fix\}", row.told), f"{row.what}: nothing says what to do"
        assert ("{at}" in row.told) == ("# <-" in row.source), row.what


@pytest.mark.parametrize("row", MISTAKES, ids=lambda row: row.what.replace(" ", "-"))
def test_a_mistake_is_told_with_plugin_line_and_advice(row: Mistake, tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / ("acme_words.py" if row.form.startswith("distribution") else "acme.py")
    if row.source:
        file.write_text(row.source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_words", raising=False)
    told = asyncio.run(asyncio.wait_for(everything_told(row, file, tmp_path), 30))
    assert any(re.fullmatch(pattern(row, file, tmp_path), text, re.S) for text in told), "\n".join(told)
    assert not any("Traceback" in text for text in told)


def pattern(row: Mistake, file: Path, folder: Path) -> str:
    """Return the regular expression of a row's message."""
    lines = [number for number, line in enumerate(row.source.splitlines(), 1) if "# <-" in line]
    at = f"({file}, line {lines[0]})" if lines else ""
    parts = {
        "{at}": at,
        "{fix}": FIX,
        "{raise}": RAISE,
        "{file}": str(file),
        "{config}": str(folder / "home/config.toml"),
    }
    words = re.split(r"(\{at\}|\{fix\}|\{raise\}|\{file\}|\{config\}|\.\.\.)", row.told)
    return "".join(".*" if word == "..." else re.escape(parts.get(word, word)) for word in words)


async def everything_told(row: Mistake, file: Path, folder: Path) -> list[str]:
    """Return what a person is told: by the loader, in a thread, at the end, and by errors."""
    told: list[str] = []
    try:
        async with await kernel_with(row, file, folder) as kernel:
            table = kernel.registry.command_table
            told += (text for report in table.reports for text in report.warnings.values())
            told += kernel.registry.warnings
            told += await one_turn(row, kernel)
        told += kernel.registry.warnings
    except CodexError as error:
        told.append(f"{error}. {error.hint}")
    return told


async def kernel_with(row: Mistake, file: Path, folder: Path) -> Kernel:
    """Make a kernel with a row's plugin, and a model that calls its tool."""
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir()
    workspace.mkdir()
    home.joinpath("config.toml").write_text(row.config)
    environ = {"CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
    settings = [f'sandbox_mode="{row.mode}"', f'approval_policy="{row.policy}"', 'model_provider="scripted"']
    if row.provider:
        table = 'model_providers.echo={name="Echo", wire_api="echo", stream_max_retries=0}'
        settings = [*settings[:2], 'model_provider="echo"', table]
    config = load_config(cwd=workspace, environ=environ, overrides=settings)
    replies = [call("work"), say("Done.")] if "def work" in row.source or "class Work" in row.source else [say("Done.")]
    plugins: list[Any] = [Offer(providers=[ScriptedModel(replies)], name="model")]
    entry_points: list[Any] = []
    form, _, attribute = row.form.partition(":")
    if form == "file":
        plugins.append(file)
    elif form == "class":
        plugins.append(class_of(file))
    else:
        entry_points.append(installed(file, attribute))
    return await Kernel.create(config, environ=environ, plugins=plugins, entry_points=entry_points)


async def one_turn(row: Mistake, kernel: Kernel) -> list[str]:
    """Run a turn, and return the warnings and errors of the thread."""
    thread = await kernel.start_thread(ephemeral=not row.kept)
    events = thread.events(answers=False)

    async def approve(_: Any) -> ReviewDecision:
        return ReviewDecision(Decision.APPROVED)

    if row.op:
        await thread.submit(kernel.op(row.op))
        while thread.running:
            await asyncio.sleep(0.005)
    else:
        on_request = None if row.policy == ApprovalPolicy.NEVER else approve
        await thread.run("Go.", on_request=on_request)
    await thread.shutdown()
    return [event.msg.message async for event in events if event.msg.type in ("warning", "error")]


def class_of(file: Path) -> Any:
    """Return the class of a file, as a program would import it."""
    spec = importlib.util.spec_from_file_location("acme_class", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Words


def installed(file: Path, attribute: str) -> EntryPoint:
    """Return the entry point of a distribution that lies unpacked where a wheel is installed."""
    info = file.parent / "acme_words-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: acme-words\nVersion: 1.0\n")
    target = f"acme_words:{attribute}" if attribute else "acme_words"
    info.joinpath("entry_points.txt").write_text(f"[codex_framework]\nacme = {target}\n")
    (distribution,) = distributions(path=[str(file.parent)])
    (point,) = distribution.entry_points
    return point
