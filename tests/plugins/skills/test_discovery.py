"""Where skills are found, within which limits, and which of them are used."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import say
from codex_plugin_skills import scanning
from codex_plugin_skills.catalog import Catalogs
from codex_plugin_skills.roots import Root, Roots, find_roots
from codex_plugin_skills.scanning import search
from tests.plugins.skills.conftest import Skills, injected, lines, listed, texts, warned, write_skill


def names(folder: Path, *, follow: bool = True) -> list[str]:
    return [Path(path).parent.name for path in search(str(folder), follow=follow).files]


def problems(folder: Path) -> list[str]:
    return [problem.message for problem in search(str(folder), follow=True).problems]


def test_skills_of_all_places_are_listed_by_scope_and_name(skills: Skills) -> None:
    skills.write("mine")
    write_skill(skills.person / ".agents" / "skills" / "ours")
    write_skill(skills.home / "skills" / ".system" / "builtin")
    write_skill(skills.project / ".agents" / "skills" / "agents")
    write_skill(skills.project / ".codex" / "skills" / "codex")
    write_skill(skills.project / "sub" / ".agents" / "skills" / "below")
    turn = skills.turn(cwd=skills.project / "sub")
    found = [line.split(":")[0].removeprefix("- ") for line in lines(turn)]
    assert found == ["builtin", "agents", "below", "codex", "mine", "ours"]
    assert warned(turn) == []


def test_skills_beside_and_above_the_project_are_not_used(skills: Skills) -> None:
    write_skill(skills.project / "other" / ".agents" / "skills" / "beside")
    write_skill(skills.project.parent / ".agents" / "skills" / "above")
    assert listed(skills.turn()) == ""


@pytest.mark.parametrize("level", ["untrusted", ""])
@pytest.mark.parametrize("place", [".agents", ".codex"])
def test_skills_of_a_project_without_trust_are_neither_listed_nor_added(skills: Skills, level: str, place: str) -> None:
    write_skill(skills.project / place / "skills" / "evil")
    skills.write("mine")
    config = [
        f'projects."{skills.project}".trust_level="untrusted"' if level else 'projects."/other".trust_level="trusted"'
    ]
    skills.trusted = 'model="gpt-5.5"'
    turn = skills.turn("$evil", config=config)
    assert [line[:7] for line in lines(turn)] == ["- mine:"]
    assert injected(turn) == []
    (text,) = [text for text in warned(turn) if text.startswith("skills:")]
    assert text == (
        f"skills: {skills.project}/{place}/skills: its skills are not used, because you have not trusted this project."
        " To trust it: codex-framework trust"
    )


def test_a_project_cannot_trust_itself_or_switch_on_what_the_user_has_off(skills: Skills) -> None:
    file = skills.write("mine")
    folder = skills.project / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(f'[[skills.config]]\npath = "{file}"\nenabled = true\n')
    (skills.home / "config.toml").write_text(f'[[skills.config]]\npath = "{file}"\nenabled = false\n')
    turn = skills.turn("$mine")
    assert (lines(turn), injected(turn)) == ([], [])


def test_the_home_folder_as_working_folder_has_skills_of_the_user(skills: Skills, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_skill(home / ".codex" / "skills" / "one")
    write_skill(home / ".agents" / "skills" / "two")
    roots = find_roots(home, home / ".codex", str(home), {}, bundled=False, admin="/nowhere")
    found = [(root.path, root.scope) for root in roots.used]
    assert found == [(f"{home}/.codex/skills", "user"), (f"{home}/.agents/skills", "user")]
    assert roots.distrusted == ()


def test_the_administrator_has_skills_too(tmp_path: Path) -> None:
    admin = tmp_path / "admin"
    write_skill(admin / "corporate")
    roots = find_roots(tmp_path, tmp_path / "home", "", {}, bundled=False, admin=str(admin))
    catalog = Catalogs().catalog(roots, ())
    assert [(skill.name, skill.metadata.scope) for skill in catalog.skills] == [("corporate", "admin")]


def test_the_same_folder_twice_has_its_skills_once(skills: Skills) -> None:
    skills.write("mine")
    (skills.person / ".agents").mkdir()
    (skills.person / ".agents" / "skills").symlink_to(skills.home / "skills")
    assert len(lines(skills.turn())) == 1


def test_a_linked_folder_is_followed_and_named_by_its_real_path(skills: Skills, tmp_path: Path) -> None:
    file = write_skill(tmp_path / "outside" / "linked")
    (skills.home / "skills").mkdir()
    (skills.home / "skills" / "link").symlink_to(tmp_path / "outside")
    (line,) = lines(skills.turn())
    assert line == f"- linked: Does things. (file: {file})"


def test_system_skills_do_not_lead_elsewhere(tmp_path: Path) -> None:
    write_skill(tmp_path / "outside")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    assert names(tmp_path / "root", follow=False) == []
    assert names(tmp_path / "root") == ["outside"]


def test_only_other_scopes_follow_links(skills: Skills, tmp_path: Path) -> None:
    write_skill(tmp_path / "outside" / "linked")
    system = skills.home / "skills" / ".system"
    write_skill(system / "builtin")
    (system / "link").symlink_to(tmp_path / "outside")
    assert [line.split(":")[0] for line in lines(skills.turn())] == ["- builtin"]


def test_a_thread_can_switch_skills_off_for_itself(skills: Skills) -> None:
    skills.write("alpha")

    async def main() -> list[list[str]]:
        found = []
        async with skills.kernel([say("x")] * 2) as kernel:
            for config in ({}, {"skills": {"config": [{"name": "alpha", "enabled": False}]}}):
                found.append(injected(await kernel.run_turn("$alpha", config=config)))
        return found

    assert asyncio.run(main()) == [["alpha"], []]


def test_loops_end(tmp_path: Path) -> None:
    write_skill(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a" / "self")
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    assert names(tmp_path) == ["a"]


def test_folders_are_searched_six_levels_deep(tmp_path: Path) -> None:
    write_skill(tmp_path / "1/2/3/4/5/6")
    write_skill(tmp_path / "1/2/3/4/5/6/7")
    assert names(tmp_path) == ["6"]


def test_a_file_in_the_folder_itself_and_skills_in_skills_are_found(tmp_path: Path) -> None:
    write_skill(tmp_path, "top")
    write_skill(tmp_path / "outer")
    write_skill(tmp_path / "outer" / "inner")
    assert names(tmp_path) == [tmp_path.name, "outer", "inner"]


def test_hidden_folders_and_other_names_are_skipped(tmp_path: Path) -> None:
    write_skill(tmp_path / ".hidden")
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "skill.md").write_text("---\ndescription: d\n---\n")
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    assert names(tmp_path) == []
    assert problems(tmp_path) == []


def test_a_linked_file_is_not_used_and_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").symlink_to(write_skill(tmp_path / "b"))
    assert names(tmp_path) == ["b"]
    assert problems(tmp_path) == ["it is a symlink. Make its folder a symlink instead, or copy the SKILL.md"]


def test_the_search_ends_after_2000_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "MAX_FOLDERS", 10)
    for number in range(20):
        write_skill(tmp_path / f"s{number:02}")
    assert names(tmp_path) == [f"s{number:02}" for number in range(9)]
    assert problems(tmp_path) == ["the search ended here: there are more than 10 folders"]


def test_the_search_ends_after_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "MAX_ENTRIES", 10)
    (tmp_path / "a").mkdir()
    for number in range(20):
        (tmp_path / "a" / str(number)).touch()
    write_skill(tmp_path / "b")
    assert names(tmp_path) == []
    assert problems(tmp_path) == ["the search ended here: there are more than 10 files"]


def test_a_folder_that_cannot_be_read_is_told_and_the_others_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "closed")
    write_skill(tmp_path / "open")
    real = os.scandir

    def refusing(path: str) -> Any:
        if path.endswith("/closed"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # as root, every folder can be read
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert names(tmp_path) == ["open"]
    assert problems(tmp_path) == ["the folder cannot be read: Permission denied"]


RULES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "by name": ([{"name": "mine", "enabled": False}], False),
    "by path": ([{"path": "FILE", "enabled": False}], False),
    "another name": ([{"name": "other", "enabled": False}], True),
    "the last counts": ([{"name": "mine", "enabled": False}, {"path": "FILE", "enabled": True}], True),
    "whatever its kind": ([{"path": "FILE", "enabled": True}, {"name": "mine", "enabled": False}], False),
    "the folder is not the file": ([{"path": "FOLDER", "enabled": False}], True),
    "no state": ([{"name": "mine"}], True),
    "no text": ([{"name": 5, "enabled": False}], True),
}


@pytest.mark.parametrize(("rules", "on"), RULES.values(), ids=RULES)
def test_skills_are_switched_off(tmp_path: Path, rules: list[dict[str, Any]], on: bool) -> None:
    file = write_skill(tmp_path / "mine")
    words = {"FILE": str(file), "FOLDER": str(file.parent)}
    given = [{key: words.get(str(value), value) for key, value in rule.items()} for rule in rules]
    catalog = Catalogs().catalog(Roots([Root(str(tmp_path), "user")]), given)
    assert [skill.metadata.enabled for skill in catalog.skills] == [on]
    assert len(catalog.enabled()) == len(catalog.offered()) == on


def test_bundled_skills_are_only_used_by_name_and_can_be_switched_off(skills: Skills) -> None:
    turn = skills.turn("$write-plugin please")
    assert (listed(turn), injected(turn)) == ("", ["write-plugin"])
    assert injected(skills.turn("$write-plugin", config=["skills.bundled.enabled=false"])) == []


def test_the_list_can_be_left_out(skills: Skills) -> None:
    skills.write("mine")
    turn = skills.turn("$mine", config=["skills.include_instructions=false"])
    assert (listed(turn), injected(turn)) == ("", ["mine"])


def test_without_skills_nothing_is_added(skills: Skills) -> None:
    turn = skills.turn("costs $5 in $HOME")
    assert (listed(turn), injected(turn), warned(turn)) == ("", [], [])
    assert texts(turn, "user")[-1] == "costs $5 in $HOME"


def test_further_folders_of_the_settings_are_absolute() -> None:
    from codex_plugin_skills.settings import Settings

    assert Settings(roots=("/x",)).roots == ("/x",)
    for root in ("x", "~/x", "/x\0"):
        with pytest.raises(ValueError, match="is not an absolute path"):
            Settings(roots=(root,))
