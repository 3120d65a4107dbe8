from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codex_framework import Fragment, TurnFacts
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import ExternalSandbox, ReadOnly, WorkspaceWrite
from codex_plugin_context import Environment
from codex_plugin_context.environment import timezone_name

Facts = Callable[..., TurnFacts]


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def filesystem(facts: TurnFacts) -> str:
    (fragment,) = Environment().fragments(facts)
    return next(line.strip() for line in fragment.text.splitlines() if "<filesystem>" in line)


def test_the_environment_is_told_line_by_line(facts: Facts, work: Path) -> None:
    before = time.strftime("%Y-%m-%d")
    (fragment,) = Environment().fragments(facts(shell="/usr/bin/zsh"))
    today = before if before in fragment.text else time.strftime("%Y-%m-%d")
    assert fragment == Fragment(
        role="user",
        text=(
            "<environment_context>\n"
            f"  <cwd>{work}</cwd>\n"
            "  <shell>zsh</shell>\n"
            f"  <current_date>{today}</current_date>\n"
            "  <timezone>Pacific/Auckland</timezone>\n"
            f"  <filesystem><workspace_roots><root>{work}</root></workspace_roots>"
            '<permission_profile type="disabled"><file_system type="unrestricted" /></permission_profile></filesystem>\n'
            "</environment_context>"
        ),
        start="<environment_context>",
        end="</environment_context>",
        order=200,
    )


def test_it_can_be_turned_off(facts: Facts) -> None:
    assert list(Environment().fragments(facts(include_environment_context=False))) == []


def test_a_workspace_policy_lists_what_may_be_written_and_what_not(facts: Facts, work: Path) -> None:
    assert filesystem(facts(sandbox=WorkspaceWrite())) == (
        f"<filesystem><workspace_roots><root>{work}</root></workspace_roots>"
        '<permission_profile type="managed"><file_system type="restricted">'
        '<entry access="read"><special>:root</special></entry>'
        f'<entry access="write"><path>{work}</path></entry>'
        '<entry access="write"><special>:slash_tmp</special></entry>'
        '<entry access="write"><special>:tmpdir</special></entry>'
        f'<entry access="read"><path>{work}/.git</path></entry>'
        f'<entry access="read"><path>{work}/.agents</path></entry>'
        f'<entry access="read"><path>{work}/.codex</path></entry>'
        "</file_system></permission_profile></filesystem>"
    )


def test_further_roots_are_listed_and_temp_folders_can_be_missing(facts: Facts, work: Path) -> None:
    policy = WorkspaceWrite(writable_roots=("/srv",), exclude_tmpdir_env_var=True, exclude_slash_tmp=True)
    text = filesystem(facts(sandbox=policy))
    assert '<entry access="write"><path>/srv</path></entry>' in text
    assert '<entry access="read"><path>/srv/.git</path></entry>' in text
    assert "<special>:slash_tmp" not in text
    assert "<special>:tmpdir" not in text


def test_a_read_only_policy_has_one_entry(facts: Facts) -> None:
    assert filesystem(facts(sandbox=ReadOnly())).endswith(
        '<permission_profile type="managed"><file_system type="restricted">'
        '<entry access="read"><special>:root</special></entry></file_system></permission_profile></filesystem>'
    )


def test_an_outer_sandbox_is_named(facts: Facts) -> None:
    assert '<permission_profile type="external">' in filesystem(facts(sandbox=ExternalSandbox()))


def test_the_domains_of_the_profile_in_use_are_told(facts: Facts) -> None:
    domains = {"packages.example": "allow", "example.org": "allow", "evil.example": "deny"}
    permissions = permissions_of(ReadOnly(network_access=True)).evolve(network_rules=NetworkRules(domains=domains))
    (fragment,) = Environment().fragments(facts(permissions=permissions))
    assert (
        '  <network enabled="true"><allowed>packages.example,example.org</allowed><denied>evil.example</denied></network>\n'
        in fragment.text
    )


def test_the_root_of_the_disk_is_a_workspace_like_any_other(facts: Facts) -> None:
    (fragment,) = Environment().fragments(facts(cwd=Path("/"), sandbox=WorkspaceWrite()))
    root = ElementTree.fromstring(fragment.text)
    assert root.findtext("filesystem/workspace_roots/root") == "/"
    writable = [entry for entry in root.iter("entry") if entry.get("access") == "write"]
    assert "/" in [path.text for entry in writable for path in entry.iter("path")]


def test_odd_folder_names_make_no_odd_xml(facts: Facts, tmp_path: Path) -> None:
    folder = tmp_path / "a <b> & c"
    folder.mkdir()
    (fragment,) = Environment().fragments(facts(cwd=folder, sandbox=WorkspaceWrite()))
    root = ElementTree.fromstring(fragment.text)
    assert root.findtext("cwd") == str(folder)
    assert root.findtext("filesystem/workspace_roots/root") == str(folder)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":America/Argentina/Ushuaia", "America/Argentina/Ushuaia"),
        ("/usr/share/zoneinfo/Etc/GMT+3", "Etc/GMT+3"),
        ("UTC", "UTC"),
        ("EST5EDT,M3.2.0,M11.1.0", ""),
        ("/etc/localtime", ""),
    ],
)
def test_the_zone_comes_from_the_variable(zone: str, expected: str) -> None:
    assert timezone_name({"TZ": zone}) == expected


def test_the_zone_comes_from_the_link_else(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    assert timezone_name({}, str(link)) == ""
    link.symlink_to("/usr/share/zoneinfo/Asia/Kathmandu")
    assert timezone_name({}, str(link)) == "Asia/Kathmandu"
    plain = tmp_path / "plain"
    plain.touch()
    assert timezone_name({"TZ": ""}, str(plain)) == ""
