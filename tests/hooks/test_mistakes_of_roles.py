"""What authors of plugins do wrong in roles: interceptors, providers, stores, tasks and others, and the message that each gets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import ContractViolation, PluginCheck, check_plugin

from .mistakes import (
    FILE,
    Mistake,
    check_mistake,
    check_table,
    mistake,
    of_class,
    of_client,
    pattern,
    taken,
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
    "def applies(self, turn):  # <-\n    time.sleep(0.3)\n    return True",
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
for what, told, event in (
    (
        "a call without arguments",
        "a FunctionCall that is wrong: its `arguments` is None, not str",
        "FunctionCall('f', None, 'c')",
    ),
    (
        "a call whose id is a number",
        "a FunctionCall that is wrong: its `call_id` is 5, not str",
        "FunctionCall('f', '{}', 5)",
    ),
    ("a message of text", "a Message that is wrong: its `content` is 'hi', not ...", "Message('assistant', 'hi')"),
    (
        "a message of objects",
        "a Message that is wrong: its `content` has a value at index 0: its `text` is object, not str",
        "Message('assistant', (OutputText(object()),))",
    ),
):
    yielded = f"async def stream(self, request):  # <-\n    yield ItemDone({event})\n    yield Completed('r')"
    of_client(f"a provider whose item is {what}", ECHO + f"stream() failed: it yielded {told} {{at}}. Set ...", yielded)
for what, told, event in (
    ("a piece of text is None", "a TextDelta whose text is None {at}. Pass a string.", "TextDelta('m', None)"),
    (
        "a piece of reasoning is bytes",
        "a ReasoningDelta whose text is bytes {at}. Pass a string.",
        "ReasoningDelta('m', b'x')",
    ),
):
    yielded = f"async def stream(self, request):  # <-\n    yield {event}\n    yield Completed('r')"
    of_client(f"a provider of which {what}", ECHO + f"stream() failed: it yielded {told}", yielded)
of_client(
    "a provider that cancels itself",
    ECHO + "stream() failed: CancelledError {at}. {fix}",
    "async def stream(self, request):\n    import asyncio\n    raise asyncio.CancelledError  # <-\n    yield",
)
of_client(
    "a provider that ends the process",
    ECHO + "stream() failed: SystemExit: 3 {at}. {fix}",
    "async def stream(self, request):\n    raise SystemExit(3)  # <-\n    yield",
)
of_client(
    "a provider whose client ends the process",
    ECHO + "open() failed: SystemExit: 3 {at}. {fix}",
    "",
    "def open(self, info, env): raise SystemExit(3)  # <-",
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


# Redaction

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
    + "its interceptor 'x': its `redacts` is True, but it does not override redact(), ... Write `def redact(self, text, turn)`.",
    "codex_interceptors",
    "Interceptor",
    "redacts = True",
)

ROWS = taken()

# Misspelt members, which nobody would call, and methods that are not async. They break no run

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
        """spec = FunctionSpec("x", "Work.", {"type": "object"})
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
    told = f"its {noun} 'x': its {name} " + NO_EFFECT.format(role=role, near=near) + " ..."
    of_class(f"{noun} with {name}", FILE + told, hook, role, f"{body}  # <-")
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
        FILE + f"its {noun} 'x': its aclose is not async: write `async def aclose(self)` {{at}}. See the role in ...",
        hook,
        role,
        f"def aclose(self): pass  # <-{rest}",
    )
DOCTOR_ROWS = taken()


def test_the_table_says_what_to_do() -> None:
    check_table([*ROWS, *DOCTOR_ROWS])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what.replace(" ", "-"))
def test_a_mistake_is_told_with_plugin_line_and_advice(row: Mistake, tmp_path: Path, monkeypatch: Any) -> None:
    check_mistake(row, tmp_path, monkeypatch)


@pytest.mark.parametrize("row", DOCTOR_ROWS, ids=lambda row: row.what.replace(" ", "-"))
def test_a_mistake_that_breaks_no_run_is_told_by_the_doctor(row: Mistake, tmp_path: Path) -> None:
    file = tmp_path / "acme.py"
    file.write_text(row.source)
    found: list[PluginCheck] = []
    with pytest.raises(ContractViolation):
        check_plugin(file, report=found.append)
    told = [
        f"plugin 'acme' ({file}): its {check.check} {check.subject!r}: {fact} {check.hint}"
        for check in found
        if check.result == "failed"
        for fact in check.facts
    ]
    assert any(re.fullmatch(pattern(row, file, tmp_path), text, re.S) for text in told), "\n".join(told)
