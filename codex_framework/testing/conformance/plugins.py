"""The check of whole plugins: a plugin loads, its offers fulfil their roles, and two kernels can use it at the same time."""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from codex_framework.config import Config, load_config
from codex_framework.contract.errors import CodexError, PluginError
from codex_framework.contract.hookspecs import CATALOGUES, COMMANDS, DEPRECATED, OFFERING, TOOLS, Hook
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.roles.models import ModelCatalogue, ProviderInfo
from codex_framework.contract.value import Value
from codex_framework.kernel import Kernel
from codex_framework.loader.discovery import normalise_name
from codex_framework.loader.registry import Registry, load_registry
from codex_framework.loader.report import PluginProblem, PluginReport, PluginStatus
from codex_framework.testing.conformance.author_mistakes import annotation_mistakes, member_mistakes
from codex_framework.testing.conformance.compactors import check_compactor
from codex_framework.testing.conformance.constraints import check_constraint
from codex_framework.testing.conformance.context_sources import check_context_source
from codex_framework.testing.conformance.findings import ContractViolation
from codex_framework.testing.conformance.interceptors import check_interceptor
from codex_framework.testing.conformance.model_catalogues import check_model_catalogue
from codex_framework.testing.conformance.network_proxies import check_network_proxy
from codex_framework.testing.conformance.policies import check_command_policy
from codex_framework.testing.conformance.reviewers import check_reviewer
from codex_framework.testing.conformance.sandboxes import check_sandbox
from codex_framework.testing.conformance.thread_stores import check_thread_store
from codex_framework.testing.conformance.tools import check_tool
from codex_framework.testing.conformance.watchers import check_change_recorder, check_notifier, check_telemetry
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.offering import Offer
from codex_framework.testing.replies import say
from codex_framework.threads.faults import error_text, place_of

__all__ = ["PluginCheck", "check_plugin"]

Result: TypeAlias = Literal["passed", "failed", "not tried"]

_SEE = "See the role in docs/reference/hooks.md, and its check in docs/extend/test-a-plugin.md."
_TWO_KERNELS = "Keep the state of a kernel in an instance of your plugin's class: see docs/extend/plugin-classes.md."

_TURN_S = 60.0
"""How long the kernels of the last check may take, in seconds."""


class PluginCheck(Value, kw_only=True):
    """One check of a plugin.

    Attributes:
        plugin: The plugin's name.
        check: The checked role, such as ``tool`` or ``two kernels``.
        subject: The name of the object that was checked; empty for the plugin itself.
        result: ``passed``, ``failed`` or ``not tried``.
        facts: The problems, or why it was not tried.
        hint: How to fix it.
    """

    plugin: str
    check: str
    subject: str = ""
    result: Result = "passed"
    facts: tuple[str, ...] = ()
    hint: str = ""


def check_plugin(
    plugin: str | Path | object,
    *,
    config: Config | None = None,
    report: Callable[[PluginCheck], None] | None = None,
) -> None:
    """Check a whole plugin: it loads, each of its offers fulfils its role, and two kernels can use it together.

    The kernels run one turn each, with a scripted model and their own home and workspace. Offers that need a real service (a
    model provider needs a server, for example) are reported as not tried, with advice on testing them.

    Args:
        plugin: The name of an installed plugin or of its distribution, the ``Path`` of a one-file plugin, or a plugin object: a
            module, a subclass of ``Plugin`` or another object with hook implementations.
        config: The configuration with the plugin's settings; by default an empty one.
        report: Called with each check as soon as it has ended.

    Raises:
        ContractViolation: A check failed; every violation is listed.
        PluginError: No such plugin is installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        whole = _config(home) if config is None else config.evolve(codex_home=home, cwd=home)
        extra = () if isinstance(plugin, str) else (plugin,)
        violations: list[str] = []
        for found in _check_reports(whole, plugin, extra):
            if report is not None:
                report(found)
            if found.result == "failed":
                subject = f"{found.check} {found.subject!r}" if found.subject else found.check
                violations += [f"{found.plugin}: {subject}: {fact}" for fact in found.facts]
    if violations:
        raise ContractViolation("plugin", str(plugin), violations)


def _check_reports(config: Config, plugin: object, extra: Sequence[object]) -> Iterator[PluginCheck]:
    registry = load_registry(config, extra_plugins=extra, tolerant=True)
    reports = _reports(registry, plugin)
    for report in reports:
        yield from _loading(report)
        yield from _hooks(registry, report)
        if report.status in (PluginStatus.FAILED, PluginStatus.DISABLED):
            continue
        yield from _offers(registry, report)
        yield _two_kernels(config, report, extra)


def _config(home: Path) -> Config:
    return load_config(cwd=home, environ=os.environ, codex_home=home)


def _reports(registry: Registry, plugin: object) -> Sequence[PluginReport]:
    """Return the reports of a plugin given by name, distribution or module, or by the file or object itself."""
    every = registry.reports_with_commands
    if isinstance(plugin, Path):
        path = os.path.normpath(Path.cwd() / plugin)
        return [report for report in every if report.file == path]
    if not isinstance(plugin, str):
        return [report for report in every if not report.distribution and not report.file]
    found = (
        [report for report in every if report.name == plugin]
        or [report for report in every if report.distribution and report.distribution == normalise_name(plugin)]
        or [report for report in every if report.module.partition(":")[0] == plugin]
    )
    if found:
        return found
    import difflib

    names = sorted({name for report in every for name in (report.name, report.distribution) if name})
    near = difflib.get_close_matches(plugin, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Installed are: {', '.join(names) or 'none'}."
    raise PluginError(
        plugin, f"no plugin and no package with plugins is called {plugin!r}", slug="no-plugin", hint=hint
    )


def _loading(report: PluginReport) -> Iterator[PluginCheck]:
    """Return the problems of loading, each as a separate check."""
    serious = [problem for problem in report.problems if report.status is not PluginStatus.LOADED]
    if report.status is PluginStatus.DISABLED:
        yield PluginCheck(
            plugin=report.name,
            check="load",
            result="not tried",
            facts=("the configuration disables the plugin",),
            hint=f"Remove {report.name!r} from `[framework] plugins.disabled`.",
        )
    for problem in serious:
        yield PluginCheck(plugin=report.name, check="load", result="failed", facts=(problem.text,), hint=problem.hint)
    if report.status is PluginStatus.LOADED:
        facts = tuple(problem.text for problem in report.problems)
        hint = report.problems[0].hint if report.problems else ""
        yield PluginCheck(plugin=report.name, check="load", facts=(f"{report.load_ms:.1f} ms", *facts), hint=hint)


def _hooks(registry: Registry, report: PluginReport) -> Iterator[PluginCheck]:
    """Return the hook implementations that are deprecated or have a wrong annotation, each as a separate check."""
    for plugin in registry.plugins:
        if plugin.name == report.name and plugin.usable:
            for hook in DEPRECATED.keys() & plugin.hooks.keys():
                facts = (f"deprecated: {DEPRECATED[hook]}",)
                yield PluginCheck(plugin=report.name, check="hook", subject=hook, facts=facts)
            for fact, hint in annotation_mistakes(plugin.object):
                yield PluginCheck(plugin=report.name, check="hook", result="failed", facts=(fact,), hint=hint)


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "codex_tools": check_tool,
    "codex_model_catalogues": check_model_catalogue,
    "codex_sandboxes": check_sandbox,
    "codex_network_proxies": check_network_proxy,
    "codex_notifiers": check_notifier,
    "codex_telemetry": check_telemetry,
    "codex_change_recorders": check_change_recorder,
    "codex_context_sources": check_context_source,
    "codex_command_policies": check_command_policy,
    "codex_constraints": check_constraint,
    "codex_approval_reviewers": check_reviewer,
    "codex_thread_stores": check_thread_store,
    "codex_interceptors": check_interceptor,
    "codex_compactors": check_compactor,
}
"""The checks that need nothing but the object, by hook."""

_NOT_TRIED: Mapping[str, tuple[str, str]] = {
    "codex_tools": ("valid arguments are only known to its author", "check_tool(tool, arguments)"),
    "codex_model_providers": (
        "the API of its server is only known to its author",
        "check_provider(provider, wire=...)",
    ),
    "codex_environments": ("it needs a folder", "check_environment(environment, folder) for each of them"),
    "codex_launchers": ("it starts processes", "check_launcher(launcher)"),
    "codex_ops": ("an op with valid fields is only known to its author", "check_op_handler(handler, op)"),
    "codex_agents": ("the replies that fit it are only known to its author", "check_agent(agent, replies=...)"),
    "codex_observers": ("there is no check of observers", "the fixture run_turn, and check what it has received"),
}
"""The offers that are not tried, why, and how to test them, by hook."""


def _offers(registry: Registry, report: PluginReport) -> Iterator[PluginCheck]:
    for hook in OFFERING:
        for name in report.contributes.get(hook.plural, ()):
            item: Any = registry.offers.of(hook)[name].item
            yield from _checks_of(hook, name, item.tool if hook is TOOLS else item, report)


def _checks_of(hook: Hook[Any], name: str, item: Any, report: PluginReport) -> Iterator[PluginCheck]:
    """Run the checks of one object."""
    failed = PluginCheck(plugin=report.name, check=hook.noun, subject=name, result="failed")
    if hook is COMMANDS:
        yield _command(report, name, item)
    elif hook is CATALOGUES:
        yield _run_guarded(report.name, hook.noun, name, functools.partial(_check_catalogue, report, item))
    elif hook.name in _CHECKS:
        yield _run_guarded(report.name, hook.noun, name, functools.partial(_CHECKS[hook.name], item))
    elif hook.role is not None and (mistakes := member_mistakes(item, hook.role)):
        yield failed.evolve(facts=tuple(mistakes), hint=_SEE)
    if hook.name in _NOT_TRIED:
        fact, how = _NOT_TRIED[hook.name]
        check = "call of a tool" if hook is TOOLS else hook.noun
        yield failed.evolve(check=check, result="not tried", facts=(fact,), hint=f"Try it in a test: {how}.")


def _check_catalogue(report: PluginReport, catalogue: ModelCatalogue) -> None:
    """Check a catalogue with the APIs of its plugin, whose models it probably knows."""
    apis = report.contributes.get("providers", ())
    for name in apis or ("check",):
        check_model_catalogue(catalogue, ProviderInfo(id=name, wire_api=name))


def _run_guarded(plugin: str, check: str, subject: str, run: Callable[[], None], hint: str = _SEE) -> PluginCheck:
    try:
        run()
    except ContractViolation as error:
        return PluginCheck(
            plugin=plugin, check=check, subject=subject, result="failed", facts=error.violations, hint=hint
        )
    except CodexError as error:
        return PluginCheck(
            plugin=plugin, check=check, subject=subject, result="failed", facts=(error.fact,), hint=error.hint
        )
    except Exception as error:  # a plugin may raise anything
        fact = f"{error_text(error)}{place_of(error)}"
        return PluginCheck(
            plugin=plugin, check=check, subject=subject, result="failed", facts=(fact,), hint="Fix the plugin."
        )
    return PluginCheck(plugin=plugin, check=check, subject=subject)


def _command(report: PluginReport, name: str, command: Any) -> PluginCheck:
    from click.testing import CliRunner

    from codex_framework.toolkit.lazy_command import LazyCommand

    def help_of() -> None:
        done = CliRunner().invoke(command, ["--help"])
        if done.exit_code != 0:
            raise ContractViolation(
                "command", name, [f"`{name} --help` ends with status {done.exit_code}: {done.output}"]
            )
        if isinstance(command, LazyCommand) and command.name != command.command.name:
            fact = f"the LazyCommand is called {command.name!r}, and the command that it stands for {command.command.name!r}"
            raise ContractViolation("command", name, [fact])

    return _run_guarded(report.name, "command", name, help_of)


def _two_kernels(config: Config, report: PluginReport, extra: Sequence[object]) -> PluginCheck:
    """Use the plugin in two kernels at the same time, run a turn in each, and close each twice."""

    def run() -> None:
        found = asyncio.run(asyncio.wait_for(_turns(config, report, extra), _TURN_S))
        if found:
            raise ContractViolation("plugin", report.name, list(dict.fromkeys(found)))

    try:
        return _run_guarded(report.name, "two kernels", "", run, hint=_TWO_KERNELS)
    except TimeoutError:
        fact = f"two kernels with a turn each did not end within {_TURN_S:g} s"
        hint = "Look for a start, a hook or a close that waits for something that never happens."
        return PluginCheck(plugin=report.name, check="two kernels", result="failed", facts=(fact,), hint=hint)


async def _turns(config: Config, report: PluginReport, extra: Sequence[object]) -> list[str]:
    models = [ScriptedModel([say("Done.")]) for _ in range(2)]
    framework = dict(config.get("framework", {}))
    if "compactors" in report.contributes:  # of several compactors, one must be chosen
        framework.setdefault("compactor", report.contributes["compactors"][0])
    kernels = await asyncio.gather(
        *(_kernel(config, framework, model, extra, place) for place, model in enumerate(models))
    )
    try:
        found = await asyncio.gather(*(_turn(kernel, report.name) for kernel in kernels))
    finally:
        await asyncio.gather(*(kernel.aclose() for kernel in kernels))
    for kernel in kernels:
        await kernel.aclose()
    return [fact for facts in found for fact in facts]


async def _kernel(
    config: Config, framework: Mapping[str, Any], model: ScriptedModel, extra: Sequence[object], place: int
) -> Kernel:
    home = config.codex_home / f"kernel-{place}"
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    settings = {"model_provider": model.name, "approval_policy": "never", "sandbox_mode": "danger-full-access"}
    # Only the plugins' settings are used, and nothing else that the user has configured, such as notify programs or servers.
    tables = {**settings, "framework": framework}
    environ = {**os.environ, "CODEX_HOME": str(home)}
    own = Config(tables=tables, codex_home=home, cwd=work, layers=config.layers)
    return await Kernel.create(own, environ=environ, plugins=[Offer(providers=[model]), *extra])


async def _turn(kernel: Kernel, name: str) -> Iterable[str]:
    """Return the problems of a plugin in a turn: warnings that name it, a component that did not start, a failed turn."""
    report = next(report for report in kernel.registry.reports if report.name == name)
    found = [] if report.status is not PluginStatus.FAILED else [_sentence(problem) for problem in report.problems]
    thread = await kernel.start_thread()
    result = await thread.run("Hello!")
    found += [
        event.message for event in result.events if isinstance(event, WarningEvent) and f"{name!r}" in event.message
    ]
    if result.error:
        found.append(f"the turn failed: {result.error}")
    return found


def _sentence(problem: PluginProblem) -> str:
    return f"{problem.text}. {problem.hint}".strip()
