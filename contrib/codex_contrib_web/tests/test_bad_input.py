"""What clients send wrongly: each gets a JSON error with slug, message and hint, and the server goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from web_client import Client

from codex_contrib_web.errors import STATUS, show_error
from codex_framework import ThreadError
from codex_framework.testing import say

JSON = {"content-type": "application/json"}
UNKNOWN = "00000000-0000-4000-8000-000000000000"

WRONG: list[tuple[str, bytes, dict[str, str], int, str, str]] = [
    ("turns", b"{", JSON, 400, "invalid-json", "Expecting"),
    ("turns", b"\xff\xfe", JSON, 400, "invalid-json", "no JSON"),
    ("turns", b"[" * 100_000, JSON, 400, "invalid-json", "no JSON"),
    ("turns", b"9" * 10_000, JSON, 400, "invalid-json", "no JSON"),
    ("turns", b'{"input": "Hi!"}', {}, 415, "not-json", "declared"),
    ("turns", b'{"input": "Hi!"}', {"content-type": "text/plain"}, 415, "not-json", "text/plain"),
    ("turns", b" " * (17 << 20), JSON, 413, "too-large", "bytes"),
    ("turns", b"[]", JSON, 422, "bad-request", "body"),
    ("turns", b"7", JSON, 422, "bad-request", "body"),
    ("turns", b"null", JSON, 422, "bad-request", "body"),
    ("turns", b"", JSON, 422, "bad-request", "body.input"),
    ("turns", b"{}", JSON, 422, "bad-request", "body.input"),
    ("turns", b'{"inptu": "Hi!"}', JSON, 422, "bad-request", "unknown field @ body.inptu"),
    ("turns", b'{"input": 7}', JSON, 422, "bad-request", "body.input"),
    ("turns", b'{"input": ""}', JSON, 422, "empty-input", ""),
    ("turns", b'{"input": [{"type": "text", "text": " \\n"}]}', JSON, 422, "empty-input", ""),
    ("turns", b'{"input": "%b"}' % (b"x" * 1_100_000), JSON, 413, "input-too-long", ""),
    ("turns", b'{"input": []}', JSON, 422, "empty-input", ""),
    ("turns", b'{"input": [{"type": "text"}]}', JSON, 422, "bad-request", "body.input[0].text"),
    ("turns", b'{"input": [{"type": "text", "text": 1}]}', JSON, 422, "bad-request", "body.input[0].text"),
    ("turns", b'{"input": [{"type": "local_image", "path": "/etc/passwd"}]}', JSON, 422, "bad-request", "local_image"),
    ("turns", b'{"input": [{"type": "skill", "name": "x", "path": "/x"}]}', JSON, 422, "bad-request", "skill"),
    ("steer", b'{"input": "Hi!", "turn_id": 7}', JSON, 422, "bad-request", "body.turn_id"),
    ("steer", b'{"input": "Hi!"}', JSON, 409, "no-active-turn", ""),
    ("cancel", b"", {}, 409, "no-active-turn", "no turn"),
    ("requests/unknown", b"{}", JSON, 404, "request-not-found", "'unknown'"),
    ("requests/a%2Fb", b"{}", JSON, 404, "request-not-found", "'a/b'"),
    ("requests/unknown", b"{", JSON, 400, "invalid-json", ""),
]


async def check(client: Client, method: str, path: str, body: bytes, sent: dict[str, str], *expected: Any) -> None:
    response = await client.http.request(method, path, content=body, headers=sent)
    status, slug, fact = expected
    error = response.json()["error"]
    assert (response.status_code, error["slug"]) == (status, slug), error
    assert fact in error["message"], error
    assert {*error} == {"slug", "message", "hint"}


def test_what_is_wrong_is_told_and_the_thread_goes_on(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            path = await client.start()
            for where, body, sent, status, slug, fact in WRONG:
                await check(client, "POST", f"{path}/{where}", body, sent, status, slug, fact)
            await client.post(f"{path}/turns", {"input": "Hi!"})
            async with client.events(path) as stream:
                assert (await stream.until("task_complete"))[-1]["msg"]["last_agent_message"] == "Hello."

    asyncio.run(main())


@pytest.mark.parametrize("where", ["", "/events", "/history"])
@pytest.mark.parametrize(
    "thread", [UNKNOWN, "x", "..", "%2Fetc%2Fpasswd", "A" * 9_000, f"{{{UNKNOWN}}}", UNKNOWN.replace("-", "")]
)
def test_a_thread_that_is_not_there_is_not_found(site: Any, where: str, thread: str) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            response = await client.http.get(f"/threads/{thread}{where}")
            assert response.status_code == 404
            assert response.json()["error"]["slug"] in ("thread-not-found", "not-found")
            assert len(response.content) < 1_000

    asyncio.run(main())


def test_a_thread_is_not_found_by_its_name_or_its_file(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            path = await client.start("Hi!")
            async with client.events(path) as stream:
                await stream.until("task_complete")
            (thread,) = client.kernel.threads.values()
            client.kernel.thread_store.rename(thread.id, "mine", str(client.kernel.config.codex_home))
            for name in ("mine", str(thread.rollout_path).replace("/", "%2F")):
                assert (await client.http.get(f"/threads/{name}")).status_code == 404

    asyncio.run(main())


def test_a_thread_starts_with_wrong_input_not_at_all(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            for body, slug in (
                ({"input": 7}, "bad-request"),
                ({"model": "x"}, "bad-request"),
                ({"input": ""}, "empty-input"),
                ({"input": "x" * 1_100_000}, "input-too-long"),
            ):
                status, told = await client.post("/threads", body)
                assert told["error"]["slug"] == slug
                assert status in (413, 422)
            assert not client.kernel.threads

    asyncio.run(main())


def test_an_unknown_path_is_told_as_json(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            assert await client.get("/nothing") == (
                404,
                {"error": {"slug": "not-found", "message": "Not Found", "hint": ""}},
            )

    asyncio.run(main())


def test_an_error_of_the_server_says_nothing_about_it() -> None:
    shown = show_error(None, ValueError("the secret"))  # type: ignore[arg-type]
    assert shown.status_code == 500
    assert b"secret" not in shown.body


@pytest.mark.parametrize("slug", sorted(STATUS))
def test_an_error_of_the_framework_has_its_status(slug: str) -> None:
    shown = show_error(None, ThreadError("It is so.", slug=slug, hint="Do it."))  # type: ignore[arg-type]
    assert 400 <= shown.status_code < 600
    assert f'"slug":"{slug}"'.encode() in shown.body
