"""A target that no rule speaks of can be asked about; its connection waits for the answer."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import NetworkTarget

PUBLIC = "93.184.215.14"


class Person:
    """Answers when told to."""

    def __init__(self) -> None:
        self.asked: list[NetworkTarget] = []
        self.answers: list[asyncio.Future[bool]] = []
        self.cancelled = 0

    async def __call__(self, target: NetworkTarget) -> bool:
        self.asked.append(target)
        self.answers.append(asyncio.get_running_loop().create_future())
        try:
            return await self.answers[-1]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def is_asked(self, times: int = 1) -> None:
        while len(self.asked) < times:
            await asyncio.sleep(0.01)


async def nowhere(name: str) -> list[str]:
    raise OSError("this test looks nothing up")


async def test_yes_lets_the_connection_pass_and_is_remembered(net):
    person = Person()
    gate = await net.gate(ask=person, resolve=nowhere)
    first = asyncio.ensure_future(gate.ask("POST", "http://Example.com:8080/x", body=b"x"))
    await person.is_asked()
    assert person.asked == [NetworkTarget("example.com", 8080, "http", "POST")]
    await asyncio.sleep(0.05)
    assert not first.done()
    person.answers[0].set_result(True)
    assert (await first).status == 502, "it has passed, and was looked up"
    assert (await gate.ask("GET", "http://example.com:8080/")).status == 502
    assert len(person.asked) == 1
    assert gate.gate.blocked == ()


async def test_no_refuses_and_is_remembered(net):
    person = Person()
    gate = await net.gate(ask=person, resolve=nowhere)
    first = asyncio.ensure_future(gate.tunnel("example.com", 443))
    await person.is_asked()
    person.answers[0].set_result(False)
    status, reader, _ = await first
    assert status == 403
    assert b"the request to reach it was refused" in await reader.read()
    assert (await gate.tunnel("example.com", 443))[0] == 403
    assert person.asked == [NetworkTarget("example.com", 443, "https")]
    assert gate.reasons == ["blocked-by-allowlist"] * 2


async def test_one_question_serves_all_that_want_the_same(net):
    person = Person()
    gate = await net.gate(ask=person, resolve=nowhere)
    waiting = [asyncio.ensure_future(gate.ask("GET", "http://example.com/")) for _ in range(20)]
    others = [
        asyncio.ensure_future(gate.ask("GET", "http://example.com:81/")),
        asyncio.ensure_future(gate.tunnel("example.com", 80)),
        asyncio.ensure_future(gate.socks("example.com", 80)),
    ]
    await person.is_asked(4)
    await asyncio.sleep(0.1)
    assert sorted((target.protocol, target.port) for target in person.asked) == [
        ("http", 80),
        ("http", 81),
        ("https", 80),
        ("socks5_tcp", 80),
    ]
    for target, answer in zip(person.asked, person.answers, strict=True):
        answer.set_result(target.protocol == "http")
    assert {answer.status for answer in await asyncio.gather(*waiting)} == {502}
    assert (await others[0]).status == 502
    assert (await others[1])[0] == 403
    assert (await others[2])[0] == 2


@pytest.mark.parametrize(
    "error", [ValueError("x"), asyncio.CancelledError(), OSError("x")], ids=lambda e: type(e).__name__
)
async def test_a_question_that_fails_refuses(net, error):
    asked = []

    async def ask(target):
        asked.append(target)
        raise error

    gate = await net.gate(ask=ask, resolve=nowhere)
    for _ in range(2):
        answer = await gate.ask("GET", "http://example.com/")
        assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
    assert len(asked) == 2, "no answer is not remembered"


@pytest.mark.parametrize("answer", [None, 1, "yes", []])
async def test_only_true_lets_pass(net, answer):
    async def ask(target):
        return answer

    gate = await net.gate(ask=ask, resolve=nowhere)
    assert (await gate.ask("GET", "http://example.com/")).status == 403


async def test_nobody_is_asked_about_what_is_decided(net):
    async def ask(target):
        raise AssertionError(target)

    async def resolve(name):
        return ["10.0.0.1"]

    gate = await net.gate(ask=ask, resolve=resolve, domains={"a.example": "deny", "b.example": "allow"})
    for url in ("http://a.example/", "http://b.example/", "http://10.0.0.1/", "http://localhost/", "http://[::1]/"):
        assert (await gate.ask("GET", url)).status == 403
    limited = await net.gate(ask=ask, mode="limited")
    assert (await limited.ask("POST", "http://example.com/")).error == "blocked-by-method-policy"
    assert (await limited.tunnel("example.com", 443))[0] == 403


async def test_local_addresses_are_asked_about_where_they_are_as_any_other(net):
    asked = []

    async def ask(target):
        asked.append(target.host)
        return target.port == 1

    gate = await net.gate(ask=ask, allow_local_binding=True)
    assert (await gate.ask("GET", "http://127.0.0.1:1/")).status == 502
    assert (await gate.ask("GET", "http://localhost:2/")).status == 403
    assert (await gate.ask("GET", "http://169.254.169.254:1/")).error == "blocked-by-allowlist"
    assert asked == ["127.0.0.1", "localhost"]


async def test_yes_does_not_open_what_a_name_turns_out_to_be(net):
    async def ask(target):
        return True

    async def resolve(name):
        return ["10.0.0.1"]

    gate = await net.gate(ask=ask, resolve=resolve)
    assert (await gate.ask("GET", "http://example.com/")).error == "blocked-by-allowlist"


async def test_a_question_that_nobody_waits_for_any_more_is_taken_back(net):
    person = Person()
    gate = await net.gate(ask=person, resolve=nowhere)
    clients = [await gate.connect() for _ in range(3)]
    for _, writer in clients:
        writer.write(b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
    await person.is_asked()
    await asyncio.sleep(0.05)
    clients[0][1].close()
    net.reset(clients[1][1])
    await asyncio.sleep(0.05)
    assert person.cancelled == 0, "one still waits"
    clients[2][1].close()
    while not person.cancelled:
        await asyncio.sleep(0.01)
    again = asyncio.ensure_future(gate.ask("GET", "http://example.com/"))
    await person.is_asked(2)
    person.answers[1].set_result(True)
    assert (await again).status == 502


async def test_a_gate_that_closes_takes_its_questions_back(net):
    person = Person()
    gate = await net.gate(ask=person)
    waiting = asyncio.ensure_future(gate.ask("GET", "http://example.com/"))
    await person.is_asked()
    await gate.gate.aclose()
    assert person.cancelled == 1
    assert not (await waiting).complete
