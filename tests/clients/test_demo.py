from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def played(cli: Any, tmp_path: Path) -> Any:
    """The demo's run, kept; its temporary folder is below ``tmp_path``."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    cli.env["TMPDIR"] = str(scratch)
    ran = cli.run("demo", "--keep")
    if "no sandbox" in ran.err.lower() or "--no-sandbox" in ran.err:
        pytest.skip(f"no sandbox works here: {ran.err.strip()}")
    assert ran.status == 0, ran.err
    return ran


def test_the_agent_mends_a_real_repository(cli: Any, played: Any) -> None:
    found = re.search(r"The repository is in (.+)\.", played.out)
    assert found
    repository = Path(found[1])
    tested = subprocess.run([sys.executable, "-m", "unittest", "-q"], cwd=repository, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr


def test_it_shows_the_plan_the_failure_the_diff_and_the_success(cli: Any, played: Any) -> None:
    lines = played.out.splitlines()
    assert lines[0].startswith("sandbox  ")
    assert lines[1] == "you      A test in this repository fails. Find out why and fix it."
    order = [
        "plan     → Run the tests  · Read the code  · Fix it  · Run the tests again",
        "         FAILED (failures=1)",
        "patch    M slug.py",
        "plan     ✓ Run the tests  ✓ Read the code  ✓ Fix it  → Run the tests again",
        "         OK",
        '-    return title.lower().replace(" ", "-")',
        '+    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))',
    ]
    places = [lines.index(line) for line in order]
    assert places == sorted(places)
    assert "\x1b[" not in played.out


def test_the_readme_shows_what_it_prints(played: Any) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    _, _, shown = readme.partition("$ codex-framework demo\n")
    lines = [" ".join(line.split()) for line in shown.partition("```")[0].splitlines()]
    rest = without_times(" ".join(played.out.split()))
    for line in (without_times(line) for line in lines if line not in ("", "...")):
        assert line in rest
        rest = rest.partition(line)[2]


def without_times(text: str) -> str:
    return re.sub(r"[0-9.]+ m?s\b", "N s", text)


def test_it_leaves_nothing_behind(cli: Any, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    cli.env["TMPDIR"] = str(scratch)
    ran = cli.run("demo", "--no-sandbox")
    assert ran.status == 0
    assert "the tests pass" in ran.out
    assert list(scratch.glob("codex-framework-demo-*")) == []
    assert list(cli.home.iterdir()) == []


def test_a_killed_demo_is_cleaned_up_by_the_next_one(cli: Any, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    cli.env["TMPDIR"] = str(scratch)
    process = cli.start("demo", "--no-sandbox")
    while not list(scratch.glob("codex-framework-demo-*/repository")):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert len(list(scratch.glob("codex-framework-demo-*"))) == 1
    (scratch / "codex-framework-demo-kept").mkdir()
    assert cli.run_installed("demo", "--no-sandbox").status == 0
    assert [path.name for path in scratch.glob("codex-framework-demo-*")] == ["codex-framework-demo-kept"]


def test_it_needs_no_key_no_network_and_no_configuration(cli: Any) -> None:
    (cli.home / "config.toml").write_text("model = 1\n")  # whatever is wrong there is not the demo's matter
    for name in [name for name in cli.env if name.endswith("_KEY")]:
        del cli.env[name]
    assert cli.run("demo", "--no-sandbox").status == 0
