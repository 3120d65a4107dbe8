"""What ``codex-framework sandbox doctor`` and ``prove`` find out, by running commands in the loaded sandboxes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codex_framework.access import file_access
from codex_framework.confinement import choose
from codex_framework.errors import CodexError, SandboxError
from codex_framework.permissions import permissions_of
from codex_framework.process.running import start_command
from codex_framework.protocol.policies import WorkspaceWrite
from codex_framework.roles.sandboxes import Examines, NetworkMode, Sandbox, SandboxLayer, SandboxReport
from codex_framework.roles.tools import CommandResult

if TYPE_CHECKING:
    from codex_framework.cli.attacks import Attack
    from codex_framework.testing.conformance.attempts import Scene

__all__ = ["examined", "lines_of", "proved"]

_WITHIN_MS = 20_000
_WORD_WIDTH = 20
_POLICY = WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)


async def examined(sandboxes: Mapping[str, Sandbox], wanted: str | None) -> list[dict[str, Any]]:
    """What each sandbox says of itself, after a command was run in it: what a system grants shows only then."""
    found = [await _examined(name, sandbox) for name, sandbox in sandboxes.items()]
    chosen = next((one for one in found if one["works"] and wanted in (None, one["name"])), None)
    return [{**one, "chosen": one is chosen} for one in found]


async def _examined(name: str, sandbox: Sandbox) -> dict[str, Any]:
    fault, first_ms = "", None
    if sandbox.probe().available:
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder:
                ended = await _ended(sandbox, Path(folder).resolve(), ("/bin/sh", "-c", ":"))
            fault = "" if ended.exit_code == 0 else f"a trial command ended with {ended.exit_code}: {ended.output}"
        except CodexError as error:
            fault = str(error)
        first_ms = round((time.monotonic() - began) * 1000, 1)
    report = sandbox.probe()
    return {
        "name": name,
        "works": report.available and not fault,
        "level": report.level,
        "fault": fault or (report.reason if not report.available else ""),
        "first_command_ms": first_ms,
        "missing": report.reason,
        "cure": report.cure,
        "protections": dict(report.protections),
        "partly": dict(report.partly),
        "layers": [
            {"name": layer.name, "works": not layer.fault, "fault": layer.fault, "cure": layer.cure}
            for layer in await _layers(sandbox)
        ],
    }


async def _layers(sandbox: Sandbox) -> tuple[SandboxLayer, ...]:
    """The means of a sandbox, each tried by itself: also those of one that is not available, for they say why."""
    if not isinstance(sandbox, Examines):
        return ()
    try:
        return await sandbox.examine()
    except CodexError:  # the fault of the trial command says it already
        return ()


async def _ended(sandbox: Sandbox, folder: Path, argv: tuple[str, ...], attack: Attack | None = None) -> CommandResult:
    """Run a command to its end. Raises as :func:`start_command`."""
    usual = file_access(permissions_of(_POLICY), folder, os.environ)
    confinement = sandbox.confine(usual if attack is None else attack.access(usual), folder)
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)}
    gate = None
    if attack is not None and attack.network is NetworkMode.PROXY:
        from codex_framework.cli.attacks import NoWayOut

        gate = NoWayOut()
    try:
        running = await start_command(
            confinement, argv=argv, cwd=str(folder), env=env, timeout_ms=_WITHIN_MS, drain_ms=200, gate=gate
        )
        return await running.wait()
    finally:
        if gate is not None:
            await gate.aclose()


def lines_of(found: list[dict[str, Any]]) -> Iterator[str]:
    """The findings for people."""
    if not found:
        yield "No sandbox plugin is loaded: commands that have to be confined are refused."
        yield "-> enable one (`codex-framework plugins` lists them)"
    for one in found:
        state = click.style("works", fg="green") if one["works"] else click.style("does not work", fg="red")
        yield (
            f"{one['name']}: {state}"
            + (f", {one['level']}" if one["level"] else "")
            + (" (used for commands)" if one["chosen"] else "")
        )
        for danger, means in one["protections"].items():
            partly = click.style(f"in part: {one['partly'].get(danger)}", fg="yellow")
            nothing = partly if danger in one["partly"] else click.style("not prevented", fg="yellow")
            yield f"  {danger:<{_WORD_WIDTH}} {means or nothing}"
        yield from _lines_of_layers(one["layers"])
        for text in dict.fromkeys(filter(None, (one["fault"], one["missing"]))):
            yield f"  {text}"
        cures = (one["cure"], *(layer["cure"] for layer in one["layers"]))
        for cure in dict.fromkeys(filter(None, cures)):
            yield f"  -> {cure}"


def _lines_of_layers(layers: list[dict[str, Any]]) -> Iterator[str]:
    if layers:
        yield "  by these means, each tried by itself:"
    for layer in layers:
        state = "works" if layer["works"] else click.style(layer["fault"], fg="yellow")
        yield f"    {layer['name']:<{_WORD_WIDTH}} {state}"


async def proved(sandboxes: Mapping[str, Sandbox], wanted: str | None) -> dict[str, Any]:
    """Run every attack in the sandbox that commands get.

    Raises:
        SandboxError: There is none that works.
    """
    from codex_framework.cli.attacks import attacks
    from codex_framework.testing.conformance.attempts import made_scene

    with made_scene() as scene:
        sandbox = choose(sandboxes, wanted, file_access(permissions_of(_POLICY), scene.work, os.environ))
        await _ended(sandbox, scene.work, ("/bin/sh", "-c", ":"))  # from now on it knows what the system grants
        report = sandbox.probe()
        with attacks(scene) as tried:
            results = [
                {"attack": attack.attempt.what, "result": await _result(sandbox, report, scene, attack)}
                for attack in tried
            ]
    stopped = sum(one["result"] in ("stopped", "refused") for one in results)
    return {"sandbox": sandbox.name, "level": report.level, "stopped": stopped, "attacks": results}


async def _result(sandbox: Sandbox, report: SandboxReport, scene: Scene, attack: Attack) -> str:
    """``stopped``, ``escaped``, ``not claimed``, or ``refused``: the sandbox cannot confine as it would have to, and runs nothing."""
    attack.prepare()
    try:
        ended = await _ended(sandbox, scene.work, attack.attempt.argv, attack)
    except SandboxError:
        return "refused"
    if not attack.attempt.succeeded(ended.stdout):
        return "stopped"
    scene.restore()
    return "escaped" if attack.claimed(report) else "not claimed"
