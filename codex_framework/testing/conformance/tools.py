"""The check of tools: form, methods before a call, invalid arguments, and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.events import ItemCompletedEvent
from codex_framework.contract.protocol.items import InputImage, InputText, OutputText, UnknownItem
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.outcomes import Status
from codex_framework.contract.roles.tool_specs import (
    DeferredTool,
    FreeformFormat,
    FreeformSpec,
    FunctionSpec,
    NativeSpec,
    spec_problems,
)
from codex_framework.contract.roles.tools import Tool
from codex_framework.loader.registration import RegisteredTool, registered_tool
from codex_framework.testing.calls import call_context
from codex_framework.testing.conformance.author_mistakes import member_mistakes
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.conformance.stage import HELLO, Stage
from codex_framework.testing.conformance.tool_calls import check_before_call
from codex_framework.testing.facts import turn_facts
from codex_framework.testing.replies import reply
from codex_framework.testing.threads import ScriptedThread
from codex_framework.threads.turn.call_context import CallContext
from codex_framework.toolkit.roles import overrides

__all__ = ["check_tool"]

_REFUSAL_S = 10.0
"""Time limit for refusing invalid arguments, in seconds."""

_TICKS = (0, 1, 2, 5, 20)
"""The numbers of event loop steps after which a call is cancelled."""

_MODELS = (
    ModelInfo(slug="test-model"),
    ModelInfo(
        slug="test-small", known=False, shell_type="shell_command", apply_patch="function", supports_images=False
    ),
    ModelInfo(slug="test-bare", shell_type="disabled", apply_patch=None, parallel_tool_calls=False),
    ModelInfo(slug="test-local", shell_type="local", truncation=("bytes", 100)),
    ModelInfo(slug="test-argv", shell_type="shell"),
)

_OTHERS = (
    FunctionSpec("find_tea", "Finds tea.", {"type": "object"}),
    FreeformSpec("write_tea", "Writes tea.", FreeformFormat("lark", "start: /.+/")),
    NativeSpec("local_shell", "local_shell"),
)
"""The other tools that are passed to a tool that arranges tools."""

_SEARCHING = ModelInfo(slug="test-search", tool_search=True)
_DEFERRED = (
    DeferredTool(spec=FunctionSpec("find_tea", "Finds tea.", {"type": "object"}), plugin="tea", source="tea: Drinks."),
    DeferredTool(spec=NativeSpec("local_shell", "local_shell"), plugin="odd", keywords="é", offered=True),
)


def check_tool(
    tool: Tool,
    arguments: Mapping[str, Any] | str | None = None,
    *,
    workspace: Path | None = None,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Check that a tool fulfils its role.

    Args:
        tool: The tool.
        arguments: Arguments of a call that works. The call is run once completely, and several times until it is cancelled.
            Without arguments, the check makes only calls that every tool must refuse, because their arguments do not match the
            schema.
        workspace: The folder for the calls; by default an empty temporary folder.
        config: The value of ``context.config``.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("tool", tool)
    registered, problems = registered_tool("check", tool)
    for problem in problems or member_mistakes(tool, Tool):
        findings.note(problem)
    if registered is not None:
        _check_form(findings, registered)
        _check_before_calls(findings, registered, arguments, config or {})
        with tempfile.TemporaryDirectory() as folder:
            run_check(findings, lambda: _calls(findings, tool, arguments, workspace or Path(folder), config or {}))
        if registered.shown is not None:
            run_check(findings, lambda: _check_shown(findings, tool))
    findings.raise_any()


def _check_form(findings: Findings, registered: RegisteredTool) -> None:
    spec = registered.spec
    if not isinstance(spec, NativeSpec):
        findings.require(spec.description.strip(), "its description is empty: the model would not know what it is for")
    findings.require(registered.tool.spec == spec, "its spec differs between two reads")
    for model in _MODELS:
        _check_offer(findings, registered, turn_facts(model=model))
    _check_offer(findings, registered, turn_facts(model=_SEARCHING, deferred_tools=_DEFERRED))


def _check_offer(findings: Findings, registered: RegisteredTool, facts: TurnFacts) -> None:
    _check_reads(findings, registered, facts)
    offered, spec_for, arrange = registered.offered, registered.spec_for, registered.arrange
    try:
        if offered is not None:
            answer = findings.call("offered()", lambda: offered(facts), within_s=0.5)
            findings.require(isinstance(answer, bool), f"offered() returns {answer!r}, not True or False")
        if arrange is not None:
            given = (registered.spec, *_OTHERS)
            arranged = findings.call("arrange()", lambda: arrange(given, facts), within_s=0.5)
            again = findings.call("arrange()", lambda: arrange(given, facts), within_s=0.5)
            _check_arranged(findings, arranged, {spec.name for spec in given})
            findings.require(arranged == again, "arrange() returns something else for the same specs and turn")
        if spec_for is None:
            return
        spec = findings.call("spec_for()", lambda: spec_for(facts), within_s=0.5)
    except Unmet:
        return
    for problem in spec_problems(spec):
        findings.note(f"spec_for() with model {facts.model.slug!r}: {problem}")
    name, registered_as = getattr(spec, "name", None), registered.spec.name
    if name != registered_as:
        findings.note(f"spec_for() returns the name {name!r}, and it is registered as {registered_as!r}")


def _check_reads(findings: Findings, registered: RegisteredTool, facts: TurnFacts) -> None:
    """Check that the tool declares all facts which ``offered`` and ``spec_for`` read."""
    read = set[str]()

    class NotedFacts(TurnFacts):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    noted = NotedFacts(**vars(facts))
    for method, call in (("offered", registered.offered), ("spec_for", registered.spec_for)):
        if registered.reads is None or call is None:
            continue
        read.clear()
        with contextlib.suppress(Unmet):
            findings.call(f"{method}()", functools.partial(call, noted), within_s=0.5)
        for fact in sorted((read & vars(facts).keys()) - registered.reads):
            findings.note(f"{method}() reads the fact {fact!r}, but its `reads` lacks it")


def _check_arranged(findings: Findings, arranged: object, names: set[str]) -> None:
    if not isinstance(arranged, (list, tuple)):
        findings.note(f"arrange() returns {type(arranged).__name__}, not a list of specs")
        return
    for spec in arranged:
        for problem in spec_problems(spec):
            findings.note(f"arrange() returns a spec that cannot be sent: {problem}")
    new = [spec.name for spec in arranged if getattr(spec, "name", None) not in names]
    findings.require(not new, f"arrange() adds tools that were not offered: {', '.join(map(str, new))}")


def _check_before_calls(
    findings: Findings,
    registered: RegisteredTool,
    arguments: Mapping[str, Any] | str | None,
    config: Mapping[str, Any],
) -> None:
    facts = turn_facts(model=_MODELS[0], config=config)
    for why, text in bad_arguments(registered.spec):
        call = _call(registered.tool, text)
        check_before_call(findings, registered, f"a call {why} ({_short(text)})", call, facts, works=False)
    if arguments is not None:
        text = _text(arguments)
        what = f"the call with {_short(text)}"
        check_before_call(findings, registered, what, _call(registered.tool, text), facts, works=True)


def _text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


async def _calls(
    findings: Findings,
    tool: Tool,
    arguments: Mapping[str, Any] | str | None,
    workspace: Path,
    config: Mapping[str, Any],
) -> None:
    before = asyncio.all_tasks()
    try:
        async with call_context(workspace, config=config) as context:
            await _refusals(findings, tool, context)
            _check_refused(findings, tool, context)
            if arguments is not None:
                text = _text(arguments)
                await _whole_call(findings, tool, text, context)
                await _cancellations(findings, tool, text, context)
    except AssertionError as error:
        findings.note(f"what it keeps in context.state cannot be closed: {error}")
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    findings.require(
        not left, f"{len(left)} of its tasks still run after the end of the thread: keep them in context.state"
    )
    for task in left:
        task.cancel()


async def _refusals(findings: Findings, tool: Tool, context: CallContext) -> None:
    for why, text in bad_arguments(tool.spec):
        what = f"a call {why} ({_short(text)})"
        try:
            output = await findings.wait_for(
                what, tool.run(_call(tool, text), context), within_s=_REFUSAL_S, allowed=(ToolError,)
            )
        except Unmet:
            continue
        except ToolError as error:
            findings.require(str(error).strip(), f"{what} raises a ToolError without text: the model reads nothing")
            continue
        if isinstance(tool.spec, FreeformSpec):
            _check_output(findings, what, output)  # only the tool knows whether the text follows the grammar
        else:
            findings.note(f"{what} is accepted; it must raise ToolError")


def _check_refused(findings: Findings, tool: Tool, context: CallContext) -> None:
    """Tell a tool about calls that were not allowed."""
    if not overrides(tool, Tool, "refused"):
        return
    findings.require(tool.tells_clients, "it has refused(), which is called only if tells_clients is true")
    for why, text in (*bad_arguments(tool.spec), ("with no arguments", "{}")):
        call = _call(tool, text)
        with contextlib.suppress(Unmet):
            told = functools.partial(tool.refused, call, context, "rejected by user")
            findings.call(f"refused() of a call {why}", told, within_s=0.5)


async def _check_shown(findings: Findings, tool: Tool) -> None:
    """Let a server say odd things about calls that it ran itself."""
    call = {"type": f"{tool.spec.name}_call", "id": "../x", "status": "completed"}
    odd: Sequence[dict[str, Any]] = ({}, {"id": 7, "result": 7, "action": 7}, {"result": "\0@@@"})
    items = reply(*(UnknownItem({**call, **more}) for more in odd))
    stage = Stage(findings, lambda: {"tools": [tool]})

    async def turn(thread: ScriptedThread) -> None:
        result = await thread.turn("Go!", items + HELLO)
        findings.require(
            result.status is Status.COMPLETED, f"a turn with calls that the server ran fails: {result.error}"
        )
        whole = [event.item for event in thread.events if isinstance(event, ItemCompletedEvent)]
        findings.require(all(_is_json(item) for item in whole), "shown() returns something that is not plain JSON data")

    await stage.play("calls that the server ran", turn)


def _is_json(item: object) -> bool:
    try:
        json.dumps(item, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def bad_arguments(spec: object) -> Iterator[tuple[str, str]]:
    """Return arguments that a tool of this form must refuse, each with a description of the fault."""
    if isinstance(spec, FreeformSpec):
        yield "without any text", ""
        yield "with text that makes no sense", "\x00\N{SNOWMAN} no such thing"
        return
    if not isinstance(spec, FunctionSpec):
        return
    yield "whose arguments are not JSON", "{"
    yield "whose arguments are no object", "[1, 2]"
    yield "whose arguments are a word", '"word"'
    yield "whose arguments are nested too deeply", "[" * 100_000
    required = [str(name) for name in spec.parameters.get("required", ())]
    properties: Mapping[str, Any] = spec.parameters.get("properties", {})
    if required:
        yield f"without {', '.join(required)}", "{}"
    for name, schema in properties.items():
        wrong = _misfit(schema)
        if wrong is not None:
            fitting = {other: _sample(properties[other]) for other in required if other != name}
            yield f"with {name} of a wrong type", json.dumps({**fitting, name: wrong})


def _misfit(schema: Any) -> Any:
    """Return a value that certainly does not match the schema, or None if no such value is known."""
    if not isinstance(schema, Mapping) or not ({"type", "anyOf"} & schema.keys()):
        return None
    kinds = _kinds(schema)
    if not kinds:
        return None
    if "object" not in kinds:
        return {"no": ["such", "thing"]}
    return ["no such thing"] if "array" not in kinds else None


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema allows; empty if it does not specify them."""
    own = schema.get("type")
    if own is not None:
        return {own} if isinstance(own, str) else set(own)
    parts = [_kinds(part) if isinstance(part, Mapping) else set() for part in schema.get("anyOf", ())]
    return set().union(*parts) if all(parts) else set()


def _sample(schema: Any) -> Any:
    """Return some value of the type, for a call that fails for another reason."""
    if not isinstance(schema, Mapping):
        return None
    if schema.get("enum"):
        return schema["enum"][0]
    samples: dict[str, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}
    return next((samples[kind] for kind in sorted(_kinds(schema)) if kind in samples), None)


async def _whole_call(findings: Findings, tool: Tool, text: str, context: CallContext) -> None:
    what = f"the call with {_short(text)}"
    try:
        output = await findings.wait_for(what, tool.run(_call(tool, text), context), within_s=60)
    except Unmet:
        return
    _check_output(findings, what, output)


def _check_output(findings: Findings, what: str, output: object) -> None:
    content = output.content if isinstance(output, ToolOutput) else output
    if isinstance(content, str):
        return
    if not isinstance(output, ToolOutput) or not isinstance(content, tuple):
        findings.note(
            f"{what} returns {type(output).__name__}, not a ToolOutput (of text, or a tuple of parts) or a string"
        )
        return
    wrong = [type(part).__name__ for part in content if not isinstance(part, (InputText, InputImage, OutputText))]
    findings.require(not wrong, f"{what} gives content parts of type {', '.join(wrong)}")


async def _cancellations(findings: Findings, tool: Tool, text: str, context: CallContext) -> None:
    for ticks in _TICKS:
        task = asyncio.ensure_future(_run(tool, text, context, ticks))
        for _ in range(ticks):
            await asyncio.sleep(0)
        before = len(findings.violations)
        await findings.cancel("a call", task)
        if len(findings.violations) > before:
            return
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, because a call that had already failed is not a finding here


async def _run(tool: Tool, text: str, context: CallContext, ticks: int) -> object:
    return await tool.run(_call(tool, text, f"cancelled-{ticks}"), context)


def _call(tool: Tool, text: str, call_id: str = "call-1") -> ToolCall:
    spec = tool.spec
    kind = "custom" if isinstance(spec, FreeformSpec) else spec.type if isinstance(spec, NativeSpec) else "function"
    return ToolCall(call_id, spec.name, text, kind)


def _short(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:57]) + "..."
