"""The list of known plugins has the form that it asks for, and every distribution of this repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `([a-z0-9_-]+)` \| `([a-z0-9-]+)` \| ([^|]*[^|.\s]) \| \[([^\]]+)\]\((\S+)\) \|$")
HERE = "this repository"


def rows(page: str) -> list[tuple[str, ...]]:
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    found = [ROW.match(line) for line in lines]
    assert None not in found, f"not in the form of a row: {lines[found.index(None)]}"
    return [match.groups() for match in found if match]


@pytest.fixture
def known():
    return rows((ROOT / "docs" / "known-plugins.md").read_text(encoding="utf-8"))


def test_the_list_is_sorted_and_names_everything_once(known):
    plugins, packages = [row[0] for row in known], [row[1] for row in known]
    assert plugins == sorted(set(plugins))
    assert len(packages) == len(set(packages))


def test_sources_are_public_addresses_named_after_their_host(known):
    for _, package, _, text, link in known:
        if text == HERE:
            assert link == f"../contrib/{package.replace('-', '_')}/README.md"
        else:
            assert (urlsplit(link).scheme, urlsplit(link).hostname) == ("https", text)


def test_the_distributions_of_this_repository_are_listed_with_their_plugins(known):
    offered = []
    for file in (ROOT / "contrib").glob("*/pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        offered += [(plugin, project["name"]) for plugin in project.get("entry-points", {}).get("codex_framework", ())]
    assert sorted(offered) == [(plugin, package) for plugin, package, _, text, _ in known if text == HERE]


@pytest.mark.parametrize(
    "row",
    [
        "| `a` | `b` | does it. | [host](https://host/) |",
        "| a | `b` | does it | [host](https://host/) |",
        "| `a` | `B` | does it | [host](https://host/) |",
        "| `a` | `b` | does it | https://host/ |",
    ],
)
def test_other_forms_are_recognised(row):
    with pytest.raises(AssertionError):
        rows(f"| plugin | package | what it does | source |\n|---|---|---|---|\n{row}\n")
