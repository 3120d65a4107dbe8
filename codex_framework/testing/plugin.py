"""The pytest plugin (entry point ``pytest11``): fixtures for the tests of plugins and of programs built on the kernel.

It imports nothing of the kernel until a fixture is used, so it does not slow down other test suites.

    def test_the_words_are_counted(run_turn, workspace):
        (workspace / "poem.txt").write_text("roses are red")
        run = run_turn("Count.", [call("count_words", path="poem.txt"), say("Three.")], tools=[count_words])
        assert run.outputs == ("3",)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from codex_framework.testing.cassettes import CassetteFile
    from codex_framework.testing.kernels import KernelFactory, TurnRun
    from codex_framework.testing.model import ScriptedModel
    from codex_framework.testing.scripted import ReplySource
    from codex_framework.testing.server import ModelServer, ResponsesServer
    from codex_framework.testing.threads import ThreadFactory

__all__ = [
    "cassette",
    "codex_home",
    "make_kernel",
    "make_thread",
    "model_server",
    "responses_server",
    "run_turn",
    "scripted_model",
    "workspace",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the fixture ``cassette``."""
    parser.getgroup("codex-framework").addoption(
        "--codex-cassettes",
        choices=("replay", "record", "missing"),
        default="replay",
        help="play the recorded answers of models (replay, never asks a server), record them anew from the real servers (record), or"
        " record what is missing (missing)",
    )


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[CassetteFile]:
    """Play the recorded answers of models: ``run_turn("prompt", config=cassette(CONFIG))``.

    ``CONFIG`` is the text of a ``config.toml`` with the tables of real providers. The cassette is ``cassettes/MODULE.TEST.jsonl``
    beside the file of the test. With ``--codex-cassettes=record``, the real servers answer, and it is recorded, without
    secrets. If none answers, the earlier recording stays.

    See :class:`codex_framework.testing.cassettes.CassetteFile`.
    """
    from codex_framework.testing.cassettes import CassetteFile, cassette_path

    mode: Any = request.config.getoption("--codex-cassettes")
    file = CassetteFile(cassette_path(request.path, request.node.name), mode)
    yield file
    if note := file.finish():
        request.node.add_report_section("teardown", "codex-framework", note)


@pytest.fixture
def codex_home(tmp_path: Path) -> Path:
    """Return an empty ``$CODEX_HOME`` for the test."""
    home = tmp_path / "codex-home"
    home.mkdir()
    return home


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return an empty working folder for the turns of the test."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def model_server() -> Iterator[Callable[..., ModelServer]]:
    """Start a :class:`ModelServer` with the given replies. It is stopped when the test ends."""
    from codex_framework.testing.server import ModelServer

    started: list[ModelServer] = []

    def start(replies: Iterable[ReplySource] = (), **settings: Any) -> ModelServer:
        server = ModelServer(replies, **settings).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def responses_server() -> Iterator[Callable[..., ResponsesServer]]:
    """Start a :class:`ResponsesServer` with the given replies. It is stopped when the test ends."""
    from codex_framework.testing.server import ResponsesServer

    started: list[ResponsesServer] = []

    def start(replies: Iterable[ReplySource] = (), **settings: Any) -> ResponsesServer:
        server = ResponsesServer(replies, **settings).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Create providers with scripted replies: ``scripted_model([say("hi")])``, a :class:`ScriptedModel`."""
    from codex_framework.testing.model import ScriptedModel

    return ScriptedModel


@pytest.fixture
def make_kernel(request: pytest.FixtureRequest, codex_home: Path, workspace: Path) -> KernelFactory:
    """Create real kernels with a scripted model, each in an ``async with``.

    See :meth:`codex_framework.testing.kernels.KernelFactory.__call__`.
    """
    from codex_framework.testing.kernels import KernelFactory

    factory = KernelFactory(codex_home, workspace)
    factory.on_failure = lambda error: request.node.add_report_section("call", "failed turn", error)
    return factory


@pytest.fixture
def make_thread(make_kernel: KernelFactory) -> ThreadFactory:
    """Create a thread for the test of a plugin, in an ``async with``, which fails if the plugin leaves something behind.

    See :meth:`codex_framework.testing.threads.ThreadFactory.__call__`.
    """
    from codex_framework.testing.threads import ThreadFactory

    return ThreadFactory(make_kernel)


@pytest.fixture
def run_turn(make_kernel: KernelFactory) -> Callable[..., TurnRun]:
    """Run one turn in a new kernel, without ``async``: ``run_turn("prompt", [replies], tools=[...])`` returns a ``TurnRun``.

    See :meth:`codex_framework.testing.kernels.KernelFactory.run_turn`.
    """
    return make_kernel.run_turn
