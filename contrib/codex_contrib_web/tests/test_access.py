"""Who may use the app, and whose threads they see."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from web_client import ON_REQUEST, deploy, follow, serving

from codex_contrib_web import AgentApp
from codex_contrib_web.access import find_owner
from codex_contrib_web.errors import WebError
from codex_framework.testing import call, say

USERS = {"token-of-ada": "ada", "token-of-bob": "bob"}


def user(request: Request) -> str | None:
    return USERS.get(request.headers.get("authorization", "").removeprefix("Bearer "))


def headers(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer token-of-{name}"}


def test_a_user_sees_no_thread_of_another_one(site: Any) -> None:
    async def main() -> None:
        replies = [call("deploy"), say("Done.")]
        async with site.client(replies, [deploy], ON_REQUEST, authenticate=user) as client:
            client.http.headers.update(headers("ada"))
            path = await client.start("Deploy!")
            asked = (await follow(client, path, "tool_approval_request"))[-1]["request_id"]
            client.http.headers.update(headers("bob"))
            tries = [
                ("GET", path, None),
                ("GET", f"{path}/events", None),
                ("GET", f"{path}/history", None),
                ("POST", f"{path}/turns", {"input": "Hi!"}),
                ("POST", f"{path}/steer", {"input": "Hi!"}),
                ("POST", f"{path}/cancel", None),
                ("POST", f"{path}/requests/{asked}", {"decision": "approved"}),
            ]
            unknown = f"/threads/{'0' * 8}-0000-4000-8000-{'0' * 12}"
            for method, where, body in tries:
                status, told = await client.call(method, where, body)
                assert (status, told["error"]["slug"]) == (404, "thread-not-found")
                _, same = await client.call(method, where.replace(path, unknown), body)
                assert told == {"error": {**same["error"], "message": told["error"]["message"]}}
            assert await client.get("/threads") == (200, {"threads": [], "next": None})
            client.http.headers.update(headers("ada"))
            assert (await client.get(path))[1]["requests"] != []
            assert (await client.post(f"{path}/requests/{asked}", {"decision": "approved"}))[0] == 200
            await follow(client, path, "task_complete")
            assert len((await client.get("/threads"))[1]["threads"]) == 1

    asyncio.run(main())


def test_a_user_resumes_no_thread_of_another_one(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")], authenticate=user) as client:
            path = await client.start("Hi!", headers=headers("ada"))
            client.http.headers.update(headers("ada"))
            await follow(client, path, "task_complete")
        async with site.client([say("Hello.")], authenticate=user) as client:
            for name in ("bob", "ada"):
                status, _ = await client.get(path, headers=headers(name))
                assert status == (200 if name == "ada" else 404)
                assert len(client.kernel.threads) == (name == "ada")
            for name in ("bob", "ada"):  # now it is loaded
                assert (await client.get(path, headers=headers(name)))[0] == (200 if name == "ada" else 404)

    asyncio.run(main())


def test_users_with_similar_names_are_different(site: Any) -> None:
    async def main() -> None:
        named = lambda request: request.headers["x-user"]  # noqa: E731
        async with site.client([say("Hello.")], authenticate=named) as client:
            paths = {}
            for name in ("ada", "ADA", "ada:bob", "a" * 200):
                paths[name] = await client.start("Hi!", headers={"x-user": name})
            for name, path in paths.items():
                for other in paths:
                    assert (await client.get(path, headers={"x-user": other}))[0] == (200 if name == other else 404)

    asyncio.run(main())


def test_a_request_without_a_user_is_refused(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")], authenticate=user) as client:
            for sent in ({}, headers("eve")):
                for method, path in (("POST", "/threads"), ("GET", "/threads"), ("GET", "/threads/x")):
                    status, told = await client.call(method, path, headers=sent)
                    assert (status, told["error"]["slug"]) == (401, "unauthenticated")
                    assert told["error"]["hint"]

    asyncio.run(main())


def test_authentication_may_be_a_coroutine_and_refuse_by_itself(site: Any) -> None:
    async def check(request: Request) -> str:
        await asyncio.sleep(0)
        if request.headers.get("x-user") is None:
            raise HTTPException(403, "Not here.", headers={"x-reason": "none"})
        return request.headers["x-user"]

    async def main() -> None:
        async with site.client([say("Hello.")], authenticate=check) as client:
            response = await client.http.get("/threads")
            assert (response.status_code, response.headers["x-reason"]) == (403, "none")
            assert response.json() == {"error": {"slug": "forbidden", "message": "Not here.", "hint": ""}}
            assert (await client.get("/threads", headers={"x-user": "ada"}))[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize("wrong", ["", "a" * 201, 7])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_user_that_is_no_name_is_the_server_s_mistake(site: Any, wrong: object) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")], authenticate=lambda _: wrong) as client:
            status, told = await client.get("/threads")
            assert (status, told["error"]["slug"], told["error"]["message"]) == (500, "internal", "the server failed")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"host": "example.com"}, "Host"),
        ({"host": "127.0.0.1.example.com"}, "Host"),
        ({"origin": "http://example.com"}, "page"),
        ({"origin": "null"}, "page"),
        ({"origin": "http://127.0.0.1"}, "page"),
        ({"x-forwarded-for": "203.0.113.9"}, ""),
        ({"forwarded": "for=203.0.113.9"}, "proxy"),
        ({"x-real-ip": "203.0.113.9"}, "proxy"),
    ],
)
def test_without_authentication_pages_proxies_and_foreign_names_are_refused(
    site: Any, sent: dict[str, str], reason: str
) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            for method in ("GET", "POST"):
                status, told = await client.call(method, "/threads", headers=sent)
                assert (status, told["error"]["slug"]) == (403, "forbidden")
                assert reason in told["error"]["message"]
            assert not client.kernel.threads

    asyncio.run(main())


def request_from(client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> Request:
    return Request(
        {
            "type": "http",
            "client": client,
            "server": server,
            "headers": [(b"host", b"localhost")],
            "method": "GET",
            "path": "/",
        }
    )


@pytest.mark.parametrize("host", ["203.0.113.9", "192.168.0.1", "::ffff:203.0.113.9", "2001:db8::1", "testclient", ""])
def test_without_authentication_other_machines_are_refused(host: str) -> None:
    with pytest.raises(WebError, match="only programs of this machine") as caught:
        asyncio.run(find_owner(request_from((host, 1), ("127.0.0.1", 8000)), None, ()))
    assert caught.value.slug == "forbidden"


def test_without_authentication_a_unix_socket_is_protected_by_its_permissions() -> None:
    assert asyncio.run(find_owner(request_from(None, ("/run/agent.sock", None)), None, ())) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is at the other end")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_without_authentication_another_user_of_the_machine_is_refused(site: Any) -> None:
    """The program of the other user is a shell, because not everybody can read this Python."""
    request = "GET /threads HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n"
    send = f'exec 3<>"/dev/tcp/$0/$1"; printf "{request}" >&3; cat <&3'

    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            where = client.http.base_url
            for uid, words in ((65534, ("403 Forbidden", "another user of this machine")), (0, ("200 OK",))):
                shell = await asyncio.create_subprocess_exec(
                    "bash", "-c", send, where.host, str(where.port), user=uid, cwd="/", stdout=asyncio.subprocess.PIPE
                )
                told, _ = await shell.communicate()
                assert all(word in told.decode() for word in words), told

    asyncio.run(main())


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 201),
        ("same", 201),
        ("https://app.example.com", 201),
        ("https://example.com", 403),
        ("http://app.example.com", 403),
        ("null", 403),
    ],
)
def test_pages_of_other_origins_need_permission(site: Any, origin: str | None, status: int) -> None:
    async def main() -> None:
        allowed = ("https://app.example.com",)
        async with site.client([say("Hello.")], authenticate=user, origins=allowed) as client:
            own = str(client.http.base_url).rstrip("/")
            sent = {} if origin is None else {"origin": own if origin == "same" else origin}
            response = await client.http.post("/threads", headers={**headers("ada"), **sent})
            assert response.status_code == status, response.text

    asyncio.run(main())


def test_a_thread_without_a_record_is_unknown_to_others_too(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")], authenticate=user) as client:
            path = await client.start(headers=headers("ada"))
            assert await client.get(f"{path}/history", headers=headers("ada")) == (200, {"events": []})
            status, told = await client.get(f"{path}/history", headers=headers("bob"))
            assert (status, told["error"]["slug"]) == (404, "thread-not-found")

    asyncio.run(main())


def test_options_are_those_of_the_user_after_a_resume_too(site: Any) -> None:
    for name in ("ada", "bob"):
        (site.folder / name).mkdir()

    async def main() -> None:
        options = {"authenticate": user, "options": lambda owner: {"cwd": site.folder / owner}}
        async with site.client([say("Hello.")], **options) as client:
            paths = {}
            for name in ("ada", "bob"):
                client.http.headers.update(headers(name))
                paths[name] = await client.start("Hi!")
                head, *_ = await follow(client, paths[name], "task_complete")
                assert head["msg"]["cwd"] == str(site.folder / name)
        async with site.client([say("Hello.")], **options) as client:
            for name, path in paths.items():
                assert (await client.get(path, headers=headers(name)))[0] == 200
                thread = client.kernel.threads[path.removeprefix("/threads/")]
                assert thread.settings.cwd == site.folder / name

    asyncio.run(main())


def test_an_app_whose_lifespan_did_not_run_says_so(site: Any) -> None:
    async def main() -> None:
        transport = httpx.ASGITransport(AgentApp(kernel=site.kernel([say("Hello.")])))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.get("/threads")
        assert response.status_code == 503
        assert response.json()["error"]["slug"] == "not-running"
        assert "lifespan" in response.json()["error"]["hint"]

    asyncio.run(main())


def test_it_can_be_mounted_in_fastapi(site: Any) -> None:
    fastapi = pytest.importorskip("fastapi", reason="FastAPI is not installed")

    async def main() -> None:
        agents = AgentApp(kernel=site.kernel([say("Hello.")]), authenticate=user)
        api = fastapi.FastAPI(lifespan=agents.lifespan)
        api.mount("/agents", agents)

        @api.get("/mine")
        def mine(owner: str | None = fastapi.Depends(user)) -> str | None:
            return owner

        async with serving(api) as url, httpx.AsyncClient(base_url=url, timeout=60, headers=headers("ada")) as http:
            assert (await http.get("/mine")).json() == "ada"
            started = (await http.post("/agents/threads", json={"input": "Hi!"})).json()
            async with http.stream("GET", f"/agents/threads/{started['id']}/events") as response:
                async for line in response.aiter_lines():
                    if "task_complete" in line:
                        break
            status = (await http.get("/agents/threads/x")).json()
            assert status["error"]["slug"] == "thread-not-found"

    asyncio.run(main())
