"""Clients that leave, come back, or stop reading; threads that are unloaded; servers that stop."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest
from web_client import ON_REQUEST, deploy, follow, serving, types

from codex_contrib_web import AgentApp
from codex_framework.testing import call, say

SLOW = say("one two three", deltas=3, delta_delay_s=30)
LONG = "x" * 300_000


async def unloaded(client: Any) -> None:
    """Wait until no thread is loaded."""
    while client.kernel.threads:
        await asyncio.sleep(0.005)


def test_an_idle_thread_is_unloaded_and_comes_back_when_somebody_asks(site: Any) -> None:
    async def main() -> None:
        async with site.client([SLOW, say("Again.")], idle_s=0.02) as client:
            path = await client.start("Count.")
            async with client.events(path) as stream:
                await stream.until("user_message")
                await client.post(f"{path}/cancel")
                await stream.until("turn_aborted")
            await unloaded(client)
            assert len((await client.get("/threads"))[1]["threads"]) == 1
            assert not client.kernel.threads
            assert (
                types(await follow(client, path, "session_configured", cursor=stream.cursor))[-1]
                == "session_configured"
            )
            await unloaded(client)

    asyncio.run(main())


def test_a_thread_that_somebody_follows_stays_loaded(site: Any) -> None:
    async def main() -> None:
        async with site.client([SLOW], idle_s=0.02) as client:
            path = await client.start("Count.")
            async with client.events(path) as stream:
                await stream.until("user_message")
                await client.post(f"{path}/cancel")
                await stream.until("turn_aborted")
                for _ in range(3):
                    await client.start()
                    while len(client.kernel.threads) > 1:
                        await asyncio.sleep(0.005)
                    assert [f"/threads/{each}" for each in client.kernel.threads] == [path]
            await unloaded(client)

    asyncio.run(main())


def test_a_client_that_has_seen_everything_goes_on_with_the_resumed_thread(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello."), say("Again.")], most_threads=1) as client:
            path = await client.start("Hi!")
            await follow(client, path, "task_complete")
            cursor = (await client.get(path))[1]["cursor"]
            await client.start()  # in place of the first one
            async with client.events(path, cursor) as stream:
                assert types(await stream.until("session_configured")) == ["session_configured"]
                await client.post(f"{path}/turns", {"input": "More!"})
                assert "lost" not in types(await stream.until("task_complete"))

    asyncio.run(main())


def test_a_client_that_has_missed_events_is_told_so(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")], most_threads=1) as client:
            path = await client.start("Hi!")
            async with client.events(path) as stream:
                await stream.until("task_started")
            await follow(client, path, "task_complete")
            await client.start()  # in place of the first one
            for cursor in (stream.cursor, "nonsense", "00000000-1"):
                lost, head = await follow(client, path, "session_configured", cursor=cursor)
                assert lost["error"]["slug"] == "events-lost"
                assert "history" in lost["error"]["hint"]
                assert head["msg"]["type"] == "session_configured"

    asyncio.run(main())


def test_many_requests_at_once_resume_a_thread_once(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")], most_threads=1) as client:
            path = await client.start("Hi!")
            await follow(client, path, "task_complete")
            for _ in range(3):
                await client.start()  # in place of the other one
                answers = await asyncio.gather(*(client.get(path) for _ in range(10)))
                assert {status for status, _ in answers} == {200}

    asyncio.run(main())


def test_a_thread_without_a_turn_is_gone_once_it_is_unloaded(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")], most_threads=1) as client:
            path = await client.start()
            await client.start()
            assert (await client.get(path))[0] == 404

    asyncio.run(main())


def test_the_number_of_loaded_threads_is_bounded(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello."), say("Hello."), SLOW], most_threads=2) as client:
            first = await client.start("Hi!")
            await follow(client, first, "task_complete")
            second = await client.start("Hi!")
            await follow(client, second, "task_complete")
            third = await client.start("Count.")  # in place of the one that has been quiet for longest
            await client.post(f"{second}/turns", {"input": "Count."})
            assert {f"/threads/{each}" for each in client.kernel.threads} == {second, third}
            for status, told in (await client.post("/threads"), await client.get(first)):
                assert (status, told["error"]["slug"]) == (503, "overloaded")
            await client.post(f"{third}/cancel")
            assert (await client.get(first))[0] == 200

    asyncio.run(main())


def test_a_thread_of_another_process_cannot_be_resumed(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as here:
            path = await here.start("Hi!")
            await follow(here, path, "task_complete")
            async with site.client([say("Hello.")]) as there:
                for where in ("", "/events"):
                    status, told = await there.get(path + where)
                    assert (status, told["error"]["slug"]) == (409, "session-in-use")
                assert (await there.get(f"{path}/history"))[0] == 200
            assert (await here.post(f"{path}/turns", {"input": "More!"}))[0] == 202

    asyncio.run(main())


def test_the_server_stops_in_the_middle_of_a_turn(site: Any) -> None:
    async def main() -> None:
        app = AgentApp(kernel=site.kernel([SLOW]))
        async with httpx.AsyncClient(timeout=60) as http:
            async with serving(app) as url:
                started = (await http.post(f"{url}/threads", json={"input": "Count."})).json()
                path = f"/threads/{started['id']}"
                response = await http.send(http.build_request("GET", f"{url}{path}/events"), stream=True)
                lines = response.aiter_lines()
                async for line in lines:
                    if '"user_message"' in line:
                        break
            rest = [json.loads(line[6:]) async for line in lines if line.startswith("data: ")]
            await response.aclose()
            assert types(rest)[-2:] == ["turn_aborted", "shutdown_complete"]
            assert rest[-2]["msg"]["reason"] == "interrupted"
        async with site.client([say("Hello.")]) as client:
            _, told = await client.get(f"{path}/history")
            assert told["events"][-1]["type"] == "turn_aborted"
            assert told["events"][-1]["reason"] == "interrupted"
            await client.post(f"{path}/turns", {"input": "Go on."})
            await follow(client, path, "task_complete")

    asyncio.run(main())


def test_the_server_stops_while_a_request_is_open(site: Any) -> None:
    async def main() -> None:
        async with site.client([call("deploy"), say("Done.")], [deploy], ON_REQUEST) as client:
            path = await client.start("Deploy!")
            await follow(client, path, "tool_approval_request")
        async with site.client([say("Hello.")]) as client:
            assert (await client.get(path))[1]["requests"] == []
            status, told = await client.post(f"{path}/requests/call-1", {"decision": "approved"})
            assert (status, told["error"]["slug"]) == (404, "request-not-found")

    asyncio.run(main())


def test_a_large_event_reaches_a_client_that_listens(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("é" * 400_000)]) as client:
            path = await client.start()
            async with client.events(path) as stream:
                await client.post(f"{path}/turns", {"input": "Hi!"})
                seen = await stream.until("task_complete")
            assert "lost" not in types(seen)
            assert seen[-1]["msg"]["last_agent_message"] == "é" * 400_000

    asyncio.run(main())


def test_a_client_that_does_not_read_delays_nobody_and_is_told_what_it_has_missed(site: Any) -> None:
    async def main() -> None:
        async with site.client([say(LONG)]) as client:
            path = await client.start()
            with socket.socket() as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                slow.connect((client.http.base_url.host, client.http.base_url.port))
                slow.sendall(f"GET {path}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
                async with client.events(path) as stream:
                    for _ in range(12):
                        await client.post(f"{path}/turns", {"input": "Hi!"})
                        assert "lost" not in types(await stream.until("task_complete"))
                slow.settimeout(0)
                got = b""
                while b"event: lost" not in got:
                    got = got[-20:] + await asyncio.get_running_loop().sock_recv(slow, 1 << 20)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_client_that_is_gone_holds_nothing(site: Any) -> None:
    async def main() -> None:
        async with site.client([SLOW], idle_s=0.02) as client:
            path = await client.start("Count.")
            readers = []
            for _ in range(5):
                reader = socket.create_connection((client.http.base_url.host, client.http.base_url.port))
                reader.sendall(f"GET {path}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
                readers.append(reader)
            await follow(client, path, "user_message")
            for reader in readers:
                reader.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
                )  # a reset, as of a dead client
                reader.close()
            await client.post(f"{path}/cancel")
            await unloaded(client)

    asyncio.run(main())


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "DELETE", "PUT"])
def test_other_methods_do_not_open_a_stream(site: Any, method: str) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            path = await client.start()
            response = await client.http.request(method, f"{path}/events")
            assert response.status_code == (200 if method == "HEAD" else 405)
            if method != "HEAD":
                assert response.json()["error"]["slug"] == "method-not-allowed"

    asyncio.run(main())
