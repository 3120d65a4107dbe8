"""What hooks run outside of the sandbox never comes from where commands of the model can write: neither programs nor modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework import FileAccess
from codex_framework.testing import call, say
from codex_plugin_hooks.isolation import inherited, isolate, module_folders
from codex_plugin_hooks.scripts import scripts
from codex_plugin_landlock.sandbox import LandlockSandbox
from tests.plugins.hooks.conftest import warned

confined = pytest.mark.skipif(
    not (sys.platform == "linux" and LandlockSandbox().probe().available), reason="no sandbox here"
)
WRITE = 'sandbox_mode="workspace-write"'
ENVIRON = {"PATH": "/usr/bin:/bin"}
PYTHON = sys.executable


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that only something outside of the sandbox can write."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder / "mark"


@pytest.fixture
def attack(hooks, workspace, mark, codex_home):
    """Return a function that has a command plant code, and has a hook run after it. It returns the turn."""

    def attacked(hook: str, plant: str, **environ: str):
        hooks.write({"PostToolUse": [hook]})
        exclude = "sandbox_workspace_write={exclude_slash_tmp=true, exclude_tmpdir_env_var=true}"
        path = [f'shell_environment_policy.set.{name}="{value}"' for name, value in environ.items()]
        replies = [call("exec_command", cmd=plant, login=False, yield_time_ms=20_000), say("Done.")]
        return hooks.turn(replies, config=[WRITE, exclude, *path])

    return attacked


def evil(mark: Path, name: str) -> str:
    """Return a command that creates a program, which leaves the mark."""
    return f"mkdir -p $(dirname {name}); printf '#!/bin/sh\\necho evil > {mark}\\n' > {name}; chmod 755 {name}"


def module(mark: Path, name: str) -> str:
    return f'mkdir -p $(dirname {name}); echo \'open("{mark}", "w")\' > {name}'


@confined
@pytest.mark.parametrize("folder", ["", ".", "bin", "./node_modules/.bin", "WORK/.venv/bin"])
def test_a_program_in_a_folder_on_the_path_that_commands_can_write(attack, workspace, mark, folder):
    path = f"{folder.replace('WORK', str(workspace))}:/usr/bin:/bin"
    place = folder.replace("WORK", str(workspace)) or "."
    turn = attack("hook-tool; cat > /dev/null", evil(mark, f"{place}/hook-tool"), PATH=path)
    assert (workspace / place / "hook-tool").exists(), "the command could create it"
    assert "code 0" in turn.outputs[0]
    assert not mark.exists()


@confined
def test_a_program_that_a_script_of_a_hook_runs(attack, workspace, mark):
    (workspace / "tools").mkdir()
    (workspace / "tools/guard.sh").write_text("hook-tool\n")
    attack("sh tools/guard.sh", evil(mark, "bin/hook-tool"), PATH=f"{workspace}/bin:/usr/bin:/bin")
    assert not mark.exists()


@confined
def test_a_hook_whose_program_is_left_out_says_so(attack, workspace, mark):
    (workspace / "bin").mkdir()
    turn = attack("hook-tool", evil(mark, "bin/hook-tool"), PATH=f"{workspace}/bin:sub:/usr/bin:/bin")
    (text,) = warned(turn)
    assert f"hooks do not find programs where commands of the model can write: {workspace}/bin, sub)" in text


@confined
@pytest.mark.parametrize(
    ("hook", "name"),
    [
        (f"{PYTHON} guard.py", "json.py"),
        (f"{PYTHON} guard.py", "json/__init__.py"),
        (f"{PYTHON} -c 'import json'", "json.py"),
        (f"{PYTHON} -m planted", "planted.py"),
        (f"echo 'import json' | {PYTHON}", "json.py"),
        (f"{PYTHON} - < guard.py", "json.py"),
        (f"{PYTHON} tools/guard.py", "tools/json.py"),
        (f"cd tools && {PYTHON} guard.py", "tools/json.py"),
        (f"env A=b {PYTHON} -B tools/guard.py", "tools/json.py"),
        ("./guard.py", "json.py"),
        ("tools/guard", "tools/json.py"),
        (f"{PYTHON} WORK/tools/guard.py", "tools/json.py"),
    ],
)
def test_a_module_that_hides_one_of_the_standard_library(attack, workspace, mark, hook, name):
    (workspace / "tools").mkdir()
    for script in ("guard.py", "tools/guard.py", "tools/guard"):
        (workspace / script).write_text(f"#!{PYTHON}\nimport json\n")
        (workspace / script).chmod(0o755)
    turn = attack(hook.replace("WORK", str(workspace)), module(mark, name))
    assert not mark.exists()
    assert (workspace / name).exists(), "the folder itself stays writable"
    assert "code 0" in turn.outputs[0]


@confined
@pytest.mark.parametrize(
    "form", ["import helper", "from helper import x", "import os; import helper as h", "from . import helper"]
)
def test_a_module_beside_a_script_cannot_be_changed(attack, workspace, mark, monkeypatch, form):
    monkeypatch.chdir(workspace)
    (workspace / "tools").mkdir()
    (workspace / "tools/guard.py").write_text(f"{form}\n")
    (workspace / "tools/helper.py").write_text("x = 1\n")
    turn = attack(f"{PYTHON} tools/guard.py", module(mark, "tools/helper.py"))
    assert (workspace / "tools/helper.py").read_text() == "x = 1\n"
    assert "code 0" not in turn.outputs[0]
    assert not mark.exists()
    if "." not in form:
        assert warned(turn) == [], "the hook itself still finds its module"


@confined
def test_a_module_in_the_working_folder_is_not_found(attack, workspace, mark):
    (workspace / "guard.py").write_text("import helper\n")
    (workspace / "helper.py").write_text("")
    turn = attack(f"{PYTHON} guard.py", module(mark, "helper.py"))
    assert not mark.exists()
    assert "(hooks do not find modules where commands of the model can write)" in warned(turn)[0]


@confined
@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
@pytest.mark.parametrize("script", ["guard.js", "tools/guard.js"])
def test_a_module_of_node_beside_a_script(attack, workspace, mark, monkeypatch, script):
    monkeypatch.chdir(workspace)
    (workspace / "tools").mkdir()
    (workspace / script).write_text("require('./helper');\n")
    helper = (workspace / script).with_name("helper.js")
    helper.write_text("")
    turn = attack(f"node {script}", f'echo \'require("fs").writeFileSync("{mark}", "")\' > {helper}')
    assert not mark.exists()
    assert ["from which guard.js loads code; move the script" in text for text in warned(turn)] == (
        [True] if script == "guard.js" else []
    )


@confined
def test_full_access_leaves_the_path(hooks, workspace, mark):
    hooks.write({"PostToolUse": ["hook-tool"]})
    config = ['sandbox_mode="danger-full-access"', f'shell_environment_policy.set.PATH="{workspace}/bin:/usr/bin:/bin"']
    replies = [call("exec_command", cmd=evil(mark, "bin/hook-tool"), login=False), say("Done.")]
    hooks.turn(replies, config=config)
    assert mark.exists()


def written(work: Path) -> FileAccess:
    return FileAccess.writing(work, read_only=[work / "safe"])


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("import os\nfrom json import loads\nimport sys, re\n", []),
        ("import yaml\n", ["tools"]),
        ("import os, \\\n  helper\n", ["tools"]),
        ("if True: import helper\n", ["tools"]),
        ("from .x import y\n", ["tools"]),
        ("import importlib\n", ["tools"]),
        ("__import__('x')\n", ["tools"]),
        ("# nothing\nprint('import me')\n", []),
    ],
)
def test_folders_that_scripts_of_python_load(tmp_path, monkeypatch, text, folders):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/x.py").write_text(text)
    assert list(module_folders(scripts("python3 tools/x.py", ENVIRON))) == folders
    (tmp_path / "x.py").write_text(text)
    assert list(module_folders(scripts("python3 x.py && sh tools/x.sh && python3 tools/gone.py", ENVIRON))) == []


@pytest.mark.parametrize(
    ("name", "text", "loads"),
    [
        ("x.js", "require('./y')", True),
        ("x.mjs", 'import y from "../y.mjs"', True),
        ("x.js", "require('fs')", False),
        ("x.rb", "require_relative 'y'", True),
        ("x.php", "include __DIR__ . '/y.php';", True),
        ("x.pl", "use FindBin;", True),
        ("x.pl", "use strict;", False),
    ],
)
def test_scripts_of_other_languages_that_load_files_beside_them_do_not_run(tmp_path, name, text, loads):
    (tmp_path / "safe").mkdir()
    for folder in (tmp_path, tmp_path / "safe"):
        (folder / name).write_text(text)
    refused = isolate(scripts(f"node {name}", ENVIRON), written(tmp_path), tmp_path, ENVIRON).refusal
    assert bool(refused) is loads
    assert isolate(scripts(f"node safe/{name}", ENVIRON), written(tmp_path), tmp_path, ENVIRON).refusal == ""
    assert isolate(scripts(f"node {name}", ENVIRON), FileAccess(full=True), tmp_path, ENVIRON).refusal == ""


def test_a_link_to_a_script_elsewhere_leads_to_modules_there(tmp_path):
    (tmp_path / "safe").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/x.py").write_text("")
    (tmp_path / "safe/x.py").symlink_to(tmp_path / "src/x.py")
    (tmp_path / "safe/y.py").write_text("")
    env = [
        isolate(scripts(f"python3 safe/{name}.py", ENVIRON), written(tmp_path), tmp_path, ENVIRON).env for name in "xy"
    ]
    assert env == [{"PYTHONSAFEPATH": "1"}, {}]


@pytest.mark.parametrize("name", ["PYTHONPATH", "NODE_PATH", "BASH_ENV", "LD_PRELOAD", "PERL5LIB"])
def test_other_variables_lead_nowhere_that_commands_can_write(tmp_path, name):
    environ = {"PATH": "/usr/bin", name: f"{tmp_path}/x:/opt/y"}
    assert isolate(scripts("true", environ), written(tmp_path), tmp_path, environ).env == {name: "/opt/y"}


def test_the_inherited_variables_are_those_of_the_policy():
    environ = {"PATH": "/a", "B": "c"}
    assert inherited({}, environ) == environ
    assert inherited({"shell_environment_policy": {"set": {"PATH": "/x"}}}, environ) == {"PATH": "/x", "B": "c"}
    assert inherited({"shell_environment_policy": {"inherit": "none"}}, environ) == {}


SCRIPT = "echo evil > MARK"
FORMS = {
    "sh < checks/f": SCRIPT,
    "cat checks/f | sh": SCRIPT,
    "(cat checks/f; true) | nice bash -eo pipefail": SCRIPT,
    "echo checks/f | xargs sh": SCRIPT,
    "echo checks/f | xargs -I % sh -c 'sh %'": SCRIPT,
    "find checks -type f -exec sh {} ';'": SCRIPT,
    "find checks -type f | xargs -n 1 sh": SCRIPT,
    "echo x | sed -f checks/f": "1e echo evil > MARK",
    "echo x | awk -f checks/f": '{ system("echo evil > MARK") }',
    "run-parts checks": f"#!/bin/sh\n{SCRIPT}",
    "bash <(cat checks/f)": SCRIPT,
    'eval "$(cat checks/f)"': SCRIPT,
    ". checks/f": SCRIPT,
    "BASH_ENV=checks/f bash -c true": SCRIPT,
    'while read -r line; do eval "$line"; done < checks/f': SCRIPT,
    "env A=b timeout 9 sh checks/f": SCRIPT,
    "make -f checks/f": f"all:\n\t{SCRIPT}",
}


@confined
@pytest.mark.parametrize(("hook", "code"), FORMS.items(), ids=FORMS)
def test_a_file_whose_content_a_hook_runs_cannot_be_written(attack, workspace, mark, hook, code):
    """Neither the file nor, where the hook runs all files of a folder, another one in it."""
    file, new = workspace / "checks/f", workspace / "checks/new"
    file.parent.mkdir()
    file.touch()
    file.chmod(0o755)
    code = code.replace("MARK", str(mark))
    plant = f"cat > plant <<'EOF'\n{code}\nEOF\nchmod 755 plant; cp plant checks/new; cp plant checks/f"
    turn = attack(hook.replace("bash", shutil.which("bash")), plant)
    assert "code 0" not in turn.outputs[0]
    assert file.read_text() == ""
    assert not mark.exists()
    if new.exists():
        new.unlink()
    shutil.copy(workspace / "plant", file)
    if shutil.which(hook.split()[0]) or "|" in hook or "=" in hook or hook[0] in ".ew":
        subprocess.run(["bash", "-c", hook], cwd=workspace, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        assert mark.exists(), "with the file as planted, the hook would have run it"
