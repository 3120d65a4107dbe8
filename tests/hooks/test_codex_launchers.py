"""Hook ``codex_launchers``: where sessions run."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework.contract.roles.launchers import Job, LaunchError, Workplace


def test_codex_launchers_example_is_offered_and_refuses_jobs(example, registry_of):
    launcher = registry_of(example("codex_launchers")).launchers["nowhere"]

    async def start():
        opened = await launcher.open(Workplace(cwd="/"))
        await opened.start(Job(key="k", prompt="hello"))

    with pytest.raises(LaunchError, match="no worker for k") as caught:
        asyncio.run(start())
    assert caught.value.slug == "queue-full"


def test_codex_launchers_are_not_asked_for_when_a_kernel_is_created(make_kernel):
    from codex_framework import hookimpl

    class Broken:
        @hookimpl
        def codex_launchers(self):
            raise AssertionError("called")

    async def warnings():
        async with make_kernel([], plugins=[Broken()]) as kernel:
            return kernel.registry.warnings

    assert not asyncio.run(warnings())
