"""How a tool call asks for more than its turn may do."""

from __future__ import annotations

import pytest

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    AdditionalPermissions,
    FileEntry,
    Special,
    SpecialPath,
)
from codex_framework.toolkit.permission_arguments import permission_fields


def additional(raw):
    return permission_fields({"additional_permissions": raw})["additional"]


@pytest.mark.parametrize("raw", [None, {}, {"network": {}}, {"network": None}, {"file_system": {"read": []}}])
def test_nothing_asked_for_is_nothing(raw):
    assert additional(raw) is None


def test_both_forms_of_files_and_the_network_are_understood():
    raw = {
        "network": {"enabled": True},
        "file_system": {
            "read": ["/a"],
            "write": ["b", "~/c"],
            "entries": [
                {"path": {"type": "path", "path": "/d"}, "access": "write"},
                {"path": {"type": "special", "value": {"kind": "tmpdir"}}, "access": "write"},
                {"path": {"type": "path", "path": "/e"}, "access": "none"},
            ],
        },
    }
    assert additional(raw) == AdditionalPermissions(
        (
            FileEntry(AbsolutePath("/a"), AccessMode.READ),
            FileEntry(AbsolutePath("b"), AccessMode.WRITE),
            FileEntry(AbsolutePath("~/c"), AccessMode.WRITE),
            FileEntry(AbsolutePath("/d"), AccessMode.WRITE),
            FileEntry(SpecialPath(Special.TMPDIR), AccessMode.WRITE),
            FileEntry(AbsolutePath("/e"), AccessMode.DENY),
        ),
        network=True,
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "additional_permissions must be an object with network or file_system"),
        ({"files": {}}, "additional_permissions must be an object with network or file_system"),
        ({"network": True}, "network must be an object with enabled"),
        ({"network": {"enabled": "yes"}}, "network.enabled must be true or false"),
        ({"file_system": {"write": "/a"}}, "file_system.write must be a list of paths"),
        ({"file_system": {"write": [3]}}, "file_system.write must be a list of paths"),
        ({"file_system": {"write": [""]}}, "file_system.write must be a list of paths"),
        ({"file_system": {"write": ["a\0b"]}}, "file_system.write must be a list of paths"),
        ({"file_system": {"entries": [{"path": {"type": "path"}, "access": "read"}]}}, "file_system.entries"),
        ({"file_system": {"entries": {"a": 1}}}, "file_system.entries"),
        (
            {"file_system": {"entries": [{"path": {"type": "glob_pattern", "pattern": "/*"}, "access": "read"}]}},
            "file_system.entries: a pattern can only be denied",
        ),
        (
            {"file_system": {"entries": [{"path": {"type": "special", "value": {"kind": "moon"}}, "access": "write"}]}},
            "file_system.entries: the place 'moon' is not known",
        ),
        (
            {"file_system": {"entries": [{"path": {"type": "glob_pattern", "pattern": "/a/*.{x"}, "access": "deny"}]}},
            "file_system.entries: the pattern '/a/*.{x' is wrong: a brace is not closed",
        ),
        (
            {"file_system": {"entries": [{"path": {"type": "glob_pattern", "pattern": "/**/x"}, "access": "deny"}]}},
            "file_system.entries: the pattern '/**/x' starts at the root",
        ),
        (
            {"file_system": {"entries": [{"path": {"type": "glob_pattern", "pattern": "/a\0*"}, "access": "deny"}]}},
            "file_system.entries: a path is empty or has a NUL character in it",
        ),
        (
            {"file_system": {"entries": [{"path": {"type": "path", "path": ""}, "access": "deny"}]}},
            "file_system.entries: a path is empty or has a NUL character in it",
        ),
        (
            {"file_system": {"entries": [{"path": {"type": "path", "path": "/a"}, "access": "all"}]}},
            "file_system.entries",
        ),
    ],
)
def test_another_form_is_told_to_the_model(raw, message):
    with pytest.raises(ToolError) as caught:
        additional(raw)
    assert str(caught.value).startswith("failed to parse function arguments: ")
    assert message in str(caught.value)


def test_the_older_name_of_escalation_is_understood():
    assert permission_fields({"with_escalated_permissions": True})["escalate"] == "require_escalated"
    assert permission_fields({})["escalate"] == "use_default"
    fields = permission_fields({"sandbox_permissions": "use_default", "with_escalated_permissions": True})
    assert fields["escalate"] == "use_default"
    assert permission_fields({"prefix_rule": ["git", "pull"]})["prefix_rule"] == ("git", "pull")
