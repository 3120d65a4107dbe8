"""The hooks that confine commands and decide about them."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.contract.roles.environments import EnvironmentSource
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.networks import NetworkProxy
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.policies import CommandPolicy
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.contract.roles.sandboxes import Sandbox

__all__ = [
    "codex_approval_reviewers",
    "codex_command_policies",
    "codex_constraints",
    "codex_environments",
    "codex_interceptors",
    "codex_network_proxies",
    "codex_sandboxes",
]


@hookspec
def codex_sandboxes(plugin: PluginContext) -> Iterable[Sandbox]:  # type: ignore[empty-body]
    """Offer sandboxes, which confine commands.

    ``[framework] sandbox`` selects one. The default is the first sandbox that works on this machine, bundled ones first.

    Example:
        ```python
        from codex_framework import Sandbox, SandboxError, SandboxReport, hookimpl


        class Nowhere(Sandbox):
            name = "nowhere"

            def probe(self):
                return SandboxReport(available=False, reason="this is an example", hint="write a real one")

            def confine(self, access, cwd):
                raise SandboxError("nothing can be confined here")


        @hookimpl
        def codex_sandboxes():
            return [Nowhere()]
        ```
    """


@hookspec
def codex_network_proxies(plugin: PluginContext) -> Iterable[NetworkProxy]:  # type: ignore[empty-body]
    """Offer network proxies, for commands whose profile names the hosts that they may reach. The first one is used.

    Example:
        ```python
        from codex_framework import NetworkProxy, ProxyPorts, hookimpl


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


        class NothingPasses(NetworkProxy):
            name = "nothing-passes"

            def gate(self, rules, ask=None):
                return NoGate()


        @hookimpl
        def codex_network_proxies():
            return [NothingPasses()]
        ```
    """


@hookspec
def codex_command_policies(plugin: PluginContext) -> Iterable[CommandPolicy]:  # type: ignore[empty-body]
    """Offer command policies, which allow a command, require approval, or forbid it. The most severe verdict is used.

    If a policy raises, the command is forbidden.

    Example:
        ```python
        from codex_framework import CommandPolicy, CommandVerdict, Verdict, hookimpl
        from codex_lib_shell_script.parsing import words_of_all_commands


        class NoCurl(CommandPolicy):
            name = "no-curl"

            def judge(self, command, facts):
                # Most commands of a model are scripts of a shell, with several commands in each.
                commands = [command.argv] if command.script is None else words_of_all_commands(command.script)
                if any(tuple(words[:1]) == ("curl",) for words in commands):
                    return CommandVerdict(verdict=Verdict.FORBID, reason="use the fetch tool instead of curl")
                return None


        @hookimpl
        def codex_command_policies():
            return [NoCurl()]
        ```
    """


@hookspec
def codex_constraints(plugin: PluginContext) -> Iterable[Constraint]:  # type: ignore[empty-body]
    """Offer constraints, which refuse settings of threads, or narrow the permissions of their turns.

    If a constraint raises, the settings, the turn or the call are refused.

    Example:
        ```python
        from codex_framework import ApprovalPolicy, Constraint, ThreadError, hookimpl


        class SomebodyIsAsked(Constraint):
            name = "somebody-is-asked"

            def check(self, settings, thread):
                if settings.approval_policy == ApprovalPolicy.NEVER:
                    raise ThreadError("the approval policy `never` is not allowed here", hint="Use on-request.")


        @hookimpl
        def codex_constraints():
            return [SomebodyIsAsked()]
        ```
    """


@hookspec
def codex_environments(plugin: PluginContext) -> Iterable[EnvironmentSource]:  # type: ignore[empty-body]
    """Offer environments: other places with files and commands, which clients select for threads and turns.

    Example:
        ```python
        from codex_framework import Environment, EnvironmentSource, SandboxError, hookimpl


        class Away(Environment):
            id = "away"
            info = None
            fault = "nobody is there"

            async def connect(self):
                raise ConnectionError(self.fault)

            def confine(self, access, cwd, variables):
                raise SandboxError(self.fault)

            def files(self, access, cwd):
                raise SandboxError(self.fault)


        class Places(EnvironmentSource):
            name = "places"
            environments = (Away(),)


        @hookimpl
        def codex_environments():
            return [Places()]
        ```
    """


@hookspec
def codex_approval_reviewers(plugin: PluginContext) -> Iterable[ApprovalReviewer]:  # type: ignore[empty-body]
    """Offer approval reviewers, which answer requests instead of the user. The first answer is used.

    If a reviewer raises, the request is denied.

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
    """Offer interceptors, which see and can change requests, tool calls and tool results.

    If an interceptor raises, the request or call is not made, and a result is replaced by an error.

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
