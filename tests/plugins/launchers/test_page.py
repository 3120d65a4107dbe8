"""The launcher of the page on launchers runs jobs, and finds them again."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from codex_framework.contract.roles.launchers import Job, LaunchError
from codex_framework.testing import say

_PAGE = Path(__file__).parents[3] / "docs" / "extend" / "write-a-launcher.md"


@pytest.mark.slow
def test_the_launcher_of_the_page_runs_a_job_once(place, tmp_path, monkeypatch):
    (program,) = re.findall(r"^```python as one_process.py\n(.*?)^```$", _PAGE.read_text(), re.M | re.S)
    (tmp_path / "one_process.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    here = place(say("done"))
    (launcher,) = __import__("one_process").codex_launchers()
    monkeypatch.delitem(sys.modules, "one_process")

    async def run():
        opened = await launcher.open(here.workplace)
        first = await (await opened.start(Job(key="k", prompt="go"))).result()
        await opened.aclose()
        opened = await launcher.open(here.workplace)
        again = await (await opened.resume("k")).result()
        with pytest.raises(LaunchError, match="no job"):
            await opened.resume("unknown")
        await opened.aclose()
        return first.message, again.message

    assert asyncio.run(run()) == ("done", "done")
    assert len(here.server.requests) == 1
