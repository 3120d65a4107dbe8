"""The types of the protocol as files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from codex_plugin_app_server.generated_types import write_json_schemas, write_typescript
from codex_plugin_app_server.methods import METHODS
from tests.forked import RunProgram


@pytest.mark.parametrize("experimental", [False, True])
def test_schemas_describe_the_methods_of_the_table(tmp_path: Path, experimental: bool) -> None:
    from jsonschema import Draft7Validator

    count = write_json_schemas(tmp_path, experimental=experimental)
    files = list(tmp_path.rglob("*.json"))
    assert len(files) == count
    definitions = {}
    for file in files:
        schema = json.loads(file.read_text())
        definitions |= {json.dumps(each): each for each in schema.pop("definitions", {}).values()}
        Draft7Validator.check_schema(schema)
    for each in definitions.values():  # each once: most files repeat those of others
        Draft7Validator.check_schema(each)
    requests = json.loads((tmp_path / "ClientRequest.json").read_text())["oneOf"]
    named = {row["properties"]["method"]["enum"][0] for row in requests}
    shown = ("stable", "experimental") if experimental else ("stable",)
    assert named == {name for name, row in METHODS.items() if row.stability in shown}
    start = json.loads((tmp_path / "v2" / "TurnStartParams.json").read_text())
    valid = {"threadId": "x", "input": [{"type": "text", "text": "Go."}]}
    assert Draft7Validator(start).is_valid(valid)
    assert not Draft7Validator(start).is_valid({**valid, "threadId": 1})


def test_the_python_sdk_finds_its_files(tmp_path: Path) -> None:
    write_json_schemas(tmp_path, experimental=True)
    for name in ("TurnStartParams", "ThreadResumeParams", "ThreadForkParams"):
        assert json.loads((tmp_path / "v2" / f"{name}.json").read_text())["title"] == name


def test_modules_of_typescript_import_what_they_use(tmp_path: Path) -> None:
    count = write_typescript(tmp_path, experimental=True)
    files = {file.stem: file for file in tmp_path.rglob("*.ts")}
    assert len(files) == count
    for file in files.values():
        for line in file.read_text().splitlines():
            if line.startswith("import"):
                module = line.split('"')[1]
                assert (file.parent / f"{module}.ts").exists()
    action = files["CommandAction"].read_text()
    assert '{ command: string, type: "unknown" }' in action
    assert 'from "../v2/LegacyAppPathString"' in action


@pytest.mark.slow
def test_the_compiler_of_typescript_takes_them(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    write_typescript(tmp_path / "types", experimental=True)
    words = [npm, "install", "--silent", "--no-audit", "--prefix", str(tmp_path), "typescript@5"]
    if subprocess.run(words, capture_output=True, timeout=300).returncode != 0:
        pytest.skip("TypeScript cannot be installed here")
    compiler = tmp_path / "node_modules" / ".bin" / "tsc"
    checked = subprocess.run(
        [compiler, "--noEmit", "--strict", tmp_path / "types" / "index.ts"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, run_program: RunProgram) -> None:
    file = tmp_path / "file"
    file.touch()
    words = ("app-server", "generate-ts", "--out", str(file / "x"))
    ended = run_program(*words, cwd=tmp_path, env=os.environ)
    assert ended.returncode == 1
    assert f"cannot write to {file / 'x'}: " in ended.stderr
