"""Modules under the names that they had before they moved. The old names work for one release, with a warning.

An old name gives the module itself, so that classes keep their identity. Nothing here is imported before an old name is.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "find_moved", "new_name"]

_TOOLKIT = "codex_framework.toolkit"
MOVED = {
    "codex_framework.plugins": "codex_framework.loader",
    "codex_framework.plugins.collection": "codex_framework.loader.loading",
    "codex_framework.plugins.constraining": "codex_framework.loader.registry",
    "codex_framework.plugins.exec_commands": "codex_framework.loader.value_checks",
    "codex_framework.plugins.exec_options": "codex_framework.loader.value_checks",
    "codex_framework.plugins.instances": "codex_framework.loader.loading",
    "codex_framework.plugins.interceptor_table": "codex_framework.threads.interceptor_table",
    "codex_framework.plugins.late": "codex_framework.loader.registry",
    "codex_framework.plugins.loaded": "codex_framework.loader.plugin",
    "codex_framework.plugins.loading": "codex_framework.loader.imports",
    "codex_framework.plugins.notes": "codex_framework.loader.selection",
    "codex_framework.plugins.offer_values": "codex_framework.loader.value_checks",
    f"{_TOOLKIT}.browsers": "codex_lib_model_client.browsers",
    f"{_TOOLKIT}.confinement": "codex_lib_confinement",
    f"{_TOOLKIT}.confinement.placeholders": "codex_framework.toolkit.placeholders",
    f"{_TOOLKIT}.https": "codex_lib_model_client.https",
    f"{_TOOLKIT}.keyrings": "codex_lib_model_client.keyrings",
    f"{_TOOLKIT}.local_servers": "codex_lib_model_client.local_servers",
    f"{_TOOLKIT}.login": "codex_lib_model_client.login",
    f"{_TOOLKIT}.model_server": "codex_lib_model_client",
    f"{_TOOLKIT}.model_server.advice": "codex_lib_model_client.faults",
    f"{_TOOLKIT}.model_server.ahead": "codex_lib_model_client.preconnect",
    f"{_TOOLKIT}.model_server.exchanges": "codex_lib_model_client.call_pairing",
    f"{_TOOLKIT}.model_server.hiding": "codex_lib_model_client.secret_masking",
    f"{_TOOLKIT}.model_server.losses": "codex_lib_model_client.dropped_items",
    f"{_TOOLKIT}.small_replies": "codex_lib_model_client.small_replies",
    f"{_TOOLKIT}.standalone": "codex_lib_confinement.standalone",
}
"""New names by old ones. Modules of a package that moved keep their names in it, unless they have a row of their own."""


def new_name(old: str) -> str | None:
    """Return the new name of a module that has moved."""
    package, rest = old, ""
    while package:
        if package in MOVED:
            return MOVED[package] + rest
        package, dot, tail = package.rpartition(".")
        rest = f"{dot}{tail}{rest}"
    return None


def find_moved(old: str) -> ModuleSpec | None:
    """Return a spec for the old name of a module that has moved.

    From the first one on, old names are looked up before everything else: other finders would load the modules of a moved package a
    second time under their old names.
    """
    new = new_name(old)
    if new is None or importlib.util.find_spec(new) is None:
        return None
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    return ModuleSpec(old, _FINDER)


class _OldNames(Loader):
    """Finds and loads old names. As a loader, it replaces the empty module by the one with the new name."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return find_moved(name)

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002  # the role's
        return None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        new = str(new_name(old))
        warnings.warn(f"{old} has moved and will be removed: import {new}", DeprecationWarning, stacklevel=2)
        found = sys.modules[old] = importlib.import_module(new)
        for row, place in MOVED.items():
            package, _, name = row.rpartition(".")
            # ``from package import name`` looks below the new name of the package only
            if package == old and importlib.util.find_spec(f"{new}.{name}") is None:
                setattr(found, name, importlib.import_module(place))


_FINDER = _OldNames()
