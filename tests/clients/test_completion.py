from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_each_shell_gets_a_script(cli: Any, shell: str) -> None:
    ran = cli.run("completion", shell)
    assert ran.status == 0
    assert "_CODEX_FRAMEWORK_COMPLETE" in ran.out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("codex-framework de", {"plain,demo"}),
        ("codex-framework exec --out", {"plain,--output-schema", "plain,--output-last-message"}),
        ("codex-framework plugins s", {"plain,show"}),
    ],
)
def test_words_are_completed(cli: Any, words: str, offered: set[str]) -> None:
    count = str(len(words.split()) - 1)
    cli.env.update({"_CODEX_FRAMEWORK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count})
    assert set(cli.run().out.splitlines()) == offered
