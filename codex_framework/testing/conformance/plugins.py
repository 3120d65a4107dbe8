"""The check of whole plugins: a plugin loads, its offers fulfil their roles, and two kernels can use it at once."""

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
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.roles.models import ModelCatalogue, ProviderInfo
from codex_framework.contract.value import Value
from codex_framework.kernel import Kernel
from codex_framework.loader.discovery import normalised
from codex_framework.loader.registry import Registry, load_registry
from codex_framework.loader.report import PluginProblem, PluginReport, PluginStatus
from codex_framework.testing.conformance.constraints import check_constraint
from codex_framework.testing.conformance.context_sources import check_context_source
from codex_framework.testing.conformance.findings import ContractViolation
from codex_framework.testing.conformance.model_catalogues import check_model_catalogue
from codex_framework.testing.conformance.network_proxies import check_network_proxy
from codex_framework.testing.conformance.policies import check_command_policy
from codex_framework.testing.conformance.reviewers import check_reviewer
from codex_framework.testing.conformance.sandboxes import check_sandbox
from codex_framework.testing.conformance.thread_stores import check_thread_store
from codex_framework.testing.conformance.tools import check_tool
from codex_framework.testing.conformance.watchers import check_notifier, check_telemetry
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.offering import Offer
from codex_framework.testing.replies import say
from codex_framework.threads.faults import described, place_of

__all__ = ["PluginCheck", "check_plugin"]

Result: TypeAlias = Literal["passed", "failed", "not tried"]

_TURN_S = 60.0
"""How long the kernels of the last check may take, in seconds."""


class PluginCheck(Value, kw_only=True):
    """One check of a plugin.

    Attributes:
        plugin: The plugin's name.
        check: What was checked, such as ``tool`` or ``two kernels``.
        subject: The name of the object that was checked; empty for the plugin itself.
        result: ``passed``, ``failed`` or ``not tried``.
        facts: The problems, or why it was not tried.
        hint: What to do about it.
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
    """Check a whole plugin: that it loads, that each of its offers fulfils its role, and that two kernels can use it at once.

    The kernels run one turn each, with a scripted model, a home and a workspace of their own. Offers that need a real service (a
    model
    provider needs a server, for example) are reported as not tried, with advice on testing them.

    Args:
        plugin: The name of an installed plugin or of its distribution, the ``Path`` of a one-file plugin, or a plugin itself: a
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
        for found in _checked(whole, plugin, extra):
            if report is not None:
                report(found)
            if found.result == "failed":
                subject = f"{found.check} {found.subject!r}" if found.subject else found.check
                violations += [f"{found.plugin}: {subject}: {fact}" for fact in found.facts]
    if violations:
        raise ContractViolation("plugin", str(plugin), violations)


def _checked(config: Config, plugin: object, extra: Sequence[object]) -> Iterator[PluginCheck]:
    registry = load_registry(config, extra_plugins=extra, tolerant=True)
    reports = _reports(registry, plugin)
    for report in reports:
        yield from _loading(report)
        if report.status in (PluginStatus.FAILED, PluginStatus.DISABLED):
            continue
        yield from _offers(registry, report)
        yield _two_kernels(config, report, extra)


def _config(home: Path) -> Config:
    return load_config(cwd=home, environ=os.environ, codex_home=home)


def _reports(registry: Registry, plugin: object) -> Sequence[PluginReport]:
    """Return the reports of a plugin given by name, distribution or module, or by the file or object itself."""
    every = registry.command_table.reports
    if isinstance(plugin, Path):
        path = os.path.normpath(Path.cwd() / plugin)
        return [report for report in every if report.file == path]
    if not isinstance(plugin, str):
        return [report for report in every if not report.distribution and not report.file]
    found = (
        [report for report in every if report.name == plugin]
        or [report for report in every if report.distribution and report.distribution == normalised(plugin)]
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


_CHECKS: Mapping[str, tuple[str, Callable[[Any], None] | None, str]] = {
    "tools": ("tool", check_tool, ""),
    "providers": ("provider", None, "check_provider(provider, wire=...) with the API of its server"),
    "catalogues": ("model catalogue", check_model_catalogue, ""),
    "sandboxes": ("sandbox", check_sandbox, ""),
    "network_proxies": ("network proxy", check_network_proxy, ""),
    "notifiers": ("notifier", check_notifier, ""),
    "telemetry": ("telemetry", check_telemetry, ""),
    "context_sources": ("context source", check_context_source, ""),
    "command_policies": ("command policy", check_command_policy, ""),
    "constraints": ("constraint", check_constraint, ""),
    "environment_sources": ("environments", None, "check_environment(environment, folder) for each of them"),
    "reviewers": ("reviewer", check_reviewer, ""),
    "thread_stores": ("thread store", check_thread_store, ""),
    "interceptors": ("interceptor", None, "the fixture run_turn, with replies that make calls"),
    "observers": ("observer", None, "the fixture run_turn, and check what it has received"),
    "ops": ("op", None, "the fixture make_kernel, and submit the op to a thread"),
    "compactors": ("compactor", None, "the fixture make_kernel, and submit the op Compact to a thread"),
    "agents": ("agent", None, "the fixture make_kernel, and run the agent with a scripted model"),
}
"""By role: the noun, the check, and, if an object cannot be checked in isolation, how to test it."""


def _offers(registry: Registry, report: PluginReport) -> Iterator[PluginCheck]:
    for role, names in report.contributes.items():
        if role == "commands":
            for name in names:
                yield _command(registry, report, name)
        if role not in _CHECKS:
            continue
        noun, check, how = _CHECKS[role]
        if role == "catalogues":
            check = functools.partial(_check_catalogue, report)
        for name in names:
            if check is None:
                fact = "it cannot be checked in isolation; only its members were checked"
                yield PluginCheck(
                    plugin=report.name,
                    check=noun,
                    subject=name,
                    result="not tried",
                    facts=(fact,),
                    hint=f"Try it in a test: {how}.",
                )
                continue
            yield _guarded(report.name, noun, name, functools.partial(_check_item, check, registry, role, name))
            if role == "tools":
                yield PluginCheck(
                    plugin=report.name,
                    check="call of a tool",
                    subject=name,
                    result="not tried",
                    facts=("valid arguments are only known to its author",),
                    hint="Try it in a test: check_tool(tool, arguments).",
                )


def _check_catalogue(report: PluginReport, catalogue: ModelCatalogue) -> None:
    """Check a catalogue with the APIs of its plugin, whose models it probably knows."""
    apis = report.contributes.get("providers", ())
    for name in apis or ("check",):
        check_model_catalogue(catalogue, ProviderInfo(id=name, wire_api=name))


def _check_item(check: Callable[[Any], None], registry: Registry, role: str, name: str) -> None:
    if role == "tools":
        check(registry.tools[name].tool)
        return
    offers = getattr(registry, role)
    for offer in offers.values() if isinstance(offers, Mapping) else offers:
        item: Any = getattr(offer, "item", offer)
        if item.name == name:
            check(item)


def _guarded(plugin: str, check: str, subject: str, run: Callable[[], None]) -> PluginCheck:
    try:
        run()
    except ContractViolation as error:
        hint = f"See the role in docs/reference/hooks.md, and check_{check.replace(' ', '_')} in docs/how-to/test-a-plugin.md."
        return PluginCheck(
            plugin=plugin, check=check, subject=subject, result="failed", facts=error.violations, hint=hint
        )
    except CodexError as error:
        return PluginCheck(
            plugin=plugin, check=check, subject=subject, result="failed", facts=(error.fact,), hint=error.hint
        )
    except Exception as error:  # a plugin may raise anything
        fact = f"{described(error)}{place_of(error)}"
        return PluginCheck(
            plugin=plugin, check=check, subject=subject, result="failed", facts=(fact,), hint="Fix the plugin."
        )
    return PluginCheck(plugin=plugin, check=check, subject=subject)


def _command(registry: Registry, report: PluginReport, name: str) -> PluginCheck:
    from click.testing import CliRunner

    from codex_framework.toolkit.lazy_command import LazyCommand

    def help_of() -> None:
        command = registry.command_table.commands[name].item
        done = CliRunner().invoke(command, ["--help"])
        if done.exit_code != 0:
            raise ContractViolation(
                "command", name, [f"`{name} --help` ends with status {done.exit_code}: {done.output}"]
            )
        if isinstance(command, LazyCommand) and command.name != command.command.name:
            fact = f"the LazyCommand is called {command.name!r}, and the command that it stands for {command.command.name!r}"
            raise ContractViolation("command", name, [fact])

    return _guarded(report.name, "command", name, help_of)


def _two_kernels(config: Config, report: PluginReport, extra: Sequence[object]) -> PluginCheck:
    """Use the plugin in two kernels at once, run a turn in each, and close each twice."""

    def run() -> None:
        found = asyncio.run(asyncio.wait_for(_turns(config, report.name, extra), _TURN_S))
        if found:
            raise ContractViolation("plugin", report.name, list(dict.fromkeys(found)))

    try:
        return _guarded(report.name, "two kernels", "", run)
    except TimeoutError:
        fact = f"two kernels with a turn each did not end within {_TURN_S:g} s"
        hint = "Look for a start, a hook or a close that waits for something that never happens."
        return PluginCheck(plugin=report.name, check="two kernels", result="failed", facts=(fact,), hint=hint)


async def _turns(config: Config, name: str, extra: Sequence[object]) -> list[str]:
    models = [ScriptedModel([say("Done.")]) for _ in range(2)]
    kernels = await asyncio.gather(*(_kernel(config, model, extra, place) for place, model in enumerate(models)))
    try:
        found = await asyncio.gather(*(_turn(kernel, name) for kernel in kernels))
    finally:
        await asyncio.gather(*(kernel.aclose() for kernel in kernels))
    for kernel in kernels:
        await kernel.aclose()
    return [fact for facts in found for fact in facts]


async def _kernel(config: Config, model: ScriptedModel, extra: Sequence[object], place: int) -> Kernel:
    home = config.codex_home / f"kernel-{place}"
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    settings = {"model_provider": model.name, "approval_policy": "never", "sandbox_mode": "danger-full-access"}
    # Only the plugins' settings are used, and nothing else that the user has configured, such as notify programs or servers.
    tables = {**settings, "framework": config.get("framework", {})}
    environ = {**os.environ, "CODEX_HOME": str(home)}
    own = Config(tables=tables, codex_home=home, cwd=work, layers=config.layers)
    return await Kernel.create(own, environ=environ, plugins=[Offer(providers=[model]), *extra])


async def _turn(kernel: Kernel, name: str) -> Iterable[str]:
    """Return the problems of a plugin in a turn: warnings that name it, a component that did not start, a failed turn."""
    report = next(report for report in kernel.registry.reports if report.name == name)
    found = [] if report.status is not PluginStatus.FAILED else [_told(problem) for problem in report.problems]
    thread = await kernel.start_thread()
    result = await thread.run("Hello!")
    found += [
        event.message for event in result.events if isinstance(event, WarningEvent) and f"{name!r}" in event.message
    ]
    if result.error:
        found.append(f"the turn failed: {result.error}")
    return found


def _told(problem: PluginProblem) -> str:
    return f"{problem.text}. {problem.hint}".strip()
