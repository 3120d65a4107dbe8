"""Programs of a plugin that run in a separate interpreter, without the plugin's or the kernel's dependencies.

``python -I -S`` starts in a few milliseconds, and sees the standard library only. This file, run by path, makes one module of a
plugin run there::

    python -I -S standalone.py KERNEL_FOLDER MODULE_FILE ARGUMENT...

It calls the module's ``main(arguments)`` and exits with its result. The module may import the standard library, its own
package, this library, ``codex_lib_file_search.ignore_rules``, and the modules of the kernel that need nothing else:
``contract.permissions.globs`` and ``.links``, ``toolkit.placeholders``, ``.files``, ``.off_limits``, ``.real_folders``,
``.regular_files`` and ``.os_errors``. No ``__init__`` is run, neither in these packages nor in the plugin's package.
"""

from __future__ import annotations

import os
import sys

__all__ = ["standalone_argv"]


def standalone_argv(module_file: str, *options: str, python: str = sys.executable) -> tuple[str, ...]:
    """Return the start of a command line that runs a module's ``main``. Its arguments are appended.

    Args:
        module_file: The module's ``__file__``.
        options: Further options for the interpreter, such as ``-X utf8``.
        python: The interpreter, 3.11 or newer.
    """
    from codex_framework import __path__ as kernel  # such a program itself has no such package yet

    return (python, "-I", "-S", *options, *map(os.path.abspath, (__file__, kernel[0], module_file)))


_PACKAGES = (
    "codex_framework",
    "codex_framework.contract",
    "codex_framework.contract.permissions",
    "codex_framework.toolkit",
)
"""The kernel's packages that such programs need. To search and read an empty ``__init__`` would take a tenth of a millisecond each."""


def _main(arguments: list[str]) -> int | None:
    # No pathlib here: it alone would take as long as the rest of the start.
    kernel, module_file, *rest = arguments
    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    _bare_package("codex_lib_confinement", own)
    _bare_package("codex_lib_file_search", f"{os.path.dirname(own)}/codex_lib_file_search")  # noqa: PTH120
    for package in _PACKAGES:
        _bare_package(package, kernel + package.removeprefix("codex_framework").replace(".", "/"))
    folder, name = os.path.split(os.path.splitext(module_file)[0])  # noqa: PTH122
    while os.path.isfile(f"{os.path.dirname(folder)}/__init__.py"):  # noqa: PTH113, PTH120
        folder, part = os.path.split(folder)
        name = f"{part}.{name}"
    package = os.path.basename(folder)  # noqa: PTH119
    _bare_package(package, folder)
    __import__(f"{package}.{name}")  # importlib itself would have to be imported first
    status: int | None = sys.modules[f"{package}.{name}"].main(rest)
    return status


def _bare_package(name: str, folder: str) -> None:
    """Make the modules of a package importable without running its ``__init__``."""
    package = type(sys)(name)
    package.__path__ = [folder]
    sys.modules[name] = package


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
