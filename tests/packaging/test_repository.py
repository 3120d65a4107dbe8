"""The files around the code: the Makefile, the release, the citation, the table from rooms to tests, the metadata's addresses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z]+):.*## ", MAKEFILE, re.M)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_every_target_is_listed_and_names_existing_files() -> None:
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == TARGETS
    assert sorted(TARGETS) == sorted(re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.M)[0].split())
    shown = subprocess.run(["make", "-n", *TARGETS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {word for word in shown.split() if re.fullmatch(r"(tests|docs)(/[\w./]+)?", word)}
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_contributing_names_the_tests_of_every_room() -> None:
    rows = re.findall(r"^\| `(codex_framework/\w+)` \| (.*) \|$", CONTRIBUTING, re.M)
    rooms = {f"codex_framework/{path.parent.name}" for path in ROOT.glob("codex_framework/*/__init__.py")}
    assert {room for room, _ in rows} == rooms
    tests = {test for _, cell in rows for test in re.findall(r"`([^`]+)`", cell)}
    assert [test for test in tests if not (ROOT / test).exists()] == []


def test_every_target_that_contributing_names_exists() -> None:
    assert set(re.findall(r"`make (\w+)", CONTRIBUTING)) <= set(TARGETS)


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {key: citation[key] for key in ("title", "version", "license")} == {
        "title": PROJECT["name"],
        "version": PROJECT["version"],
        "license": PROJECT["license"],
    }


def test_tools_of_editors_run_what_the_makefile_has() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["postCreateCommand"] == "make setup"


def test_a_bug_report_demands_the_doctors_page() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8"))
    (field,) = (each for each in form["body"] if each["id"] == "doctor")
    assert "`codex-framework doctor`" in field["attributes"]["label"]
    assert field["validations"]["required"] is True


def notes(tmp_path: Path, tag: str, changelog: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / ".github").mkdir()
    program = tmp_path / ".github" / "release_notes.py"
    shutil.copy(ROOT / ".github" / "release_notes.py", program)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    return subprocess.run([sys.executable, program, tag], capture_output=True, text=True, check=False)


CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n- New\n\n## [1.2.0] - 2026-12-01\n\nText.\n\n### Fixed\n\n- One\n\n## [1.1.0]\n\nOld.\n"


def test_the_text_of_a_release_is_its_section_of_the_changelog(tmp_path: Path) -> None:
    done = notes(tmp_path, "v1.2.0", CHANGELOG)
    assert (done.returncode, done.stdout) == (0, "Text.\n\n### Fixed\n\n- One\n")


@pytest.mark.parametrize(
    ("tag", "changelog", "message"),
    [
        ("v1.1.0", CHANGELOG, "the tag is v1.1.0, and the version in pyproject.toml is 1.2.0"),
        ("v1.2.0", CHANGELOG.replace("[1.2.0]", "[1.2.1]"), "CHANGELOG.md has no section [1.2.0]"),
        ("v1.2.0", "## [1.2.0]\n\n## [1.1.0]\n\nOld.\n", "CHANGELOG.md has no section [1.2.0]"),
    ],
)
def test_no_release_is_made_of_another_tag_or_without_a_section(
    tmp_path: Path, tag: str, changelog: str, message: str
) -> None:
    done = notes(tmp_path, tag, changelog)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", message)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://git.example.org/a/b.git", "https://git.example.org/a/b"),
        ("https://name:secret@git.example.org/a/b", "https://git.example.org/a/b"),
        ("git@git.example.org:a/b.git", "https://git.example.org/a/b"),
        ("ssh://git@git.example.org/a/b.git", "https://git.example.org/a/b"),
        ("http://git.example.org/a/b", None),
        ("/srv/git/b.git", None),
        ("file:///srv/git/b.git", None),
        (None, None),
    ],
)
def test_the_metadata_names_the_repository_that_was_cloned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: str | None, address: str | None
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from hatch_build import RepositoryAddress

    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    if remote:
        subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", remote], check=True)
    metadata: dict[str, object] = {}
    RepositoryAddress(str(tmp_path), {}).update(metadata)
    named = {
        "Repository": address,
        "Issues": f"{address}/issues",
        "Documentation": f"{address}/blob/HEAD/docs/index.md",
    }
    assert metadata["urls"] == (named if address else {})


def test_a_folder_inside_another_repository_does_not_take_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from hatch_build import RepositoryAddress

    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", "https://git.example.org/a/b"], check=True)
    (tmp_path / "vendored").mkdir()
    metadata: dict[str, object] = {}
    RepositoryAddress(str(tmp_path / "vendored"), {}).update(metadata)
    assert metadata["urls"] == {}
