"""What a session has cost, in the result of its job."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework import Agent, Limits, ModelCatalogue, ModelInfo
from codex_framework.contract.roles.launchers import Job
from codex_framework.contract.roles.models import ModelPrices
from codex_framework.testing import Offer, call, say
from codex_plugin_launchers.in_process import InProcess


class Prices(ModelCatalogue):
    name = "prices"

    def model(self, slug: str, provider: Any) -> ModelInfo:
        return ModelInfo(slug=slug, prices=ModelPrices(input=1e6, output=0, cached_input=1e6, currency="EUR"))


def test_a_result_has_the_cost_of_the_session_and_a_limit_of_cost_ends_it(make_kernel: Any) -> None:
    async def run() -> None:
        replies = [call("update_plan", plan=[]), say("done"), *[call("update_plan", plan=[])] * 9]
        agent = Agent(name="limited", limits=Limits(cost=250.0))
        async with make_kernel(replies, plugins=[Offer(catalogues=[Prices()], agents=[agent])]) as kernel:
            launcher = InProcess(kernel)
            first = await (await launcher.start(Job(key="a", prompt="Go."))).result()
            assert (first.message, dict(first.cost)) == ("done", {"EUR": 200.0})
            assert dict((await (await InProcess(kernel).start(Job(key="a", prompt="Go."))).result()).cost) == {
                "EUR": 200.0
            }
            second = await (await launcher.start(Job(key="b", prompt="Go.", agent="limited"))).result()
            assert (second.status, dict(second.cost)) == ("limited", {"EUR": 300.0})

    asyncio.run(run())
