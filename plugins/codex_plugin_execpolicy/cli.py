"""``codex-framework execpolicy``: check the rules for commands and hosts, and add to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from codex_framework import PluginContext
from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.terminal_text import clean, printable
from codex_plugin_execpolicy.layers import LoadedRules, RuleLayers, read_file
from codex_plugin_execpolicy.settings import Settings

__all__ = ["execpolicy"]

_WORDS: dict[str, Any] = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_rules_option = click.option(
    "-r",
    "--rules",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with rules; may be given several times. Default: the rules that apply in this folder.",
)


@click.group("execpolicy")
def execpolicy() -> None:
    """Check the rules for commands, and add to them."""


@execpolicy.command("check", context_settings=_WORDS)
@_rules_option
@click.option("--pretty", is_flag=True, help="Indent the answer.")
@click.option(
    "--resolve-host-executables",
    "resolve",
    is_flag=True,
    help="If a program is given by its path, also look up its name.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def check(files: tuple[Path, ...], command: tuple[str, ...], *, pretty: bool, resolve: bool) -> None:
    """Print the decision of the rules about a command, as JSON.

    A script in `bash -lc SCRIPT` is split into its commands, as when the agent runs it.
    """
    from codex_plugin_execpolicy.judgement import Line, evaluate_line

    rules = _load_named_files(files).rules if files else _here().rules
    found = evaluate_line(Line.read(command), rules, resolve=resolve or not files)
    _print(found.wire(), pretty=pretty)


@execpolicy.command("network")
@_rules_option
@click.option("--pretty", is_flag=True, help="Indent the answer.")
@click.option(
    "--protocol",
    type=click.Choice(["http", "https", "socks5_tcp", "socks5_udp"]),
    default="https",
    help="How the host is reached (default: https).",
)
@click.argument("host")
def network(files: tuple[Path, ...], host: str, protocol: str, *, pretty: bool) -> None:
    """Print what the rules decide about HOST, as JSON.

    HOST may include a port; rules apply to all ports.
    """
    from codex_plugin_execpolicy.hosts import rule_host
    from codex_plugin_execpolicy.rules import word_for

    rules = _load_named_files(files).rules if files else _here().rules
    try:
        name = rule_host(host)
    except ValueError as error:
        raise CodexError(str(error), slug="exec-rules", hint="Name one host, like example.com.") from error
    answer: dict[str, Any] = {"matchedRules": [rule.wire() for rule in rules.network_matches(name, protocol)]}
    if (decision := rules.network_decision(name, protocol)) is not None:
        answer["decision"] = word_for(decision)
    _print(answer, pretty=pretty)


@execpolicy.command("test")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.pass_context
def test(context: click.Context, files: tuple[Path, ...]) -> None:
    """Check rules files and their examples. The exit status is 1 if one is invalid."""
    wrong = 0
    for file in files:
        try:
            found = read_file(file)
        except CodexError as error:
            wrong += 1
            click.echo(clean(f"{error}\n  {error.hint}"), err=True)
            continue
        rules = len(list(found.rules.prefix_rules)) + len(found.rules.network)
        click.echo(f"{printable(str(file))}: {_count(rules, 'rule')}, {_count(len(found.examples), 'example')}")
    context.exit(1 if wrong else 0)


@execpolicy.command("allow", context_settings=_WORDS)
@click.argument("prefix", nargs=-1, required=True, type=click.UNPROCESSED)
def allow(prefix: tuple[str, ...]) -> None:
    """Permanently allow commands that start with these words. They run outside of the sandbox."""
    from codex_plugin_execpolicy.amendments import RULES_FILE, allow_prefix

    home = _plugin().codex_home
    written = allow_prefix(home, prefix)
    click.echo(f"{'Added to' if written else 'Already in'} {home / RULES_FILE}: {json.dumps(list(prefix))}")


@execpolicy.command("backtest")
@_rules_option
@click.option("-a", "--approval-policy", help="Judge under this policy instead of the recorded ones.")
@click.option("-s", "--sandbox", help="Judge under this sandbox mode instead of the recorded ones.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object for each command that would not simply run."
)
@click.argument("sessions", nargs=-1)
def backtest(
    files: tuple[Path, ...],
    approval_policy: str | None,
    sandbox: str | None,
    sessions: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Apply the current rules to the commands of recorded sessions.

    SESSIONS are files or ids. The default is all of $CODEX_HOME/sessions.
    """
    from codex_plugin_execpolicy.backtest import Overrides, replay, session_files

    config, home = _plugin().config, _plugin().codex_home
    layers = _layers()
    given = _load_named_files(files) if files else None

    def rules_in(cwd: Path) -> LoadedRules:
        return given or layers.at(cwd, home, config)

    overrides = Overrides.read(approval_policy, sandbox)
    asked = refused = total = 0
    for judged in replay(session_files(home, sessions), overrides, rules_in):
        total += 1
        asked += judged.outcome == "ask"
        refused += judged.outcome == "refuse"
        if judged.outcome != "run":
            click.echo(json.dumps(judged.wire(), ensure_ascii=False) if as_json else printable(judged.line()))
    summary = f"would have asked {_count(asked, 'time')}, refused {refused}, of {_count(total, 'command')}"
    click.echo(summary, err=as_json)


def _print(answer: dict[str, Any], *, pretty: bool) -> None:
    separators = None if pretty else (",", ":")
    click.echo(json.dumps(answer, ensure_ascii=False, indent=2 if pretty else None, separators=separators))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _load_named_files(files: tuple[Path, ...]) -> LoadedRules:
    """Return the rules of files that the user names, all of which must be valid."""
    from codex_plugin_execpolicy.rules import RuleSet

    rules = RuleSet()
    for file in files:
        rules.update(read_file(file).rules)
    return LoadedRules(rules)


def _here() -> LoadedRules:
    plugin = _plugin()
    loaded = _layers().at(Path.cwd(), plugin.codex_home, plugin.config)
    for problem in loaded.problems:
        click.echo(f"warning: {printable(problem)}", err=True)
    return loaded


def _layers() -> RuleLayers:
    return RuleLayers(ignore_rules=_plugin().settings(Settings).ignore_rules)


def _plugin() -> PluginContext:
    """Return the plugin's context, with the configuration that the command line means."""
    found: PluginContext = click.get_current_context().obj
    return found
