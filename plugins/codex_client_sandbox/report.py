"""The reports of ``codex-framework sandbox doctor`` and ``prove``, made by running commands in the loaded sandboxes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codex_framework.commands.access import file_access
from codex_framework.commands.confinement import choose, probe_sandbox
from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import CodexError, SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.contract.roles.commands import CommandResult
from codex_framework.contract.roles.sandboxes import Sandbox, SandboxLayer, SandboxReport

if TYPE_CHECKING:
    from codex_framework.testing.conformance.attempts import Attack, Scene

__all__ = ["examine_sandboxes", "report_lines", "run_attacks"]

_WITHIN_MS = 20_000
_WORD_WIDTH = 20
_POLICY = WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)


async def examine_sandboxes(sandboxes: Mapping[str, Sandbox], wanted: str | None) -> list[dict[str, Any]]:
    """Return a report on each sandbox, after running a command in it. Some limits of a system show only when a command runs."""
    reports = [await _report(name, sandbox) for name, sandbox in sandboxes.items()]
    chosen = next((report for report in reports if report["works"] and wanted in (None, report["name"])), None)
    return [{**report, "chosen": report is chosen} for report in reports]


async def _report(name: str, sandbox: Sandbox) -> dict[str, Any]:
    fault, first_ms = "", None
    if probe_sandbox(sandbox).available:
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder:
                work = Path(folder).resolve()
                access = file_access(permissions_of(_POLICY), work, os.environ)
                ended = await _run(sandbox, work, ("/bin/sh", "-c", ":"), access)
            fault = "" if ended.exit_code == 0 else f"a trial command ended with {ended.exit_code}: {ended.output}"
        except CodexError as error:
            fault = str(error)
        first_ms = round((time.monotonic() - began) * 1000, 1)
    report = probe_sandbox(sandbox)
    return {
        "name": name,
        "works": report.available and not fault,
        "level": report.level,
        "fault": fault or (report.reason if not report.available else ""),
        "first_command_ms": first_ms,
        "missing": report.reason,
        "hint": report.hint,
        "protections": dict(report.protections),
        "partly": dict(report.partly),
        "layers": [
            {"name": layer.name, "works": not layer.fault, "fault": layer.fault, "hint": layer.hint}
            for layer in await _layers(sandbox)
        ],
    }


async def _layers(sandbox: Sandbox) -> tuple[SandboxLayer, ...]:
    """Check the mechanisms of a sandbox separately. If the sandbox is unavailable, they show why."""
    try:
        return await sandbox.examine()
    except CodexError:  # the trial command already reported the fault
        return ()


async def _run(
    sandbox: Sandbox, folder: Path, argv: tuple[str, ...], access: FileAccess, attack: Attack | None = None
) -> CommandResult:
    """Run a command to its end. Raises the errors of :func:`start_command`."""
    confinement = sandbox.confine(access if attack is None else attack.access(access), folder)
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)}
    gate = None
    if attack is not None and attack.network is NetworkMode.PROXY:
        from codex_framework.testing.conformance.attacks import NoWayOut

        gate = NoWayOut()
    try:
        running = await start_command(
            confinement, argv=argv, cwd=str(folder), env=env, timeout_ms=_WITHIN_MS, drain_ms=200, gate=gate
        )
        return await running.wait()
    finally:
        if gate is not None:
            await gate.aclose()


def report_lines(reports: list[dict[str, Any]]) -> Iterator[str]:
    """Return the lines of the reports for the terminal."""
    if not reports:
        yield "No sandbox plugin is loaded: commands that must be confined are refused."
        yield "-> enable one; `codex-framework plugins` lists them"
    for report in reports:
        state = click.style("works", fg="green") if report["works"] else click.style("does not work", fg="red")
        yield (
            f"{report['name']}: {state}"
            + (f", {report['level']}" if report["level"] else "")
            + (" (used for commands)" if report["chosen"] else "")
        )
        for danger, means in report["protections"].items():
            partly = click.style(f"partly: {report['partly'].get(danger)}", fg="yellow")
            nothing = partly if danger in report["partly"] else click.style("not prevented", fg="yellow")
            yield f"  {danger:<{_WORD_WIDTH}} {means or nothing}"
        yield from _layer_lines(report["layers"])
        for text in dict.fromkeys(filter(None, (report["fault"], report["missing"]))):
            yield f"  {text}"
        hints = (report["hint"], *(layer["hint"] for layer in report["layers"]))
        for hint in dict.fromkeys(filter(None, hints)):
            yield f"  -> {hint}"


def _layer_lines(layers: list[dict[str, Any]]) -> Iterator[str]:
    if layers:
        yield "  mechanisms, each tried alone:"
    for layer in layers:
        state = "works" if layer["works"] else click.style(layer["fault"], fg="yellow")
        yield f"    {layer['name']:<{_WORD_WIDTH}} {state}"


async def run_attacks(sandboxes: Mapping[str, Sandbox], wanted: str | None) -> dict[str, Any]:
    """Run every attack in the sandbox that commands use.

    Raises:
        SandboxError: No sandbox works.
    """
    from codex_framework.testing.conformance.attacks import attacks
    from codex_framework.testing.conformance.attempts import create_scene

    with create_scene() as scene:
        access = scene.access()
        sandbox = choose(sandboxes, wanted, access)
        # From now on, the report includes the limits of the system.
        await _run(sandbox, scene.work, ("/bin/sh", "-c", ":"), access)
        report = probe_sandbox(sandbox)
        with attacks(scene) as tried:
            results = [
                {"attack": attack.attempt.what, "result": await _result(sandbox, report, scene, attack)}
                for attack in tried
            ]
    stopped = sum(result["result"] in ("stopped", "refused") for result in results)
    return {"sandbox": sandbox.name, "level": report.level, "stopped": stopped, "attacks": results}


async def _result(sandbox: Sandbox, report: SandboxReport, scene: Scene, attack: Attack) -> str:
    """Run one attack and return ``stopped``, ``escaped``, ``not claimed`` or ``refused``.

    ``refused`` means that the sandbox cannot enforce the policy of the attack and ran nothing.
    """
    attack.prepare()
    try:
        ended = await _run(sandbox, scene.work, attack.attempt.argv, scene.access(), attack)
        if attack.then is not None:
            ended = await _run(sandbox, scene.work, attack.then, scene.access(), attack)
    except SandboxError:
        return "refused"
    if not attack.attempt.succeeded(ended.stdout):
        return "stopped"
    scene.restore()
    return "escaped" if attack.is_claimed(report) else "not claimed"
