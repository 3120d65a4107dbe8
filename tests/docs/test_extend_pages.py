"""The pages on extending that describe a whole path: every step is taken in a fresh environment, word for word."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

EXTEND = Path(__file__).parents[2] / "docs" / "extend"


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_an_author_creates_tests_builds_and_installs_a_plugin_in_ten_minutes(tmp_path, repository, pages, reader_env):
    """It takes half a minute: pip fills two environments."""
    place = tmp_path / "reader"
    place.mkdir()
    page = repository((EXTEND / "share-a-plugin.md").read_text(encoding="utf-8"))
    pages.walk_through(page, place, reader_env(Path(sys.executable).parent, PIP_DISABLE_PIP_VERSION_CHECK="1"))


@pytest.fixture
def walk(tmp_path, kernel_wheel, fresh_venv, pages, reader_env):
    """Walk through a page in a fresh environment with the wheel."""

    def go(page: str) -> None:
        place = tmp_path / "reader"
        place.mkdir()
        venv = fresh_venv(kernel_wheel, "pip")
        pages.walk_through(page, place, reader_env(venv.programs, PIP_DISABLE_PIP_VERSION_CHECK="1"))

    return go


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_agent_of_the_page_is_tested_and_used(walk):
    walk((EXTEND / "write-an-agent.md").read_text(encoding="utf-8"))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_provider_of_the_page_becomes_a_package(walk):
    page = (EXTEND / "write-a-model-provider.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python as ollama_chat.py\n(.*?)^```$", page, re.M | re.S)
    (section,) = re.findall(r"^### As a package\n(.*?)^## ", page, re.M | re.S)
    walk(f'```python title="ollama_chat.py"\n{program}```\n{section}')


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="the page is for Linux")
def test_the_sandbox_of_the_page_keeps_secrets(walk):
    walk((EXTEND / "write-a-sandbox.md").read_text(encoding="utf-8"))
