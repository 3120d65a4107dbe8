"""Makes ``protocol.json`` from the schemas that Codex's own program generates: ``python codex_schema.py CODEX > protocol.json``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_DROPPED = ("$schema", "title")

_TEXT, _TRUTH = {"type": "string"}, {"type": ["boolean", "null"]}
_UNTOLD = {
    "GetConversationSummaryParams": {
        "anyOf": [
            {"type": "object", "properties": {name: _TEXT}, "required": [name]}
            for name in ("rolloutPath", "conversationId")
        ]
    },
    "GitDiffToRemoteParams": {"type": "object", "properties": {"cwd": _TEXT}, "required": ["cwd"]},
    "GetAuthStatusParams": {"type": "object", "properties": {"includeToken": _TRUTH, "refreshToken": _TRUTH}},
    "GetAuthStatusResponse": {
        "type": "object",
        "properties": {
            "authMethod": {"anyOf": [{"$ref": "#/definitions/AuthMode"}, {"type": "null"}]},
            "authToken": {"type": ["string", "null"]},
            "requiresOpenaiAuth": _TRUTH,
        },
    },
}
"""Types of methods that the program has and its schemas do not, in the order in which it names the methods."""

_BEFORE = "fuzzyFileSearch"
"""The method before which it names them."""


def generate(codex: str) -> dict[str, Any]:
    """Return the definitions of all types, and the names of the methods that need ``experimentalApi``."""
    with tempfile.TemporaryDirectory() as folder:
        every = _bundles(codex, Path(folder) / "every", "--experimental")
        stable = _bundles(codex, Path(folder) / "stable")
    definitions = {name: _plain(value) for name, value in sorted(every.items())}
    experimental = sorted(_methods(every) - _methods(stable))
    rows = definitions["ClientRequest"]["oneOf"]
    place = next(number for number, row in enumerate(rows) if _method(row) == _BEFORE)
    untold = [name for name in _UNTOLD if name.endswith("Params")]
    rows[place:place] = [_row(name, definitions["ClientRequest"]["oneOf"][place]) for name in untold]
    definitions = dict(sorted({**definitions, **_UNTOLD}.items()))
    return {"definitions": definitions, "experimental": experimental}


def dump(protocol: dict[str, Any]) -> str:
    """Return the text of the data file, one definition per line."""
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in protocol["definitions"].items())
    return f'{{"experimental": {json.dumps(protocol["experimental"])},\n"definitions": {{\n{rows}\n}}}}\n'


def _bundles(codex: str, folder: Path, *options: str) -> dict[str, Any]:
    subprocess.run([codex, "app-server", "generate-json-schema", *options, "--out", folder], check=True)
    flat = json.loads((folder / "codex_app_server_protocol.v2.schemas.json").read_text())["definitions"]
    whole = json.loads((folder / "codex_app_server_protocol.schemas.json").read_text())["definitions"]
    whole.pop("v2")
    return {**whole, **flat}


def _methods(definitions: dict[str, Any]) -> set[str]:
    return set(map(_method, definitions["ClientRequest"]["oneOf"]))


def _method(row: dict[str, Any]) -> str:
    name: str = row["properties"]["method"]["enum"][0]
    return name


def _row(params: str, other: dict[str, Any]) -> dict[str, Any]:
    """Return the row of ``ClientRequest`` for a method with parameters of a type, as another row has it."""
    name = params[:1].lower() + params[1:].removesuffix("Params")
    method = {"enum": [name], "type": "string"}
    return {
        **other,
        "properties": {**other["properties"], "method": method, "params": {"$ref": f"#/definitions/{params}"}},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _plain(each)
            for key, each in value.items()
            if key not in _DROPPED or not isinstance(each, str)  # a property may have such a name
        }
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.replace("#/definitions/v2/", "#/definitions/") if isinstance(value, str) else value


if __name__ == "__main__":
    sys.stdout.write(dump(generate(sys.argv[1])))
