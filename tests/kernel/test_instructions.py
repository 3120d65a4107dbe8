from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import ConfigError, ModelInfo
from codex_framework.config import Config
from codex_framework.threads.models import base_instructions, default_instructions

MODEL = ModelInfo(slug="m")


def config(home: Path, **tables: object) -> Config:
    return Config(tables=tables, codex_home=home, cwd=home)


def test_a_model_without_instructions_of_its_own_gets_ours(tmp_path: Path) -> None:
    text = base_instructions(config(tmp_path), MODEL)
    assert text == default_instructions()
    for word in ("exec_command", "apply_patch", "AGENTS.md", "sandbox", "final answer"):
        assert word in text
    assert 2_000 < len(text.encode()) < 5_000


def test_a_models_own_instructions_go_first(tmp_path: Path) -> None:
    model = ModelInfo(slug="m", base_instructions="You are M.\n{{ personality }}\nGo.")
    assert base_instructions(config(tmp_path), model) == "You are M.\n\nGo."


def test_configured_instructions_go_before_the_models(tmp_path: Path) -> None:
    model = ModelInfo(slug="m", base_instructions="You are M.")
    assert base_instructions(config(tmp_path, base_instructions="Be brief."), model) == "Be brief."


@pytest.mark.parametrize("key", ["model_instructions_file", "experimental_instructions_file"])
def test_a_file_goes_before_everything(tmp_path: Path, key: str) -> None:
    (tmp_path / "own.md").write_text("\nFrom a file.\n")
    for path in ("own.md", str(tmp_path / "own.md")):
        assert base_instructions(config(tmp_path, base_instructions="no", **{key: path}), MODEL) == "From a file."


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (None, "cannot read instructions from {path}: No such file or directory"),
        (b"ab\xff", "the instructions in {path} are not UTF-8 (byte 2)"),
        (b" \n", "the instructions file {path} is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path, content: bytes | None, fact: str) -> None:
    path = tmp_path / "own.md"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        base_instructions(config(tmp_path, model_instructions_file=str(path)), MODEL)
    assert caught.value.fact.endswith(fact.format(path=path))
    assert caught.value.hint == "Fix the file, or remove model_instructions_file from the configuration."
    assert caught.value.key == "model_instructions_file"


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        base_instructions(config(tmp_path, model_instructions_file=str(tmp_path)), MODEL)
