"""``sandbox`` tells its command about the network, whatever it inherits."""

from __future__ import annotations

from typing import Any

NAME = "CODEX_SANDBOX_NETWORK_DISABLED"


def test_an_inherited_variable_does_not_replace_one_of_the_sandbox(cli: Any) -> None:
    script = f'echo "${NAME}"'
    for inherited in ({}, {NAME: "0"}, {NAME: ""}):
        cli.env.update(inherited)
        ran = cli.run("sandbox", "--mode", "read-only", "--", "sh", "-c", script)
        assert (ran.status, ran.out) == (0, "1\n")
    ran = cli.run("sandbox", "--mode", "danger-full-access", "--", "sh", "-c", script)
    assert ran.out != "1\n"
