"""The unread messages of an agent: their limits, and which of them count as read."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import ToolError
from codex_framework.contract.protocol.items import user_message
from codex_plugin_sub_agents.mailbox import Mailbox


def test_the_length_of_unread_messages_is_bounded() -> None:
    mailbox = Mailbox()
    for _ in range(4):
        mailbox.check_room(1 << 20, [])
        mailbox.add(user_message("x"), 1 << 20, [])
    with pytest.raises(ToolError, match="too many messages"):
        mailbox.check_room(1, [])
    mailbox.check_room(1, [user_message("x")])


def test_a_message_is_not_read_because_an_equal_one_was_read_before_it() -> None:
    mailbox = Mailbox()
    history = [user_message("Ping.")]
    mailbox.add(user_message("Ping."), 5, history)
    assert asyncio.run(mailbox.wait(history, 0.01)) is True
    assert asyncio.run(mailbox.wait([*history, user_message("Ping.")], 0.01)) is False


def test_a_compacted_history_does_not_lose_a_message() -> None:
    mailbox = Mailbox()
    mailbox.add(user_message("Ping."), 5, [user_message(f"{number}") for number in range(9)])
    assert asyncio.run(mailbox.wait([user_message("Ping.")], 0.01)) is False


def test_a_message_that_was_read_and_then_compacted_away_ends_no_wait() -> None:
    mailbox = Mailbox()
    first, second = user_message("Do it."), user_message("Ping.")
    mailbox.add(first, 6, [])
    history = [first, user_message("more")]
    mailbox.add(second, 5, history)
    assert asyncio.run(mailbox.wait(history, 0.01)) is True
    assert asyncio.run(mailbox.wait([user_message("Summary."), user_message("more")], 0.01)) is False


def test_compactions_do_not_fill_the_mailbox() -> None:
    mailbox = Mailbox()
    for _ in range(70):
        history = [user_message("Summary.")]
        mailbox.check_room(5, history)
        mailbox.add(user_message("Ping."), 5, history)
