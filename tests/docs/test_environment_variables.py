"""The page on environment variables names those that the program reads and those that commands get, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from codex_framework.toolkit.variables import PLAIN_TERMINAL

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/environment-variables.md").read_text(encoding="utf-8")

_NAME = re.compile(r"[A-Z][A-Z0-9_]*|_CODEX[A-Z0-9_]*|[a-z]+_proxy")
_OF_COMMANDS = ROOT / "codex_framework/commands/process"
"""Here, ``env`` is the environment of a command."""

Bindings = Mapping[str, list[ast.expr]]


def sources() -> Iterator[str]:
    """Yield the modules that may read a variable."""
    for folder in ("codex_framework", "plugins", "contrib"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            if "tests" in parts or "codex_contrib_template" in parts or _OF_COMMANDS in path.parents:
                continue
            source = path.read_text(encoding="utf-8")
            if re.search(r"\b_?env(?:iron)?(?:\.get|\.pop|\[)|in (?:\w+\.)*_?env(?:iron)?\b|getenv|env_key=", source):
                yield source


def read_variables(source: str) -> set[str]:
    """Return the names of the environment variables that a module reads."""
    module = ast.parse(source)
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    return set(_reads(module, {}, calls))


def _reads(scope: ast.AST, outer: Bindings, calls: list[ast.Call]) -> Iterator[str]:
    inner: list[ast.AST] = []
    nodes = [*_nodes(scope, inner)]
    bindings = {**outer, **_bindings(nodes)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=read, attr="get" | "pop"), args=[key, *_]):
                pass
            case ast.Call(func=ast.Attribute(attr="getenv"), args=[key, *_]):
                read = ast.Name("environ")
            case ast.Subscript(value=read, slice=key, ctx=ast.Load()):
                pass
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[read]):
                pass
            case ast.keyword(arg="env_key", value=key):
                read = ast.Name("environ")
            case _:
                continue
        if _is_environment(read):
            yield from filter(_NAME.fullmatch, _strings(key, bindings))
    for function in inner:
        yield from _reads(function, {**bindings, **_parameters(function, calls)}, calls)


def _is_environment(read: ast.expr) -> bool:
    match read:
        case ast.Name(id="environ" | "_environ" | "env") | ast.Attribute(attr="environ" | "_environ"):
            return True
    return False


def _nodes(scope: ast.AST, inner: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, and add the functions in it to ``inner``."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner.append(node)
        else:
            yield node
            yield from _nodes(node, inner)


def _bindings(nodes: list[ast.AST]) -> Bindings:
    """Return the values that names are bound to by assignments and loops."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                pass
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                pass
            case _:
                continue
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                found.setdefault(name.id, []).append(value)
    return found


def _parameters(function: ast.AST, calls: list[ast.Call]) -> Bindings:
    """Return the arguments that a module passes to a function, for each of its parameters."""
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    passed = [
        argument
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == function.name
        for argument in call.args
    ]
    return {parameter.arg: passed for parameter in function.args.args}


def _strings(value: ast.expr, bindings: Bindings) -> Iterator[str]:
    for node in ast.walk(value):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.Name(id=name) if name in bindings:
                without = {other: values for other, values in bindings.items() if other != name}
                for bound in bindings[name]:
                    yield from _strings(bound, without)


def documented(heading: str) -> set[str]:
    """Return the names in the first columns of the tables below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.slow
def test_the_page_names_every_variable_that_the_program_reads_and_no_other():
    found = {name.upper() for source in sources() for name in read_variables(source)}
    assert found == documented("Read by the program")


def test_the_page_names_variables_that_commands_get():
    folders = ("codex_framework/threads", "codex_framework/toolkit", "codex_framework/commands", "plugins")
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    named = set(re.findall(r'"([A-Z][A-Z_]+)"', "\n".join(path.read_text(encoding="utf-8") for path in paths)))
    assert documented("Set for commands") <= named
    assert {*PLAIN_TERMINAL, "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", "CODEX_SANDBOX"} <= documented("Set for commands")


def test_reads_are_found_in_all_their_forms():
    source = """
import os
_URL, _PORT = "URL_A", "PORT_A"
_KEYS = ("KEY_A", "KEY_B")
os.getenv("BY_GETENV")
if "BY_IN" in os.environ:
    os.environ["WRITTEN"] = os.environ["BY_ITEM"]
def read(env, plugin):
    both = [plugin.environ.get(name) for name in _KEYS]
    table.get("ELSEWHERE")
    return env.get(_URL) or env.get(_PORT) or other("BY_PARAMETER")
def other(variable):
    return os.environ.get(variable, "DEFAULT")
def provider():
    return ProviderInfo(env_key="BY_PROVIDER")
"""
    assert read_variables(source) == {
        *("URL_A", "PORT_A", "KEY_A", "KEY_B", "BY_GETENV", "BY_IN", "BY_ITEM", "BY_PROVIDER"),
    } | {"BY_PARAMETER"}
