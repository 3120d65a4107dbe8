"""Keeps hooks, which run outside of the sandbox, independent of programs on ``PATH`` and modules that commands can write."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework import FileAccess, Value
from codex_framework.toolkit.programs import safe_variables
from codex_framework.toolkit.projects import project_root
from codex_framework.toolkit.regular_files import read_regular
from codex_plugin_hooks.scripts import Scripts

__all__ = ["Isolation", "inherited", "isolate", "module_folders"]

_LIMIT_BYTES = 1 << 20
_IMPORTS = re.compile(
    rb"(?:^|[;:])[ \t]*(?:import[ \t]+((?:[\w., \t]|\\\n)+)|from[ \t]+([\w.]+)[ \t]+import\b)", re.MULTILINE
)
_DYNAMIC = re.compile(rb"importlib|__import__|runpy|sys\.path|\bexec\b")
_BESIDE = re.compile(rb"['\"`]\.{1,2}/|require_relative|__DIR__|__dirname|FindBin|\buse\s+lib\b|dofile|createRequire")
"""Words with which scripts of other languages load files beside them."""


class Isolation(Value, kw_only=True):
    """The isolation of a hook.

    Attributes:
        env: Variables that replace inherited ones.
        left_out: The folders that are removed from its ``PATH``.
        refusal: Why it cannot be run.
    """

    env: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()
    refusal: str = ""


def module_folders(scripts: Scripts) -> Iterator[str]:
    """Yield the folders, relative to the working folder or the project, from which scripts load modules.

    The working folder itself and folders above it are left out, because the model works there.
    """
    here = Path.cwd()
    for path in (*scripts.python, *scripts.others):
        folder = os.path.dirname(path)  # noqa: PTH120
        if folder and not folder.startswith(("/", "..")) and any(map(_loads_beside, _existing([path], here))):
            yield folder


def isolate(scripts: Scripts, access: FileAccess, cwd: Path, environ: Mapping[str, str]) -> Isolation:
    """Return how a hook runs, so that no program and no module can come from where commands of the turn can write.

    Args:
        environ: The variables that commands inherit.
    """
    if access.full:
        return Isolation()
    env = {name: value for name, value in safe_variables(environ, access).items() if value != environ[name]}
    path = env.get("PATH", environ.get("PATH", "")).split(os.pathsep)
    left_out = tuple(folder or "." for folder in environ.get("PATH", "").split(os.pathsep) if folder not in path)
    python = list(_existing(scripts.python, cwd))
    for script in _existing(scripts.others, cwd):
        if _is_python(script):
            python.append(script)
        elif access.may_write(script.parent) and _loads_beside(script):
            fact = f"commands of the model can write {script.parent}, from which {script.name} loads code"
            return Isolation(refusal=f"{fact}; move the script into its own folder, or into $CODEX_HOME/hooks")
    searched = [script.parent for script in python]
    searched += [base / folder for base in _bases(cwd) for folder in scripts.working]
    if any(map(access.may_write, searched)):
        env["PYTHONSAFEPATH"] = "1"
    return Isolation(env=env, left_out=left_out)


def inherited(config: Mapping[str, Any], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that commands inherit, as far as ``[shell_environment_policy]`` sets or keeps them."""
    policy = config.get("shell_environment_policy")
    policy = policy if isinstance(policy, Mapping) else {}
    chosen = policy.get("set")
    kept = {} if policy.get("inherit") == "none" else environ
    return {**kept, **chosen} if isinstance(chosen, Mapping) else kept


def _bases(cwd: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((cwd, project_root(cwd))))


def _existing(paths: Iterable[str], cwd: Path) -> Iterator[Path]:
    """Yield the scripts at some paths, as named and with links resolved: Python looks for modules beside the real file."""
    for base in _bases(cwd):
        for path in paths:
            if (base / path).is_file():
                yield from dict.fromkeys((base / path, (base / path).resolve()))


def _loads_beside(script: Path) -> bool:
    """Return whether a script may load code from the folder in which it is. It does if it cannot be read."""
    text = _text(script)
    if text is None:
        return True
    if not _is_python(script):
        return _BESIDE.search(text) is not None
    return _DYNAMIC.search(text) is not None or any(
        name not in sys.stdlib_module_names for name in _imported_modules(text)
    )


def _text(script: Path) -> bytes | None:
    try:
        return read_regular(script, _LIMIT_BYTES)
    except OSError:
        return None


def _is_python(script: Path) -> bool:
    if script.suffix in (".py", ".pyw"):
        return True
    first = (_text(script) or b"").partition(b"\n")[0]
    return first.startswith(b"#!") and b"py" in first


def _imported_modules(text: bytes) -> Iterator[str]:
    """Yield the top-level modules that a script of Python imports. A relative import has an empty name."""
    for match in _IMPORTS.finditer(text):
        for name in (match[1] or match[2]).replace(b"\\\n", b" ").split(b","):
            yield name.strip().partition(b" ")[0].partition(b".")[0].decode("utf-8", "replace")
