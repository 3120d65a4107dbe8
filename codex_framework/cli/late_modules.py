"""Modules of the standard library that are loaded when they are used, not when they are imported.

Other modules of the standard library import these for functions that a run of the command hardly ever calls: ``urllib.parse``
imports ``ipaddress`` for addresses in brackets, ``traceback`` imports ``textwrap`` for groups of exceptions. Loading them all takes 2
to 3 % of the time to the first request.
"""

from __future__ import annotations

import threading
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType

__all__ = ["LATE", "LateLoader"]

LATE = frozenset(("base64", "ipaddress", "locale", "textwrap", "tokenize"))
"""The modules. None is needed to report that no more files can be opened, and loading one opens its file."""

_UNUSED = ("__class__", "__name__", "__spec__")
"""Attributes that an import statement, or a look at the type, reads. They do not count as use."""

_LOADING = threading.RLock()
"""Held while one of the modules is loaded. What they import is loaded already, so no lock of an import is waited for meanwhile."""
_loading: set[str] = set()


class LateLoader(SourceFileLoader):
    """Loads a module when one of its attributes is read or set."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty."""
        module.__class__ = _LateModule


class _LateModule(ModuleType):
    """A module that has not been loaded."""

    def __getattribute__(self, name: str) -> object:
        if name not in _UNUSED:
            _load(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _UNUSED:
            _load(self)
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _load(self)
        ModuleType.__delattr__(self, name)


def _load(module: ModuleType) -> None:
    """Run the code of a module that has not been loaded. Other threads that use it wait.

    Raises:
        Exception: The module cannot be loaded. The next use tries again.
    """
    with _LOADING:
        name, spec = module.__name__, module.__spec__
        if (
            not _is_late(module) or name in _loading or spec is None
        ):  # another thread has loaded it, or this one is at it
            return
        _loading.add(name)
        try:
            SourceFileLoader.exec_module(_loader(spec), module)
            module.__class__ = ModuleType
        finally:
            _loading.discard(name)


def _is_late(module: ModuleType) -> bool:
    return type(module) is _LateModule


def _loader(spec: ModuleSpec) -> SourceFileLoader:
    loader = spec.loader
    assert isinstance(loader, SourceFileLoader)
    return loader
