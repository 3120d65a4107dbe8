"""What authors of plugins do wrong with files, hooks, distributions and tools, and the message that each gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .mistakes import (
    FILE,
    Mistake,
    check_mistake,
    check_table,
    mistake,
    of_class,
    of_tool,
    taken,
)

# The file, and its hooks

mistake("a syntax error", FILE + "it cannot be imported: SyntaxError: invalid syntax {at}. {fix}", "def f(:  # <-\n")
mistake(
    "a module that is not installed",
    FILE + "it needs the package 'nosuchmodule', which is not installed. Check the spelling of the import. ...",
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
    + "its tool of type function is ignored: it is the function count, not a tool: put `@tool` above `def count`, ... {at}. ...",
    """
    from codex_framework import hookimpl
    def count(): pass  # <-
    @hookimpl
    def codex_tools(): return [count]
    """,
)
mistake(
    "a tool that is a plain method",
    FILE
    + "its tool of type method is ignored: it is the function count, not a tool: offer `tool(self.count)`, ... {at}. ...",
    """
    from codex_framework import Plugin, hookimpl
    class Counts(Plugin):
        def count(self): pass  # <-
        @hookimpl
        def codex_tools(self): return [self.count]
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
    "a context with another annotation",
    FILE
    + "it cannot be imported: AnnotationError: parameter 'context' of work is annotated dict, which cannot be described to a model: "
    "specify ... supported are str, .... For the context of the call, write `context: ToolContext` {at}. {fix}",
    """
    from codex_framework import tool
    @tool  # <-
    async def work(path: str, context: dict) -> str:
        "Work."
    """,
)
mistake(
    "a context without its annotation",
    FILE
    + "it cannot be imported: TypeError: parameter 'context' of work has no annotation: write `context: ToolContext` {at}. {fix}",
    """
    from codex_framework import tool
    @tool  # <-
    async def work(path: str, context) -> str:
        "Work."
        return ""
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
    + "invalid settings of the plugin 'acme': `framework.plugins.acme.greeting`: it must be a string ({config}, line 2). ...",
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
    WORK + "it was cancelled without an interrupt {at}. {raise}",
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

ROWS = taken()


def test_the_table_is_long_and_has_every_form() -> None:
    assert len(ROWS) >= 60
    assert {row.form.partition(":")[0] for row in ROWS} == {"file", "distribution", "class"}
    check_table(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what.replace(" ", "-"))
def test_a_mistake_is_told_with_plugin_line_and_advice(row: Mistake, tmp_path: Path, monkeypatch: Any) -> None:
    check_mistake(row, tmp_path, monkeypatch)
