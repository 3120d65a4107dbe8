"""Running the hooks of an event on a sample input, without a model: the command ``hooks test``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from codex_framework import (
    Component,
    EventMsg,
    Kernel,
    ModelClient,
    ModelError,
    ModelProvider,
    PluginContext,
    ProviderInfo,
    ThreadContext,
    TurnContext,
    TurnFacts,
    Value,
    hookimpl,
    user_shell,
)
from codex_plugin_hooks import model_requests
from codex_plugin_hooks.definitions import Definitions, Handler
from codex_plugin_hooks.events import HookCompletedEvent, HookRun
from codex_plugin_hooks.firing import Fired, Hooks, common, end_fields
from codex_plugin_hooks.names import EVENTS

__all__ = ["Sample", "Trial", "run_trial"]


class Sample(Value, kw_only=True):
    """A sample input.

    Attributes:
        tool: The tool of the sample call.
        given: The tool's arguments; at other events, fields to replace.
        prompt: The sample prompt.
    """

    event: str
    tool: str
    given: Mapping[str, Any]
    prompt: str

    @property
    def matched(self) -> tuple[str, ...]:
        """The value that matchers are compared with."""
        kind = EVENTS[self.event].matches
        if kind == "tool":
            return (self.tool, "Write", "Edit") if self.tool == "apply_patch" else (self.tool,)
        if kind == "reason":
            return ("other",)
        words = {"source": ("source", "startup"), "trigger": ("trigger", "auto"), "agent": ("agent_type", "default")}
        return (str(self.given.get(*words[kind])),) if kind else ()

    def fields(self, turn: TurnContext) -> dict[str, Any]:
        """Return the input of the hooks."""
        if self.event == "SessionEnd":
            return {**end_fields(turn.thread), **self.given}
        if self.event in model_requests.EVENTS:
            return {**self._of_request(turn), **self.given}
        fields = common(self.event, turn, with_turn=self.event != "SessionStart")
        if EVENTS[self.event].matches == "tool":
            fields |= {"tool_name": self.tool, "tool_input": dict(self.given) or {"command": "echo hello"}}
            if self.event == "PostToolUse":
                fields["tool_response"] = "hello\n"
            return fields if self.event == "PermissionRequest" else {**fields, "tool_use_id": "call_sample"}
        return {**fields, **self._own(turn), **self.given}

    def _own(self, turn: TurnContext) -> dict[str, Any]:
        agent = {"agent_id": turn.thread.id, "agent_type": "default"}
        stop = {"stop_hook_active": False, "last_assistant_message": "Done."}
        own: dict[str, dict[str, Any]] = {
            "UserPromptSubmit": {"prompt": self.prompt},
            "SessionStart": {"source": "startup"},
            "PreCompact": {"trigger": "auto"},
            "PostCompact": {"trigger": "auto"},
            "SubagentStart": agent,
            "SubagentStop": {**agent, "agent_transcript_path": None, **stop},
            "Stop": stop,
            "Interrupt": {},
        }
        return own[self.event]

    def _of_request(self, turn: TurnContext) -> dict[str, Any]:
        fields = model_requests.request_fields(
            self.event, turn, kind="sampling", request_id="request_sample", attempt=1, model=turn.facts.model.slug
        )
        end = {"status": "completed", "error": None, "token_usage": None, "response_id": "response_sample"}
        return fields if self.event == "PreModelRequest" else {**fields, **end}


class Trial(Value, kw_only=True):
    """The decisions of the hooks.

    Attributes:
        runs: The runs, in the order of the definitions.
        skipped: Hooks that match but do not run, because they are not trusted or are switched off.
        decision: The combined decision.
        warnings: The warnings that the user would get.
    """

    sample: Sample
    runs: tuple[HookRun, ...]
    commands: tuple[str, ...]
    skipped: tuple[Handler, ...]
    decision: Mapping[str, Any]
    warnings: tuple[str, ...]

    def wire(self) -> dict[str, Any]:
        """Return the trial as plain JSON data."""
        return {
            "event": self.sample.event,
            "runs": [
                {
                    "command": command,
                    "sourcePath": run.source_path,
                    "status": run.status,
                    "durationMs": run.duration_ms,
                    "entries": [{"kind": entry.kind, "text": entry.text} for entry in run.entries],
                }
                for command, run in zip(self.commands, self.runs, strict=True)
            ],
            "skipped": [{"command": each.command, "key": each.key, "trustStatus": each.trust} for each in self.skipped],
            "decision": dict(self.decision),
            "warnings": list(self.warnings),
        }

    def lines(self) -> Iterator[str]:
        """Yield the trial as lines for people."""
        for command, run in zip(self.commands, self.runs, strict=True):
            yield f"{run.status} in {run.duration_ms} ms: {command}  [{run.source_path}]"
            yield from (f"   {entry.kind}: {entry.text}" for entry in run.entries)
        for each in self.skipped:
            why = "switched off" if not each.enabled else "not trusted"
            yield f"not run ({why}): {each.command}  [{each.path}]"
        if not self.runs and not self.skipped:
            yield f"No hook of {self.sample.event} matches{''.join(f' {name}' for name in self.sample.matched[:1])}."
        yield f"Decision: {_sentence(self.decision)}"


def _sentence(decision: Mapping[str, Any]) -> str:
    words = [str(decision["action"])]
    if "reason" in decision:
        words.append(f"({decision['reason']})")
    if "updatedInput" in decision:
        words.append(f"with {json.dumps(decision['updatedInput'], ensure_ascii=False)}")
    if decision.get("context"):
        words.append(f"and {len(decision['context'])} text(s) of context for the model")
    return " ".join(words)


def run_trial(context: PluginContext, definitions: Definitions, sample: Sample, *, untrusted: bool) -> Trial:
    """Run the hooks of an event on a sample.

    Args:
        untrusted: Whether to run hooks that are not trusted.

    Raises:
        CodexError: The configuration is invalid.
    """
    runnable = [each for each in definitions.known if each.enabled] if untrusted else definitions.handlers
    hooks = Hooks(definitions.evolve(handlers=tuple(runnable)), sample.event)
    return asyncio.run(_run(context, hooks, definitions, sample))


async def _run(plugin: PluginContext, hooks: Hooks, definitions: Definitions, sample: Sample) -> Trial:
    stage = _Stage()
    async with await Kernel.create(plugin, environ=plugin.environ, entry_points=(), plugins=[stage]) as kernel:
        thread = await kernel.start_thread(ephemeral=True)
        turn = _SampleTurn(stage.thread, plugin.codex_home)
        context = cast("TurnContext", turn)
        handlers = [each.evolve(is_async=False) for each in hooks.selected(sample.event, sample.matched)]
        fired = await hooks.fire(handlers, context, sample.fields(context))
        await thread.shutdown()
    known = Hooks(definitions.evolve(handlers=definitions.known), sample.event).selected(sample.event, sample.matched)
    ran = {each.key for each in handlers}
    return Trial(
        sample=sample,
        runs=tuple(turn.runs),
        commands=tuple(each.handler.command for each in fired),
        skipped=tuple(each for each in known if each.key not in ran),
        decision=_decision(sample.event, fired),
        warnings=tuple(entry.text for run in turn.runs for entry in run.entries if entry.kind == "warning"),
    )


def _decision(event: str, fired: list[Fired]) -> dict[str, Any]:
    """Return what some hooks decide together."""
    found: dict[str, Any] = {"action": "continue"}
    stops = next((each for each in fired if each.verdict.stops), None)
    blocks = [each.verdict.reason for each in fired if each.verdict.reason is not None]
    updated = [each for each in fired if each.verdict.updated is not None]
    if event == "PostToolUse" and blocks:
        found = {"action": "replace the output", "reason": "\n\n".join(blocks)}
    elif stops is not None and event not in ("PreToolUse", "PermissionRequest", "PostCompact"):
        found = {"action": "stop", **({"reason": stops.verdict.stop_reason} if stops.verdict.stop_reason else {})}
    elif blocks:
        found = {
            "action": _BLOCKING[event],
            "reason": blocks[0] if event not in ("Stop", "SubagentStop") else "\n".join(blocks),
        }
    elif any(each.verdict.allows for each in fired):
        found = {"action": "approve"}
    elif updated:
        found["updatedInput"] = max(updated, key=lambda each: each.place).verdict.updated
    return {**found, "context": [text for each in fired for text in each.verdict.context]}


_BLOCKING = {
    "PreToolUse": "refuse the call",
    "PermissionRequest": "deny",
    "UserPromptSubmit": "refuse the prompt",
    "Stop": "continue the turn",
    "SubagentStop": "continue the turn",
}


class _Stage:
    """A plugin for a kernel without others, which gives access to its thread."""

    def __init__(self) -> None:
        self._threads: list[ThreadContext] = []

    @property
    def thread(self) -> ThreadContext:
        return self._threads[0]

    @hookimpl
    def codex_config_keys(self) -> Iterable[str]:
        return ["hooks"]

    @hookimpl
    def codex_components(self) -> Iterable[Component]:
        return [_Catcher(self._threads)]

    @hookimpl
    def codex_model_providers(self, plugin: PluginContext) -> Iterable[ModelProvider]:
        return [_NoModel(str(plugin.config.get("model_provider") or "openai"))]


class _Catcher(Component):
    name = "hooks-trial"

    def __init__(self, threads: list[ThreadContext]) -> None:
        self._threads = threads

    def for_thread(self, thread: ThreadContext) -> None:
        self._threads.append(thread)


class _NoModel(ModelProvider):
    """Stands for the configured provider, which is never asked."""

    name = "hooks-trial"

    def __init__(self, provider: str) -> None:
        self.builtin = {provider: ProviderInfo(id=provider, name=provider, wire_api=self.name)}

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:  # noqa: ARG002  # the role's
        raise ModelError("a trial of hooks asks no model")


class _SampleTurn:
    """As much of a turn as hooks need."""

    def __init__(self, thread: ThreadContext, codex_home: Path) -> None:
        settings = thread.settings
        self.thread = thread
        self.runs: list[HookRun] = []
        self.facts = TurnFacts(
            cwd=settings.cwd,
            approval_policy=settings.approval_policy,
            permissions=settings.permissions,
            thread_id=thread.id,
            turn_id="turn_sample",
            shell=user_shell(),
            codex_home=codex_home,
        )

    def because(self, cause: str) -> None:
        """Forget the cause, which the trial shows anyway."""

    def emit(self, event: EventMsg) -> None:
        if isinstance(event, HookCompletedEvent):
            self.runs.append(event.run)
