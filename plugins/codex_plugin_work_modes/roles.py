"""The roles that enforce a mode and inform the model. Without restrictions, each returns immediately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from codex_framework import CommandPolicy, Constraint, ContextSource, Interceptor
from codex_plugin_work_modes.state import WorkModes

if TYPE_CHECKING:
    from codex_framework import (
        CommandRequest,
        CommandVerdict,
        Fragment,
        ThreadContext,
        ToolCall,
        TurnContext,
        TurnFacts,
    )
    from codex_framework.contract.permissions.profile import Permissions
    from codex_plugin_work_modes.modes import ModeRestrictions

__all__ = ["ModeConstraint", "ModeContext", "ModeInterceptor", "ModePolicy"]

_START, _END = "<work_mode>", "</work_mode>"
_FREE = f"{_START}No work mode restricts you any more. Your permissions alone say what you may do.{_END}"


class ModeConstraint(Constraint):
    """Narrows the permissions of turns to the mode of the thread. The kernel applies it for all ancestors, too."""

    name = "work-mode"

    def __init__(self, modes: WorkModes) -> None:
        self._modes = modes

    def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:
        """Return the permissions that the mode leaves."""
        state = self._modes.threads.get(thread.id)
        if state is None or state.choice is None:
            return permissions
        if thread.turn is None:
            state.choice.begin()
        restrictions = state.restrictions
        if restrictions is None:
            return permissions
        from codex_plugin_work_modes.narrowing import narrowed

        return narrowed(permissions, restrictions)


class ModePolicy(CommandPolicy):
    """Forbids commands in a mode without them, and commands that change a repository in a mode that forbids this."""

    name = "work-mode"

    def __init__(self, modes: WorkModes) -> None:
        self._modes = modes

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """Return a refusal, or no opinion."""
        restrictions = self._modes.restrictions(facts.thread_id)
        if restrictions is None:
            return None
        name = self._modes.name(facts.thread_id)
        if not restrictions.allow_command_exec:
            return _forbidden(f"the work mode `{name}` permits no commands")
        if not restrictions.allow_git_operations:
            from codex_plugin_work_modes.git import changing_operation

            operation = changing_operation(command)
            if operation is not None:
                return _forbidden(
                    f"the work mode `{name}` permits no git operation that changes something: {operation}"
                )
        return None


def _forbidden(reason: str) -> CommandVerdict:
    from codex_framework import CommandVerdict, Verdict

    text = f"{reason}. Do without it, or say what you would do."
    return CommandVerdict(verdict=Verdict.FORBID, reason=text)


class ModeInterceptor(Interceptor):
    """Refuses calls that a sandbox does not confine, and explains refusals that the sandbox would make anyway."""

    name = "work-mode"
    order = 200

    def __init__(self, modes: WorkModes) -> None:
        self._modes = modes

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        """Refuse a call that the mode does not permit."""
        restrictions = self._modes.restrictions(turn.facts.thread_id)
        if restrictions is not None:
            why = self._refusal(call, turn, restrictions)
            if why:
                from codex_framework import ToolRefused

                name = self._modes.name(turn.facts.thread_id)
                turn.because(f"work mode {name}")
                raise ToolRefused(f"the work mode `{name}` {why}")
        return call

    def _refusal(self, call: ToolCall, turn: TurnContext, restrictions: ModeRestrictions) -> str:
        """Return why a call is refused, as a clause; empty if it is not."""
        if call.name == "write_stdin" and any(state.leaves_sessions for state in self._modes.of(turn.facts.thread_id)):
            return "was chosen after this command was started; it ends with the turn, and takes no input any more"
        if restrictions.allow_file_write:
            return ""
        if call.name == "apply_patch":
            return "permits no changes of files. Say what you would change"
        view = turn.view(call)
        if view is not None and view.server is not None and not view.read_only:
            return "permits only tools of servers that say that they change nothing (readOnlyHint)"
        return ""


class ModeContext(ContextSource):
    """Tells the model what its mode permits, when it changes."""

    name = "work_mode"

    def __init__(self, modes: WorkModes) -> None:
        self._modes = modes

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield the text, or nothing for a thread that never had a mode."""
        state = self._modes.threads.get(facts.thread_id)
        if state is None:
            return
        restrictions = self._modes.restrictions(facts.thread_id)
        if restrictions is not None:
            from codex_framework import Fragment
            from codex_plugin_work_modes.texts import description

            state.told = True
            own = "" if state.choice is None else state.choice.instructions
            text = description(self._modes.name(facts.thread_id), restrictions, own)
            yield Fragment(role="developer", text=f"{_START}{text}{_END}", start=_START, end=_END, order=56)
        elif state.told or (state.choice is not None and state.choice.was_set):
            from codex_framework import Fragment

            yield Fragment(role="developer", text="", start=_START, end=_END, order=56, revocation=_FREE)
