"""The examples of the README and of the page about HTTP do what the text says."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from web_client import ON_REQUEST, deploy, serving

from codex_framework.testing import call, say

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT.parents[1] / "docs" / "extend" / "put-an-agent-behind-http.md"


def modules(text: str) -> dict[str, str]:
    """Return the Python examples by the name of their file."""
    found: dict[str, str] = {}
    for name, body in re.findall(r"^```python ?(?:no-run )?(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        found[name or "readme.py"] = found.get(name or "readme.py", "") + body
    return found


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports an example by its name."""
    texts = modules((PROJECT / "README.md").read_text(encoding="utf-8"))
    if PAGE.exists():
        texts |= modules(PAGE.read_text(encoding="utf-8"))
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def load(name: str) -> Any:
        if f"{name}.py" not in texts:
            pytest.skip("the page is not there: only the distribution is")
        return importlib.import_module(name)

    before = {*sys.modules}
    yield load
    for name in {*sys.modules} - before:
        if name in {Path(each).stem for each in texts}:
            del sys.modules[name]


def lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def test_a_service_takes_ten_lines() -> None:
    (text,) = modules((PROJECT / "README.md").read_text(encoding="utf-8")).values()
    assert lines(text) <= 10


def test_the_example_of_the_readme_serves_its_users(site: Any, examples: Any) -> None:
    async def main() -> None:
        app = examples("readme").app
        app._kernel = site.kernel([say("Hello.")])  # noqa: SLF001  # its own would need a model
        async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
            assert (await http.get("/threads")).status_code == 401
            for name in ("ada", "bob"):
                sent = {"authorization": f"Bearer token-of-{name}"}
                assert (await http.post("/threads", headers=sent, json={"input": "Hi!"})).status_code == 201

    asyncio.run(main())


def test_the_client_of_the_page_asks_and_answers(site: Any, examples: Any) -> None:
    async def main() -> None:
        examples_client = examples("client")
        app = examples("service").app
        app._kernel = site.kernel([say("Hello."), call("deploy"), say("Done.")], [deploy], ON_REQUEST)  # noqa: SLF001
        async with serving(app) as url:
            assert await asyncio.to_thread(examples_client.ask, url, "Hi!") == "Hello."
            async with httpx.AsyncClient(base_url=url, timeout=60) as http:
                thread = (await http.post("/threads", json={"input": "Deploy!"})).json()
                while not (await http.get(f"/threads/{thread['id']}")).json()["requests"]:
                    await asyncio.sleep(0.005)

                def answer() -> int:
                    with httpx.Client(base_url=url, timeout=60) as client:
                        status: int = examples_client.answer(client, thread["id"], "approved")
                        return status

                assert await asyncio.to_thread(answer) == 200
                while (await http.get(f"/threads/{thread['id']}")).json()["status"] != "idle":
                    await asyncio.sleep(0.005)
                told = (await http.get(f"/threads/{thread['id']}/history")).json()["events"]
                assert told[-1]["last_agent_message"] == "Done."

    asyncio.run(main())


def test_the_users_of_the_page_work_in_folders_of_their_own(site: Any, examples: Any) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed")

    async def main() -> None:
        service = examples("fastapi_service")
        service.agents._kernel = site.kernel([say("Hello.")])  # noqa: SLF001
        async with serving(service.app) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
            http.headers["authorization"] = "Bearer token-of-ada"
            assert (await http.get("/me")).json() == "ada"
            thread = (await http.post("/agents/threads", json={"input": "Hi!"})).json()
            async with http.stream("GET", f"/agents/threads/{thread['id']}/events") as response:
                head = await anext(line async for line in response.aiter_lines() if line.startswith("data: "))
            assert f'"cwd":"{Path("work/ada").absolute()}"' in head

    asyncio.run(main())
