"""Skills in real folders, and real turns that use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import say


def write_skill(
    folder: Path, name: str = "", description: str = "Does things.", body: str = "Body.", openai: str = ""
) -> Path:
    """Write a skill and return the path of its file. Its name is that of the folder if none is given."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    file.write_text(f"---\nname: {name or folder.name}\ndescription: {description}\n---\n{body}\n")
    if openai:
        (folder / "agents").mkdir(exist_ok=True)
        (folder / "agents" / "openai.yaml").write_text(openai)
    return file


class Skills:
    """The skills of one test.

    Attributes:
        home: ``$CODEX_HOME``.
        person: The user's home folder.
        project: The working folder, which the user trusts.
    """

    def __init__(
        self, home: Path, person: Path, project: Path, run: Callable[..., Any], make: Callable[..., Any]
    ) -> None:
        self.home = home
        self.person = person
        self.project = project
        self._run = run
        self._make = make
        self.trusted = f'projects."{project}".trust_level="trusted"'

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.person)}

    def write(self, folder: str, **more: Any) -> Path:
        """Write a skill of the user."""
        return write_skill(self.home / "skills" / folder, **more)

    def raw(self, name: str, data: bytes | str) -> Path:
        """Write a ``SKILL.md`` as it is."""
        file = self.home / "skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def turn(self, prompt: str = "hello", replies: Sequence[Any] = (say("Done."),), **more: Any) -> Any:
        """Run one turn."""
        config = [self.trusted, *more.pop("config", ())]
        env = {**self.environ, **more.pop("env", {})}
        return self._run(prompt, list(replies), config=config, env=env, **more)

    def kernel(self, replies: Sequence[Any], *config: str) -> Any:
        """Make a kernel."""
        return self._make(list(replies), config=[self.trusted, *config], env=self.environ)


@pytest.fixture
def skills(codex_home: Path, workspace: Path, tmp_path: Path, run_turn: Any, make_kernel: Any) -> Skills:
    """Skills of a user, and a trusted project."""
    person = tmp_path / "person"
    person.mkdir()
    (workspace / ".git").mkdir()
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return Skills(codex_home, person, workspace, run_turn, make_kernel)


def texts(turn: Any, role: str = "") -> list[str]:
    """Return the texts of the messages of a turn's history."""
    return [
        part.text
        for item in turn.history
        if item.type == "message" and role in ("", item.role)
        for part in item.content
        if hasattr(part, "text")
    ]


def listed(turn: Any) -> str:
    """Return the last list of skills that the model was given. Empty if there is none."""
    return next((text for text in reversed(texts(turn, "developer")) if text.startswith("<skills_instructions>")), "")


def lines(turn: Any) -> list[str]:
    """Return the lines of the list, one for each skill."""
    return [line for line in listed(turn).split("### How")[0].split("\n") if "(file: " in line]


def injected(turn: Any) -> list[str]:
    """Return the names of the skills whose instructions were added."""
    return [text.split("<name>")[1].split("</name>")[0] for text in texts(turn, "user") if text.startswith("<skill>")]


def warned(turn: Any) -> list[str]:
    """Return the warnings of a turn."""
    found = [event.message for event in turn.result.events if event.type == "warning"]
    return [text for text in found if not text.startswith("Model metadata")]
