"""The command that installs into an environment fits its installer."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

import codex_framework

ASK = "from codex_framework.toolkit.installing import install_command; print(install_command('codex-framework[code]'))"


@pytest.mark.parametrize(
    ("has_pip", "command"), [(True, "{} -P -m pip install {}"), (False, "uv pip install --python {} {}")]
)
def test_the_command_names_the_environment_of_the_program(tmp_path: Path, has_pip: bool, command: str) -> None:
    folder = tmp_path / "an environment"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    sources = {Path(codex_framework.__file__).parents[1]}
    (packages / "path.pth").write_text("\n".join(map(str, sources)))
    if has_pip:
        (packages / "pip").mkdir()
        (packages / "pip" / "__init__.py").touch()
    done = subprocess.run([python, "-I", "-c", ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == command.format(f"'{python}'", "'codex-framework[code]'")
