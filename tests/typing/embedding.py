"""Never run, only type-checked: the settings of a thread are known to editors and type checkers."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import codex_framework
from codex_framework import Agent, ApprovalPolicy, Kernel, SettingsOverrides


async def settings_are_typed(kernel: Kernel, agent: Agent[str]) -> None:
    await kernel.start_thread(model="o3", cwd="/tmp", approval_policy="never", ephemeral=True)
    await kernel.start_thread(approval_policy=ApprovalPolicy.NEVER, config={"model_verbosity": "low"})
    await kernel.start_thread(modle="o3")  # type: ignore[call-arg]
    await kernel.start_thread(model=5)  # type: ignore[arg-type]
    await kernel.start_thread(approval_policy="sometimes")  # type: ignore[arg-type]
    await kernel.resume_thread("1", modle="o3")  # type: ignore[call-arg]
    await kernel.run(agent, "Hi!", model="o3", source="tests", base_instructions="Be kind.")
    await kernel.run(agent, "Hi!", modle="o3")  # type: ignore[call-arg]
    kernel.settings(cwd=5)  # type: ignore[arg-type]


def run_is_typed() -> str:
    codex_framework.run("Hi!", modle="o3")  # type: ignore[call-arg]
    return codex_framework.run("Hi!", model="o3", agent=None)


def options_can_be_passed_on(**settings: object) -> SettingsOverrides:
    return {"model": "o3", "ephemeral": True}
