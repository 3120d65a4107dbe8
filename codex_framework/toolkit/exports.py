"""Names of a package that are imported when they are first used, so that importing the package stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports some of its names at their first use.

    A plugin's entry module is imported at every start, but its classes are needed only by programs that use them::

        if TYPE_CHECKING:
            from my_plugin.ops import Undo
        else:
            __getattr__ = lazy_exports(__name__, {"ops": "Undo"})

    Args:
        package: Name of the package.
        homes: Name of a module in the package to the names that it defines, separated by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
