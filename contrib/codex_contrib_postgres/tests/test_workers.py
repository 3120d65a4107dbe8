"""Threads of processes that die, are suspended, or lose the database."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_contrib_postgres.settings import PostgresSettings
from codex_contrib_postgres.store import DatabaseStore
from codex_framework import ThreadError
from codex_framework.contract.protocol.items import is_user_message, message_text

WORKER = Path(__file__).parent / "worker.py"


class Workers:
    """Starts workers on one database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.effects = folder / "effects"
        self.effects.touch()
        self._folder = folder

    @contextmanager
    def start(self, turns: tuple[int, int], **task: Any) -> Iterator[subprocess.Popen[str]]:
        settings = {"lease_s": 1.0, "patience_s": 5.0, **task.pop("settings", {})}
        whole = {"home": str(self._folder), "effects": str(self.effects), "url": self.url, "turns": turns, **task}
        command = [sys.executable, str(WORKER), json.dumps({**whole, "settings": settings})]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def run(self, turns: tuple[int, int], **task: Any) -> list[str]:
        """Run a worker to its end, and return its lines."""
        with self.start(turns, **task) as process:
            output, _ = process.communicate(timeout=60)
            return output.splitlines()

    def numbers(self) -> list[int]:
        return [int(line.split()[0]) for line in self.effects.read_text().splitlines()]

    def asked(self, thread_id: str) -> list[str]:
        store = DatabaseStore(self.url, PostgresSettings())
        history = store.load(thread_id, "").history
        store.close()
        return [message_text(item) for item in history if is_user_message(item)]


@pytest.fixture
def workers(tmp_path: Path, postgres_url: str) -> Workers:
    return Workers(tmp_path, postgres_url)


def read_thread_id(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    word, _, thread_id = process.stdout.readline().strip().partition(" ")
    assert word == "thread"
    return thread_id


def test_a_thread_goes_on_elsewhere_once_the_lease_of_its_dead_worker_is_over(workers: Workers) -> None:
    started, first, *_ = workers.run((1, 3), dies_at=2)
    thread_id = started.removeprefix("thread ")
    assert first.startswith("turn 1 completed")
    with pytest.raises(ThreadError, match=r"already has an active writer: process \d+ on"):
        take(workers.url, thread_id)
    wait_until_free(workers.url, thread_id)
    assert workers.run((3, 3), thread=thread_id)[-1].startswith("turn 3 completed")
    assert workers.numbers() == [1, 2, 3]  # the second is not repeated: its call is in the record
    assert workers.asked(thread_id) == ["do 1", "do 2", "do 3"]


def test_a_thread_is_free_as_soon_as_its_worker_has_ended(workers: Workers) -> None:
    thread_id = workers.run((1, 1))[0].removeprefix("thread ")
    assert workers.run((2, 2), thread=thread_id)[-1].startswith("turn 2 completed")


def test_a_worker_renews_its_lease_while_a_call_runs(workers: Workers) -> None:
    with workers.start((1, 1), sleeps_at=1, sleeps_s=2.5) as process:
        thread_id = read_thread_id(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "asleep\n"
        end = time.monotonic() + 2.2  # twice as long as the lease lasts
        while time.monotonic() < end:
            with pytest.raises(ThreadError, match="active writer"):
                take(workers.url, thread_id)
            time.sleep(0.2)
        assert process.stdout.readline().startswith("turn 1 completed")


def test_a_suspended_worker_has_no_effects_in_a_thread_that_another_one_has_taken(workers: Workers) -> None:
    with workers.start((1, 2), sleeps_at=1, sleeps_s=0.5) as process:
        thread_id = read_thread_id(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "asleep\n"
        process.send_signal(signal.SIGSTOP)
        wait_until_free(workers.url, thread_id)
        assert workers.run((2, 2), thread=thread_id)[-1].startswith("turn 2 completed")
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    lines = output.splitlines()
    assert lines[0].startswith(f"turn 1 failed the turn failed: thread {thread_id} is continued by another process")
    assert lines[1].startswith("turn 2 failed")
    assert workers.numbers() == [1, 2]
    assert workers.asked(thread_id) == ["do 1", "do 2"]


def take(url: str, thread_id: str) -> None:
    store = DatabaseStore(url, PostgresSettings(lease_s=1.0))
    try:
        store.reopen(store.load(thread_id, ""), "").close()
    finally:
        store.close()


def wait_until_free(url: str, thread_id: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            return take(url, thread_id)
        except ThreadError:
            time.sleep(0.1)
    raise AssertionError("the lease never ended")
