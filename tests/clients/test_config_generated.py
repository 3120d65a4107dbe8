"""``config set`` and ``unset`` on generated files: what is written, and what is refused, compared with the reader of the files."""

from __future__ import annotations

import collections
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_framework.cli.config import command
from codex_framework.config import load_config, settings_from
from codex_framework.config.editing.layout import comments_in
from codex_framework.contract.errors import CodexError
from codex_framework.loader.registry import load_registry

COMMENTS = ("# a", "#", "# model = 1", "# [history]", "#\ttab", "# ünï \" ' ''' \"\"\"", "# ]}", "# x = [ # y")
ROOT = {
    "model": ('"o3"', "'gpt-5.5'", '"""\no3"""'),
    "review_model": ('"#"', "''"),
    "hide_agent_reasoning": ("true", "false"),
    "project_doc_max_bytes": ("1_000", "0x10"),
    "project_root_markers": ('[".git", ".hg"]', '[ # first\n  ".git", # c\n\n  # last\n]', "[]"),
    "developer_instructions": ("'''\n# no comment\n\n[history]\n'''", '"""a \\\n  b"""'),
    "tools.view_image": ("true",),
    "features.unified_exec": ("true",),
    "shell_environment_policy": ('{ inherit = "all", set = { A = "1", "B.C" = \'2\' } }', "{}"),
}
TABLES = {
    "[history]": {"persistence": ('"none"', "'save-all'"), "max_bytes": ("5",)},
    "[ mcp_servers . docs ]": {
        "command": ('"docs"',),
        "args": ('["--x"]', '[\n  "a", # a\n  "b" # b\n]'),
        "env.A": ('"1"',),
    },
    "[mcp_servers.docs.tools.look]": {"approval_mode": ('"auto"',)},
    "[model_providers.mine]": {"base_url": ('"http://127.0.0.1:9/v1"',), "request_max_retries": ("0",)},
    '[projects."/a.b/c"]': {"trust_level": ('"trusted"',)},
    "[projects.'/d']": {"trust_level": ("'untrusted'",)},
    "[profiles.fast]": {"model": ('"o4"',), "model_verbosity": ('"low"',)},
    "[[hooks.Stop]]": {"hooks": ('[{ type = "command", command = "true" }]',)},
    "[tui]": {"theme": ('"x"',), "animations": ("false",)},
}
KEYS = [
    *[key for key in ROOT if "." not in key],
    "history", "history.persistence", "history.max_bytes", "mcp_servers.docs", "mcp_servers.docs.args", "mcp_servers.docs.command",
    "mcp_servers.docs.env", "model_providers.mine.base_url", 'projects."/a.b/c".trust_level', 'projects."/new".trust_level',
    "profiles.fast", "profiles.fast.model", "profile", "model_provider", "hooks.Stop", "hooks.Stop.x", "tui.theme", "tools",
    "tools.view_image", "features.unified_exec", "features.nothing", "shell_environment_policy.set", "modle", "history.persistense",
    'shell_environment_policy.set."B.C"', "mcp_servers.new", 'mcp_servers."a b".command', "mcp_servers.docs.url",
    "model_providers.openai.base_url", "sandbox_mode", "approval_policy", "approval_policy.granular", "default_permissions",
    "framework.unknown_keys", "model.x", "project_root_markers.x",
]  # fmt: skip
VALUES = [
    "o3", '"5"', "5", "-1", "true", "none", "trusted", "mine", "nope", "fast", "never", "read-only", "warn", ":workspace", "[]",
    '[".git"]', '["b", "c"]', "[1]", "{}", '{command = "x"}', '{url = "http://x"}', '{args = []}', '{A = "1"}', '{A = 1}',
    "{rules = true}", "{view_image = false}", '{model = "x"}', '{persistence = "none", max_bytes = 1}', '[{hooks = []}]', "2020-01-01",
    "nan", "", "a\nb = 1", '"""x""" # c',
]  # fmt: skip


@st.composite
def files(draw) -> str:
    """A valid ``config.toml`` with comments and blank lines in odd places."""
    lines: list[str] = []

    def fill() -> None:
        for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
            lines.append(draw(st.sampled_from(("", "  ", "\t"))) + draw(st.sampled_from(("", "", *COMMENTS))))

    def pairs(pool: Mapping[str, tuple[str, ...]], required: tuple[str, ...] = ()) -> None:
        chosen = draw(st.lists(st.sampled_from(sorted(pool)), max_size=4, unique=True))
        for key in dict.fromkeys([*chosen, *required]):
            fill()
            gap = draw(st.sampled_from((" = ", "=", "\t=  ")))
            end = draw(st.sampled_from(("", "", "  ", *(f" {comment}" for comment in COMMENTS))))
            lines.append(draw(st.sampled_from(("", "", "  "))) + key + gap + draw(st.sampled_from(pool[key])) + end)

    pairs(ROOT)
    names = draw(st.lists(st.sampled_from(sorted(TABLES)), max_size=5, unique=True))
    for header in [*names, *[name for name in names if name.startswith("[[")]]:
        fill()
        lines.append(header + draw(st.sampled_from(("", " # header"))))
        pairs(TABLES[header], ("command",) if header == "[ mcp_servers . docs ]" else ())
    if "[mcp_servers.docs.tools.look]" in names and "[ mcp_servers . docs ]" not in names:
        lines += ["[mcp_servers.docs]", 'command = "docs"']
    fill()
    text = "\n".join(lines) + draw(st.sampled_from(("", "\n")))
    return draw(st.sampled_from(("", "", "\ufeff"))) + text.replace("\n", draw(st.sampled_from(("\n", "\n", "\r\n"))))


class Home:
    """A home whose file is changed by the command, and another one for the reader."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "home" / "config.toml"
        self.other = folder / "other" / "config.toml"
        for file in (self.file, self.other):
            file.parent.mkdir()

    def write(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8", newline="")

    def text(self) -> str:
        return self.file.read_bytes().decode()

    def run(self, *arguments: str) -> CodexError | None:
        done = CliRunner().invoke(command, arguments)
        assert done.exception is None or isinstance(done.exception, CodexError), done.exc_info
        return done.exception

    def read(self, tables: Mapping[str, Any]) -> CodexError | None:
        """How a thread that is started with these settings fails."""
        self.other.write_text(tomlkit.dumps(tables), encoding="utf-8")
        try:
            config = load_config(cwd=self.other.parent, environ=os.environ, codex_home=self.other.parent)
            settings_from(config, load_registry(config).builtin_providers)
        except CodexError as error:
            return error
        return None


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = Home(tmp_path_factory.mktemp("generated"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEX_HOME", str(made.file.parent))
        patch.chdir(made.file.parent)
        yield made


def told(error: CodexError) -> tuple[str, str | None, str]:
    """The error without the file and line."""
    fact = error.fact.split(": ", 1)[-1] if error.fact.startswith("/") else error.fact
    return error.slug, getattr(error, "key", None), fact


def put(tables: dict[str, Any], key: tuple[str, ...], value: Any) -> bool:
    """Set a value in plain tables. Return whether that is possible."""
    for name in key[:-1]:
        inner = tables.setdefault(name, {})
        if not isinstance(inner, dict):
            return False
        tables = inner
    tables[key[-1]] = value
    return True


def parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def check_style(before: str, after: str) -> None:
    """Check that all comments and blank lines are still there, and that line ends and mark are the same."""
    assert collections.Counter(comments_in(before)) == collections.Counter(comments_in(after))
    values = [text for pool in (ROOT, *TABLES.values()) for texts in pool.values() for text in texts if "\n" in text]
    blank, blank_after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    for value in values:  # the lines of a value are not lines of the file
        blank, blank_after = blank.replace(value, "v"), blank_after.replace(value, "v")
    assert sum(not line.strip() for line in blank.split("\n")) <= sum(
        not line.strip() for line in blank_after.split("\n")
    )
    assert before.startswith("\ufeff") == after.startswith("\ufeff")
    if "\r\n" in before:
        assert after.count("\n") == after.count("\r\n")


@settings(max_examples=settings.default.max_examples)
@given(text=files(), key=st.sampled_from(KEYS), value=st.sampled_from(VALUES))
def test_set_keeps_what_is_there_and_refuses_what_the_reader_refuses(home, text, key, value):
    """It takes seconds: the plugins are loaded twice for each file, by the command and by the reader."""
    from codex_framework.config.keys import split_key
    from codex_framework.config.toml_file import override_value

    home.write(text)
    tables = parsed(text)
    segments = split_key(key)
    is_possible = put(tables, segments, override_value(value))
    error = home.run("set", key, value)
    if error is None:
        assert is_possible
        assert home.read(tables) is None
        assert repr(parsed(home.text())) == repr(tables) or sorted_(parsed(home.text())) == sorted_(tables)
        check_style(text, home.text())
    else:
        assert home.text() == text
        refusal = home.read(tables) if is_possible else None
        assert not is_possible or (refusal is not None and told(refusal) == told(error))


@settings(max_examples=settings.default.max_examples)
@given(text=files(), key=st.sampled_from(KEYS))
def test_unset_keeps_what_is_there_and_refuses_what_the_reader_refuses(home, text, key):
    """It takes some seconds, like the test above."""
    from codex_framework.config.keys import lookup, split_key

    home.write(text)
    tables = parsed(text)
    segments = split_key(key)
    parent = lookup(tables, segments[:-1]) if len(segments) > 1 else tables
    exists = isinstance(parent, dict) and segments[-1] in parent
    error = home.run("unset", key)
    if exists:
        del parent[segments[-1]]
    if error is None:
        assert exists
        assert home.read(tables) is None
        assert sorted_(parsed(home.text())) == sorted_(tables)
        check_style(text, home.text())
    else:
        assert home.text() == text
        refusal = home.read(tables) if exists else None
        assert not exists or (refusal is not None and told(refusal) == told(error))


def sorted_(value: Any) -> Any:
    """The value in a form that does not depend on the order of keys. Empty tables are left out."""
    if isinstance(value, dict):
        parts = {name: sorted_(part) for name, part in sorted(value.items())}
        return {name: part for name, part in parts.items() if part != {}}
    return [sorted_(part) for part in value] if isinstance(value, list) else repr(value)
