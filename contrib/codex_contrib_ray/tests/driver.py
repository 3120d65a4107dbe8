"""A program that starts sessions on a cluster, and prints a line when they are started and one for each result.

python driver.py ADDRESS NAMESPACE WORKPLACE KEY ...
"""

from __future__ import annotations

import asyncio
import sys

from codex_contrib_ray.launcher import RayLauncher
from codex_contrib_ray.settings import RaySettings
from codex_framework.contract.roles.launchers import Job, Workplace
from codex_lib_launch.encoding import decode


async def main(address: str, namespace: str, workplace: str, *keys: str) -> None:
    """Run the sessions."""
    settings = RaySettings(address=address, namespace=namespace, sessions_per_actor=4, idle_s=20.0)
    cluster = await RayLauncher(settings).open(decode(Workplace, workplace))
    jobs = [await cluster.start(Job(key=key, prompt="act")) for key in keys]
    print("started", flush=True)
    for job in jobs:
        print((await job.result()).status.value, flush=True)
    await cluster.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
