from __future__ import annotations

import shlex
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
        ("codex-framework de", {"plain,demo", "plain,debug", "plain,delete"}),
        ("codex-framework exec --out", {"plain,--output-schema", "plain,--output-last-message"}),
        ("codex-framework plugins s", {"plain,show"}),
    ],
)
def test_words_are_completed(cli: Any, words: str, offered: set[str]) -> None:
    count = str(len(words.split()) - 1)
    cli.env.update({"_CODEX_FRAMEWORK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count})
    assert set(cli.run().out.splitlines()) == offered


@pytest.fixture
def complete(cli: Any) -> Any:
    """Complete the last word of a command line, as bash asks for it."""

    def run(*words: str) -> list[str]:
        line = shlex.join(["codex-framework", *filter(None, words)])
        asked = {"_CODEX_FRAMEWORK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
        done = cli.run(env=cli.env | asked)
        assert done.err == ""
        return [line.split(",", 1)[1] for line in done.out.splitlines() if line]

    return run


def test_the_keys_of_the_configuration_are_completed(cli: Any, complete: Any) -> None:
    (cli.home / "config.toml").write_text(
        'model = "o3"\n[mcp_servers.docs]\ncommand = "x"\n[profiles.fast]\nmodel = "x"\n'
    )
    (cli.home / "slow.config.toml").touch()
    assert complete("config", "set", "history.") == ["history.persistence", "history.max_bytes"]
    assert "mcp_servers.docs.args" in complete("config", "set", "mcp_")
    assert complete("config", "set", "mcp_servers.new.com") == ["mcp_servers.new.command"]
    assert "features.unified_exec" in complete("config", "set", "features.u")
    assert complete("config", "set", "profiles.") == ["profiles.fast"]
    assert complete("config", "set", "profiles.fast.his") == [
        "profiles.fast.history.persistence",
        "profiles.fast.history.max_bytes",
    ]
    assert "framework.plugins.dynamic_tools.timeout_s" in complete("config", "set", "framework.plugins.dyn")
    assert complete("config", "unset", "m") == ["model", "mcp_servers", "mcp_servers.docs", "mcp_servers.docs.command"]
    assert complete("config", "get", "mo") == ["model"]
    assert complete("config", "set", "hide_agent_reasoning", "") == ["true", "false"]
    assert complete("config", "set", "sandbox_mode", "w") == ["workspace-write"]
    assert complete("config", "set", "profile", "") == ["fast", "slow"]
    assert complete("config", "set", "--profile", "s") == ["slow"]


def test_completion_of_keys_survives_a_broken_file(cli: Any, complete: Any) -> None:
    (cli.home / "config.toml").write_text("model = \n")
    assert complete("config", "set", "history.p") == ["history.persistence"]
    assert complete("config", "unset", "m") == []


def test_the_values_of_options_of_exec_are_completed(cli: Any, complete: Any) -> None:
    (cli.home / "config.toml").write_text("[profiles.fast]\nmodel = 'x'\n[agents.tidy]\ninstructions = 'x'\n")
    (cli.home / "slow.config.toml").touch()
    assert complete("exec", "-s", "") == ["read-only", "workspace-write", "danger-full-access"]
    assert complete("exec", "--json", "--sandbox", "w") == ["workspace-write"]
    assert complete("exec", "resume", "-s", "r") == ["read-only"]
    assert complete("exec", "-p", "") == ["fast", "slow"]
    assert complete("exec", "--profile", "f") == ["fast"]
    assert complete("exec", "--color", "a") == ["always", "auto"]
    assert complete("exec", "--local-provider", "o") == ["ollama"]
    assert complete("exec", "--enable", "unified_exec_t") == ["unified_exec_tty"]
    assert complete("exec", "--agent", "ti") == ["tidy"]
    assert complete("exec", "-c", "history.p") == ["history.persistence="]
    assert complete("exec", "-m", "") == []


@pytest.mark.parametrize(("option", "kind"), [("-C", "dir"), ("--add-dir", "dir"), ("-i", "file"), ("-o", "file")])
def test_files_and_folders_are_left_to_the_shell(cli: Any, option: str, kind: str) -> None:
    cli.env.update(
        {
            "_CODEX_FRAMEWORK_COMPLETE": "bash_complete",
            "COMP_WORDS": f"codex-framework exec {option} x",
            "COMP_CWORD": "3",
        }
    )
    assert cli.run().out.splitlines() == [f"{kind},x"]


def test_the_names_of_plugins_are_completed(complete: Any) -> None:
    assert complete("plugins", "show", "app") == ["app_server", "apply_patch"]
    assert complete("plugins", "doctor", "sh") == ["shell"]
