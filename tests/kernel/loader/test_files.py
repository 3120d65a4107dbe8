"""One-file plugins: named by a program, on the command line or in the user's configuration."""

from __future__ import annotations

import os
import time
from pathlib import Path
from textwrap import dedent

import pytest

from codex_framework.config import load_config
from codex_framework.loader.registry import Registry, load_registry

WORDS = """
    from codex_framework import hookimpl, tool

    __version__ = "1.5"

    @tool
    def count_words(text: str) -> int:
        "Count the words of a text."
        return len(text.split())

    @hookimpl
    def codex_tools():
        return [count_words]
"""

GOOD = """
    from codex_framework import hookimpl

    class Bell:
        name = "bell"
        def notify(self, notification): pass

    @hookimpl
    def codex_notifiers():
        return [Bell()]
"""


@pytest.fixture
def file(tmp_path: Path):
    def write(name: str, source: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source).lstrip(), encoding="utf-8")
        return path

    return write


def load(*plugins: object) -> Registry:
    return load_registry({}, entry_points=(), extra_plugins=plugins)


def report(registry: Registry, name: str):
    (found,) = [one for one in registry.reports if one.name == name]
    return found


def configured(tmp_path: Path, text: str, project: str = "", *overrides: str):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(exist_ok=True)
    (work / ".codex").mkdir(parents=True, exist_ok=True)
    (work / ".git").mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    (work / ".codex" / "config.toml").write_text(project)
    return load_config(cwd=work, environ={"HOME": str(home)}, codex_home=home, overrides=overrides)


def test_a_file_is_a_plugin_that_is_called_like_the_file(file):
    registry = load(file("words.py", WORDS))
    found = report(registry, "words")
    assert (found.status, found.version, found.contributes) == ("loaded", "1.5", {"tools": ("count_words",)})
    assert found.file == found.origin == str(file("words.py", WORDS))
    assert registry.warnings == ()


def test_a_class_in_a_file_is_found(file):
    source = """
        from codex_framework import Plugin, hookimpl

        class Base(Plugin):
            pass

        class Words(Base):
            @hookimpl
            def codex_observers(self):
                return []
    """
    assert report(load(file("words.py", source)), "words").status == "loaded"


def test_a_file_with_several_plugins_is_refused(file):
    source = """
        from codex_framework import Plugin, hookimpl

        class One(Plugin):
            pass

        class Other(Plugin):
            pass
    """
    path = file("words.py", source)
    (problem,) = report(load(path), "words").problems
    assert problem.fact == "its file contains several plugins: One, Other"
    assert (problem.path, problem.line) == (str(path), 6)


BROKEN = {
    "a syntax error": (
        "import os\n\ndef f(:\n    pass\n",
        "it cannot be imported: SyntaxError: invalid syntax",
        3,
        "plugin-import",
    ),
    "an import error": (
        "import os\nimport nowhere_to_be_found\n",
        "it needs the package 'nowhere_to_be_found', which is not installed",
        None,
        "missing-package",
    ),
    "an exception": (
        "x = 1\n1 / 0\n",
        "it cannot be imported: ZeroDivisionError: division by zero",
        2,
        "plugin-import",
    ),
    "an exit": ("\n\nraise SystemExit(3)\n", "it cannot be imported: it called sys.exit(3)", 3, "plugin-import"),
    "no hook": ("x = 1\n", "it implements no hook", None, "plugin-hook"),
    "nothing": ("", "it implements no hook", None, "plugin-hook"),
    "a misspelt hook": (
        "from codex_framework import hookimpl\n\n@hookimpl\ndef codex_tool():\n    return []\n",
        "there is no hook codex_tool",
        3,
        "plugin-hook",
    ),
    "an unknown encoding": (
        "# -*- coding: klingon -*-\nx = 1\n",
        "its file cannot be read: unknown encoding: klingon",
        1,
        "plugin-file",
    ),
    "a null byte": ("x = 1\n\0\n", "it cannot be imported: ", None, "plugin-import"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_told_with_its_place_and_the_others_load(tmp_path, file, case):
    source, fact, line, slug = BROKEN[case]
    path = tmp_path / "bad.py"
    path.write_text(source)
    registry = load(path, file("good.py", GOOD))
    found = report(registry, "bad")
    assert found.status == "failed"
    assert found.problems[0].fact.startswith(fact)
    assert (found.problems[0].slug, bool(found.problems[0].hint)) == (slug, True)
    if line is not None:
        assert (found.problems[0].path, found.problems[0].line) == (str(path), line)
    assert report(registry, "good").status == "loaded"


def test_a_file_that_is_not_utf_8_is_told_with_the_line(tmp_path, file):
    path = tmp_path / "bad.py"
    path.write_bytes(b"x = 1\ny = '\xe9'\n")
    registry = load(path, file("good.py", GOOD))
    (problem,) = report(registry, "bad").problems
    assert problem.fact == "its file is not UTF-8: byte 0xe9"
    assert (problem.path, problem.line, problem.hint) == (str(path), 2, "Save the file as UTF-8.")
    assert report(registry, "good").status == "loaded"


def test_a_file_may_say_that_it_has_another_encoding(tmp_path):
    path = tmp_path / "old.py"
    path.write_bytes(b"# coding: latin-1\n" + dedent(WORDS).replace("Count", "Z\xe4hle").encode("latin-1"))
    assert report(load(path), "old").status == "loaded"


def test_paths_that_lead_to_no_file_are_told(tmp_path, file):
    (tmp_path / "folder.py").mkdir()
    registry = load(tmp_path / "gone.py", tmp_path / "folder.py", tmp_path / "words.txt", file("good.py", GOOD))
    facts = {one.name: one.problems[0].fact for one in registry.reports if one.problems}
    assert facts == {
        "gone": f"there is no file {tmp_path / 'gone.py'}",
        "folder": f"{tmp_path / 'folder.py'} is a folder, not a file",
        "words.txt": f"{tmp_path / 'words.txt'} is not a file that ends in .py",
    }
    assert report(registry, "good").status == "loaded"


def test_the_users_configuration_names_files_relative_to_itself_and_says_where(tmp_path, file):
    file("home/plugins/words.py", WORDS)
    config = configured(tmp_path, '[framework.plugins]\npaths = [\n  "plugins/words.py",\n  "~/gone.py",\n]\n')
    registry = load_registry(config, entry_points=())
    assert report(registry, "words").status == "loaded"
    (problem,) = report(registry, "gone").problems
    assert problem.fact == f"there is no file {tmp_path / 'home' / 'gone.py'}"
    assert (problem.path, problem.line) == (str(tmp_path / "home" / "config.toml"), 4)
    assert problem.hint == f"Fix the path in {tmp_path / 'home' / 'config.toml'}."


def test_the_command_line_may_name_files_in_the_configuration_too(tmp_path, file):
    path = file("words.py", WORDS)
    config = configured(tmp_path, "", "", f'framework.plugins.paths=["{path}"]')
    assert report(load_registry(config, entry_points=()), "words").status == "loaded"


def test_a_project_cannot_load_code(tmp_path, file):
    marker = tmp_path / "ran"
    file("work/words.py", f"open({str(marker)!r}, 'w')")
    trust = f'[projects."{tmp_path / "work"}"]\ntrust_level = "trusted"\n'
    project = 'model = "m"\n[framework.plugins]\nprefer = ["x"]\npaths = ["../words.py"]\n'
    config = configured(tmp_path, trust, project)
    assert config.get("model") == "m"
    assert config.get("framework.plugins.prefer") is None
    assert config.get("framework.plugins.paths") is None
    own = tmp_path / "work" / ".codex" / "config.toml"
    assert [warning.partition(" is ignored, ")[0] for warning in config.warnings] == [
        f"{own}:3: `framework.plugins.prefer`",
        f"{own}:4: `framework.plugins.paths`",
    ]
    load_registry(config, entry_points=())
    assert not marker.exists()


def test_a_name_that_is_taken_is_told_with_the_place_that_names_the_file(tmp_path, file):
    path = file("home/shell.py", WORDS)
    config = configured(tmp_path, '[framework.plugins]\npaths = ["shell.py"]\n')
    registry = load_registry(config)
    installed, own = [one for one in registry.reports if one.name == "shell"]
    assert (installed.status, installed.problems) == ("loaded", ())
    assert own.status == "failed"
    assert own.problems[0].fact.startswith("two plugins are called 'shell': 'shell' (codex-framework ")
    assert str(path) in own.problems[0].fact
    assert own.problems[0].hint == "Rename the file: a one-file plugin has the name of its file, without .py."
    assert (own.problems[0].path, own.problems[0].line) == (str(tmp_path / "home" / "config.toml"), 2)


def test_a_file_that_the_program_passes_comes_before_an_installed_plugin(file):
    source = """
        from codex_framework import hookimpl, tool

        @tool
        def {name}() -> str:
            "Mine."
            return ""

        @hookimpl
        def codex_tools():
            return [{name}]
    """
    registry = load_registry({}, extra_plugins=[file("mine.py", source.format(name="update_plan"))])
    assert registry.tools["update_plan"].plugin == "mine"
    assert report(registry, "mine").contributes == {"tools": ("update_plan",)}
    assert "the tool 'update_plan' is offered by 'mine' (" in report(registry, "plan").problems[0].fact
    path = file("plan.py", source.format(name="draw_plan"))
    registry = load_registry({}, extra_plugins=[path])
    own, installed = [one for one in registry.reports if one.name == "plan"]
    assert (own.file, own.status, installed.status) == (str(path), "loaded", "failed")
    assert installed.problems[0].fact.startswith(f"two plugins are called 'plan': 'plan' ({path}) and 'plan' (")
    assert installed.problems[0].hint == "Rename the file: a one-file plugin has the name of its file, without .py."


def test_a_file_that_the_configuration_names_comes_after_installed_plugins(tmp_path, file):
    source = """
        from codex_framework import hookimpl, tool

        @tool
        def update_plan() -> str:
            "Mine."
            return ""

        @hookimpl
        def codex_tools():
            return [update_plan]
    """
    file("home/mine.py", source)
    registry = load_registry(configured(tmp_path, '[framework.plugins]\npaths = ["mine.py"]\n'))
    assert registry.tools["update_plan"].plugin == "plan"


def test_two_files_of_one_name_are_told_and_one_file_twice_is_not(file):
    one, other = file("a/words.py", WORDS), file("b/words.py", GOOD)
    registry = load(one, other, one)
    assert [found.status for found in registry.reports] == ["loaded", "failed"]
    assert registry.reports[1].problems[0].path == str(other)


def test_a_link_to_a_file_counts_as_the_file(tmp_path, file):
    path = file("words.py", WORDS)
    (tmp_path / "linked.py").symlink_to(path)
    assert [found.name for found in load(path, tmp_path / "linked.py").reports] == ["words"]


def test_a_file_can_be_disabled_and_required_and_have_settings(tmp_path, file):
    source = (
        WORDS
        + """
    from codex_framework import Value

    class Settings(Value):
        least: int = 1

    @hookimpl
    def codex_settings():
        return Settings
    """
    )
    file("home/words.py", source)
    user = """
        from codex_framework import hookimpl

        @hookimpl
        def codex_requires():
            return ["words>=1.4,<2"]
    """
    file("home/user.py", user)
    text = '[framework.plugins]\npaths = ["words.py", "user.py"]\nwords.least = 3\n'
    registry = load_registry(configured(tmp_path, text), entry_points=())
    assert [(one.name, one.status) for one in registry.reports] == [("words", "loaded"), ("user", "loaded")]
    assert registry.warnings == ()
    registry = load_registry(configured(tmp_path, text + 'disabled = ["words"]\n'), entry_points=())
    assert [(one.name, one.status) for one in registry.reports] == [("words", "disabled"), ("user", "failed")]


def test_an_unchanged_file_is_run_once_in_a_process_and_a_changed_one_again(tmp_path):
    path, log = tmp_path / "words.py", tmp_path / "log"
    source = f"with open({str(log)!r}, 'a') as file:\n    file.write('x')\n{dedent(GOOD)}"
    path.write_text(source)
    load(path)
    load(path)
    assert log.read_text() == "x"
    path.write_text(source + "\n# changed\n")
    os.utime(path, ns=(time.time_ns(), time.time_ns()))
    load(path)
    assert log.read_text() == "xx"


def test_a_relative_path_starts_at_the_current_folder(tmp_path, file, monkeypatch):
    file("words.py", WORDS)
    monkeypatch.chdir(tmp_path)
    assert report(load(Path("words.py")), "words").status == "loaded"
