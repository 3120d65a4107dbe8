"""A cluster on loopback, a model that acts a number of times in each session, and what the sessions did."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codex_framework.contract.roles.launchers import Workplace
from codex_framework.testing import ModelServer, Reply, call, say
from codex_lib_launch.encoding import thread_id_of

ACTIONS = Path(__file__).parent / "actions.py"


class Scene:
    """The folder of some sessions, with their model."""

    def __init__(self, folder: Path, *, rounds: int = 3, more: str = "") -> None:
        self.folder = folder
        self.rounds = rounds
        self.home = folder / "home"
        self.work = folder / "work"
        for each in (self.home, self.work):
            each.mkdir(parents=True)
        self.effects = self.work / "effects"
        self.effects.touch()
        self._hold = self.work / "hold"
        self._block = self.work / "block"
        self._persist = self.work / "persist"
        self.model = ModelServer([self._reply], repeat_last=True, chunk_events=False).start()
        (self.home / "config.toml").write_text(
            'model = "gpt-5.5"\nmodel_provider = "loopback"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
            f'{more}\n[model_providers.loopback]\nname = "Loopback"\nbase_url = "{self.model.url}"\n'
        )
        self.workplace = Workplace(cwd=str(self.work), plugins=(str(ACTIONS),), environ={"CODEX_HOME": str(self.home)})

    def _reply(self, request: Any) -> Reply:
        """Act ``rounds`` times. An action whose output is lost is repeated only if it had no effect."""
        items = request.json["input"]
        if items[-1].get("role") == "user" and items[-1]["content"][-1]["text"] == "ask":
            return call("exec_command", cmd="echo asked > asked; cat asked")
        if any(item.get("name") == "exec_command" for item in items):
            return say("it printed asked" if "asked" in items[-1]["output"] else items[-1]["output"])
        outputs = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
        calls = [item for item in items if item.get("type") == "function_call"]
        done = 0
        for made in calls:
            number = json.loads(made["arguments"])["number"]
            if "done" in str(outputs.get(made["call_id"])) or number in self.acted(request.json["prompt_cache_key"]):
                done = max(done, number)
        return say("all done") if done == self.rounds else call("act", number=done + 1)

    def acted(self, thread_id: str) -> list[int]:
        """Return the numbers of the actions that a session has done."""
        lines = (line.split() for line in self.effects.read_text().splitlines())
        return [int(number) for thread, number, _ in lines if thread == thread_id]

    def acted_all(self) -> Counter[tuple[str, int]]:
        """Return how often each session has done each action."""
        return Counter((line.split()[0], int(line.split()[1])) for line in self.effects.read_text().splitlines())

    def workers(self) -> set[int]:
        """Return the processes that have acted."""
        return {int(line.split()[2]) for line in self.effects.read_text().splitlines()}

    def hold(self) -> None:
        """Let actions wait after their effect, until :meth:`release`."""
        self._hold.touch()

    def block(self) -> None:
        """Let the next action keep its worker from answering, until :meth:`release`."""
        self._block.touch()

    def persist(self) -> None:
        """Let actions that wait refuse to be stopped."""
        self._persist.touch()

    def release(self) -> None:
        """Let the actions end."""
        self._block.unlink(missing_ok=True)
        self._hold.unlink(missing_ok=True)

    def check(self, keys: list[str]) -> None:
        """Check that each session has done each action once."""
        wanted = {(thread_id_of(key), number): 1 for key in keys for number in range(1, self.rounds + 1)}
        assert self.acted_all() == wanted

    def close(self) -> None:
        """End what waits, and the model."""
        self.release()
        self.model.stop()


def wait_for(condition: Callable[[], Any], seconds: float = 100.0) -> Any:
    """Wait until a condition holds, and return what it returned."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found
