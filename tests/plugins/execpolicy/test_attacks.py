"""Commands in the sandbox write what an allowed git would run outside of it: then git runs in the sandbox, too."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from .test_belief import Turns, needs_sandbox

pytestmark = needs_sandbox
GIT = "git -c user.name=a -c user.email=b"
USES_FILTER = "echo '* filter=x' > .gitattributes"
NESTED = (
    f"git init -q sub && mkdir sub/far && ln -s sub/far link && cd sub && touch f && git add f && {USES_FILTER}"
    " && git config filter.x.clean MONITOR && echo changed > f"
)


@pytest.fixture
def turns(make_kernel: Any, tmp_path: Path) -> Turns:
    """Turns in a repository with a changed file, whose settings the user has made."""
    found = Turns(make_kernel, tmp_path)
    shell(found.work, f"git init -q && touch f && git add f && {GIT} commit -qm f && echo changed > f", found)
    found.evil("monitor")
    return found


def shell(folder: Path, script: str, turns: Turns) -> None:
    script = script.replace("MONITOR", str(turns.work / "monitor")).replace("WORK", str(turns.work))
    subprocess.run(["bash", "-c", script], cwd=folder, check=True, env=turns.environ, capture_output=True)


FORMS = {
    "nested repository, cd": ("true", NESTED, "cd sub && git status"),
    "nested repository, cd -P": ("true", NESTED, "cd -P link/.. && git status"),
    "nested repository, cd through a link": ("true", NESTED, "cd link && git status"),
    "nested repository, cd to a parent": ("true", NESTED, "cd sub/far && cd .. && git status"),
    "commondir": (
        "cp -r .git shared && echo ../shared > .git/commondir",
        f"{USES_FILTER} && git config --file shared/config filter.x.clean MONITOR",
        "git status",
    ),
    "linked config": (
        "mv .git/config conf && ln -s ../conf .git/config",
        f"{USES_FILTER} && git config --file conf filter.x.clean MONITOR",
        "git status",
    ),
    "linked hooks": (
        "rm -rf .git/hooks && mkdir hooks && ln -s ../hooks .git/hooks",
        "cp monitor hooks/post-index-change && git hash-object f",
        "touch -d yesterday g; git status",
    ),
    "linked hook": (
        "mkdir -p .git/hooks && touch hook && chmod 755 hook && ln -s ../../hook .git/hooks/post-index-change",
        "cp monitor hook",
        "git status",
    ),
    "hook that runs a script": (
        "printf '#!/bin/sh\\nsh check.sh\\n' > .git/hooks/post-index-change && chmod 755 .git/hooks/post-index-change",
        "cp monitor check.sh",
        "git status",
    ),
    "byte-order mark": (
        f"{USES_FILTER} && printf '\\357\\273\\277[filter \"x\"]\\n\\tclean = ./strip\\n' > .git/config",
        "cp monitor strip",
        "git status",
    ),
    "inline filter": (
        f"{USES_FILTER} && echo '[filter \"x\"] clean = ./strip' >> .git/config",
        "cp monitor strip",
        "git status",
    ),
    "filter in a pipeline": (
        f"{USES_FILTER} && git config filter.x.clean 'cat | sh strip'",
        "cp monitor strip",
        "git status",
    ),
    "filter behind a wrapper": (
        f"{USES_FILTER} && git config filter.x.clean 'timeout 9 sh strip'",
        "cp monitor strip",
        "git status",
    ),
    "included file": (
        f"{USES_FILTER} && touch more && git config include.path ../more",
        "git config --file more filter.x.clean MONITOR",
        "git status",
    ),
    "hooks of the user": (
        "git config --global core.hooksPath .husky && mkdir .husky",
        "cp monitor .husky/post-index-change",
        "git status",
    ),
    "monitor of the user": (
        "git config --global core.fsmonitor 'python3 -m watch'",
        'echo \'open("MARK", "w")\' > watch.py',
        "git status",
    ),
}


@pytest.mark.parametrize(("prepare", "plant", "command"), FORMS.values(), ids=FORMS)
def test_git_runs_nothing_outside_that_commands_can_write(turns: Turns, prepare: str, plant: str, command: str):
    shell(turns.work, prepare, turns)
    turns.mark.unlink(missing_ok=True)
    plant = plant.replace("MONITOR", str(turns.work / "monitor")).replace("MARK", str(turns.mark))
    turns.run("exec_command", cmd=plant, login=False)
    shell(turns.work, "touch f", turns)
    turns.run("exec_command", cmd=command, login=False)
    assert not turns.mark.exists()
    shell(turns.work, f"touch f; {command}", turns)
    assert turns.mark.exists(), "outside of the sandbox, git would have run it"
